//! One stream: its ledger, its files, its place.

use std::path::{Path, PathBuf};

use forebay_ledger::{
    Account, Condition, Counter, Leak, LedgerReader, LinkSpec, Lossless, Reason, RunWriter, Schema,
    SchemaBuilder, SchemaError, Taint, TaintKind, Tally, Unit, Words,
};
use forebay_run::error::RunError;
use forebay_sink::{
    Block, Bytes, FilePlan, HldWriter, SinkBooks, SinkError, SinkWords, Told, Writer,
    declare_writer,
};
use forebay_sys::clock;
use forebay_sys::mapping::{Access, Mapping};
use forebay_wire::hld::{EVENT_HEADER_BYTES, EventHeader};
use forebay_wire::mover::{BlockFields, Hello, Refusal, Totals};
use forebay_wire::unit::round_up_8;

/// Handles of a stream's books: one group.
pub(crate) struct StreamWords {
    schema: Schema,
    sink: SinkWords,
    /// What the sender says that it sent.
    sender: Account,
    /// What was delivered before this mover's books began.
    before: Tally,
    /// Run numbers of the first and the last file.
    pub(crate) runs: [Counter; 2],
    /// What the sender gave up unsent.
    given_up: [Counter; 2],
    /// 1 when the stream has ended in order.
    ended: Counter,
}

impl StreamWords {
    fn declare(run_id: &str, sink: &str) -> Result<Self, SchemaError> {
        let mut schema = SchemaBuilder::new(run_id);
        schema.program(PROGRAM);
        let (words, mover_id) = declare_writer(&mut schema, "mover", sink);
        schema.headline(mover_id);
        let group = words.group;
        // What the sender says of itself: nobody else sees it. Between it and what came in here stands the link.
        let (sender_id, sender) =
            schema.unbalanced_account::<Lossless>(group, "sender", sink, Unit::Events);
        let before = schema.link_drop(group);
        let link = LinkSpec::new("stream", sink).from(sender_id).to(mover_id);
        schema.link(link.drops("before_this_mover", before));
        let mut cursor = |name: &str| schema.cursor(group, name);
        let runs = ["first_run", "last_run"].map(&mut cursor);
        let given_up = ["given_up_events", "given_up_bytes"].map(&mut cursor);
        let ended = cursor("ended");
        Ok(Self {
            schema: schema.finish()?,
            sink: words,
            sender,
            before,
            runs,
            given_up,
            ended,
        })
    }
}

/// The name of the program in ledgers and records.
pub(crate) const PROGRAM: &str = "mover";

/// A stream of one sink of one run.
pub(crate) struct Stream {
    pub(crate) run_id: String,
    pub(crate) sink: String,
    pub(crate) directory: PathBuf,
    pub(crate) ledger: PathBuf,
    pub(crate) words: StreamWords,
    pub(crate) reader: LedgerReader,
    run: RunWriter,
    books: SinkBooks,
    files: HldWriter,
    /// Events and bytes that were written when it was opened.
    written_before: (u64, u64),
    pub(crate) taints: Vec<Taint>,
    pub(crate) warnings: Vec<String>,
    opened_ns: u64,
}

impl Stream {
    /// Opens the stream where its ledger says that it stands, or begins one.
    pub(crate) fn open(plan: &FilePlan, hello: &Hello<'_>) -> Result<Self, RunError> {
        let words = StreamWords::declare(hello.run_id, hello.sink)?;
        let name = format!("mover-{}-{}.ledger", hello.run_id, hello.sink);
        let path = plan.directory.join(name);
        let (memory, run) = open_ledger(&words.schema, &path)?;
        let mut books = SinkBooks::attach(&words.schema, &memory, words.sink.clone())?;
        let files = HldWriter::resume(plan.clone(), &mut books).map_err(refused)?;
        // A sender that did not hear the end comes again; its stream is over all the same.
        if books.book.value(words.ended) == 0 {
            run.set_condition(Condition::Running, Reason::None);
        }
        let written_before = books.book.tally(words.sink.account.outgoing);
        books.commit();
        Ok(Self {
            run_id: hello.run_id.to_owned(),
            sink: hello.sink.to_owned(),
            directory: plan.directory.clone(),
            ledger: path,
            reader: LedgerReader::open(&memory)?,
            words,
            run,
            books,
            files,
            written_before,
            taints: Vec::new(),
            warnings: Vec::new(),
            opened_ns: clock::monotonic_ns(),
        })
    }

    pub(crate) fn is_of(&self, hello: &Hello<'_>) -> bool {
        self.run_id == hello.run_id && self.sink == hello.sink
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.books.book.value(self.words.ended) != 0
    }

    /// Events and bytes that this mover wrote since it opened the stream.
    pub(crate) fn written_since_opened(&self) -> (u64, u64) {
        let now = self.books.book.tally(self.words.sink.account.outgoing);
        let before = self.written_before;
        (now.0 - before.0, now.1 - before.1)
    }

    /// Where the sender shall go on. What it no longer has was delivered elsewhere, or to books that are gone: a named gap.
    pub(crate) fn welcome(&mut self, hello: &Hello<'_>) -> u64 {
        let book = &mut self.books.book;
        let position = book.value(self.words.sink.head);
        if hello.position <= position {
            return position;
        }
        // Both are the sender's own counts: how many it had delivered where our books stand, and how many where it goes on. What came in here has no part in
        // it, so that nothing which was lost here hides in the gap. A sender that counts backwards has delivered nothing more.
        let said = book.tally(self.words.sender.outgoing);
        let events = hello.events.saturating_sub(said.0);
        let bytes = hello.bytes.saturating_sub(said.1);
        tracing::warn!(
            run = hello.run_id,
            events,
            "the stream begins behind its start"
        );
        book.add_tally(self.words.before, events, bytes);
        book.set(self.words.sink.head, hello.position);
        self.note_sender(hello.events, hello.bytes);
        self.books.commit();
        hello.position
    }

    /// The sender's own count, taken as it says it: the link between its books and ours closes only if both are right.
    fn note_sender(&mut self, events: u64, bytes: u64) {
        for term in [self.words.sender.incoming, self.words.sender.outgoing] {
            self.books.book.set(term.items, events);
            self.books.book.set(term.bytes, bytes);
        }
    }

    /// Writes a block and commits; says up to where the stream is written.
    pub(crate) fn store(
        &mut self,
        fields: &BlockFields,
        events: &[u8],
        leak: &mut Leak,
    ) -> Result<u64, Refusal> {
        if self.has_ended() {
            return Err(Refusal::Ended);
        }
        if fields.begin != self.books.book.value(self.words.sink.head) {
            return Err(Refusal::OutOfOrder);
        }
        if crc32fast::hash(events) != fields.crc32 {
            return Err(Refusal::Checksum);
        }
        if !are_events(events, fields) {
            return Err(Refusal::Malformed);
        }
        if self.files.prepare(fields.run, &mut self.books) {
            self.note_run(fields.run);
            self.books.commit();
        }
        let mut block = Block {
            bytes: Bytes::Own(events),
            run: fields.run,
            events: u64::from(fields.events),
        };
        while block.events > 1 && leak.take("stream") {
            block = block.without_last();
        }
        let incoming = self.words.sink.account.incoming;
        let bytes = block.bytes.len() as u64;
        self.books.book.add_tally(incoming, block.events, bytes);
        while block.events > 1 && leak.take("mover") {
            block = block.without_last();
        }
        self.files.write_block(&block, &mut self.books);
        self.note_sender(fields.events_total, fields.bytes_total);
        self.note_run(fields.run);
        self.books.book.set(self.words.sink.head, fields.end);
        self.books.commit();
        Ok(fields.end)
    }

    fn note_run(&mut self, run: u32) {
        let book = &mut self.books.book;
        let [first, last] = self.words.runs;
        if book.value(first) == 0 {
            book.set(first, u64::from(run));
        }
        book.set(last, book.value(last).max(u64::from(run)));
    }

    /// The stream is over: ends the file, takes the sender's totals into the books and gives ours.
    pub(crate) fn end(&mut self, totals: &Totals) -> Result<Totals, Refusal> {
        if totals.position < self.books.book.value(self.words.sink.head) {
            return Err(Refusal::OutOfOrder);
        }
        self.note_sender(totals.events, totals.bytes);
        let given_up = [totals.events_lost, totals.bytes_lost];
        for (word, value) in self.words.given_up.into_iter().zip(given_up) {
            self.books.book.set(word, value);
        }
        if self.has_ended() {
            self.books.commit();
            return Ok(self.totals());
        }
        self.files.finish(&mut self.books);
        self.books.book.set(self.words.ended, 1);
        self.books.commit();
        self.take_reports();
        let ours = self.totals();
        // What an earlier life of the stream could not write is in the books only.
        let removed = self.books.book.value(self.words.sink.removed_files);
        let condition = if self.taints.is_empty() && ours.events_lost == 0 && removed == 0 {
            Condition::Ended
        } else {
            Condition::Tainted
        };
        self.run
            .finish(condition, Reason::InputEnded, clock::realtime_ns());
        Ok(ours)
    }

    /// What this mover counted, and what was delivered before it.
    fn totals(&self) -> Totals {
        let book = &self.books.book;
        let taken = book.tally(self.words.sink.account.incoming);
        let before = book.tally(self.words.before);
        let lost = self.words.sink.account.losses();
        let lost = lost.map(|(_, term)| book.tally(term));
        let lost = lost.fold((0, 0), |sum, term| (sum.0 + term.0, sum.1 + term.1));
        Totals {
            position: book.value(self.words.sink.head),
            events: taken.0 + before.0,
            bytes: taken.1 + before.1,
            events_lost: lost.0,
            bytes_lost: lost.1,
        }
    }

    /// How long it has been open, in s.
    pub(crate) fn open_s(&self) -> f64 {
        (clock::monotonic_ns() - self.opened_ns) as f64 / 1e9
    }

    /// Says once that its ledger is gone from the disk.
    pub(crate) fn look_for_ledger(&mut self) {
        if !self.ledger.exists() {
            let ledger = self.ledger.display();
            let text = format!("the ledger {ledger} was removed or renamed");
            self.taints.push(Taint::new(TaintKind::OutputRemoved, text));
        }
    }

    /// The mover ends before the stream, or needs its room: the file is ended, a successor begins the next one.
    pub(crate) fn interrupt(&mut self) {
        if !self.has_ended() {
            self.files.finish(&mut self.books);
            self.books.commit();
            self.take_reports();
            self.run.finish(
                Condition::Interrupted,
                Reason::Requested,
                clock::realtime_ns(),
            );
        }
    }

    /// Looks after the open file while nothing comes.
    pub(crate) fn watch(&mut self) {
        if self.files.watch(&mut self.books) {
            self.books.commit();
        }
        self.take_reports();
    }

    fn take_reports(&mut self) {
        for report in self.files.reports() {
            match report {
                Told::Tainted(taint) => self.taints.push(taint),
                Told::Warning(text) => self.warnings.push(text),
            }
        }
    }
}

/// The files of a stream cannot be gone on with.
pub(crate) fn refused(error: SinkError) -> RunError {
    RunError::Failure(Box::new(error))
}

/// The ledger of a stream; one that a killed predecessor had not finished making is made again.
fn open_ledger(schema: &Schema, path: &Path) -> Result<(Words, RunWriter), RunError> {
    let pid = std::process::id();
    if path.exists() {
        let memory = Words::new(Mapping::open_file(path, Access::ReadWrite)?);
        match RunWriter::attach(schema, &memory, pid) {
            Ok(run) => return Ok((memory, run)),
            Err(forebay_ledger::LedgerError::Magic { found: 0 }) => {
                std::fs::remove_file(path).map_err(RunError::file("removing", path))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let (mapping, _file) = Mapping::create_file(path, schema.bytes_needed() as u64)?;
    let memory = Words::new(mapping);
    let run = RunWriter::format(schema, &memory, pid, clock::realtime_ns())?;
    Ok((memory, run))
}

/// Whether the bytes are exactly the events that the block says, all of its run.
fn are_events(mut bytes: &[u8], fields: &BlockFields) -> bool {
    let mut events = 0;
    while let Some(head) = bytes.first_chunk::<EVENT_HEADER_BYTES>() {
        let Ok(header) = EventHeader::parse(head) else {
            return false;
        };
        let length = round_up_8(u64::from(header.size));
        let whole = header.size as usize >= EVENT_HEADER_BYTES && length <= bytes.len() as u64;
        if !whole || header.run != fields.run {
            return false;
        }
        bytes = &bytes[length as usize..];
        events += 1;
    }
    bytes.is_empty() && events == fields.events
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod page {
    use super::*;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let words = StreamWords::declare("mover-1", "archive").unwrap();
        forebay_testing::accounts::assert_section("mover", &[words.schema.outline()]);
    }
}
