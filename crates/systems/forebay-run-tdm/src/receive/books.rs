//! The ledger of a receiver.
//!
//! ```text
//! senders ─▶ socket, with what the kernel dropped there ─▶ datagrams (all)
//!                         data of it: hand_over (packets, by sender) ─▶ writer_queue ─▶ write (packets, by sender)
//! heaps (by sender, where its stream is of heaps): what its sender began = what is whole + what was dropped, by reason
//! windows (packets, by sender): what its reports say was sent = what came + what was lost, by cause
//! ```
//!
//! `socket` and `writer_queue` are links. What senders gave their kernels nobody here knows as datagrams, and so what `socket` brought is held against nothing: it names
//! what the kernel dropped, which never came in. Datagrams are of the session or of data, and from `datagrams` to `hand_over` the unit changes: no link joins them, nor
//! does one join what windows and heaps are told by.
//!
//! What came in is counted as a buffer is read, by what the system call says of it; what became of it, for each datagram in it.
//! The thread that receives counts what it hands over, the one that writes what it took off the queue (`writer`).
//!
//! What `hand_over` holds is looked for in the block that is being filled.
//!
//! A packet is held by its window until that is closed. Then three say what became of it: its sender's report what was sent, these books what came in the
//! windows that it stands for, and the engine what is missing among the numbers.
//!
//! A heap is in `heaps` when a piece of it was taken off the queue. Of what a writer that was given up never took nobody knows how many heaps it is: it is
//! lost as packets, in `write`.

use std::net::SocketAddr;
use std::path::Path;

use forebay_ledger::{
    Account, Book, Condition, Counter, GroupWriter, Leak, LinkSpec, OneOf, Reason, Schema,
    SchemaBuilder, Taint, Tally, Unit, Verdict, reasons,
};
use forebay_run::error::RunError;
use forebay_run::record::{Envelope, Record};
use forebay_run::removed::Removed;
use forebay_run::run_dir::KeptLedger;
use forebay_sys::gso::{DATAGRAM_BYTES, MERGED_DATAGRAMS_MAX};
use forebay_tdm::came::Came;
use forebay_tdm::receiver::{Arrival, Dropped, LossCause, Row};

use super::ReceiveSummary;
use super::heaps::HeapTally;
use super::streams::{WriteDrop, Written};
use super::writer::{Ended, Given, Sum, WriterBooks, WriterWords};

reasons! {
    /// Why a datagram does not reach the engine.
    enum Nameless {
        /// The kernel did not say where it came from.
        NoAddress = "no_address",
    }
}

reasons! {
    /// Why a packet that came is not handed to the writer.
    pub(super) enum HandOverDrop {
        /// The queue to the writer had no room.
        QueueFull = "queue_full",
    }
}

#[derive(Clone, Debug)]
struct SenderWords {
    windows: Account<LossCause>,
    hand_over: Account<HandOverDrop>,
    published: Tally,
    late_ns: Counter,
    closed: Counter,
}

/// What the kernel drops at the socket: a count alone, where it merges datagrams a lower bound.
fn with_kernel_drops(socket: LinkSpec, drops: Counter, is_merged: bool) -> LinkSpec {
    let (least, most) = DATAGRAM_BYTES;
    if is_merged {
        socket.merged_kernel_drops("socket_overflow", drops, MERGED_DATAGRAMS_MAX, least, most)
    } else {
        socket.kernel_drops("socket_overflow", drops, least, most)
    }
}

/// Packets, and bytes of payload in them.
type Packets = (u64, u64);

/// The books of a receiver.
pub(super) struct Books {
    ledger: KeptLedger,
    group: GroupWriter,
    book: Book,
    datagrams: Account<OneOf<Dropped, Nameless>>,
    senders: Vec<SenderWords>,
    /// What was put into blocks, and what found no room, by sender.
    published: Vec<Packets>,
    /// By sender, what came of each window that is not closed, in order.
    windows: Vec<Came>,
    missed: Vec<Packets>,
    overflow: Counter,
    /// The same in the link `socket`.
    kernel_drops: Counter,
    stalls: [Counter; 2],
    queue: [Counter; 2],
    /// For the writer's books, should it be given up.
    schema: Schema,
    writer: WriterWords,
    /// The fault switch of the tests: where it says, an item vanishes without being counted.
    leak: Leak,
}

impl Books {
    /// Of so many senders, of a socket at which the kernel merges datagrams or does not; in the run directory `out`, or nowhere but here.
    pub(super) fn open(
        out: Option<&Path>,
        senders: u16,
        is_merged: bool,
        leak: Leak,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(Self, WriterBooks), RunError> {
        let run_id = format!("tdm-{}", std::process::id());
        let mut schema = SchemaBuilder::new(&run_id);
        schema.program("tdm-receive");
        let group = schema.group("tdm");
        let (came, datagrams) = schema.account(group, "datagrams", "all", Unit::Datagrams);
        let kernel_drops = schema.kernel_drop(group);
        let socket = LinkSpec::new("socket", "all").to(came);
        schema.link(with_kernel_drops(socket, kernel_drops, is_merged));
        let places = usize::from(senders);
        let (writer, far) = WriterWords::declare(&mut schema, senders);
        let senders = (0..senders).zip(far).map(|(sender, (write, taken))| {
            let owner = format!("sender{sender}");
            let (_, windows) = schema.account(group, "windows", &owner, Unit::Packets);
            let (id, hand_over) = schema.account(group, "hand_over", &owner, Unit::Packets);
            let published = schema.cursor_tally(group, &format!("{owner}.published"));
            let queue = LinkSpec::new("writer_queue", &owner).from(id).to(write);
            schema.link(queue.in_flight(published, taken));
            schema.headline(write);
            let help = "Sum over windows of how late their first packets were";
            let late_ns = schema.counter(group, "window_lateness_ns", &owner, help);
            let help = "Windows that were closed";
            let closed = schema.counter(group, "windows_closed", &owner, help);
            SenderWords {
                closed,
                windows,
                hand_over,
                published,
                late_ns,
            }
        });
        let senders: Vec<SenderWords> = senders.collect();
        let help = "Datagrams that the kernel dropped at the socket; with merging on a lower bound";
        let overflow = schema.counter(group, "socket_drops", "", help);
        let stalls = [
            (
                "stalls",
                "Times in which the socket was not read and the kernel dropped datagrams there",
            ),
            ("stalled_ns", "How long they were together"),
        ];
        let stalls = stalls.map(|(name, help)| schema.counter(group, name, "", help));
        let queue = [
            ("writer_queue_capacity_bytes", "what may wait for the disk"),
            (
                "writer_queue_most_bytes",
                "what waited for the disk at most, as blocks",
            ),
        ];
        let queue = queue.map(|(name, help)| schema.gauge(group, name, "", help));
        let schema = schema.finish()?;
        let ledger = KeptLedger::open(&schema, &run_id, out, places, tell)?;
        let group = GroupWriter::attach(&schema, ledger.words(), group)?;
        let far = WriterBooks::open(&schema, ledger.words(), writer.clone(), leak.clone())?;
        let books = Self {
            book: group.restore(),
            group,
            ledger,
            datagrams,
            published: vec![(0, 0); senders.len()],
            windows: vec![Came::default(); senders.len()],
            missed: vec![(0, 0); senders.len()],
            senders,
            overflow,
            kernel_drops,
            stalls,
            queue,
            schema,
            writer,
            leak,
        };
        Ok((books, far))
    }

    /// A buffer with so many datagrams came, by the system call's own numbers.
    #[inline]
    pub(super) fn came(&mut self, datagrams: u64, bytes: u64) {
        self.book
            .add_tally(self.datagrams.incoming, datagrams, bytes);
    }

    /// This became of a datagram that came.
    #[inline]
    pub(super) fn arrived(&mut self, bytes: u64, arrival: &Arrival<'_>) {
        let place = match arrival {
            Arrival::Data { .. } | Arrival::Control(_) => self.datagrams.outgoing,
            Arrival::Dropped(why) => self.datagrams.lost(OneOf::First(*why)),
        };
        if !self.leak.take("datagrams") {
            self.book.add_tally(place, 1, bytes);
        }
        if let Arrival::Data {
            sender,
            window,
            payload,
            ..
        } = arrival
            && let Some(words) = self.senders.get(usize::from(*sender))
            && let Some(open) = self.windows.get_mut(usize::from(*sender))
        {
            open.count(*window);
            if !self.leak.take("hand_over") {
                self.book
                    .add_tally(words.hand_over.incoming, 1, payload.len() as u64);
            }
            self.book.add_tally(words.windows.incoming, 1, 0);
            self.book.add_tally(words.windows.held, 1, 0);
        }
    }

    /// Of a datagram that came the kernel did not say where from.
    pub(super) fn nameless(&mut self, bytes: u64) {
        let place = self.datagrams.lost(OneOf::Second(Nameless::NoAddress));
        self.book.add_tally(place, 1, bytes);
    }

    /// A packet's payload is in the block that is handed over next.
    #[inline]
    pub(super) fn published(&mut self, sender: u16, bytes: u64) {
        if let Some(sum) = self.published.get_mut(usize::from(sender)) {
            *sum = (sum.0 + 1, sum.1 + bytes);
        }
    }

    /// A packet's payload found no room in the queue.
    pub(super) fn missed(&mut self, sender: u16, bytes: u64) {
        let at = usize::from(sender);
        let (Some(words), Some(sum)) = (self.senders.get(at), self.missed.get_mut(at)) else {
            return;
        };
        *sum = (sum.0 + 1, sum.1 + bytes);
        let place = words.hand_over.lost(HandOverDrop::QueueFull);
        self.book.add_tally(place, 1, bytes);
    }

    /// So much lies in the block that is being filled: as it was found there, not by what came and went.
    fn holds(&mut self, gathered: impl Iterator<Item = Given>) {
        for words in &self.senders {
            self.book.set(words.hand_over.held.items, 0);
            self.book.set(words.hand_over.held.bytes, 0);
        }
        for Given { sender, handed } in gathered {
            if let Some(words) = self.senders.get(usize::from(sender)) {
                self.book.set(words.hand_over.held.items, handed.packets);
                self.book.set(words.hand_over.held.bytes, handed.bytes);
            }
        }
    }

    /// These are handed over, all that there is: it is in the books before it happens, so that nobody finds more taken than was given.
    pub(super) fn handed_over(&mut self, given: impl Iterator<Item = Given>) {
        for Given { sender, handed } in given {
            let at = usize::from(sender);
            let (Some(words), Some(published)) = (self.senders.get(at), self.published.get(at))
            else {
                continue;
            };
            let (packets, bytes) = (handed.packets, handed.bytes);
            self.book
                .add_tally(words.hand_over.outgoing, packets, bytes);
            self.book.set(words.published.items, published.0);
            self.book.set(words.published.bytes, published.1);
        }
        self.commit(std::iter::empty());
    }

    /// The writer was given up, with so much of each sender in blocks that it has not written: that is lost by name, in its own books, which it touches no more. A block
    /// that it was in the middle of counts as not written. Were the blocks others than those that were handed over, the rest would be said to be in the queue.
    pub(super) fn write_off(&mut self, outstanding: &[Sum]) -> Result<Ended, RunError> {
        let writer = self.writer.clone();
        let mut far = WriterBooks::open(&self.schema, self.ledger.words(), writer, Leak::off())?;
        let outstanding = outstanding.iter().enumerate();
        let written: Vec<Written> = outstanding
            .map(|(sender, given)| far.write_off(sender, *given))
            .collect();
        let heaps = (0..written.len()).map(|sender| far.write_heaps_off(sender));
        let heaps: Vec<HeapTally> = heaps.collect();
        far.commit();
        let missing = written.iter().map(Written::missing).chain(
            // Those that found no room are in no list that anybody can rely on.
            self.missed
                .iter()
                .map(|(packets, bytes)| (*bytes, u64::from(*packets > 0))),
        );
        let unwritten = missing.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        let stalled = written
            .iter()
            .map(|it| it.dropped[WriteDrop::WriterStalled]);
        let stalled = stalled.fold((0, 0), |sum, it| (sum.0 + it.packets, sum.1 + it.bytes));
        Ok(Ended {
            heaps,
            handed_on: vec![None; written.len()],
            written,
            unwritten,
            wrong: 0,
            failed: Some(format!(
                "the streams' writer got on with nothing and was given up at the order to end: {} packets with {} bytes that came are not written (writer_stalled); --rows, --histograms and --report have no end",
                stalled.0, stalled.1
            )),
        })
    }

    /// Packets and bytes of each sender that found no room.
    pub(super) fn missed_by_sender(&self) -> &[Packets] {
        &self.missed
    }

    /// The socket was not read for so long, and that cost datagrams.
    pub(super) fn stalled(&mut self, times: u64, ns: u64) {
        let [all, long] = self.stalls;
        self.book.add(all, times);
        self.book.add(long, ns);
    }

    /// How much may wait for the disk, and how much did at most.
    pub(super) fn queue(&mut self, (capacity, most): (u64, u64)) {
        let words = self.queue;
        self.book.set(words[0], capacity);
        self.book.set(words[1], most);
    }

    /// A window is closed. Its account is of packets: of those that were lost nobody knows the bytes.
    pub(super) fn closed(&mut self, row: &Row) {
        let at = usize::from(row.sender);
        let (Some(words), Some(open)) = (self.senders.get(at), self.windows.get_mut(at)) else {
            return;
        };
        let came = open.close_up_to(row.window_last);
        let leaked = self.leak.take_of("windows", came);
        // From now on its sender's word says what came into it.
        self.book.add_tally(words.windows.incoming, row.sent, 0);
        self.book.sub_tally(words.windows.incoming, came, 0);
        self.book.sub_tally(words.windows.held, came, 0);
        self.book
            .add_tally(words.windows.outgoing, came - leaked, 0);
        for (cause, packets) in row.lost.iter() {
            self.book.add_tally(words.windows.lost(cause), packets, 0);
        }
        self.book.add(words.closed, 1);
        self.book.add(words.late_ns, u64::from(row.lateness_ns));
    }

    /// The kernel dropped so many.
    pub(super) fn overflowed(&mut self, datagrams: u64) {
        self.book.add(self.overflow, datagrams);
        self.book.add(self.kernel_drops, datagrams);
    }

    /// Shows them; so much is in the block that is being filled.
    pub(super) fn commit(&mut self, gathered: impl Iterator<Item = Given>) {
        self.holds(gathered);
        self.group.commit(&self.book);
    }

    pub(super) fn heartbeat(&self) {
        self.ledger.heartbeat();
    }

    /// Answers Prometheus at an address.
    pub(super) fn page(&mut self, address: Option<SocketAddr>) -> Result<(), RunError> {
        self.ledger.page(address).map(|_| ())
    }

    /// Closes them; what the audit will say.
    pub(super) fn close(
        &mut self,
        condition: Condition,
        reason: Reason,
        taints: Vec<Taint>,
    ) -> Result<(Verdict, Envelope), RunError> {
        self.ledger.end(condition, reason, taints)
    }

    /// What is gone of the files, as the books were last shown.
    pub(super) fn removed_output(&self) -> Result<Removed, RunError> {
        Ok(Removed::of(&self.ledger.reader()?.snapshot()?))
    }

    pub(super) fn keep(&mut self, record: &mut Record<ReceiveSummary>) -> Result<(), RunError> {
        self.ledger.keep(record)
    }
}

#[cfg(test)]
mod tests;
