//! What to-flx has to say at its end.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_run_net::NetRecord;
use serde::Serialize;

use super::books::Unwritten;
use crate::buffer_summary::CardEnd;

/// What became of what was for one card.
#[derive(Clone, Debug, Serialize)]
pub struct ToFlxCardSummary {
    /// Where it is opened.
    pub socket: String,
    /// How the last connection to it ended.
    pub end: CardEnd,
    /// How often it was opened.
    pub opened: u64,
    /// How often it went without a farewell.
    pub times_lost: u64,
    /// What the card wrote that cannot be, and why it was left therefore; the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// Messages for it.
    pub messages: u64,
    /// Messages written into its ring.
    pub written: u64,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Messages that were not, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets written into its ring.
    pub packets: u64,
    /// Packets that it has taken.
    pub packets_taken: u64,
    /// Packets that were in its ring when it went.
    pub packets_lost: u64,
    /// Packets that are in its ring, and still its own to take.
    pub packets_left: u64,
    /// Packets that others had left in its ring.
    pub packets_before: u64,
}

impl ToFlxCardSummary {
    pub(super) fn of(socket: &Path) -> Self {
        Self {
            socket: socket.display().to_string(),
            end: CardEnd::Stopped,
            opened: 0,
            times_lost: 0,
            broken: None,
            messages: 0,
            written: 0,
            written_bytes: 0,
            dropped: BTreeMap::new(),
            packets: 0,
            packets_taken: 0,
            packets_lost: 0,
            packets_left: 0,
            packets_before: 0,
        }
    }

    pub(super) fn lose(&mut self, why: Unwritten) {
        *self.dropped.entry(why.name()).or_default() += 1;
    }
}

/// What to-flx did.
#[derive(Clone, Debug, Serialize)]
pub struct ToFlxSummary {
    /// Messages that came.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Messages written into rings of cards.
    pub written: u64,
    /// Packets of them.
    pub packets: u64,
    /// For how long full rings held senders up, in s.
    pub held_up_s: f64,
    /// The cards.
    pub cards: Vec<ToFlxCardSummary>,
    /// The end point's own record; none where it failed.
    pub receiver: Option<NetRecord>,
}
