//! What a run says of its triggers: how many there were from the first one seen to the last one, and what became of them.

use forebay_ledger::{AccountLine, LossTable, Snapshot, Unit};
use serde::Serialize;

use crate::reject::{CrashDrop, Reject};

/// Ranges of triggers that are shown one by one; the ledger and the run's record have up to [`crate::GAP_ROWS`].
const RANGES_SHOWN: usize = 8;

/// The triggers of a run that builds events.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Triggers {
    /// From the first trigger seen to the last one, both of them and all between them included.
    pub triggers_span: u64,
    /// Those of them that no source delivered: an inference from gaps in the trigger numbers.
    pub triggers_missing: u64,
    /// Those of them that are in no event, and of which a sub-event came that the receiver dropped by its name: of each source, what was dropped stands
    /// for the oldest triggers that it did not deliver.
    pub triggers_dropped: u64,
    /// Those of them of which something came when their turn was over, and nothing before.
    pub triggers_late: u64,
    /// Complete events over `triggers_span`; 0 without a trigger.
    pub efficiency: f64,
    /// Complete events over all events that were built, in whole or in part, or given up; 0 without one.
    pub build_efficiency: f64,
    /// Ranges of triggers that no source delivered before their turn, first and last number, as they were noticed: the first ones.
    pub triggers_missing_ranges: Vec<[u64; 2]>,
    /// Ranges that are not among these.
    pub triggers_missing_more_ranges: u64,
    /// How often the numbers began anew: senders were started again, or their numbers jumped.
    pub resynchronised: u64,
    /// Sources of which sub-events came whose triggers were built already; all of these were dropped as `duplicate`.
    pub sources_repeating: u64,
    /// Those sub-events, of all sources.
    pub subevents_repeated: u64,
    /// Sources of which anything came.
    #[serde(skip)]
    sources: u64,
    /// Sub-events that never came, of all sources, for events that others are in: an inference.
    #[serde(skip)]
    pub never_came: u64,
    /// Datagrams that the receiver dropped, of which nobody knows what they held: their sub-events are among those that never came.
    #[serde(skip)]
    unread: u64,
    #[serde(skip)]
    complete: u64,
    #[serde(skip)]
    partial: u64,
    #[serde(skip)]
    discarded: u64,
}

/// `part` of `all`; 0 of nothing.
fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// Reasons for which the receiver drops a datagram without knowing what it held; beside them, that the receiver was killed.
const UNREAD: [Reject; 7] = [
    Reject::Short,
    Reject::BadHeader,
    Reject::BadAlignment,
    Reject::BadLength,
    Reject::FragmentMissing,
    Reject::Truncated,
    Reject::UnknownSource,
];

/// Datagrams that were dropped for one of these reasons.
fn unread_of(accounts: &[AccountLine]) -> u64 {
    let of_receiver = accounts.iter().filter(|line| line.unit == Unit::Datagrams);
    let lost = of_receiver.flat_map(|line| &line.dropped);
    let is_unread = |reason: &str| {
        reason == CrashDrop::ReceiverCrash.name()
            || UNREAD.iter().any(|unread| unread.name() == reason)
    };
    let unread = lost.filter(|loss| is_unread(&loss.reason));
    unread.map(|loss| loss.items).sum()
}

/// Sub-events of a source whose triggers were built already.
fn repeated_of(account: &AccountLine) -> u64 {
    let mut lines = account.dropped.iter();
    let repeated = lines.find(|line| line.reason == "duplicate");
    repeated.map_or(0, |line| line.items)
}

impl Triggers {
    /// Of the ledger of a run that builds events; none of others, or of those of versions that did not count them.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Option<Self> {
        let value = |name| snapshot.metric("builder", name, "");
        let count = |name| value(name).unwrap_or(0);
        let span = value("triggers_span")?;
        let (complete, partial) = (count("events_complete"), count("events_partial"));
        let discarded = count("events_discarded");
        // The builder's second table, behind that of what each source is missing.
        let gaps = snapshot.losses.get(1);
        let records = gaps.map_or(&[][..], |table: &LossTable| &table.records);
        let words = snapshot.metrics();
        let missing =
            words.filter(|word| word.group == "builder" && word.name.ends_with(".missing_events"));
        let shown = records.iter().take(RANGES_SHOWN);
        let beyond = gaps.map_or(0, |table| table.overflow_rows);
        let balance = snapshot.balance();
        let accounts = balance.accounts.iter();
        let came: Vec<u64> = accounts
            .filter(|account| account.place == "builder" && account.incoming.items > 0)
            .map(repeated_of)
            .collect();
        Some(Self {
            resynchronised: count("resynchronised"),
            sources_repeating: came.iter().filter(|repeated| **repeated > 0).count() as u64,
            subevents_repeated: came.iter().sum(),
            sources: came.len() as u64,
            triggers_span: span,
            triggers_missing: count("triggers_missing"),
            triggers_dropped: count("triggers_dropped"),
            triggers_late: count("triggers_late"),
            efficiency: share(complete, span),
            build_efficiency: share(complete, complete + partial + discarded),
            triggers_missing_ranges: shown.map(|range| [range.first, range.last]).collect(),
            triggers_missing_more_ranges: (records.len() as u64)
                .saturating_sub(RANGES_SHOWN as u64)
                + beyond,
            unread: unread_of(&balance.accounts),
            never_came: missing.map(|word| word.value).sum(),
            complete,
            partial,
            discarded,
        })
    }

    /// The lines for people.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "efficiency {:.2} %: {} complete events of {} triggers from the first to the last one seen",
            self.efficiency * 100.0,
            self.complete,
            self.triggers_span,
        )];
        if self.triggers_late > 0 {
            lines.push(format!(
                "{} triggers came when their turn was over, and nothing of them before",
                self.triggers_late
            ));
        }
        if self.triggers_dropped > 0 {
            lines.push(format!(
                "{} triggers are in no event: the receiver dropped all that came of them (see its losses)",
                self.triggers_dropped
            ));
        }
        if self.triggers_missing > 0 {
            lines.push(format!(
                "{} triggers missing: no source delivered them (inferred from gaps in their numbers): {}",
                self.triggers_missing,
                self.ranges(),
            ));
        }
        if self.resynchronised > 0 {
            let times = self.resynchronised;
            lines.push(format!(
                "trigger numbers began anew {times} times: senders were started again, or their numbers jumped"
            ));
        }
        if self.sources_repeating * 2 > self.sources {
            lines.push(format!(
                "{} of {} sources sent triggers that were built already ({} subevents, dropped as duplicate): were they started again without a pause, or not at 0?",
                self.sources_repeating, self.sources, self.subevents_repeated,
            ));
        }
        lines
    }

    fn ranges(&self) -> String {
        let ranges = self.triggers_missing_ranges.iter();
        let texts = ranges.map(|[first, last]| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        });
        let mut texts: Vec<String> = texts.collect();
        if self.triggers_missing_more_ranges > 0 {
            texts.push(format!("{} more ranges", self.triggers_missing_more_ranges));
        }
        texts.join(", ")
    }

    /// What is to be said first at the end: what is lost of the triggers, and what is not whole. Nothing where all is.
    #[must_use]
    pub fn first_words(&self) -> Vec<String> {
        if self.triggers_span == 0 {
            return vec!["No event was built".into()];
        }
        let mut words = Vec::new();
        let of = |count: u64| {
            let share = share(count, self.triggers_span) * 100.0;
            format!("{count} of {} triggers ({share:.2} %)", self.triggers_span)
        };
        if self.triggers_missing > 0 {
            let missing = of(self.triggers_missing);
            let unless = match self.unread {
                0 => "",
                _ => " but in datagrams that were dropped unread",
            };
            words.push(format!("Missing: {missing}, seen by no source{unless}"));
        }
        if self.triggers_dropped > 0 {
            let dropped = of(self.triggers_dropped);
            words.push(format!("In no event: {dropped}, dropped by the receiver"));
        }
        if self.partial + self.discarded > 0 {
            let not_whole = of(self.partial + self.discarded);
            words.push(format!("Incomplete: {not_whole}"));
        }
        if self.never_came > 0 {
            let among = match self.unread {
                0 => String::new(),
                unread => {
                    format!("; what {unread} datagrams held that were dropped unread is among them")
                }
            };
            let count = self.never_came;
            words.push(format!("Never came: {count} subevents (inferred{among})"));
        }
        words
    }
}
