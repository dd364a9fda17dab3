//! What a card or to-host did with chunks.

use forebay_ledger::Unit;
use serde::Serialize;

use super::sample::Sample;
use super::view::Rates;

/// Chunks that went on: into DMA buffers, or to subscribers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Chunks {
    pub(super) chunks: u64,
    pub(super) bytes: u64,
    /// Lost by name, in chunks.
    pub(super) dropped: u64,
    pub(super) rate_hz: f64,
    pub(super) data_rate_bytes_per_s: f64,
}

/// Chunks and bytes that went on.
fn out(sample: &Sample) -> (u64, u64) {
    let accounts = &sample.verdict.balance.accounts;
    let lines = accounts.iter().filter(|line| line.unit == Unit::Chunks);
    lines.fold((0, 0), |sum, line| {
        (sum.0 + line.outgoing.items, sum.1 + line.outgoing.bytes)
    })
}

/// Whether a ledger is that of a part of link readout: a builder of events takes chunks too.
pub(super) fn is_of(sample: &Sample) -> bool {
    let accounts = &sample.verdict.balance.accounts;
    let has = |unit| accounts.iter().any(|line| line.unit == unit);
    has(Unit::Chunks) && !has(Unit::Events)
}

/// What it did, if it is one.
pub(super) fn chunks(now: &Sample, rates: &Rates<'_>) -> Option<Chunks> {
    let (items, bytes) = out(now);
    let accounts = now.verdict.balance.accounts.iter();
    let of_chunks = accounts.filter(|line| line.unit == Unit::Chunks);
    let lost = of_chunks.flat_map(|line| &line.dropped);
    is_of(now).then(|| Chunks {
        chunks: items,
        bytes,
        dropped: lost.map(|line| line.items).sum(),
        rate_hz: rates.of(items, |sample| out(sample).0),
        data_rate_bytes_per_s: rates.of(bytes, |sample| out(sample).1),
    })
}
