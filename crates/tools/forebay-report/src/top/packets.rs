//! What a sender or a receiver of time-division UDP did.

use forebay_ledger::Unit;
use serde::Serialize;

use super::sample::{Metrics, Sample};
use super::view::{Rates, losses, unconfirmed};

/// Packets of all senders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Packets {
    /// Given to the kernel by a sender, or written by a receiver.
    pub(super) packets: u64,
    /// Bytes of payload in them.
    pub(super) bytes: u64,
    /// Lost by name.
    pub(super) dropped: u64,
    /// Sent, and confirmed by no receiver's totals; of a live sender, all of the session.
    pub(super) unconfirmed: u64,
    /// Bytes of payload in them.
    pub(super) unconfirmed_bytes: u64,
    /// Windows that were sent in, or closed.
    pub(super) windows: u64,
    pub(super) rate_hz: f64,
    pub(super) data_rate_bytes_per_s: f64,
}

/// The place whose packets have gone on. A receiver's windows have them, too: those that should have come.
fn place(sample: &Sample) -> Option<&'static str> {
    let accounts = &sample.verdict.balance.accounts;
    let has = |place: &str| {
        let mut lines = accounts.iter();
        lines.any(|line| line.unit == Unit::Packets && line.place == place)
    };
    match (has("windows"), has("send")) {
        (true, _) => Some("write"),
        (false, true) => Some("send"),
        (false, false) => None,
    }
}

/// Packets and bytes that went on.
fn out(sample: &Sample) -> (u64, u64) {
    let place = place(sample).unwrap_or_default();
    let accounts = sample.verdict.balance.accounts.iter();
    let lines = accounts.filter(|line| line.unit == Unit::Packets && line.place == place);
    lines.fold((0, 0), |sum, line| {
        (sum.0 + line.outgoing.items, sum.1 + line.outgoing.bytes)
    })
}

/// Whether a ledger is that of one.
pub(super) fn is_of(sample: &Sample) -> bool {
    place(sample).is_some()
}

/// What it did, if it is one.
pub(super) fn packets(now: &Sample, metrics: &Metrics<'_>, rates: &Rates<'_>) -> Option<Packets> {
    let (packets, bytes) = out(now);
    let windows = ["windows_closed", "windows_sent"].into_iter();
    let of_windows = windows.flat_map(|name| metrics.named(name).map(|(.., count)| count));
    // What is lost of windows is missing in them; elsewhere are datagrams that were never theirs.
    let lost = losses(now).filter(|(place, ..)| *place != "datagrams" && *place != "heaps");
    let unconfirmed = unconfirmed(now, Unit::Packets);
    is_of(now).then(|| Packets {
        packets,
        bytes,
        dropped: lost.map(|(.., line)| line.items).sum(),
        unconfirmed: unconfirmed.0,
        unconfirmed_bytes: unconfirmed.1,
        windows: of_windows.sum(),
        rate_hz: rates.of(packets, |sample| out(sample).0),
        data_rate_bytes_per_s: rates.of(bytes, |sample| out(sample).1),
    })
}
