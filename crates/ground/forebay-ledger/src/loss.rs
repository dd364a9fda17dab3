//! Loss is data: a table of lost ranges in the mapped file.
//!
//! The writer fills a row behind the last valid one, and the row becomes valid with the next commit of the
//! group that holds the row count. A row that was written but not committed is overwritten by the successor.

use serde::Serialize;

use crate::book::Book;
use crate::directory::LossTableEntry;
use crate::error::LedgerError;
use crate::schema::{Counter, LossTableId, Schema};
use crate::sync::{AtomicU64, Ordering};
use crate::words::Words;

/// Words of one row: source and cause, first, last, items, bytes, stamp, two spare.
pub(crate) const ROW_WORDS: usize = 8;
/// Words of a table in its group: rows used, then rows, items and bytes that found no row.
pub(crate) const TABLE_WORDS: u32 = 4;

const ROWS_USED: u32 = 0;
const OVERFLOW_ROWS: u32 = 1;
const OVERFLOW_ITEMS: u32 = 2;
const OVERFLOW_BYTES: u32 = 3;

/// One lost range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossRow {
    /// Number of the source.
    pub source: u32,
    /// Index of the cause in the table's list.
    pub cause: u16,
    /// First lost trigger number.
    pub first: u64,
    /// Last lost trigger number.
    pub last: u64,
    /// Items lost.
    pub items: u64,
    /// Bytes lost; 0 where nobody can know.
    pub bytes: u64,
    /// When it was noticed, in ns.
    pub stamp_ns: u64,
}

/// One lost range as read, with its cause in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LossRecord {
    /// Number of the source.
    pub source: u32,
    /// First lost trigger number.
    pub first: u64,
    /// Last lost trigger number.
    pub last: u64,
    /// Items lost.
    pub items: u64,
    /// Bytes lost; 0 where nobody can know.
    pub bytes: u64,
    /// Why.
    pub cause: String,
    /// Where.
    pub place: String,
    /// When it was noticed, in ns.
    pub stamp_ns: u64,
}

/// What is known of a whole loss table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LossTable {
    /// The lost ranges, in the order in which they were noticed.
    pub records: Vec<LossRecord>,
    /// Ranges that found no row.
    pub overflow_rows: u64,
    /// Items in them.
    pub overflow_items: u64,
    /// Bytes in them.
    pub overflow_bytes: u64,
}

/// The one writer of one loss table: the writer of its group.
#[derive(Debug)]
pub struct LossTableWriter {
    words: Words,
    start: usize,
    rows: u32,
    group: u32,
    base: u32,
}

impl LossTableWriter {
    /// Attaches to a table of a formatted ledger.
    ///
    /// # Errors
    /// The memory is not the ledger of this schema, or the table is not of this schema.
    pub fn attach(schema: &Schema, words: &Words, table: LossTableId) -> Result<Self, LedgerError> {
        schema.check(words)?;
        let index = table.0 as usize;
        let entry = schema
            .directory
            .loss_tables
            .get(index)
            .zip(schema.layout.loss_tables.get(index));
        let (entry, &start) = entry.ok_or(LedgerError::OutOfBounds {
            what: "loss table",
            index,
        })?;
        Ok(Self {
            words: words.clone(),
            start,
            rows: entry.rows,
            group: entry.group,
            base: entry.base,
        })
    }

    /// Appends a range; it is valid when `book` is committed. A full table counts the range as overflow.
    pub fn append(&mut self, book: &mut Book, row: LossRow) {
        let used = book.value(self.word(ROWS_USED));
        if used >= u64::from(self.rows) {
            book.add(self.word(OVERFLOW_ROWS), 1);
            book.add(self.word(OVERFLOW_ITEMS), row.items);
            book.add(self.word(OVERFLOW_BYTES), row.bytes);
            return;
        }
        let at = self.start + used as usize * ROW_WORDS;
        let source = u64::from(row.source) | u64::from(row.cause) << 32;
        let values = [
            source,
            row.first,
            row.last,
            row.items,
            row.bytes,
            row.stamp_ns,
        ];
        // Relaxed: the row becomes reachable only through the release store of the group's commit.
        for (word, value) in self.words[at..at + ROW_WORDS].iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
        book.add(self.word(ROWS_USED), 1);
    }

    const fn word(&self, which: u32) -> Counter {
        Counter {
            group: self.group,
            word: self.base + which,
        }
    }
}

/// Reads the rows that `group`, a committed state of the table's group, declares valid.
pub(crate) fn read_table(words: &[AtomicU64], entry: &LossTableEntry, group: &[u64]) -> LossTable {
    let value = |which: u32| {
        group
            .get((entry.base + which) as usize)
            .copied()
            .unwrap_or(0)
    };
    let used = value(ROWS_USED).min(u64::from(entry.rows)) as usize;
    LossTable {
        records: words
            .chunks(ROW_WORDS)
            .take(used)
            .map(|row| read_row(row, entry))
            .collect(),
        overflow_rows: value(OVERFLOW_ROWS),
        overflow_items: value(OVERFLOW_ITEMS),
        overflow_bytes: value(OVERFLOW_BYTES),
    }
}

fn read_row(row: &[AtomicU64], entry: &LossTableEntry) -> LossRecord {
    let load = |at: usize| row.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
    let head = load(0);
    let cause = entry.causes.get((head >> 32 & 0xffff) as usize);
    let (place, cause) = cause
        .cloned()
        .unwrap_or_else(|| ("unknown".into(), "unknown".into()));
    LossRecord {
        source: head as u32,
        first: load(1),
        last: load(2),
        items: load(3),
        bytes: load(4),
        cause,
        place,
        stamp_ns: load(5),
    }
}
