//! The emulator's books: in the ledger of the run that it is a stage of, or in one of its own.

use std::path::{Path, PathBuf};

use forebay_emu::{Behind, Totals};
use forebay_ledger::{
    Book, Counter, GroupId, GroupWriter, Reason, Schema, SchemaBuilder, Words,
    join::DESTINATION_PORT,
};
use forebay_run::error::RunError;
use forebay_run::record::Record;
use forebay_run::run_dir::{KeptLedger, RunEnd};
use forebay_run::{Host, System};

use super::{GeneratorPlan, GeneratorReport, HOPS, run};

/// The name of the program in ledgers and records.
const PROGRAM: &str = "emulate-hades";

/// Words of the emulator.
#[derive(Debug, Clone)]
pub struct GeneratorWords {
    /// The group.
    pub group: GroupId,
    /// Its accounts of sub-events and of datagrams.
    pub accounts: forebay_emu::account::Accounts,
    /// Triggers given.
    pub events: Counter,
    /// When it began, in ns of the monotonic clock.
    pub start_ns: Counter,
    /// Largest lag behind the trigger clock, in ns.
    pub lag_ns_max: Counter,
    /// 1 when the emulator was the limit.
    pub limited: Counter,
}

impl GeneratorWords {
    /// Declares the words of an emulator of so many sources, in a group of its own.
    #[must_use]
    pub fn declare(schema: &mut SchemaBuilder, sources: usize) -> Self {
        let group = schema.group("generator");
        Self {
            group,
            accounts: forebay_emu::account::Accounts::declare(schema, group, sources),
            events: schema.counter(group, "triggers", "", "triggers given"),
            start_ns: schema.cursor(group, "start_ns"),
            lag_ns_max: schema.gauge(
                group,
                "lag_ns_max",
                "",
                "largest lag behind the trigger clock",
            ),
            limited: schema.gauge(
                group,
                "generator_limited",
                "",
                "1 when the emulator was the limit",
            ),
        }
    }
}

/// The emulator's books in a ledger.
#[derive(Debug)]
pub struct Booked {
    words: GeneratorWords,
    writer: GroupWriter,
    book: Book,
}

impl Booked {
    /// Those of a stage, in the ledger of its run: the words that were declared there, and its memory.
    ///
    /// # Errors
    /// The ledger is another one.
    pub fn of_run(
        schema: &Schema,
        words: GeneratorWords,
        memory: &Words,
    ) -> Result<Self, RunError> {
        let writer = GroupWriter::attach(schema, memory, words.group)?;
        Ok(Self {
            book: writer.restore(),
            writer,
            words,
        })
    }

    pub(super) fn begin(&mut self, start_ns: u64) {
        self.book.set(self.words.start_ns, start_ns);
    }

    pub(super) fn commit(&mut self, totals: &Totals, behind: &Behind) {
        let (words, book) = (&self.words, &mut self.book);
        words.accounts.write(totals, book);
        book.set(words.events, totals.events);
        book.set(words.lag_ns_max, behind.lag_ns_max);
        book.set(words.limited, u64::from(behind.generator_limited));
        self.writer.commit(book);
    }
}

/// An emulator as a program: it sends to a run of somebody else, with books in a ledger of its own.
#[derive(Clone, Debug)]
pub struct HadesSender {
    /// What it sends.
    pub plan: GeneratorPlan,
    /// Where ledger and record lie; none: nowhere.
    pub out: Option<PathBuf>,
}

impl System for HadesSender {
    const HOPS: &'static [&'static str] = HOPS;
    type Summary = SenderSummary;
    type Error = RunError;

    fn run(self, host: &Host) -> Result<Record<SenderSummary>, RunError> {
        let mut warn = |warning: &str| host.warn(warning);
        let books = SenderBooks::open(&self.plan, self.out.as_deref(), &mut warn)?;
        books.send(self.plan, host)
    }
}

/// The books of such an emulator.
#[derive(Debug)]
struct SenderBooks {
    booked: Booked,
    ledger: KeptLedger,
}

impl SenderBooks {
    fn open(
        plan: &GeneratorPlan,
        out: Option<&Path>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let run_id = format!("{PROGRAM}-{}", std::process::id());
        let mut schema = SchemaBuilder::new(&run_id);
        schema.program(PROGRAM);
        let words = GeneratorWords::declare(&mut schema, plan.sources());
        words.accounts.headline(&mut schema);
        let help = "UDP port that the source sends to";
        let ports = (0..plan.sources()).map(|source| {
            let owner = format!("source{source}");
            schema.gauge(words.group, DESTINATION_PORT, &owner, help)
        });
        let ports: Vec<_> = ports.collect();
        let schema = schema.finish()?;
        let ledger = KeptLedger::open(&schema, &run_id, out, plan.sources(), tell)?;
        let mut booked = Booked::of_run(&schema, words, ledger.words())?;
        for (source, gauge) in ports.into_iter().enumerate() {
            let port = plan.address(source)?.port();
            booked.book.set(gauge, port.into());
        }
        booked.writer.commit(&booked.book);
        Ok(Self { booked, ledger })
    }

    /// Sends until the plan's limit, or until it shall end, and closes them.
    fn send(mut self, plan: GeneratorPlan, host: &Host) -> Result<Record<SenderSummary>, RunError> {
        let (booked, ledger) = (&mut self.booked, &self.ledger);
        let report = run(&plan, Some(booked), host.leak.clone(), || {
            ledger.heartbeat();
            host.stop.is_asked()
        })?;
        self.close(plan, report, host.stop.reason())
    }

    fn close(
        mut self,
        plan: GeneratorPlan,
        report: GeneratorReport,
        asked: Option<Reason>,
    ) -> Result<Record<SenderSummary>, RunError> {
        let reason = asked.unwrap_or(Reason::LimitReached);
        let summary = SenderSummary { report, plan };
        self.ledger.conclude(RunEnd::in_order(reason), |_| summary)
    }
}

/// What an emulator with books of its own has to say at its end.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SenderSummary {
    /// What it sent.
    #[serde(flatten)]
    pub report: GeneratorReport,
    /// What it was told.
    pub plan: GeneratorPlan,
}

#[cfg(test)]
mod page {
    use forebay_emu::{Amount, SourceTotals};
    use forebay_ledger::{Condition, Unit};

    use super::*;

    fn plan() -> GeneratorPlan {
        GeneratorPlan::test2(([127, 0, 0, 1], 50_000).into(), 1_000.0)
    }

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let out = tempfile::tempdir().unwrap();
        let books = SenderBooks::open(&plan(), Some(out.path()), &mut |_| {}).unwrap();
        let outline = books.ledger.reader().unwrap().outline();
        forebay_testing::accounts::assert_section("emulator", &[outline]);
    }

    #[test]
    fn an_emulator_leaves_what_it_has_counted() {
        let (plan, out) = (plan(), tempfile::tempdir().unwrap());
        let mut sender = SenderBooks::open(&plan, Some(out.path()), &mut |_| {}).unwrap();
        let books = &mut sender.booked;
        let counters = [
            books.words.start_ns,
            books.words.events,
            books.words.lag_ns_max,
            books.words.limited,
        ];
        let sent = Amount {
            items: 9,
            bytes: 900,
        };
        let source = SourceTotals {
            made: sent,
            sent,
            ..SourceTotals::default()
        };
        let totals = Totals {
            events: 12,
            all: SourceTotals::default(),
            by_source: vec![source; plan.sources()],
        };
        let behind = Behind {
            lag_ns_max: 55,
            generator_limited: true,
            ..Behind::default()
        };
        books.begin(77);
        books.commit(&totals, &behind);
        let report = GeneratorReport {
            events_sent: 12,
            subevents_sent: 9,
            bytes_sent: 800,
            datagrams_sent: 3,
            datagrams_refused: 0,
            behind: true,
            lag_ns_max: 55,
        };
        sender.close(plan.clone(), report, None).unwrap();

        let ledger = forebay_run::run_dir::open_ledger(out.path()).unwrap();
        let snapshot = ledger.snapshot().unwrap();
        assert_eq!(counters.map(|it| snapshot.value(it)), [77, 12, 55, 1]);
        let ended = (snapshot.run.condition, snapshot.run.reason);
        assert_eq!(ended, (Condition::Ended, Reason::LimitReached));
        let accounts = snapshot.balance().accounts;
        let subevents = accounts.iter().filter(|it| it.unit == Unit::SubEvents);
        let sums: Vec<_> = subevents
            .map(|it| [it.incoming, it.outgoing].map(|sum| (sum.items, sum.bytes)))
            .collect();
        assert_eq!(sums, vec![[(9, 900); 2]; plan.sources()]);
        let record = std::fs::read(out.path().join("run.json")).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        assert_eq!(record["bytes_sent"], 800);
        assert_eq!(record["program"], "emulate-hades");
    }
}
