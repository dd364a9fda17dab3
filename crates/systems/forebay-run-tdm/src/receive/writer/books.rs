//! The books of the writer: what it took off the queue, and what became of it.
//!
//! What is held is neither added nor taken off here: it is looked for in the streams whenever the books are shown ([`WriterBooks::holds`]).

use forebay_ledger::{
    Account, AccountId, Book, GroupId, GroupWriter, Leak, OneOf, Schema, SchemaBuilder, Tally,
    Unit, Words,
};
use forebay_run::error::RunError;
use forebay_run::removed::RemovedWords;
use forebay_sys::watched::Gone;

use super::super::found::Kind;
use super::super::heaps::{HeapDrop, HeapTally, Sum as HeapSum, Unplaced};
use super::super::streams::{Sum, WriteDrop, Written};
use super::block::Sum as BlockSum;

/// Of one sender.
#[derive(Clone, Debug)]
struct SenderWords {
    write: Account<WriteDrop>,
    heaps: Account<HeapDrop>,
    taken: Tally,
}

/// All senders' words in the writer's own group: it alone counts there.
#[derive(Clone, Debug)]
pub(in super::super) struct WriterWords {
    group: GroupId,
    senders: Vec<SenderWords>,
    removed: RemovedWords,
}

impl WriterWords {
    /// Declares those of so many senders, with the account and the cursor of each that the queue leads to.
    pub(in super::super) fn declare(
        schema: &mut SchemaBuilder,
        senders: u16,
    ) -> (Self, Vec<(AccountId, Tally)>) {
        let group = schema.group("tdm_writer");
        let mut far = Vec::new();
        let senders = (0..senders).map(|sender| {
            let owner = format!("sender{sender}");
            let (id, write) = schema.account(group, "write", &owner, Unit::Packets);
            let (_, heaps) = schema.account(group, "heaps", &owner, Unit::Messages);
            let taken = schema.cursor_tally(group, &format!("{owner}.taken"));
            far.push((id, taken));
            SenderWords {
                write,
                heaps,
                taken,
            }
        });
        let senders = senders.collect();
        let removed = RemovedWords::declare(schema, group, "", &["packets", "heaps"]);
        let words = Self {
            group,
            senders,
            removed,
        };
        (words, far)
    }
}

/// The books of the thread that writes.
pub(in super::super) struct WriterBooks {
    words: WriterWords,
    writer: GroupWriter,
    book: Book,
    heaps: Vec<HeapTally>,
    written: Vec<Written>,
    /// Bytes of streams that came and are missing in what was written, and in how many ranges.
    unwritten: (u64, u64),
    leak: Leak,
}

impl WriterBooks {
    pub(in super::super) fn open(
        schema: &Schema,
        ledger: &Words,
        words: WriterWords,
        leak: Leak,
    ) -> Result<Self, RunError> {
        let writer = GroupWriter::attach(schema, ledger, words.group)?;
        Ok(Self {
            book: writer.restore(),
            writer,
            heaps: vec![HeapTally::default(); words.senders.len()],
            written: vec![Written::default(); words.senders.len()],
            words,
            unwritten: (0, 0),
            leak,
        })
    }

    /// How many senders there are places for.
    pub(super) const fn senders(&self) -> usize {
        self.written.len()
    }

    /// Whether the tests want this packet to vanish in the queue.
    #[inline]
    pub(super) fn leaks(&mut self) -> bool {
        self.leak.take("writer_queue")
    }

    /// A packet's payload was taken off the queue.
    #[inline]
    pub(in super::super) fn took(&mut self, sender: u16, bytes: u64) {
        if let Some(words) = self.words.senders.get(usize::from(sender)) {
            self.book.add_tally(words.write.incoming, 1, bytes);
        }
    }

    /// So much has left the queue: the cursor of its far end.
    pub(in super::super) fn advance(&mut self, sender: u16, packets: u64, bytes: u64) {
        if let Some(words) = self.words.senders.get(usize::from(sender)) {
            self.book.add_tally(words.taken, packets, bytes);
        }
    }

    /// Payloads were written, or could not be.
    pub(in super::super) fn written(&mut self, sender: u16, written: &Written) {
        let at = usize::from(sender);
        let leaked = self.leak.take_of("write", written.written.packets);
        let (Some(words), Some(sum)) = (self.words.senders.get(at), self.written.get_mut(at))
        else {
            return;
        };
        sum.add(written);
        let done = written.written;
        let (bytes, ranges) = written.missing();
        self.unwritten = (self.unwritten.0 + bytes, self.unwritten.1 + ranges);
        let book = &mut self.book;
        book.add_tally(words.write.outgoing, done.packets - leaked, done.bytes);
        for (why, dropped) in written.dropped.iter() {
            book.add_tally(words.write.lost(why), dropped.packets, dropped.bytes);
        }
    }

    /// So much lies in the stream of this sender: as it was found there, not by what came and went.
    #[inline]
    pub(in super::super) fn holds(&mut self, sender: u16, packets: Sum, heaps: HeapSum) {
        if let Some(words) = self.words.senders.get(usize::from(sender)) {
            let (write, of_heaps) = (words.write.held, words.heaps.held);
            self.book.set(write.items, packets.packets);
            self.book.set(write.bytes, packets.bytes);
            self.book.set(of_heaps.items, heaps.heaps);
            self.book.set(of_heaps.bytes, heaps.bytes);
        }
    }

    /// Somebody removed or cut a file, and this went with it.
    pub(super) fn gone(&mut self, kind: Kind, gone: &Gone) {
        let at = match kind {
            Kind::Packets => 0,
            Kind::Heaps => 1,
            Kind::Lines => usize::MAX,
        };
        let removed = &self.words.removed;
        removed.add(&mut self.book, (1, gone.bytes), (at, gone.items));
        if kind == Kind::Packets {
            let (bytes, ranges) = self.unwritten;
            self.unwritten = (bytes + gone.bytes, ranges + gone.ranges.len() as u64);
        }
    }

    /// A range that found no room in the queue.
    pub(super) fn missed(&mut self, bytes: u64) {
        self.unwritten = (self.unwritten.0 + bytes, self.unwritten.1 + 1);
    }

    /// This has become of heaps.
    pub(in super::super) fn heaps(&mut self, sender: u16, became: &HeapTally) {
        let at = usize::from(sender);
        let leaked = self.leak.take_of("heaps", became.whole.heaps);
        let (Some(words), Some(sum)) = (self.words.senders.get(at), self.heaps.get_mut(at)) else {
            return;
        };
        sum.add(became);
        let (sent, whole) = (became.sent, became.whole);
        let book = &mut self.book;
        book.add_tally(words.heaps.incoming, sent.heaps, sent.bytes);
        book.add_tally(words.heaps.outgoing, whole.heaps - leaked, whole.bytes);
        for (why, dropped) in became.dropped.iter() {
            book.add_tally(words.heaps.lost(why), dropped.heaps, dropped.bytes);
        }
    }

    /// Nobody writes any more. What is in blocks that were given and not written, by the count of the giver, and what was taken and not written, is lost by name. Gives what has
    /// become of this sender's packets.
    pub(in super::super) fn write_off(&mut self, sender: usize, given: BlockSum) -> Written {
        let Some(words) = self.words.senders.get(sender) else {
            return Written::default();
        };
        let book = &mut self.book;
        let held = book.tally(words.write.held);
        book.add_tally(words.write.incoming, given.packets, given.bytes);
        book.add_tally(words.taken, given.packets, given.bytes);
        book.sub_tally(words.write.held, held.0, held.1);
        let stalled = words.write.lost(WriteDrop::WriterStalled);
        book.add_tally(stalled, given.packets + held.0, given.bytes + held.1);
        let sum = |tally: Tally| {
            let (packets, bytes) = book.tally(tally);
            Sum { packets, bytes }
        };
        let mut became = Written {
            written: sum(words.write.outgoing),
            ..Written::default()
        };
        for (why, to) in became.dropped.iter_mut() {
            *to = sum(words.write.lost(why));
            became.ranges += u64::from(to.packets > 0);
        }
        became
    }

    /// The same of this sender's heaps: those that were heard of and are neither whole nor dropped are not written.
    pub(in super::super) fn write_heaps_off(&mut self, sender: usize) -> HeapTally {
        let mut became = HeapTally::default();
        let Some(words) = self.words.senders.get(sender) else {
            return became;
        };
        let book = &mut self.book;
        let (heaps, bytes) = book.tally(words.heaps.held);
        book.sub_tally(words.heaps.held, heaps, bytes);
        let not_written = words.heaps.lost(OneOf::Second(Unplaced::NotWritten));
        book.add_tally(not_written, heaps, bytes);
        let add = |to: &mut HeapSum, tally: Tally| {
            let (heaps, bytes) = book.tally(tally);
            to.add(heaps, bytes);
        };
        add(&mut became.sent, words.heaps.incoming);
        add(&mut became.whole, words.heaps.outgoing);
        for (why, to) in became.dropped.iter_mut() {
            add(to, words.heaps.lost(why));
        }
        became
    }

    pub(in super::super) fn commit(&mut self) {
        self.writer.commit(&self.book);
    }

    /// What has become of heaps and packets of each sender, and what is missing.
    pub(super) fn end(self) -> (Vec<HeapTally>, Vec<Written>, (u64, u64)) {
        (self.heaps, self.written, self.unwritten)
    }
}
