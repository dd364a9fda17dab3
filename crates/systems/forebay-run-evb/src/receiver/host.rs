//! What the receiver counts beside its ports: losses that are the whole host's, and its own sleeps.

use forebay_ledger::{Book, GroupWriter, Words};
use forebay_run::error::RunError;

use crate::books::{Books, HostWords};

/// The books of the host's group.
pub(crate) struct HostBook {
    writer: GroupWriter,
    book: Book,
    words: HostWords,
}

impl HostBook {
    /// Goes on from what is booked.
    pub(crate) fn attach(books: &Books, words: &Words) -> Result<Self, RunError> {
        let writer = GroupWriter::attach(&books.schema, words, books.host.group)?;
        Ok(Self {
            book: writer.restore(),
            writer,
            words: books.host,
        })
    }

    /// Counts the IP reassembly failures since the last reading, be it this process's or its predecessor's. The first
    /// reading of a run counts nothing: those before it are none of its own.
    pub(crate) fn read(&mut self) {
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

    /// The receiver slept to let datagrams gather.
    pub(super) fn count_gather(&mut self) {
        self.book.add(self.words.gathers, 1);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::Path;

    use forebay_ledger::{LedgerReader, RunWriter};

    use super::*;
    use crate::presets;

    #[test]
    fn failures_while_nobody_looked_are_counted_by_the_successor() {
        let plan = presets::plan("run", Path::new("/tmp"), Ipv4Addr::LOCALHOST.into(), 0, 1);
        let books = Books::declare(&plan).unwrap();
        let words = Words::zeroed(books.schema.words_needed());
        RunWriter::format(&books.schema, &words, 1, 2).unwrap();
        // The supervisor takes the first reading, a receiver the next, its successor the last.
        for reading in [100, 120, 160] {
            let mut host = HostBook::attach(&books, &words).unwrap();
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
