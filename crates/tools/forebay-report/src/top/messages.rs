//! What an end point of messaging did.

use forebay_ledger::{NO_SUBSCRIBER, Unit};
use serde::Serialize;

use super::sample::Sample;
use super::view::{Rates, losses, unconfirmed};
use super::work::{Kind, Work};

/// Messages of an end point, in all copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Messages {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Lost by name.
    pub(super) dropped: u64,
    /// With tags that nobody had asked for, which is no loss.
    pub(super) not_subscribed: u64,
    /// Sent, and confirmed by no peer; of a live one, all that is on its way.
    pub(super) unconfirmed: u64,
    /// Bytes of their payloads.
    pub(super) unconfirmed_bytes: u64,
    /// Bytes of the payloads of those sent and received.
    pub(super) bytes: u64,
    pub(super) rate_hz: f64,
    pub(super) data_rate_bytes_per_s: f64,
}

/// Items and bytes that left a place.
fn out(sample: &Sample, place: &str) -> (u64, u64) {
    let accounts = &sample.verdict.balance.accounts;
    let lines = accounts.iter().filter(|line| line.place == place);
    lines.fold((0, 0), |sum, line| {
        (sum.0 + line.outgoing.items, sum.1 + line.outgoing.bytes)
    })
}

/// What it did, if it is one.
pub(super) fn messages(now: &Sample, work: &Work, rates: &Rates<'_>) -> Option<Messages> {
    let (items, bytes) = work.done(now);
    let unconfirmed = unconfirmed(now, Unit::Messages);
    let dropped = |is_unwanted| {
        let lines =
            losses(now).filter(|(_, _, line)| (line.reason == NO_SUBSCRIBER) == is_unwanted);
        lines.map(|(_, _, line)| line.items).sum()
    };
    (work.kind == Kind::Messages).then(|| Messages {
        sent: out(now, "send").0,
        received: out(now, "receive").0,
        dropped: dropped(false),
        not_subscribed: dropped(true),
        unconfirmed: unconfirmed.0,
        unconfirmed_bytes: unconfirmed.1,
        bytes,
        rate_hz: rates.of(items, |sample| work.done(sample).0),
        data_rate_bytes_per_s: rates.of(bytes, |sample| work.done(sample).1),
    })
}
