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
    /// Somebody there asked for that end before the input's, and nobody here did.
    pub interrupted: bool,
    /// It was told when to begin: it may have sent.
    pub has_begun: bool,
    /// Starts before this one that may have sent, and never told their totals.
    pub starts_untold: u32,
    /// The last window of this start that is known of.
    pub last_window: Option<u32>,
}

impl PeerTotals {
    /// This start has told what it sent, or can have sent nothing.
    #[must_use]
    pub const fn has_told(&self) -> bool {
        self.own.is_some() || !self.has_begun
    }

    /// No start in this place has been told when it begins: none has sent.
    pub(super) const fn never_began(&self) -> bool {
        !self.has_begun && self.restarts == 0
    }

    /// Whether `sent` is all that it sent: of a start that ended without its totals it is what was reported or came, and what it sent beyond that is in no
    /// account.
    #[must_use]
    pub const fn sent_is_known(&self) -> bool {
        self.has_told() && self.starts_untold == 0
    }

    /// What is neither received nor lost of what was sent: 0.
    #[must_use]
    pub fn residual(&self) -> i64 {
        self.sent.cast_signed() - self.received.cast_signed() - self.lost.total().cast_signed()
    }
}
