//! The ledger of a subscriber of chunks, beside that of its end point.
//!
//! ```text
//! the end point: deliver ─▶ check (chunks): sound, or wrong by name
//! ```
//!
//! The end point counts what it delivers and holds it until it is told what was taken; this side counts what it is given, and the table what it finds in each chunk. The rest
//! are metrics.

use std::path::Path;

use forebay_ledger::{
    Account, Book, Condition, Counter, GroupId, GroupWriter, HistogramId, HistogramWriter,
    LedgerReader, Reason, Schema, SchemaBuilder, Taint, Unit,
};
use forebay_readout::Status;
use forebay_readout::payload::{PerWrong, WrongKind};
use forebay_run::error::RunError;
use forebay_run::record::{Envelope, Record};
use forebay_run::run_dir::KeptLedger;

use super::report::SwrodReport;
use super::table::{Outcomes, Totals};

/// They are shown so often.
const SHOW_NS: u64 = 100_000_000;

struct Words {
    group: GroupId,
    check: Account<WrongKind>,
    /// In the order of [`Totals::of_chunks`].
    chunks: [Counter; 5],
    flagged: [Counter; 8],
    wrong: PerWrong<Counter>,
    fragments: [Counter; 2],
    latency: Option<(HistogramId, Counter)>,
}

pub(super) struct SwrodBooks {
    ledger: KeptLedger,
    group: GroupWriter,
    book: Book,
    words: Words,
    next_ns: u64,
}

fn declare(run_id: &str, with_latency: bool) -> Result<(Schema, Words), RunError> {
    let mut schema = SchemaBuilder::new(run_id);
    let group = schema.group("swrod");
    schema.program("swrod");
    let (checked, check) = schema.account(group, "check", "all", Unit::Chunks);
    schema.headline(checked);
    let mut counter =
        |name: &str, owner: &str, help: &str| schema.counter(group, name, owner, help);
    let chunks = [
        ("chunks", "Chunks that came"),
        ("chunk_bytes", "Bytes of the chunks that came"),
        ("chunks_missing", "Trigger numbers of which no chunk came"),
        (
            "chunks_repeated",
            "Chunks with the trigger number of the one before",
        ),
        (
            "trigger_jumps",
            "How often a trigger number was another one than the next",
        ),
    ]
    .map(|(name, help)| counter(name, "", help));
    let named = |bit: usize| Status::NAMES.get(bit).map(|(_, name)| (*name).to_owned());
    let flagged = std::array::from_fn(|bit| {
        let owner = named(bit).unwrap_or_else(|| format!("bit{bit}"));
        counter(
            "chunks_flagged",
            &owner,
            "Chunks by a bit of what their source says of them",
        )
    });
    let help = "Chunks that are not what they should be, by reason";
    let wrong = PerWrong::from_fn(|why| counter("bad_payload", why.name(), help));
    let fragments = ["complete", "incomplete"]
        .map(|owner| counter("fragments", owner, "Triggers by whether all chunks came"));
    let help = "Sampled chunks of whose trigger no time is known";
    let unknown = counter("latency_unknown", "", help);
    let latency = with_latency.then(|| (schema.histogram("trigger_latency_ns", "ns", ""), unknown));
    let words = Words {
        group,
        check,
        chunks,
        flagged,
        wrong,
        fragments,
        latency,
    };
    Ok((schema.finish()?, words))
}

impl SwrodBooks {
    /// Makes them, in the run directory `out` or nowhere but here, and what latencies are recorded in when they are asked for.
    pub(super) fn open(
        out: Option<&Path>,
        with_latency: bool,
    ) -> Result<(Self, Option<HistogramWriter>), RunError> {
        let run_id = format!("swrod-{}", std::process::id());
        let (schema, words) = declare(&run_id, with_latency)?;
        let mut warn = |warning: &str| tracing::warn!("{warning}");
        let ledger = KeptLedger::open(&schema, &run_id, out, 0, &mut warn)?;
        let group = GroupWriter::attach(&schema, ledger.words(), words.group)?;
        let latency = match words.latency {
            Some((at, _)) => Some(HistogramWriter::attach(&schema, ledger.words(), at)?),
            None => None,
        };
        let books = Self {
            book: group.restore(),
            group,
            ledger,
            words,
            next_ns: 0,
        };
        Ok((books, latency))
    }

    /// For code that shows them.
    pub(super) fn reader(&self) -> Result<LedgerReader, RunError> {
        self.ledger.reader()
    }

    /// Whether it is time to show them.
    #[inline]
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Shows what there is now: the chunks and bytes that came, what was found in them, and sums of all E-links.
    pub(super) fn show(
        &mut self,
        now_ns: u64,
        came: [u64; 2],
        outcomes: &Outcomes,
        totals: &Totals,
    ) {
        self.next_ns = now_ns + SHOW_NS;
        let Self { words, book, .. } = self;
        let check = &words.check;
        let terms = [(check.incoming, came), (check.outgoing, outcomes.sound)];
        let dropped = outcomes.wrong.iter();
        let dropped = dropped.map(|(why, found)| (check.lost(why), found));
        for (tally, [chunks, bytes]) in terms.into_iter().chain(dropped) {
            book.set(tally.items, chunks);
            book.set(tally.bytes, bytes);
        }
        let counters = words.chunks.iter().zip(totals.of_chunks);
        let counters = counters
            .chain(words.flagged.iter().zip(totals.flagged))
            .chain(words.fragments.iter().zip(totals.fragments));
        for (counter, value) in counters {
            book.set(*counter, value);
        }
        for (why, count) in totals.wrong.iter() {
            book.set(words.wrong[why], count);
        }
        if let Some((_, unknown)) = words.latency {
            book.set(unknown, totals.latency_unknown);
        }
        self.group.commit(&self.book);
        self.ledger.heartbeat();
    }

    /// Closes them.
    pub(super) fn close(
        &mut self,
        reason: Reason,
        taints: Vec<Taint>,
    ) -> Result<Envelope, RunError> {
        Ok(self.ledger.end(Condition::Ended, reason, taints)?.1)
    }

    /// Leaves ledger and record in the run's directory, if there is one.
    pub(super) fn keep(&mut self, record: &mut Record<SwrodReport>) -> Result<(), RunError> {
        self.ledger.keep(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let (schema, _) = declare("swrod-1", true).unwrap();
        forebay_testing::accounts::assert_section("swrod", &[schema.outline()]);
    }

    /// Another number for each reason.
    fn numbered() -> PerWrong<u64> {
        let mut next = 0;
        PerWrong::from_fn(|_| {
            next += 1;
            next
        })
    }

    #[test]
    fn what_came_and_what_was_found_are_shown_when_it_is_time() {
        let directory = tempfile::tempdir().unwrap();
        let (mut books, latency) = SwrodBooks::open(Some(directory.path()), true).unwrap();
        assert!(latency.is_some() && books.is_due(0));
        let outcomes = Outcomes {
            sound: [7, 70],
            wrong: numbered().map(|n| [n + 1, n + 100]),
        };
        let totals = Totals {
            of_chunks: [11, 12, 13, 14, 15],
            flagged: std::array::from_fn(|n| n as u64 + 20),
            wrong: numbered().map(|n| n + 40),
            fragments: [61, 62],
            latency_unknown: 63,
        };
        books.show(5, [9, 90], &outcomes, &totals);
        assert!(!books.is_due(100_000_004) && books.is_due(100_000_005));
        let shown = books.reader().unwrap().snapshot().unwrap();
        let words = &books.words;
        let check = &words.check;
        assert_eq!(shown.tally(check.incoming), (9, 90));
        assert_eq!(shown.tally(check.outgoing), (7, 70));
        for (why, n) in numbered().iter() {
            assert_eq!(shown.tally(check.lost(why)), (n + 1, n + 100));
            assert_eq!(shown.value(words.wrong[why]), n + 40);
        }
        let counters = [&words.chunks[..], &words.flagged, &words.fragments].concat();
        let values = counters.iter().map(|it| shown.value(*it));
        let expected = (11..=15).chain(20..28);
        assert!(values.eq(expected.chain([61, 62])));
        assert_eq!(shown.value(words.latency.unwrap().1), 63);
    }
}
