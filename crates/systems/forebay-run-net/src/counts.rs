//! What a connection has counted.

use forebay_msg::Inbound;
use forebay_msg::session::Session;

use crate::buffers::Outbound;

/// Items and bytes of everything that a connection counts, from its begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Given to it to be sent.
    pub(super) pushed: [u64; 2],
    /// Taken by the link.
    pub(super) sent: [u64; 2],
    /// Confirmed by the peer.
    pub(super) confirmed: [u64; 2],
    /// Dropped for want of credit.
    pub(super) slow: [u64; 2],
    /// Longer than the receiver's buffers.
    pub(super) too_long: [u64; 2],
    /// Held when the connection was lost.
    pub(super) lost: [u64; 2],
    /// In buffers.
    pub(super) held: [u64; 2],
    /// What the peer says that it has sent.
    pub(super) told: [u64; 2],
    /// Found in its buffers, and confirmed to it.
    pub(super) read: [u64; 2],
    /// Given on to be delivered.
    pub(super) handed: [u64; 2],
    /// Sent and never come, as the peer's totals say.
    pub(super) gap: [u64; 2],
    /// Come and not to be read, as the peer's buffer says.
    pub(super) broken: [u64; 2],
}

impl Counts {
    /// What the engine has counted, and how many messages and bytes were `handed` on.
    pub(super) fn of(session: &Session, outbound: Option<&Outbound>, handed: [u64; 2]) -> Self {
        let mut counts = Self {
            handed,
            ..Self::default()
        };
        if let Some(outbound) = outbound {
            counts.send(outbound);
        }
        if let Some(inbound) = session.inbound() {
            counts.receive(inbound);
        }
        counts
    }

    fn send(&mut self, outbound: &Outbound) {
        let (totals, dropped) = (outbound.totals(), outbound.dropped());
        self.pushed = outbound.pushed();
        self.held = outbound.held();
        self.sent = [totals.messages, totals.bytes];
        self.confirmed = outbound.confirmed();
        (self.slow, self.lost, self.too_long) = (dropped.slow, dropped.lost, dropped.too_long);
    }

    fn receive(&mut self, inbound: &Inbound) {
        let (totals, losses) = (inbound.totals(), inbound.losses());
        self.told = inbound.told();
        self.read = [totals.messages, totals.bytes];
        self.gap = [losses.gap_messages, losses.gap_bytes];
        self.broken = [losses.broken_messages, losses.broken_bytes];
    }
}
