//! What must hold after every scenario.

use std::collections::{BTreeMap, BTreeSet};

use forebay_evb::{Cause, Completion, Hurry, LostRange, SubEventDrop, TriggerGap};
use forebay_ledger::PerReason;
use forebay_wire::hld::{EventHeader, EventId};
use forebay_wire::hld_scan::{Ending, Item, Scanner};
use forebay_wire::subevent::SubEventHeader;

use super::Rig;

/// One built event as found in the output's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) trigger: u32,
    pub(crate) id: EventId,
    pub(crate) sequence: u32,
    pub(crate) subs: Vec<BuiltSub>,
}

/// One sub-event in an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuiltSub {
    pub(crate) source: usize,
    pub(crate) header: SubEventHeader,
    pub(crate) bytes: Vec<u8>,
}

impl Event {
    pub(crate) fn sources(&self) -> Vec<usize> {
        self.subs.iter().map(|sub| sub.source).collect()
    }
}

/// The balance of one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(crate) incoming: (u64, u64),
    pub(crate) outgoing: (u64, u64),
    pub(crate) held: (u64, u64),
    pub(crate) dropped: PerReason<SubEventDrop, (u64, u64), { SubEventDrop::ALL.len() }>,
    pub(crate) missing: u64,
}

impl Balance {
    pub(crate) fn lost(&self, reason: SubEventDrop) -> u64 {
        self.dropped[reason].0
    }

    pub(crate) fn all_dropped(&self) -> u64 {
        self.dropped.iter().map(|(_, tally)| tally.0).sum()
    }
}

/// All that a scenario came to, checked.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) events: Vec<Event>,
    pub(crate) sources: Vec<Balance>,
    pub(crate) lost: Vec<LostRange>,
    pub(crate) complete: u64,
    pub(crate) partial: u64,
    pub(crate) discarded: u64,
    pub(crate) resynchronised: u64,
    /// First to last trigger seen; seen by no source; come too late only.
    pub(crate) span: u64,
    pub(crate) unseen: u64,
    /// Triggers in no event, of which the receiver dropped what came.
    pub(crate) unbuilt: u64,
    pub(crate) late: u64,
    pub(crate) gaps: Vec<TriggerGap>,
    /// By time, by events, by a full queue.
    pub(crate) waits_ended: [u64; 3],
    pub(crate) bytes: Vec<u8>,
}

impl Check {
    /// Checks all that holds whatever the sources sent.
    pub(crate) fn hostile(rig: &Rig) -> Self {
        let (book, accounts) = rig.book();
        let balances = accounts.sources.iter().map(|words| Balance {
            incoming: book.tally(words.account.incoming),
            outgoing: book.tally(words.account.outgoing),
            held: book.tally(words.account.held),
            dropped: PerReason::from_fn(|why| book.tally(words.account.lost(why))),
            missing: book.value(words.missing),
        });
        let check = Self {
            events: events(rig),
            sources: balances.collect(),
            lost: rig.lost.clone(),
            complete: book.value(accounts.complete),
            partial: book.value(accounts.partial),
            discarded: book.value(accounts.discarded),
            resynchronised: book.value(accounts.resynchronised),
            span: book.value(accounts.triggers_span),
            unseen: book.value(accounts.triggers_missing),
            unbuilt: book.value(accounts.triggers_dropped),
            late: book.value(accounts.triggers_late),
            gaps: rig.gaps.clone(),
            waits_ended: [Hurry::Time, Hurry::Events, Hurry::FullQueue]
                .map(|why| book.value(accounts.waits_ended[why])),
            bytes: rig.sink.bytes.clone(),
        };
        check.sources_close(rig);
        check.events_close(rig);
        check
    }

    /// Checks all that holds when the bytes of each sub-event are as they should be.
    pub(crate) fn new(rig: &Rig) -> Self {
        let check = Self::hostile(rig);
        check.events_are_right(rig);
        check.losses_are_right(rig);
        check
    }

    /// in = out + dropped + held, in items and bytes, and in is what was sent.
    fn sources_close(&self, rig: &Rig) {
        for (source, balance) in self.sources.iter().enumerate() {
            let sum = |pick: fn(&(u64, u64)) -> u64| {
                let dropped: u64 = balance.dropped.iter().map(|(_, tally)| pick(&tally)).sum();
                pick(&balance.outgoing) + pick(&balance.held) + dropped
            };
            let there = (sum(|tally| tally.0), sum(|tally| tally.1));
            assert_eq!(balance.incoming, there, "source {source}: {balance:?}");
            assert_eq!(
                balance.incoming,
                rig.sent(source),
                "source {source} took in"
            );
            assert_eq!(balance.held.0, rig.builder.held(source));
        }
    }

    fn events_close(&self, rig: &Rig) {
        let (book, accounts) = rig.book();
        let account = &accounts.events;
        let incoming = book.tally(account.incoming);
        let outgoing = book.tally(account.outgoing);
        let losses = account.losses();
        let dropped: Vec<_> = losses.map(|(_, term)| book.tally(term)).collect();
        let given_up: u64 = dropped.iter().map(|tally| tally.0).sum();
        let bytes: u64 = dropped.iter().map(|tally| tally.1).sum();
        assert_eq!(incoming, (outgoing.0 + given_up, outgoing.1 + bytes));
        assert_eq!(given_up, self.discarded);
        assert_eq!(
            outgoing,
            (self.events.len() as u64, self.bytes.len() as u64)
        );
        assert_eq!(self.complete + self.partial, self.events.len() as u64);
        let closed = self.complete + self.partial + self.discarded;
        let in_none = self.unseen + self.late + self.unbuilt;
        assert_eq!(self.span, closed + in_none);
        let listed: u64 = self.gaps.iter().map(|gap| gap.items).sum();
        // Some were built after all, when the numbers stepped back to them.
        let is_listed = |trigger: u32| {
            let mut gaps = self.gaps.iter();
            gaps.any(|gap| trigger.wrapping_sub(gap.first) <= gap.last.wrapping_sub(gap.first))
        };
        let triggers = self.events.iter().map(|event| event.trigger);
        let after_all = triggers.filter(|trigger| is_listed(*trigger)).count() as u64;
        let nobody_delivered = self.unseen + self.late;
        assert!(
            (nobody_delivered..=in_none + after_all + self.discarded).contains(&listed),
            "{:?}",
            self.gaps
        );
    }

    /// Flags, sequence, sources in order; every sub-event in one event at most, and counted.
    fn events_are_right(&self, rig: &Rig) {
        let mut built = vec![(0, 0); rig.config.sources];
        let mut serials = BTreeSet::new();
        for (index, event) in self.events.iter().enumerate() {
            assert_eq!(event.sequence as usize, index + 1);
            let sources = event.sources();
            assert!(sources.is_sorted_by(|a, b| a < b), "{sources:?}");
            let complete = sources.len() == rig.config.sources;
            assert_eq!(event.id.is_incomplete(), !complete, "{event:?}");
            assert_eq!(event.id.0 & EventId::INCOMPLETE_BIT == 0, complete);
            let error = event.subs.iter().any(|sub| sub.header.has_data_error());
            assert_eq!(event.id.has_data_error(), error || !complete, "{event:?}");
            let meta = &rig.sink.events[index];
            assert_eq!((meta.trigger, meta.complete), (event.trigger, complete));
            assert_eq!(meta.subevents as usize, sources.len());
            for sub in &event.subs {
                built[sub.source].0 += 1;
                built[sub.source].1 += sub.header.padded_size();
                assert_eq!(sub.header.trigger(rig.config.trigger_bits), event.trigger);
                let tag = event.subs[0].header.tag();
                assert!(
                    !rig.config.check_tag || sub.header.tag() == tag,
                    "{event:?}"
                );
                if let Some(serial) = sub.bytes.get(16..24).filter(|_| rig.serials) {
                    assert!(serials.insert(serial), "built twice: {event:?}");
                }
            }
        }
        for (source, balance) in self.sources.iter().enumerate() {
            assert_eq!(balance.outgoing, built[source], "source {source} built");
        }
    }

    /// The loss table names exactly the events that lack a source.
    fn losses_are_right(&self, rig: &Rig) {
        let mut absences = vec![0; rig.config.sources];
        let mut table: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        let (mask, step) = (rig.config.trigger_bits.mask(), rig.config.trigger_step);
        for range in &self.lost {
            if !matches!(
                range.cause,
                Cause::TagMismatch | Cause::Astray | Cause::Dropped
            ) {
                absences[range.source] += range.items;
            }
            let span = u64::from((range.last.wrapping_sub(range.first) & mask) / step) + 1;
            assert_eq!(span, range.items, "{range:?}");
            for offset in 0..range.items as u32 {
                let trigger = range.first.wrapping_add(offset * step) & mask;
                *table.entry((range.source, trigger)).or_default() += 1;
            }
        }
        for (source, balance) in self.sources.iter().enumerate() {
            // What nothing had come for when its event was closed never came, or was dropped by name after all.
            let came = absences[source] - balance.missing;
            let named = [
                SubEventDrop::Late,
                SubEventDrop::OutOfWindow,
                SubEventDrop::TagMismatch,
            ];
            let named: u64 = named.iter().map(|reason| balance.lost(*reason)).sum();
            let named = named + rig.dropped[source];
            assert!(came <= named, "source {source}: {:?}", self.lost);
        }
        if self.discarded > 0 || rig.config.completion == Completion::Discard {
            return;
        }
        let mut absent: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        for event in &self.events {
            let there: BTreeSet<usize> = event.sources().into_iter().collect();
            for source in (0..rig.config.sources).filter(|source| !there.contains(source)) {
                *absent.entry((source, event.trigger)).or_default() += 1;
            }
        }
        assert_eq!(table, absent, "losses listed, sources absent");
        let (book, accounts) = rig.book();
        for (source, words) in accounts.sources.iter().enumerate() {
            let without = absent.iter().filter(|((of, _), _)| *of == source);
            let without: u64 = without.map(|(_, events)| *events).sum();
            assert_eq!(book.value(words.events_without), without, "source {source}");
        }
    }

    /// Triggers of all events, in order.
    pub(crate) fn triggers(&self) -> Vec<u32> {
        self.events.iter().map(|event| event.trigger).collect()
    }

    /// Triggers of the events that lack `source`.
    pub(crate) fn without(&self, source: usize) -> Vec<u32> {
        let lacking = |event: &&Event| !event.sources().contains(&source);
        let events = self.events.iter().filter(lacking);
        events.map(|event| event.trigger).collect()
    }

    pub(crate) fn causes(&self, source: usize) -> Vec<(Cause, u32, u32)> {
        let own = self.lost.iter().filter(|range| range.source == source);
        own.map(|range| (range.cause, range.first, range.last))
            .collect()
    }

    /// Nothing was lost at all.
    pub(crate) fn assert_perfect(&self, events: u64) {
        assert_eq!(
            (self.complete, self.partial, self.discarded),
            (events, 0, 0)
        );
        assert!(self.sources.iter().all(|source| source.all_dropped() == 0));
        assert_eq!(self.lost, []);
    }
}

/// Reads the output's bytes as a file between a start and a stop event.
fn events(rig: &Rig) -> Vec<Event> {
    let mut scanner = Scanner::new();
    let frame = |id| EventHeader::new(id, 1_795_289_046, 7).to_bytes();
    scanner.feed(&frame(EventId::START));
    scanner.feed(&rig.sink.bytes);
    scanner.feed(&frame(EventId::STOP));
    scanner.finish();
    let mut metas = rig.sink.events.iter();
    let mut events = Vec::new();
    while let Some(item) = scanner.poll_item() {
        match item {
            Item::Event(found) => {
                let trigger = metas.next().unwrap().trigger;
                events.push(event(&found.event, trigger));
            }
            Item::Broken(broken) => panic!("{broken}"),
            Item::Start { .. } | Item::Stop { .. } => {}
        }
    }
    assert_eq!(scanner.ending(), Some(Ending::Clean));
    events
}

fn event(event: &forebay_wire::hld::Event<'_>, trigger: u32) -> Event {
    let subs = event.sub_events().map(|sub| {
        let sub = sub.unwrap();
        BuiltSub {
            source: sub.header().address().wrapping_sub(0x8000) as usize,
            header: sub.header(),
            bytes: sub.as_bytes().to_vec(),
        }
    });
    Event {
        trigger,
        id: event.header().id,
        sequence: event.header().sequence,
        subs: subs.collect(),
    }
}
