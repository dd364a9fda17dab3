//! What is known of a sender, in numbers.

use forebay_wire::tdm::{Carries, End, Ready};

use super::row::Lost;

/// Where a sender stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerState {
    /// It learns our clock.
    #[default]
    Joined,
    /// It waits for the start, or sends.
    Ready,
    /// It has told its totals.
    Ended,
    /// It fell silent.
    Dead,
}

/// What is known of a sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerTotals {
    /// Its name.
    pub name: String,
    /// What its stream holds.
    pub carries: Carries,
    /// Starts under that name before this one.
    pub restarts: u32,
    /// Where it stands.
    pub state: PeerState,
    /// What it measured of itself.
    pub ready: Ready,
    /// Windows that were closed.
    pub windows: u64,
    /// Packets sent, by its reports, and by numbers where one is missing.
    pub sent: u64,
    /// Packets that came.
    pub received: u64,
    /// Bytes of payload in them.
    pub payload_bytes: u64,
    /// Packets that did not come.
    pub lost: Lost,
    /// Packets that came more than once.
    pub duplicates: u64,
    /// Packets that came after a later one.
    pub reordered: u64,
    /// Packets that waited for a later window.
    pub carried: u64,
    /// Windows in which nothing was sent.
    pub preempted: u64,
    /// Overlaps, front and back together.
    pub overlaps: u64,
    /// Windows whose reports never came.
    pub unreported: u64,
    /// Reports that contradicted others, and were left out.
    pub bad_reports: u64,
    /// Its own totals, from its end.
    pub own: Option<End>,
}

impl PeerTotals {
    /// What is neither received nor lost of what was sent: 0.
    #[must_use]
    pub fn residual(&self) -> i64 {
        self.sent.cast_signed() - self.received.cast_signed() - self.lost.total().cast_signed()
    }
}
