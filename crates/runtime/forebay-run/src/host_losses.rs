//! Losses that are the whole host's, in the books of a run.

use forebay_ledger::{Book, Counter, GroupId, GroupWriter, Schema, SchemaBuilder, Words};

use crate::RunError;

/// Where they are counted.
#[derive(Debug, Clone, Copy)]
pub struct HostWords {
    /// The group of the stage that reads the counters of the host.
    pub group: GroupId,
    /// IP reassembly failures of the host during the run.
    pub reassembly_failed: Counter,
    /// The kernel's own count of them as last read, plus 1; 0 before the first reading.
    pub reassembly_failed_raw: Counter,
}

impl HostWords {
    /// Declares them, in a group of their own.
    #[must_use]
    pub fn declare(schema: &mut SchemaBuilder) -> Self {
        let group = schema.group("host");
        Self {
            group,
            reassembly_failed: schema.host_term(group, "ip", "reassembly_failed"),
            reassembly_failed_raw: schema.cursor(group, "reassembly_failed_raw"),
        }
    }
}

/// The books of the host's group.
#[derive(Debug)]
pub struct HostBook {
    writer: GroupWriter,
    book: Book,
    words: HostWords,
}

impl HostBook {
    /// Goes on from what is booked.
    ///
    /// # Errors
    /// The ledger is another one.
    pub fn attach(schema: &Schema, memory: &Words, words: HostWords) -> Result<Self, RunError> {
        let writer = GroupWriter::attach(schema, memory, words.group)?;
        Ok(Self {
            book: writer.restore(),
            writer,
            words,
        })
    }

    /// Counts the IP reassembly failures since the last reading, be it this process's or its predecessor's. The first
    /// reading of a run counts nothing: those before it are none of its own.
    pub fn read(&mut self) {
        if let Ok(snmp) = forebay_sys::snmp::read() {
            self.observe(snmp.ip_reasm_fails);
        }
        self.writer.commit(&self.book);
    }

    fn observe(&mut self, now: u64) {
        let raw = self.words.reassembly_failed_raw;
        if let Some(last) = self.book.value(raw).checked_sub(1) {
            let lost = now.wrapping_sub(last);
            self.book.add(self.words.reassembly_failed, lost);
        }
        self.book.set(raw, now.wrapping_add(1));
    }

    /// Counts `more` in another word of the group.
    pub fn add(&mut self, word: Counter, more: u64) {
        self.book.add(word, more);
    }
}

#[cfg(test)]
mod tests {
    use forebay_ledger::{LedgerReader, RunWriter};

    use super::*;

    #[test]
    fn failures_while_nobody_looked_are_counted_by_the_successor() {
        let mut schema = SchemaBuilder::new("run");
        let host_words = HostWords::declare(&mut schema);
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 2).unwrap();
        // The supervisor takes the first reading, a receiver the next, its successor the last.
        for reading in [100, 120, 160] {
            let mut host = HostBook::attach(&schema, &words, host_words).unwrap();
            host.observe(reading);
            host.writer.commit(&host.book);
        }
        let balance = LedgerReader::open(&words)
            .unwrap()
            .snapshot()
            .unwrap()
            .balance();
        assert_eq!(balance.host[0].items, 60);
    }
}
