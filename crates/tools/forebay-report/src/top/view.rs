//! What is shown of a run: numbers from two looks at its ledger, ready for text, JSON and the screen.

use forebay_evb::silence::Heard;
use forebay_ledger::{
    AccountLine, Alarm, DropLine, HistogramSummary, HostLine, LinkLine, Phase, ResidualAlarm, Unit,
};
use serde::Serialize;

use super::chunks::{Chunks, chunks};
use super::events::{Events, events, span_s};
use super::fill::{Fill, fills};
use super::messages::{Messages, messages};
use super::packets::{Packets, packets};
use super::sample::Sample;
use super::source::{Source, sources};
use super::work::{Kind, Moved, Work};

/// How long a residual must stand before it is an alarm.
const ALARM_HOLD_NS: u64 = 1_000_000_000;
/// Owners named for each reason.
const OWNERS_NAMED: usize = 3;

/// Places in the order of the data; others come behind, as they were declared.
const ORDER: [&str; 21] = [
    "generator",
    "capture",
    "reassembly",
    "link",
    "socket",
    "receiver",
    "queue",
    "ring",
    "builder",
    "events",
    "fan_out",
    "offer",
    "sink_queue",
    "sink",
    "publish",
    "copies",
    "send",
    "told",
    "receive",
    "read",
    "deliver",
];

/// A run as it stands.
#[derive(Debug, Clone, Serialize)]
pub struct View {
    /// What kind of program writes the ledger, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    pub(super) run_id: String,
    /// `live`, `ended` or `killed`.
    pub state: State,
    pub(super) condition: &'static str,
    pub(super) reason: &'static str,
    pub(super) supervisor_pid: u32,
    /// From the run's start to its end, or to now.
    pub running_s: f64,
    /// Time over which rates are taken: between two looks, or the whole run when it is over.
    pub rates_over_s: f64,
    /// Of a run that builds events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
    /// Of an end point of messaging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Messages>,
    /// What a part of link readout did; none of others.
    pub chunks: Option<Chunks>,
    /// Of a sender or a receiver of time-division UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<Packets>,
    /// Of a program that none of these sums up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// The hops, in the order of the data.
    pub places: Vec<Place>,
    /// How full the stages are.
    pub fills: Vec<Fill>,
    /// What was lost, by place and reason.
    pub drops: Vec<Lost>,
    pub(super) host: Vec<HostLine>,
    /// What no account explains.
    pub residual: Residuals,
    pub(super) histograms: Vec<HistogramSummary>,
    pub(super) sources: Vec<Source>,
    /// Sources that are silent, the one that costs most first, and those that were.
    pub silent_sources: Vec<Heard>,
}

impl View {
    /// The sources that are silent, the one that costs most first.
    pub fn silent_now(&self) -> impl Iterator<Item = &Heard> {
        self.silent_sources.iter().filter(|heard| heard.silent)
    }
}

/// Whether anybody still writes into the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Somebody does.
    Live,
    /// The run is over and was closed.
    Ended,
    /// Its supervisor is gone without having closed it.
    Killed,
}

/// Items and bytes with their rates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Flow {
    pub(super) items: u64,
    pub(super) bytes: u64,
    pub(super) items_per_s: f64,
    pub(super) bytes_per_s: f64,
}

/// All accounts, or all links, of one place together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Place {
    /// Its name.
    pub place: String,
    /// Whether it is a connection between two hops.
    pub link: bool,
    pub(super) unit: &'static str,
    pub(super) owners: usize,
    /// None where a foreign sender keeps no books.
    pub incoming: Option<Flow>,
    pub(super) outgoing: Flow,
    pub(super) dropped: Flow,
    pub(super) held_items: i64,
    /// Bytes that it holds.
    pub held_bytes: i64,
}

/// All losses of one reason at one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lost {
    pub(super) place: String,
    pub(super) reason: String,
    /// How many.
    pub items: u64,
    pub(super) bytes_min: u64,
    pub(super) bytes_max: u64,
    pub(super) items_per_s: f64,
    pub(super) owners: usize,
    /// The owners that lost most, with their items.
    pub most: Vec<(String, u64)>,
}

/// What is left over in the books.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Residuals {
    pub(super) items: u64,
    pub(super) bytes: u64,
    /// Lines that do not close: in a live run those above what can be in flight for a second.
    pub alarms: Vec<String>,
    /// The lines of a live run that do not close, by place and owner.
    pub standing: Vec<String>,
    /// Items that they lack or have too many.
    pub standing_items: u128,
}

/// Makes views of one ledger, each against the look before.
pub struct Watch {
    alarm: ResidualAlarm,
    before: Option<Sample>,
    raised: Vec<Alarm>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            alarm: ResidualAlarm::new(ALARM_HOLD_NS),
            before: None,
            raised: Vec::new(),
        }
    }
}

impl Watch {
    /// The view of `sample`, which becomes the look before.
    pub fn view(&mut self, sample: Sample) -> View {
        let view = self.compare(&sample);
        self.before = Some(sample);
        view
    }

    fn compare(&mut self, now: &Sample) -> View {
        let metrics = now.metrics();
        let state = state(now);
        let residual = self.residuals(now, state);
        let before = self.before.as_ref().filter(|_| state == State::Live);
        let status = now.snapshot.run;
        // A killed run ended when its supervisor last gave a sign of life.
        let running_s = status.lasted_ns(now.now_ns, state == State::Live) as f64 / 1e9;
        let work = Work::of(now);
        let seconds = match before {
            Some(before) => (now.at - before.at).as_secs_f64(),
            None if work.kind == Kind::Events => span_s(&metrics),
            None => running_s,
        };
        let rates = Rates { before, seconds };
        let heard = Heard::all(&now.snapshot);
        View {
            program: now.snapshot.program().map(str::to_owned),
            run_id: now.snapshot.run_id().to_owned(),
            state,
            condition: now.verdict.condition.name(),
            reason: now.verdict.reason.name(),
            supervisor_pid: status.supervisor_pid,
            running_s,
            rates_over_s: seconds,
            events: events(now, &work, &metrics, &rates),
            messages: messages(now, &work, &rates),
            chunks: chunks(now, &work, &rates),
            packets: packets(now, &work, &metrics, &rates),
            moved: work.moved(now, &rates),
            places: places(now, &rates),
            fills: fills(&metrics),
            drops: drops(now, &rates),
            host: now
                .verdict
                .balance
                .host
                .iter()
                .filter(|line| line.items > 0)
                .cloned()
                .collect(),
            residual,
            histograms: now
                .snapshot
                .histograms
                .iter()
                .map(forebay_ledger::Histogram::summary)
                .collect(),
            sources: sources(now, &metrics, &rates, &heard),
            silent_sources: Heard::by_trouble(heard),
        }
    }

    fn residuals(&mut self, now: &Sample, state: State) -> Residuals {
        let balance = &now.verdict.balance;
        let alarms = if state == State::Live {
            let new = self.alarm.handle_balance(balance, now.now_ns);
            self.raised.extend(new);
            let standing: Vec<_> = self.alarm.raised().collect();
            self.raised.retain(|alarm| standing.contains(&alarm.line));
            let text = |alarm: &Alarm| {
                let seconds = now.now_ns.saturating_sub(alarm.since_ns) as f64 / 1e9;
                let (items, bytes) = (alarm.residual.items, alarm.residual.bytes);
                format!(
                    "{} {}: {items} items, {bytes} bytes unaccounted for since {seconds:.0} s",
                    alarm.place, alarm.owner
                )
            };
            self.raised.iter().map(text).collect()
        } else {
            now.verdict
                .offenders
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        let standing = self
            .raised
            .iter()
            .map(|alarm| format!("{} {}", alarm.place, alarm.owner))
            .collect();
        let standing_items = self
            .raised
            .iter()
            .map(|alarm| alarm.residual.items.unsigned_abs())
            .sum();
        Residuals {
            standing_items,
            items: balance.residual_items,
            bytes: balance.residual_bytes,
            alarms,
            standing,
        }
    }
}

fn state(sample: &Sample) -> State {
    match sample.verdict.phase {
        Phase::Running => State::Live,
        Phase::Ended => State::Ended,
        Phase::Interrupted => State::Killed,
    }
}

/// Differences to the look before.
pub struct Rates<'a> {
    pub(super) before: Option<&'a Sample>,
    pub(super) seconds: f64,
}

impl<'a> Rates<'a> {
    /// The look before, while the run is live.
    pub fn before(&self) -> Option<&'a Sample> {
        self.before
    }

    /// Rate of a counter that has the value `now` and had the value that `then` finds.
    pub fn of(&self, now: u64, then: impl FnOnce(&Sample) -> u64) -> f64 {
        if self.seconds <= 0.0 {
            return 0.0;
        }
        let then = self.before.map_or(0, then);
        now.saturating_sub(then) as f64 / self.seconds
    }
}

/// Sums of one place, before they have rates.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    owners: usize,
    incoming: Option<(u64, u64)>,
    outgoing: (u64, u64),
    dropped: (u64, u64),
    held: (i64, i64),
}

type Key<'a> = (&'a str, bool, &'static str);

fn add(sum: &mut (u64, u64), items: u64, bytes: u64) {
    *sum = (sum.0.saturating_add(items), sum.1.saturating_add(bytes));
}

fn add_dropped(sums: &mut Sums, dropped: &[DropLine]) {
    dropped
        .iter()
        .for_each(|line| add(&mut sums.dropped, line.items, line.bytes_min));
}

/// Sums by place, in the order of the data.
fn sums(sample: &Sample) -> Vec<(Key<'_>, Sums)> {
    let balance = &sample.verdict.balance;
    let mut all: Vec<(Key<'_>, Sums)> = Vec::new();
    let mut entry = |key, change: &mut dyn FnMut(&mut Sums)| match all
        .iter_mut()
        .find(|(other, _)| *other == key)
    {
        Some((_, sums)) => change(sums),
        None => {
            let mut sums = Sums::default();
            change(&mut sums);
            all.push((key, sums));
        }
    };
    for line in &balance.accounts {
        entry(
            (line.place.as_str(), false, line.unit.name()),
            &mut |sums| add_account(sums, line),
        );
    }
    for line in &balance.links {
        entry((line.place.as_str(), true, line.unit.name()), &mut |sums| {
            add_link(sums, line)
        });
    }
    let rank = |place: &str| ORDER.iter().position(|known| *known == place);
    all.sort_by_key(|((place, link, _), _)| (rank(place).unwrap_or(ORDER.len()), !link));
    all
}

fn add_account(sums: &mut Sums, line: &AccountLine) {
    sums.owners += 1;
    add(
        sums.incoming.get_or_insert_default(),
        line.incoming.items,
        line.incoming.bytes,
    );
    add(&mut sums.outgoing, line.outgoing.items, line.outgoing.bytes);
    add_dropped(sums, &line.dropped);
    sums.held = (sums.held.0 + line.held.items, sums.held.1 + line.held.bytes);
}

fn add_link(sums: &mut Sums, line: &LinkLine) {
    sums.owners += 1;
    if let Some(sent) = line.sent {
        add(
            sums.incoming.get_or_insert_default(),
            sent.items,
            sent.bytes,
        );
    }
    add(&mut sums.outgoing, line.received.items, line.received.bytes);
    add_dropped(sums, &line.dropped);
    sums.held = (
        sums.held.0 + line.in_flight.items,
        sums.held.1 + line.in_flight.bytes,
    );
}

fn places(now: &Sample, rates: &Rates<'_>) -> Vec<Place> {
    let earlier = rates.before.map(sums).unwrap_or_default();
    let then = |key: Key<'_>| {
        earlier
            .iter()
            .find(|(other, _)| *other == key)
            .map(|(_, sums)| *sums)
            .unwrap_or_default()
    };
    let flow = |now: (u64, u64), then: (u64, u64)| Flow {
        items: now.0,
        bytes: now.1,
        items_per_s: rates.of(now.0, |_| then.0),
        bytes_per_s: rates.of(now.1, |_| then.1),
    };
    let line = |(key, sums): (Key<'_>, Sums)| {
        let then = then(key);
        Place {
            place: key.0.to_owned(),
            link: key.1,
            unit: key.2,
            owners: sums.owners,
            incoming: sums
                .incoming
                .map(|now| flow(now, then.incoming.unwrap_or_default())),
            outgoing: flow(sums.outgoing, then.outgoing),
            dropped: flow(sums.dropped, then.dropped),
            held_items: sums.held.0,
            held_bytes: sums.held.1,
        }
    };
    sums(now).into_iter().map(line).collect()
}

/// Place, owner and losses of every line of the books.
pub fn losses(sample: &Sample) -> impl Iterator<Item = (&str, &str, &DropLine)> {
    let balance = &sample.verdict.balance;
    let links = balance
        .links
        .iter()
        .map(|line| (&line.place, &line.owner, &line.dropped));
    let accounts = balance
        .accounts
        .iter()
        .map(|line| (&line.place, &line.owner, &line.dropped));
    let lines = links.chain(accounts);
    lines.flat_map(|(place, owner, dropped)| {
        dropped
            .iter()
            .map(move |line| (place.as_str(), owner.as_str(), line))
    })
}

/// Items of a unit, and their bytes, that went out and that no peer has acknowledged.
pub fn unconfirmed(sample: &Sample, unit: Unit) -> (u64, u64) {
    let lines = sample.verdict.unconfirmed.iter();
    let amounts = lines
        .filter(|line| line.unit == unit)
        .map(|line| line.amount);
    amounts.fold((0, 0), |sum, amount| {
        (sum.0 + amount.items, sum.1 + amount.bytes)
    })
}

/// Losses by place and reason, the largest first.
fn drops(now: &Sample, rates: &Rates<'_>) -> Vec<Lost> {
    let mut all: Vec<Lost> = Vec::new();
    for (place, owner, line) in losses(now).filter(|(_, _, line)| line.items > 0) {
        let known = all
            .iter_mut()
            .find(|lost| lost.place == place && lost.reason == line.reason);
        let lost = match known {
            Some(lost) => lost,
            None => {
                all.push(Lost {
                    place: place.to_owned(),
                    reason: line.reason.clone(),
                    items: 0,
                    bytes_min: 0,
                    bytes_max: 0,
                    items_per_s: 0.0,
                    owners: 0,
                    most: Vec::new(),
                });
                let Some(new) = all.last_mut() else { continue };
                new
            }
        };
        lost.items += line.items;
        lost.bytes_min += line.bytes_min;
        lost.bytes_max += line.bytes_max;
        lost.owners += 1;
        lost.most.push((owner.to_owned(), line.items));
    }
    for lost in &mut all {
        lost.most
            .sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        lost.most.truncate(OWNERS_NAMED);
        lost.items_per_s = rates.of(lost.items, |before| {
            let same = losses(before)
                .filter(|(place, _, line)| *place == lost.place && line.reason == lost.reason);
            same.map(|(_, _, line)| line.items).sum()
        });
    }
    all.sort_by_key(|lost| std::cmp::Reverse(lost.items));
    all
}
