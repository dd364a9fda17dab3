//! What a card or to-host did with chunks.

use forebay_ledger::Unit;
use serde::Serialize;

use super::sample::Sample;
use super::view::Rates;
use super::work::{Kind, Work};

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

/// What it did, if it is one.
pub(super) fn chunks(now: &Sample, work: &Work, rates: &Rates<'_>) -> Option<Chunks> {
    let (items, bytes) = work.done(now);
    let [rate_hz, data_rate_bytes_per_s] = work.rates(now, rates);
    let accounts = now.verdict.balance.accounts.iter();
    let of_chunks = accounts.filter(|line| line.unit == Unit::Chunks);
    let lost = of_chunks.flat_map(|line| &line.dropped);
    (work.kind == Kind::Chunks).then(|| Chunks {
        chunks: items,
        bytes,
        dropped: lost.map(|line| line.items).sum(),
        rate_hz,
        data_rate_bytes_per_s,
    })
}
