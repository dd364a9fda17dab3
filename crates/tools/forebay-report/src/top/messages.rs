//! What an end point of messaging did.

use forebay_ledger::{NO_SUBSCRIBER, Unit};
use serde::Serialize;

use super::sample::Sample;
use super::view::{Rates, losses, unconfirmed};
use super::work::{Kind, Work, went_out};

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

/// Messages that left a place.
fn out(sample: &Sample, place: &str) -> u64 {
    let accounts = sample.verdict.balance.accounts.iter();
    went_out(accounts.filter(|line| line.place == place)).0
}

/// What it did, if it is one.
pub(super) fn messages(now: &Sample, work: &Work, rates: &Rates<'_>) -> Option<Messages> {
    let (_, bytes) = work.done(now);
    let [rate_hz, data_rate_bytes_per_s] = work.rates(now, rates);
    let unconfirmed = unconfirmed(now, Unit::Messages);
    let dropped = |is_unwanted| {
        let lines =
            losses(now).filter(|(_, _, line)| (line.reason == NO_SUBSCRIBER) == is_unwanted);
        lines.map(|(_, _, line)| line.items).sum()
    };
    (work.kind == Kind::Messages).then(|| Messages {
        sent: out(now, "send"),
        received: out(now, "receive"),
        dropped: dropped(false),
        not_subscribed: dropped(true),
        unconfirmed: unconfirmed.0,
        unconfirmed_bytes: unconfirmed.1,
        bytes,
        rate_hz,
        data_rate_bytes_per_s,
    })
}
