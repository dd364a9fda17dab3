//! The ledger of a receiver.
//!
//! ```text
//! socket, with what the kernel dropped there ─▶ datagrams (all) ─▶ write (packets, by sender)
//! heaps (by sender, where its stream is of heaps): what its sender began = what is whole + what was dropped, by reason
//! windows (packets, by sender): what its reports say was sent = what came + what was lost, by cause
//! ```
//!
//! A packet is held by its window until that is closed; what was lost of the window goes into the books then.

use std::path::Path;

use forebay_ledger::{
    Account, Book, Condition, Counter, GroupWriter, Leak, LedgerReader, Reason, SchemaBuilder, Unit,
};
use forebay_tdm::receiver::{Arrival, Drop, Lost, Row};
use forebay_wire::tdm::TdmError as Malformed;

use super::heaps::{HeapTally, REASONS as HEAP_REASONS};
use super::streams::{REASONS as WRITE_REASONS, Written};
use crate::error::RunError;
use crate::run_dir::KeptLedger;

/// Why a datagram was not taken, in front of those of its format.
const DATAGRAM_REASONS: [&str; 8] = [
    "duplicate",
    "late",
    "ahead",
    "unexpected",
    "foreign_session",
    "wrong_key",
    "no_address",
    "socket_overflow",
];
const NO_ADDRESS: usize = 6;
const SOCKET_OVERFLOW: usize = 7;

#[derive(Clone, Debug)]
struct SenderWords {
    windows: Account,
    write: Account,
    heaps: Account,
    late_ns: Counter,
    closed: Counter,
}

/// The books of a receiver.
pub(super) struct Books {
    ledger: KeptLedger,
    group: GroupWriter,
    book: Book,
    datagrams: Account,
    senders: Vec<SenderWords>,
    heaps: Vec<HeapTally>,
    overflow: Counter,
    /// Bytes of streams that came and are missing in what was written, and in how many ranges.
    pub(super) unwritten: (u64, u64),
    /// The fault switch of the tests: where it says, an item vanishes without being counted.
    leak: Leak,
}

impl Books {
    /// Of so many senders; in the run directory `out`, or nowhere but here.
    pub(super) fn open(
        out: Option<&Path>,
        senders: u16,
        leak: Leak,
        warnings: &mut Vec<String>,
    ) -> Result<Self, RunError> {
        let run_id = format!("tdm-{}", std::process::id());
        let mut schema = SchemaBuilder::new(&run_id);
        let group = schema.group("tdm");
        let reasons: Vec<&str> = DATAGRAM_REASONS
            .iter()
            .chain(&Malformed::REASONS)
            .copied()
            .collect();
        let (_, datagrams) = schema.account(group, "datagrams", "all", Unit::Datagrams, &reasons);
        let causes = Lost::default().by_cause().map(|(cause, _)| cause);
        let places = usize::from(senders);
        let senders = (0..senders).map(|sender| {
            let owner = format!("sender{sender}");
            let (_, windows) = schema.account(group, "windows", &owner, Unit::Packets, &causes);
            let (_, write) = schema.account(group, "write", &owner, Unit::Packets, &WRITE_REASONS);
            let (_, heaps) = schema.account(group, "heaps", &owner, Unit::Messages, &HEAP_REASONS);
            let help = "Sum over windows of how late their first packets were";
            let late_ns = schema.counter(group, "window_lateness_ns", &owner, help);
            let help = "Windows that were closed";
            let closed = schema.counter(group, "windows_closed", &owner, help);
            SenderWords {
                closed,
                windows,
                write,
                heaps,
                late_ns,
            }
        });
        let senders: Vec<SenderWords> = senders.collect();
        let help = "Datagrams that the kernel dropped at the socket; with merging on a lower bound";
        let overflow = schema.counter(group, "socket_drops", "", help);
        let schema = schema.finish()?;
        let ledger = KeptLedger::open(&schema, &run_id, out, places, warnings)?;
        let group = GroupWriter::attach(&schema, ledger.words(), group)?;
        Ok(Self {
            book: group.restore(),
            group,
            ledger,
            datagrams,
            heaps: vec![HeapTally::default(); senders.len()],
            senders,
            overflow,
            unwritten: (0, 0),
            leak,
        })
    }

    /// How many of so many items vanish at a hop.
    fn leaks(&mut self, hop: &str, items: u64) -> u64 {
        let mut leaked = 0;
        while leaked < items && self.leak.take(hop) {
            leaked += 1;
        }
        leaked
    }

    /// A datagram came, and this became of it.
    #[inline]
    pub(super) fn arrived(&mut self, bytes: u64, arrival: &Arrival<'_>) {
        self.book.add_tally(self.datagrams.incoming, 1, bytes);
        let place = match arrival {
            Arrival::Data { .. } | Arrival::Control(_) => self.datagrams.outgoing,
            Arrival::Dropped(why) => {
                let at = match why {
                    Drop::Duplicate => 0,
                    Drop::Late => 1,
                    Drop::Ahead => 2,
                    Drop::Unexpected => 3,
                    Drop::Foreign => 4,
                    Drop::Key => 5,
                    Drop::Malformed(error) => DATAGRAM_REASONS.len() + error.index(),
                };
                self.datagrams.dropped[at]
            }
        };
        if !self.leak.take("datagrams") {
            self.book.add_tally(place, 1, bytes);
        }
        if let Arrival::Data {
            sender, payload, ..
        } = arrival
            && let Some(words) = self.senders.get(usize::from(*sender))
        {
            self.book
                .add_tally(words.write.incoming, 1, payload.len() as u64);
            self.book
                .add_tally(words.write.held, 1, payload.len() as u64);
            self.book.add_tally(words.windows.incoming, 1, 0);
            self.book.add_tally(words.windows.held, 1, 0);
        }
    }

    /// A datagram came, and the kernel did not say where from.
    pub(super) fn nameless(&mut self, bytes: u64) {
        self.book.add_tally(self.datagrams.incoming, 1, bytes);
        if let Some(place) = self.datagrams.dropped.get(NO_ADDRESS) {
            self.book.add_tally(*place, 1, bytes);
        }
    }

    /// Payloads were written, or could not be.
    pub(super) fn written(&mut self, sender: u16, written: &Written) {
        let leaked = self.leaks("write", written.written.packets);
        let Some(words) = self.senders.get(usize::from(sender)) else {
            return;
        };
        let (done, settled) = (written.written, written.settled());
        let (bytes, ranges) = written.missing();
        self.unwritten = (self.unwritten.0 + bytes, self.unwritten.1 + ranges);
        let book = &mut self.book;
        book.add_tally(words.write.outgoing, done.packets - leaked, done.bytes);
        for (place, dropped) in words.write.dropped.iter().zip(&written.dropped) {
            book.add_tally(*place, dropped.packets, dropped.bytes);
        }
        book.sub_tally(words.write.held, settled.packets, settled.bytes);
    }

    /// This has become of heaps.
    pub(super) fn heaps(&mut self, sender: u16, became: &HeapTally) {
        let at = usize::from(sender);
        let leaked = self.leaks("heaps", became.whole.heaps);
        let (Some(words), Some(sum)) = (self.senders.get(at), self.heaps.get_mut(at)) else {
            return;
        };
        sum.add(became);
        let (sent, whole) = (became.sent, became.whole);
        let book = &mut self.book;
        book.add_tally(words.heaps.incoming, sent.heaps, sent.bytes);
        book.add_tally(words.heaps.held, sent.heaps, sent.bytes);
        book.add_tally(words.heaps.outgoing, whole.heaps - leaked, whole.bytes);
        book.sub_tally(words.heaps.held, whole.heaps, whole.bytes);
        for (place, dropped) in words.heaps.dropped.iter().zip(&became.dropped) {
            book.add_tally(*place, dropped.heaps, dropped.bytes);
            book.sub_tally(words.heaps.held, dropped.heaps, dropped.bytes);
        }
    }

    /// What has become of the heaps of each sender.
    pub(super) fn heaps_by_sender(&self) -> Vec<HeapTally> {
        self.heaps.clone()
    }

    /// A window is closed. Its account is of packets: of those that were lost nobody knows the bytes.
    pub(super) fn closed(&mut self, row: &Row) {
        let leaked = self.leaks("windows", row.received);
        let Some(words) = self.senders.get(usize::from(row.sender)) else {
            return;
        };
        // What came of it is in the account since then.
        self.book.add_tally(words.windows.incoming, row.sent, 0);
        self.book.sub_tally(words.windows.incoming, row.received, 0);
        self.book.sub_tally(words.windows.held, row.received, 0);
        self.book
            .add_tally(words.windows.outgoing, row.received - leaked, 0);
        for (place, (_, packets)) in words.windows.dropped.iter().zip(row.lost.by_cause()) {
            self.book.add_tally(*place, packets, 0);
        }
        self.book.add(words.closed, 1);
        self.book.add(words.late_ns, u64::from(row.lateness_ns));
    }

    /// The kernel dropped so many.
    pub(super) fn overflowed(&mut self, datagrams: u64) {
        self.book.add(self.overflow, datagrams);
        // Nobody tells their bytes.
        self.book.add_tally(self.datagrams.incoming, datagrams, 0);
        if let Some(place) = self.datagrams.dropped.get(SOCKET_OVERFLOW) {
            self.book.add_tally(*place, datagrams, 0);
        }
    }

    pub(super) fn commit(&mut self) {
        self.group.commit(&self.book);
    }

    pub(super) fn heartbeat(&self) {
        self.ledger.heartbeat();
    }

    /// For whoever shows them.
    pub(super) fn reader(&self) -> Result<LedgerReader, RunError> {
        self.ledger.reader()
    }

    pub(super) fn close(&mut self, condition: Condition, reason: Reason) {
        self.ledger.close(condition, reason);
    }

    pub(super) fn keep(&mut self, summary: &impl serde::Serialize) -> Result<(), RunError> {
        self.ledger.keep_summary(summary)
    }
}
