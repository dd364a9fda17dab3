//! The ledger of a sender.
//!
//! ```text
//! input ─▶ heaps (where it is of messages that keep their boundaries) ─▶ send (packets) ─▶ kernel
//! ```
//!
//! A heap is cut into packets and a packet holds several heaps: the unit changes, and so no link joins the two. Of heaps the input counts what came, the cutter what
//! was wholly sent, and its queue is what is held. A packet comes in when it is made and is held until the kernel has answered; what went on is what the system call said
//! that it took.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;

use forebay_ledger::{
    Account, Book, Condition, Counter, GroupWriter, Leak, Reason, SchemaBuilder, Taint, Tally,
    Unit, reasons,
};
use forebay_run::error::RunError;
use forebay_run::record::{Envelope, Record};
use forebay_run::run_dir::KeptLedger;
use forebay_sys::gso::SEGMENTS_MAX;
use forebay_tdm::sender::{Sender, Sent};

use super::SendSummary;
use super::input::HeapsSent;

/// Books are shown so often, in ns.
const COMMIT_NS: u64 = 10_000_000;

reasons! {
    /// Why a packet that was made is not sent.
    enum SendDrop {
        /// The kernel refused it for good.
        Refused = "refused",
        /// The session was over before the kernel took it: its bytes go with a packet of the next one.
        Withdrawn = "withdrawn",
    }
}

reasons! {
    /// Why a heap that came is not sent.
    enum HeapDrop {
        /// The end came before it, or within it.
        NotSent = "not_sent",
    }
}

pub(super) struct Books {
    ledger: KeptLedger,
    group: GroupWriter,
    book: Book,
    send: Account<SendDrop>,
    /// Packets that were made and that the kernel has not answered for, by the bytes of their payload; the next one first.
    made: VecDeque<u64>,
    /// What the receivers' totals said of what was sent.
    confirmed: Tally,
    heaps: Account<HeapDrop>,
    windows: Counter,
    late: Counter,
    carried: Counter,
    /// What was counted of windows.
    counted: Sent,
    counted_heaps: HeapsSent,
    committed_ns: u64,
    leak: Leak,
}

/// A sender may have a name that no owner of accounts may have: what a label of metrics cannot hold is an underscore there.
fn owner(name: &str) -> String {
    let held = |sign: char| !sign.is_control() && !matches!(sign, '"' | '\\');
    name.chars()
        .map(|sign| if held(sign) { sign } else { '_' })
        .collect()
}

impl Books {
    /// In the run directory `out`, or nowhere but here; on a page of metrics, where one is wanted.
    pub(super) fn open(
        name: &str,
        out: Option<&Path>,
        metrics: Option<SocketAddr>,
        leak: Leak,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let run_id = format!("tdm-send-{}", std::process::id());
        let name = &owner(name);
        let mut schema = SchemaBuilder::new(&run_id);
        schema.program("tdm-send");
        let group = schema.group("tdm");
        let (_, heaps) = schema.account(group, "heaps", name, Unit::Messages);
        let (sent, send) = schema.account(group, "send", name, Unit::Packets);
        schema.headline(sent);
        let confirmed = schema.confirmed(sent);
        let help = "Windows with at least one packet";
        let windows = schema.counter(group, "windows_sent", name, help);
        let late = schema.counter(group, "windows_late", name, "Windows that began late");
        let help = "Packets that went with a later window";
        let carried = schema.counter(group, "packets_carried", name, help);
        let schema = schema.finish()?;
        let mut ledger = KeptLedger::open(&schema, &run_id, out, 1, tell)?;
        let group = GroupWriter::attach(&schema, ledger.words(), group)?;
        ledger.page(metrics)?;
        Ok(Self {
            book: group.restore(),
            group,
            ledger,
            send,
            made: VecDeque::with_capacity(SEGMENTS_MAX),
            confirmed,
            heaps,
            windows,
            late,
            carried,
            counted: Sent::default(),
            counted_heaps: HeapsSent::default(),
            committed_ns: 0,
            leak,
        })
    }

    /// The packet that is `ahead` packets behind the next one is made, with so many bytes of payload. One that the kernel did not take before is made again, and is no
    /// other.
    #[inline]
    pub(super) fn made(&mut self, ahead: usize, bytes: u64) {
        if ahead >= self.made.len() {
            self.book.add_tally(self.send.incoming, 1, bytes);
            self.book.add_tally(self.send.held, 1, bytes);
            self.made.push_back(bytes);
        }
    }

    /// The kernel took so many packets of so many bytes of payload, by the system call's answer.
    #[inline]
    pub(super) fn taken(&mut self, packets: u64, bytes: u64) {
        let went = packets - self.leak.take_of("send", packets);
        self.book.add_tally(self.send.outgoing, went, bytes);
    }

    /// The kernel refused a packet for good.
    pub(super) fn refused(&mut self, bytes: u64) {
        self.drop(SendDrop::Refused, bytes);
    }

    fn drop(&mut self, why: SendDrop, bytes: u64) {
        self.book.add_tally(self.send.lost(why), 1, bytes);
    }

    /// The stream goes on behind so many packets: they are held no more.
    #[inline]
    pub(super) fn passed(&mut self, packets: usize) {
        for bytes in self.made.drain(..packets.min(self.made.len())) {
            self.book.sub_tally(self.send.held, 1, bytes);
        }
    }

    /// A session is over: what was made for it and not taken will be made anew, if at all.
    pub(super) fn withdraw(&mut self) {
        while let Some(bytes) = self.made.pop_front() {
            self.drop(SendDrop::Withdrawn, bytes);
            self.book.sub_tally(self.send.held, 1, bytes);
        }
    }

    /// Heaps that came and that were sent, in all, and those that wait.
    pub(super) fn heaps(&mut self, came: u64, sent: u64, waiting: u64) {
        let before = self.counted_heaps;
        (self.counted_heaps.came, self.counted_heaps.sent) = (came, sent);
        let (came, sent) = (came - before.came, sent - before.sent);
        let went = sent - self.leak.take_of("heaps", sent);
        self.book.add_tally(self.heaps.incoming, came, 0);
        self.book.add_tally(self.heaps.outgoing, went, 0);
        self.book.set(self.heaps.held.items, waiting);
    }

    /// Brings the page up to date, when it is time.
    pub(super) fn tend(&mut self, now_ns: u64, sender: &Sender) {
        if now_ns >= self.committed_ns + COMMIT_NS {
            self.committed_ns = now_ns;
            self.commit(sender);
        }
    }

    fn commit(&mut self, sender: &Sender) {
        let sessions = sender.sessions();
        let confirmed = [sessions.confirmed_packets, sessions.confirmed_bytes];
        self.show(sender.sent(), confirmed);
    }

    /// Shows what was sent in all, and packets and bytes that the receiver has confirmed.
    fn show(&mut self, sent: &Sent, [packets, bytes]: [u64; 2]) {
        self.book.set(self.confirmed.items, packets);
        self.book.set(self.confirmed.bytes, bytes);
        let counted = std::mem::replace(&mut self.counted, *sent);
        self.book.add(self.windows, sent.windows - counted.windows);
        self.book.add(self.late, sent.late - counted.late);
        self.book.add(self.carried, sent.carried - counted.carried);
        self.group.commit(&self.book);
        self.ledger.heartbeat();
    }

    /// The end, which came as it is said; what is left of heaps was not sent.
    pub(super) fn close(
        &mut self,
        sender: &Sender,
        heaps: Option<HeapsSent>,
        (condition, reason): (Condition, Reason),
        taints: Vec<Taint>,
    ) -> Result<Envelope, RunError> {
        self.withdraw();
        if let Some(heaps) = heaps {
            self.heaps(heaps.came, heaps.sent, 0);
            let place = self.heaps.lost(HeapDrop::NotSent);
            self.book.add_tally(place, heaps.not_sent, 0);
        }
        self.commit(sender);
        Ok(self.ledger.end(condition, reason, taints)?.1)
    }

    pub(super) fn keep(&mut self, record: &mut Record<SendSummary>) -> Result<(), RunError> {
        self.ledger.keep(record)
    }
}

#[cfg(test)]
mod tests {
    use forebay_tdm::sender::SenderConfig;
    use forebay_wire::tdm::Carries;

    use super::*;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let outline = open("send:0").ledger.reader().unwrap().outline();
        forebay_testing::accounts::assert_section("tdm-send", &[outline]);
    }

    fn open(leak: &str) -> Books {
        let leak = Leak::parse(leak, crate::hops::SEND).unwrap();
        Books::open("north", None, None, leak, &mut |_| {}).unwrap()
    }

    fn lines(books: &mut Books) -> Vec<forebay_ledger::AccountLine> {
        books.group.commit(&books.book);
        books.ledger.verdict().unwrap().balance.accounts
    }

    #[test]
    fn packets_are_counted_when_made_and_when_the_kernel_answers() {
        let mut books = open("send:0");
        (0..5).for_each(|ahead| books.made(ahead, 100 + ahead as u64));
        // Two went, one is refused, and two are made again with a third.
        books.taken(2, 201);
        books.refused(102);
        books.passed(3);
        (0..3).for_each(|ahead| books.made(ahead, 103 + ahead as u64));
        let send = lines(&mut books).remove(1);
        assert_eq!((send.incoming.items, send.incoming.bytes), (6, 615));
        assert_eq!((send.outgoing.items, send.outgoing.bytes), (2, 201));
        assert_eq!((send.held.items, send.held.bytes), (3, 312));
        assert!(send.residual.is_zero(), "{send:?}");
        books.taken(1, 103);
        books.passed(1);
        books.withdraw();
        let send = lines(&mut books).remove(1);
        let mut leaking = open("send:3");
        leaking.taken(2, 80);
        leaking.taken(4, 160);
        let outgoing = leaking.send.outgoing;
        assert_eq!(leaking.book.tally(outgoing), (3, 240), "three leaked");
        let dropped = send
            .dropped
            .iter()
            .map(|it| (it.reason.as_str(), it.items, it.bytes_min));
        assert_eq!(
            dropped.collect::<Vec<_>>(),
            [("refused", 1, 102), ("withdrawn", 2, 209)]
        );
        assert!(send.residual.is_zero() && send.held.items == 0, "{send:?}");
    }

    #[test]
    fn heaps_are_counted_by_input_cutter_and_queue() {
        let mut books = open("heaps:2");
        books.heaps(7, 3, 4);
        let heaps = lines(&mut books).remove(0);
        assert_eq!((heaps.incoming.items, heaps.outgoing.items), (7, 1));
        assert_eq!(
            (heaps.held.items, heaps.residual.items),
            (4, 2),
            "two leaked"
        );
        books.heaps(9, 6, 2);
        let heaps = lines(&mut books).remove(0);
        assert_eq!(
            (heaps.outgoing.items, heaps.residual.items),
            (4, 3),
            "9 came, 6 sent, 2 wait: one is nowhere"
        );
    }

    #[test]
    fn windows_are_counted_once_and_the_page_is_brought_up_to_date_in_time() {
        let directory = tempfile::tempdir().unwrap();
        let (out, leak) = (Some(directory.path()), Leak::off());
        let mut books = Books::open("north", out, None, leak, &mut |_| {}).unwrap();
        let reader = books.ledger.reader().unwrap();
        let shown = |books: &Books| {
            let snapshot = reader.snapshot().unwrap();
            let words = [books.windows, books.late, books.carried];
            (
                words.map(|it| snapshot.value(it)),
                snapshot.tally(books.confirmed),
            )
        };
        let mut sent = Sent::default();
        for times in 1..=3 {
            sent = Sent {
                windows: 10 * times,
                late: 5 * times,
                carried: 3 * times,
                ..sent
            };
            books.show(&sent, [times, 100 * times]);
        }
        assert_eq!(shown(&books), ([30, 15, 9], (3, 300)));
        books.counted = Sent::default();
        let config = SenderConfig {
            name: "north".into(),
            nonce: 1,
            share: 1,
            carries: Carries::Bytes,
            packet_bytes_max: 1500,
            repeat: false,
            wait_ns: 0,
            lateness_ns: 0,
            real_time: false,
            key: None,
        };
        let sender = Sender::new(config, 0);
        let begin = 7 * COMMIT_NS;
        books.tend(begin, &sender);
        assert_eq!(
            shown(&books),
            ([30, 15, 9], (0, 0)),
            "nothing is confirmed to it"
        );
        books.made(0, 50);
        let made = books.send.incoming;
        books.tend(begin + COMMIT_NS - 1, &sender);
        assert_eq!(reader.snapshot().unwrap().tally(made), (0, 0));
        books.tend(begin + COMMIT_NS, &sender);
        assert_eq!(reader.snapshot().unwrap().tally(made), (1, 50));
    }

    #[test]
    fn a_sender_of_any_name_has_books() {
        for name in ["north", "a<b>&\"c\"", "C:\\data", "Süd 7", &"é".repeat(32)] {
            let books = Books::open(name, None, None, Leak::default(), &mut |_| {}).unwrap();
            let snapshot = books.ledger.reader().unwrap().snapshot().unwrap();
            assert_eq!(snapshot.balance().residual_items, 0, "{name}");
        }
        assert_eq!(owner("a\"b\\c"), "a_b_c");
    }
}
