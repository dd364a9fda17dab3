//! The books of a sink, wherever it stands: what it takes, writes, keeps and loses.

use forebay_ledger::{
    Account, AccountId, Book, Counter, GroupId, GroupWriter, LedgerError, Schema, SchemaBuilder,
    Tally, Unit, Words, reasons,
};

use crate::tenure::Tenure;

reasons! {
    /// Why a sink loses events.
    pub enum SinkDrop {
        /// The disk was full.
        DiskFull = "disk_full",
        /// A write failed.
        WriteError = "write_error",
        /// The other side of a connection has gone.
        PeerLost = "peer_lost",
        /// It did not end, and the supervisor gave it up.
        Stalled = "stalled",
        /// They are longer than a remote mover takes.
        TooLong = "too_long",
        /// Somebody cut the file that they were on their way to.
        FileCut = "file_cut",
    }
}

/// Words of one sink at its own end.
#[derive(Debug, Clone)]
pub struct SinkWords {
    /// The group.
    pub group: GroupId,
    /// Events taken, written, dropped.
    pub account: Account<SinkDrop>,
    /// What was taken off the ring.
    pub taken: Tally,
    /// The ring's head.
    pub head: Counter,
    /// Position up to which what was taken off the ring is counted; the head, where nothing is held between the two.
    pub pulled: Counter,
    /// Run number, suffix, committed bytes and events of the open file, and what it is: its inode, and when it was made in ns since 1970.
    pub file: [Counter; 6],
    /// How files are written, by [`FileIo::number`](crate::FileIo::number); 0 of what writes none here.
    pub file_io: Counter,
    /// Files begun.
    pub files: Counter,
    /// Bytes written with headers.
    pub written: Counter,
    /// Open files that somebody removed or cut.
    pub removed_files: Counter,
    /// Events and their bytes that were written and went with them.
    pub removed: Tally,
    /// What the queue can hold, in bytes; 0 where there is none.
    pub capacity: Counter,
}

/// Declares what takes events of the stream `name` off a queue or a connection at `place` and writes them.
pub fn declare_writer(
    schema: &mut SchemaBuilder,
    place: &str,
    name: &str,
) -> (SinkWords, AccountId) {
    let group = schema.group(&format!("{place}.{name}"));
    declare_words(schema, group, (place, name), "")
}

/// Declares the words of a sink in `group`, its cursors behind `prefix`: of one that writes nothing, in the group of what feeds it.
pub fn declare_words(
    schema: &mut SchemaBuilder,
    group: GroupId,
    (place, name): (&str, &str),
    prefix: &str,
) -> (SinkWords, AccountId) {
    let (id, account) = schema.account(group, place, name, Unit::Events);
    let taken = schema.cursor_tally(group, &format!("{prefix}taken"));
    let mut cursor = |word: &str| schema.cursor(group, &format!("{prefix}{word}"));
    let head = cursor("head_bytes");
    let pulled = cursor("pulled_bytes");
    let file = [
        "run",
        "suffix",
        "offset_bytes",
        "events",
        "inode",
        "made_ns",
    ]
    .map(&mut cursor);
    let file_io = cursor("file_io");
    let files = schema.counter(group, "files", name, "files begun");
    let written = schema.counter(
        group,
        "written_bytes",
        name,
        "bytes written, headers included",
    );
    let mut removed = |word: &str, help| schema.counter(group, word, name, help);
    let removed_files = removed(
        "output_removed_files",
        "open files that somebody removed or cut",
    );
    let removed = Tally {
        items: removed(
            "output_removed_events",
            "events that were written and went with such files",
        ),
        bytes: removed("output_removed_bytes", "bytes of these events"),
    };
    let capacity = schema.gauge(
        group,
        "sink_queue_capacity_bytes",
        name,
        "what the queue of the sink can hold",
    );
    (
        SinkWords {
            group,
            account,
            taken,
            head,
            pulled,
            file,
            file_io,
            files,
            written,
            removed_files,
            removed,
            capacity,
        },
        id,
    )
}

/// A sink's account while it works.
#[derive(Debug)]
pub struct SinkBooks {
    /// Where the terms are.
    pub words: SinkWords,
    /// What is counted, and not committed yet.
    pub book: Book,
    pub(crate) writer: GroupWriter,
    pub(crate) tenure: Tenure,
}

impl SinkBooks {
    /// Goes on where the books in `memory` stand.
    ///
    /// # Errors
    /// The ledger there is another one.
    pub fn attach(schema: &Schema, memory: &Words, words: SinkWords) -> Result<Self, LedgerError> {
        let writer = GroupWriter::attach(schema, memory, words.group)?;
        Ok(Self {
            words,
            book: writer.restore(),
            writer,
            tenure: Tenure::default(),
        })
    }

    /// Commits; false when the sink was given up and the books are another's now.
    pub fn commit(&mut self) -> bool {
        self.tenure.during(|| self.writer.commit(&self.book))
    }

    /// Whether the sink was given up.
    pub(crate) fn are_lost(&self) -> bool {
        self.tenure.has_ended()
    }

    /// Came in off the queue.
    pub(crate) fn entered(&mut self, events: u64, bytes: u64) {
        self.book
            .add_tally(self.words.account.incoming, events, bytes);
    }

    /// Is kept here until its fate is known.
    pub(crate) fn hold(&mut self, events: u64, bytes: u64) {
        self.book.add_tally(self.words.account.held, events, bytes);
    }

    /// Is kept no longer.
    pub(crate) fn let_go(&mut self, events: u64, bytes: u64) {
        self.book.sub_tally(self.words.account.held, events, bytes);
    }

    pub(crate) fn written(&mut self, events: u64, bytes: u64) {
        self.book
            .add_tally(self.words.account.outgoing, events, bytes);
    }

    pub(crate) fn dropped(&mut self, reason: SinkDrop, events: u64, bytes: u64) {
        self.book
            .add_tally(self.words.account.lost(reason), events, bytes);
    }
}

#[cfg(test)]
mod tests {
    use forebay_ledger::{LedgerReader, RunWriter};

    use super::*;
    use crate::tenure::Lease;

    fn books() -> (Words, SinkBooks) {
        let mut schema = SchemaBuilder::new("run");
        let (words, _) = declare_writer(&mut schema, "sink", "files");
        let schema = schema.finish().unwrap();
        let memory = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &memory, 1, 1).unwrap();
        let books = SinkBooks::attach(&schema, &memory, words).unwrap();
        (memory, books)
    }

    /// In, out, held and lost for one reason, as a reader sees them.
    fn seen(memory: &Words, words: &SinkWords, why: SinkDrop) -> [(u64, u64); 4] {
        let snapshot = LedgerReader::open(memory).unwrap().snapshot().unwrap();
        let account = &words.account;
        [
            account.incoming,
            account.outgoing,
            account.held,
            account.lost(why),
        ]
        .map(|term| snapshot.tally(term))
    }

    #[test]
    fn each_event_of_a_sink_has_a_term_of_its_own() {
        let (memory, mut books) = books();
        books.entered(10, 1_000);
        books.hold(7, 700);
        books.let_go(5, 500);
        books.written(4, 450);
        books.dropped(SinkDrop::DiskFull, 1, 30);
        books.dropped(SinkDrop::PeerLost, 2, 60);
        let words = books.words.clone();
        assert_eq!(
            seen(&memory, &words, SinkDrop::DiskFull),
            [(0, 0); 4],
            "not yet"
        );
        assert!(books.commit());
        let now = seen(&memory, &words, SinkDrop::DiskFull);
        assert_eq!(now, [(10, 1_000), (4, 450), (2, 200), (1, 30)]);
        assert_eq!(seen(&memory, &words, SinkDrop::PeerLost)[3], (2, 60));
        assert_eq!(seen(&memory, &words, SinkDrop::WriteError)[3], (0, 0));
    }

    #[test]
    fn a_sink_that_was_given_up_writes_into_its_books_no_more() {
        let (memory, mut books) = books();
        let lease = Lease(books.tenure.clone());
        assert!(!books.are_lost());
        books.entered(1, 100);
        assert!(books.commit());
        drop(lease);
        books.entered(1, 100);
        assert!(books.are_lost() && !books.commit());
        let now = seen(&memory, &books.words, SinkDrop::Stalled);
        assert_eq!(now[0], (1, 100));
    }
}
