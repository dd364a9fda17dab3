//! The emulator's books: in the ledger of the run that it is a stage of, or in one of its own.

use std::path::Path;

use forebay_emu::{Behind, Totals};
use forebay_ledger::{
    Book, Condition, Counter, GroupId, GroupWriter, Reason, Schema, SchemaBuilder, Words,
    join::DESTINATION_PORT,
};
use forebay_run::error::RunError;
use forebay_run::run_dir::KeptLedger;

use super::{GeneratorPlan, GeneratorReport};

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
    /// Where the ledger is its own.
    kept: Option<KeptLedger>,
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
            kept: None,
        })
    }

    /// Those of an emulator that sends to a run of somebody else: a ledger and a record in `out`. What an operator should know goes to `warnings`.
    ///
    /// # Errors
    /// The directory cannot be written, or another run uses it.
    pub fn of_sender(
        plan: &GeneratorPlan,
        out: &Path,
        warnings: &mut Vec<String>,
    ) -> Result<Self, RunError> {
        let run_id = format!("emulate-{}", std::process::id());
        let mut schema = SchemaBuilder::new(&run_id);
        schema.program("emulate-hades");
        let words = GeneratorWords::declare(&mut schema, plan.sources());
        words.accounts.headline(&mut schema);
        let help = "UDP port that the source sends to";
        let ports = (0..plan.sources()).map(|source| {
            let owner = format!("source{source}");
            schema.gauge(words.group, DESTINATION_PORT, &owner, help)
        });
        let ports: Vec<_> = ports.collect();
        let schema = schema.finish()?;
        let ledger = KeptLedger::open(&schema, &run_id, Some(out), plan.sources(), warnings)?;
        let mut writer = GroupWriter::attach(&schema, ledger.words(), words.group)?;
        let mut book = writer.restore();
        for (source, gauge) in ports.into_iter().enumerate() {
            book.set(gauge, plan.address(source)?.port().into());
        }
        writer.commit(&book);
        Ok(Self {
            words,
            writer,
            book,
            kept: Some(ledger),
        })
    }

    /// Closes books of its own, as the emulator ended, and leaves the record.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn close(
        self,
        plan: &GeneratorPlan,
        report: &GeneratorReport,
        reason: Reason,
    ) -> Result<(), RunError> {
        let Some(mut ledger) = self.kept else {
            return Ok(());
        };
        ledger.close(Condition::Ended, reason);
        ledger.keep_summary(&Record { report, plan })
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
        if let Some(kept) = &self.kept {
            kept.heartbeat();
        }
    }
}

/// What stands in the record.
#[derive(serde::Serialize)]
struct Record<'a> {
    #[serde(flatten)]
    report: &'a GeneratorReport,
    plan: &'a GeneratorPlan,
}

#[cfg(test)]
mod page {
    use forebay_emu::{Amount, SourceTotals};
    use forebay_ledger::Unit;

    use super::*;

    fn plan() -> GeneratorPlan {
        GeneratorPlan::test2(([127, 0, 0, 1], 50_000).into(), 1_000.0)
    }

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let out = tempfile::tempdir().unwrap();
        let books = Booked::of_sender(&plan(), out.path(), &mut Vec::new()).unwrap();
        let outline = books.kept.unwrap().reader().unwrap().outline();
        forebay_testing::accounts::assert_section("emulator", &[outline]);
    }

    #[test]
    fn an_emulator_leaves_what_it_has_counted() {
        let (plan, out) = (plan(), tempfile::tempdir().unwrap());
        let mut books = Booked::of_sender(&plan, out.path(), &mut Vec::new()).unwrap();
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
            duration_s: 1.5,
            cpu_seconds: 0.5,
        };
        books.close(&plan, &report, Reason::LimitReached).unwrap();

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
        assert_eq!(
            (&record["bytes_sent"], &record["duration_s"]),
            (&800.into(), &1.5.into())
        );
    }
}
