//! A data path in miniature: sender → socket → receiver → ring → builder. Only the books are real.
#![allow(dead_code, reason = "each test file uses a part of it")]

use forebay_ledger::{
    Account, Book, Condition, Counter, GroupWriter, Leak, LedgerReader, LinkSpec, Lossless, Reason,
    RunWriter, Schema, SchemaBuilder, Snapshot, Supervisor, Tally, Unit, Verdict, Words, audit,
    reasons,
};

/// Bytes of the item with number `n`.
pub(crate) fn size_of(n: u64) -> u64 {
    100 + n % 7
}

pub(crate) struct Pipeline {
    pub(crate) memory: Words,
    pub(crate) run: RunWriter,
    pub(crate) leak: Leak,
    writers: [GroupWriter; 3],
    books: [Book; 3],
    sender: Account,
    receiver: Account<ReceiverDrop>,
    builder: Account<BuilderDrop>,
    kernel: Counter,
    published: Tally,
    taken: Tally,
    ring: Vec<u64>,
}

reasons! {
    /// Why the receiver drops datagrams.
    enum ReceiverDrop {
        Length = "malformed_length",
        Full = "ring_full",
    }
}

reasons! {
    /// Why the builder does.
    enum BuilderDrop {
        Timeout = "timeout",
    }
}

impl Pipeline {
    pub(crate) fn new(leak: &str) -> Self {
        let mut s = SchemaBuilder::new("run 7");
        let groups = ["sender", "receiver", "builder"].map(|name| s.group(name));
        let [g_send, g_recv, g_build] = groups;
        let (a, sender) = s.account::<Lossless>(g_send, "sender", "source17", Unit::Datagrams);
        let (b, receiver) =
            s.account::<ReceiverDrop>(g_recv, "receiver", "source17", Unit::Datagrams);
        let (c, builder) =
            s.account::<BuilderDrop>(g_build, "builder", "source17", Unit::Datagrams);
        let kernel = s.kernel_drop(g_recv);
        let published = s.cursor_tally(g_recv, "published");
        let taken = s.cursor_tally(g_build, "taken");
        s.link(
            LinkSpec::new("socket", "source17")
                .from(a)
                .to(b)
                .kernel_drops("buffer_full", kernel, 100, 106)
                .bound_items(64),
        );
        s.link(
            LinkSpec::new("ring", "source17")
                .from(b)
                .to(c)
                .in_flight(published, taken),
        );
        let schema: Schema = s.finish().unwrap();
        let memory = Words::zeroed(schema.words_needed());
        let run = RunWriter::format(&schema, &memory, 4711, 1_000).unwrap();
        run.set_condition(Condition::Running, Reason::None);
        let writers = groups.map(|group| GroupWriter::attach(&schema, &memory, group).unwrap());
        let books = [0, 1, 2].map(|index: usize| writers[index].restore());
        let leak = if leak.is_empty() {
            Leak::off()
        } else {
            leak.parse().unwrap()
        };
        let ring = Vec::new();
        Self {
            memory,
            run,
            leak,
            writers,
            books,
            sender,
            receiver,
            builder,
            kernel,
            published,
            taken,
            ring,
        }
    }

    /// Sends item `n`; every 10th is lost in the kernel, every 15th malformed.
    pub(crate) fn send(&mut self, n: u64) {
        let bytes = size_of(n);
        let [send, recv, _] = &mut self.books;
        send.add_tally(self.sender.incoming, 1, bytes);
        if self.leak.take("sender") {
            return;
        }
        send.add_tally(self.sender.outgoing, 1, bytes);
        if self.leak.take("socket") {
            return;
        }
        if n.is_multiple_of(10) {
            recv.add(self.kernel, 1);
            return;
        }
        recv.add_tally(self.receiver.incoming, 1, bytes);
        if n.is_multiple_of(15) {
            recv.add_tally(self.receiver.lost(ReceiverDrop::Length), 1, bytes);
            return;
        }
        if self.leak.take("receiver") {
            return;
        }
        recv.add_tally(self.receiver.outgoing, 1, bytes);
        if self.leak.take("ring") {
            return;
        }
        recv.add_tally(self.published, 1, bytes);
        self.ring.push(bytes);
    }

    /// Takes up to `limit` items from the ring into the builder.
    pub(crate) fn build(&mut self, limit: usize) {
        let [_, _, build] = &mut self.books;
        for bytes in self.ring.drain(..limit.min(self.ring.len())) {
            build.add_tally(self.taken, 1, bytes);
            build.add_tally(self.builder.incoming, 1, bytes);
            if self.leak.take("builder") {
                continue;
            }
            build.add_tally(self.builder.held, 1, bytes);
        }
    }

    /// Lets go of everything held.
    pub(crate) fn write_all(&mut self) {
        let build = &mut self.books[2];
        let (items, bytes) = build.tally(self.builder.held);
        build.sub_tally(self.builder.held, items, bytes);
        build.add_tally(self.builder.outgoing, items, bytes);
    }

    pub(crate) fn commit(&mut self) {
        for (writer, book) in self.writers.iter_mut().zip(&self.books) {
            writer.commit(book);
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        LedgerReader::open(&self.memory)
            .unwrap()
            .snapshot()
            .unwrap()
    }

    pub(crate) fn audit(&self, supervisor: Supervisor) -> Verdict {
        audit(&self.snapshot(), supervisor)
    }
}
