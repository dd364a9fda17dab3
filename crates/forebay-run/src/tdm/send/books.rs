//! The ledger of a sender.
//!
//! ```text
//! input ─▶ heaps (where it is of messages that keep their boundaries) ─▶ send (packets) ─▶ kernel
//! ```

use std::net::SocketAddr;
use std::path::Path;

use forebay_ledger::{
    Account, Book, Condition, Counter, GroupWriter, Leak, Reason, SchemaBuilder, Tally, Unit,
};
use forebay_tdm::sender::{Sender, Sent};

use super::input::HeapsSent;
use crate::error::RunError;
use crate::metrics::{MetricsServer, Shown};
use crate::run_dir::KeptLedger;

/// Books are shown so often, in ns.
const COMMIT_NS: u64 = 10_000_000;
const SEND_REASONS: [&str; 1] = ["refused"];
const HEAP_REASONS: [&str; 1] = ["not_sent"];

pub(super) struct Books {
    ledger: KeptLedger,
    group: GroupWriter,
    book: Book,
    send: Account,
    /// What the receivers' totals said of what was sent.
    confirmed: Tally,
    heaps: Account,
    windows: Counter,
    late: Counter,
    carried: Counter,
    /// What was counted of windows.
    counted: Sent,
    counted_heaps: HeapsSent,
    committed_ns: u64,
    leak: Leak,
    _metrics: Option<MetricsServer>,
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
        warnings: &mut Vec<String>,
    ) -> Result<Self, RunError> {
        let run_id = format!("tdm-send-{}", std::process::id());
        let name = &owner(name);
        let mut schema = SchemaBuilder::new(&run_id);
        let group = schema.group("tdm");
        let (_, heaps) = schema.account(group, "heaps", name, Unit::Messages, &HEAP_REASONS);
        let (sent, send) = schema.account(group, "send", name, Unit::Packets, &SEND_REASONS);
        let confirmed = schema.confirmed(sent);
        let help = "Windows with at least one packet";
        let windows = schema.counter(group, "windows_sent", name, help);
        let late = schema.counter(group, "windows_late", name, "Windows that began late");
        let help = "Packets that went with a later window";
        let carried = schema.counter(group, "packets_carried", name, help);
        let schema = schema.finish()?;
        let ledger = KeptLedger::open(&schema, &run_id, out, 1, warnings)?;
        let group = GroupWriter::attach(&schema, ledger.words(), group)?;
        let shown = Shown::from(ledger.reader()?);
        let server = metrics.map(|address| MetricsServer::start(address, shown));
        Ok(Self {
            book: group.restore(),
            group,
            ledger,
            send,
            confirmed,
            heaps,
            windows,
            late,
            carried,
            counted: Sent::default(),
            counted_heaps: HeapsSent::default(),
            committed_ns: 0,
            leak,
            _metrics: server.transpose()?,
        })
    }

    /// The kernel was given so many packets of so many bytes, and refused one of them for good, or none.
    #[inline]
    pub(super) fn sent(&mut self, packets: u64, bytes: u64, refused: Option<u64>) {
        let (refused, refused_bytes) = (u64::from(refused.is_some()), refused.unwrap_or(0));
        self.book.add_tally(self.send.incoming, packets, bytes);
        self.book
            .add_tally(self.send.dropped[0], refused, refused_bytes);
        let went = packets - refused;
        let went = went - self.leak.take_of("send", went);
        self.book
            .add_tally(self.send.outgoing, went, bytes - refused_bytes);
    }

    /// Heaps that came and that were sent, in all.
    pub(super) fn heaps(&mut self, came: u64, sent: u64) {
        let before = self.counted_heaps;
        (self.counted_heaps.came, self.counted_heaps.sent) = (came, sent);
        let (came, sent) = (came - before.came, sent - before.sent);
        self.book.add_tally(self.heaps.incoming, came, 0);
        self.book.add_tally(self.heaps.held, came, 0);
        self.book.add_tally(self.heaps.outgoing, sent, 0);
        self.book.sub_tally(self.heaps.held, sent, 0);
    }

    /// Brings the page up to date, when it is time.
    pub(super) fn tend(&mut self, now_ns: u64, sender: &Sender) {
        if now_ns >= self.committed_ns + COMMIT_NS {
            self.committed_ns = now_ns;
            self.commit(sender);
        }
    }

    fn commit(&mut self, sender: &Sender) {
        let (sent, sessions) = (sender.sent(), sender.sessions());
        self.book
            .set(self.confirmed.items, sessions.confirmed_packets);
        self.book
            .set(self.confirmed.bytes, sessions.confirmed_bytes);
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
    ) -> Result<[u64; 2], RunError> {
        if let Some(heaps) = heaps {
            self.heaps(heaps.came, heaps.sent);
            self.book
                .add_tally(self.heaps.dropped[0], heaps.not_sent, 0);
            self.book.sub_tally(self.heaps.held, heaps.not_sent, 0);
        }
        self.commit(sender);
        self.ledger.close(condition, reason);
        let balance = self.ledger.verdict()?.balance;
        Ok([balance.residual_items, balance.residual_bytes])
    }

    pub(super) fn keep(&mut self, summary: &impl serde::Serialize) -> Result<(), RunError> {
        self.ledger.keep_summary(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_of_any_name_has_books() {
        for name in ["north", "a<b>&\"c\"", "C:\\data", "Süd 7", &"é".repeat(32)] {
            let mut warnings = Vec::new();
            let books = Books::open(name, None, None, Leak::default(), &mut warnings).unwrap();
            let snapshot = books.ledger.reader().unwrap().snapshot().unwrap();
            assert_eq!(snapshot.balance().residual_items, 0, "{name}");
        }
        assert_eq!(owner("a\"b\\c"), "a_b_c");
    }
}
