//! What a sender or a receiver of time-division UDP did.

use forebay_ledger::Unit;
use serde::Serialize;

use super::sample::{Metrics, Sample};
use super::view::{Rates, losses, unconfirmed};
use super::work::{Kind, Work};

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

/// What it did, if it is one.
pub(super) fn packets(
    now: &Sample,
    work: &Work,
    metrics: &Metrics<'_>,
    rates: &Rates<'_>,
) -> Option<Packets> {
    let (packets, bytes) = work.done(now);
    let [rate_hz, data_rate_bytes_per_s] = work.rates(now, rates);
    let windows = ["windows_closed", "windows_sent"].into_iter();
    let of_windows = windows.flat_map(|name| metrics.named(name).map(|(.., count)| count));
    // What is lost of windows is missing in them; elsewhere are datagrams that were never theirs.
    let lost = losses(now).filter(|(place, ..)| *place != "datagrams" && *place != "heaps");
    let unconfirmed = unconfirmed(now, Unit::Packets);
    (work.kind == Kind::Packets).then(|| Packets {
        packets,
        bytes,
        dropped: lost.map(|(.., line)| line.items).sum(),
        unconfirmed: unconfirmed.0,
        unconfirmed_bytes: unconfirmed.1,
        windows: of_windows.sum(),
        rate_hz,
        data_rate_bytes_per_s,
    })
}
