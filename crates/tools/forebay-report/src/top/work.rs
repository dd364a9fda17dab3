//! What kind of work a ledger tells of: its program says so, and its headline accounts how much was done.

use forebay_ledger::{AccountLine, Unit};
use serde::Serialize;

use super::sample::Sample;
use super::view::Rates;

/// Which numbers sum a program's work up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of a builder of events.
    Events,
    /// Of an end point of messaging.
    Messages,
    /// Of what reads or emulates cards.
    Chunks,
    /// Of time division.
    Packets,
    /// Of all others: what went out of the headline accounts.
    Moved,
}

/// The work that a ledger tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) kind: Kind,
    /// Places and units of its headline accounts.
    headline: Vec<(String, Unit)>,
}

impl Work {
    pub(super) fn of(sample: &Sample) -> Self {
        let Some(program) = sample.snapshot.program() else {
            return Self::guessed(sample);
        };
        let headline = sample.snapshot.headline();
        Self {
            kind: match program {
                "evb" => Kind::Events,
                "net" => Kind::Messages,
                "card" | "tohost" | "swrod" => Kind::Chunks,
                "tdm-send" | "tdm-receive" => Kind::Packets,
                _ => Kind::Moved,
            },
            headline: headline
                .map(|(place, unit)| (place.to_owned(), unit))
                .collect(),
        }
    }

    /// A ledger of version 1 names neither program nor headline: its accounts say what it must be.
    fn guessed(sample: &Sample) -> Self {
        let accounts = &sample.verdict.balance.accounts;
        let has = |place: &str, unit: Option<Unit>| {
            let mut lines = accounts.iter();
            lines.any(|line| {
                (place.is_empty() || line.place == place) && unit.is_none_or(|it| it == line.unit)
            })
        };
        let of = |kind, headline: &[(&str, Unit)]| Self {
            kind,
            headline: headline
                .iter()
                .map(|(place, unit)| ((*place).to_owned(), *unit))
                .collect(),
        };
        let messages = [("send", Unit::Messages), ("receive", Unit::Messages)];
        let chunks = ["card", "publish", "check"].map(|place| (place, Unit::Chunks));
        // A receiver's windows have packets, too: those that should have come.
        if has("windows", Some(Unit::Packets)) {
            of(Kind::Packets, &[("write", Unit::Packets)])
        } else if has("send", Some(Unit::Packets)) {
            of(Kind::Packets, &[("send", Unit::Packets)])
        } else if has("deliver", None) && !has("events", None) {
            of(Kind::Messages, &messages)
        } else if has("", Some(Unit::Chunks)) && !has("", Some(Unit::Events)) {
            of(Kind::Chunks, &chunks)
        } else if has("events", Some(Unit::Events)) {
            of(Kind::Events, &[("events", Unit::Events)])
        } else {
            of(Kind::Moved, &[])
        }
    }

    /// Items and bytes that went out of the headline accounts.
    pub(super) fn done(&self, sample: &Sample) -> (u64, u64) {
        let lines = sample.verdict.balance.accounts.iter();
        let lines = lines.filter(|line| {
            let mut headline = self.headline.iter();
            headline.any(|(place, unit)| *place == line.place && *unit == line.unit)
        });
        went_out(lines)
    }

    /// Items and bytes per second.
    pub(super) fn rates(&self, now: &Sample, rates: &Rates<'_>) -> [f64; 2] {
        let (items, bytes) = self.done(now);
        [
            rates.of(items, |sample| self.done(sample).0),
            rates.of(bytes, |sample| self.done(sample).1),
        ]
    }

    /// The same with rates, where no other numbers sum it up.
    pub(super) fn moved(&self, now: &Sample, rates: &Rates<'_>) -> Option<Moved> {
        let (_, unit) = self.headline.first()?;
        let (items, bytes) = self.done(now);
        let [rate_hz, data_rate_bytes_per_s] = self.rates(now, rates);
        (self.kind == Kind::Moved).then(|| Moved {
            items,
            unit: unit.name(),
            bytes,
            rate_hz,
            data_rate_bytes_per_s,
        })
    }
}

/// Items and bytes that went out of these accounts.
pub(super) fn went_out<'a>(lines: impl Iterator<Item = &'a AccountLine>) -> (u64, u64) {
    lines.fold((0, 0), |sum, line| {
        (sum.0 + line.outgoing.items, sum.1 + line.outgoing.bytes)
    })
}

/// What went out of the headline accounts of a program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moved {
    pub(super) items: u64,
    pub(super) unit: &'static str,
    pub(super) bytes: u64,
    pub(super) rate_hz: f64,
    pub(super) data_rate_bytes_per_s: f64,
}

#[cfg(test)]
mod tests {
    use forebay_ledger::{
        GroupWriter, LedgerReader, Lossless, RunWriter, SchemaBuilder, Supervisor, Words, audit,
    };

    use super::*;

    /// A ledger of these accounts, out of each of which 3 items of 10 bytes went, and 2 of them as its headline where it names a program.
    fn sample(program: &str, accounts: &[(&str, Unit)]) -> Sample {
        let mut schema = SchemaBuilder::new("run 7");
        schema.program(program);
        let group = schema.group("all");
        let mut declare = |at: (&str, Unit)| schema.account::<Lossless>(group, at.0, "all", at.1);
        let all: Vec<_> = accounts.iter().map(|at| declare(*at)).collect();
        if !program.is_empty() {
            all.iter().take(2).for_each(|(id, _)| schema.headline(*id));
        }
        let schema = schema.finish().unwrap();
        let memory = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &memory, 1, 1).unwrap();
        let mut writer = GroupWriter::attach(&schema, &memory, group).unwrap();
        let mut book = writer.restore();
        for (_, account) in &all {
            book.add_tally(account.outgoing, 3, 30);
        }
        writer.commit(&book);
        let snapshot = LedgerReader::open(&memory).unwrap().snapshot().unwrap();
        Sample {
            at: std::time::Instant::now(),
            now_ns: 1,
            verdict: audit(&snapshot, Supervisor::Gone),
            snapshot,
        }
    }

    #[test]
    fn a_program_is_what_it_says_whatever_its_accounts_are() {
        let accounts = [("deliver", Unit::Messages), ("windows", Unit::Packets)];
        for (program, kind) in [
            ("evb", Kind::Events),
            ("net", Kind::Messages),
            ("tohost", Kind::Chunks),
            ("card", Kind::Chunks),
            ("swrod", Kind::Chunks),
            ("tdm-send", Kind::Packets),
            ("tdm-receive", Kind::Packets),
            ("mover", Kind::Moved),
            ("one of next year", Kind::Moved),
        ] {
            assert_eq!(
                Work::of(&sample(program, &accounts)).kind,
                kind,
                "{program}"
            );
        }
    }

    #[test]
    fn what_went_out_of_the_headline_is_summed_and_nothing_else() {
        let accounts = [
            ("encode", Unit::Messages),
            ("ring", Unit::Packets),
            ("ring", Unit::Messages),
            ("route", Unit::Packets),
        ];
        let sample = sample("toflx", &accounts);
        let work = Work::of(&sample);
        assert_eq!(work.done(&sample), (6, 60));
        let rates = Rates {
            before: None,
            seconds: 2.0,
        };
        let moved = work.moved(&sample, &rates).unwrap();
        assert_eq!((moved.items, moved.unit, moved.bytes), (6, "messages", 60));
        assert_eq!((moved.rate_hz, moved.data_rate_bytes_per_s), (3.0, 30.0));
    }

    /// Ledgers of the version before: by the accounts that each program had then.
    #[test]
    fn a_ledger_without_a_program_is_known_by_its_accounts() {
        for (accounts, kind, items) in [
            (
                vec![("windows", Unit::Packets), ("write", Unit::Packets)],
                Kind::Packets,
                3,
            ),
            (
                vec![("heaps", Unit::Messages), ("send", Unit::Packets)],
                Kind::Packets,
                3,
            ),
            (
                vec![
                    ("send", Unit::Messages),
                    ("receive", Unit::Messages),
                    ("deliver", Unit::Messages),
                ],
                Kind::Messages,
                6,
            ),
            (
                vec![("dma", Unit::Blocks), ("publish", Unit::Chunks)],
                Kind::Chunks,
                3,
            ),
            (
                vec![("receiver", Unit::Chunks), ("events", Unit::Events)],
                Kind::Events,
                3,
            ),
            (vec![("file", Unit::Blocks)], Kind::Moved, 0),
        ] {
            let sample = sample("", &accounts);
            let work = Work::of(&sample);
            assert_eq!((work.kind, work.done(&sample).0), (kind, items));
        }
    }
}
