//! What to-flx has to say at its end.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_ledger::Closed;
use forebay_run_net::NetSummary;
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
    /// What was lost, by place and reason.
    pub drops: BTreeMap<String, u64>,
    /// For how long full rings held senders up, in seconds.
    pub held_up_seconds: f64,
    /// What the books leave over, in messages and packets together, and what they still say to be inside.
    #[serde(flatten)]
    pub books: Closed,
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// CPU time of the process, in seconds.
    pub cpu_seconds: f64,
    /// Its process.
    pub pid: u32,
    /// Why it ended, if something failed.
    pub failed: Option<String>,
    /// The cards.
    pub cards: Vec<ToFlxCardSummary>,
    /// The end point's own summary.
    pub receiver: NetSummary,
}

impl ToFlxSummary {
    /// Whether nothing is left over, and nothing left inside.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.books.is_closed()
    }

    /// Whether a card went without a farewell.
    #[must_use]
    pub fn lost_card(&self) -> bool {
        self.cards.iter().any(|card| card.times_lost > 0)
    }
}
