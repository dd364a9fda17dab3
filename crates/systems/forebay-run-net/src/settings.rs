//! What an end point is told.

use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_ledger::Leak;
use forebay_link::bytes::{Room, Security, Terms};
use forebay_msg::Config;
use forebay_msg::session::{Limits, Timing};
use forebay_run::error::RunError;
use forebay_run::{Host, Stop};
use forebay_wire::net::{DATA_FIELDS_BYTES, HEAD_BYTES};
use forebay_wire::netio3::HEAD_BYTES_MAX;

use forebay_run::metrics::Shown;

/// Least room for one frame: for a handful of subscriptions, however small the buffers are.
const PIECE_BYTES_MIN: usize = 4096;

/// How an end point works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How messages are gathered and bounded.
    pub messages: Config,
    /// Most connections at a time, 1 to 4096; further ones are refused with the reason `busy`. Default 128.
    pub connections_max: usize,
    /// How long a wait looks again and again before it sleeps, in ns. Default 50 µs: longer than an answer of a peer on the same host takes, and
    /// nothing that a processor notices when there is no traffic.
    pub spin_ns: u64,
    /// When a peer counts as gone.
    pub timing: Timing,
    /// When a lost connection is made again.
    pub backoff: Backoff,
    /// Whether `tcp://` is encrypted. Default: plain on loopback, and nowhere else.
    pub security: Security,
    /// Counts by tag, too.
    pub per_tag: bool,
    /// What is delivered waits for a caller that says itself what it has [taken](super::Acknowledgement::taken), or
    /// [not taken](super::Acknowledgement::untaken), in the order in which it was delivered; until then the books hold it, and its senders are told only that
    /// their buffers are free. Without this a message is confirmed when the caller has been handed it.
    pub gathers: bool,
    /// Directory of the run, with its ledger; none: the books are kept in this process alone.
    pub out: Option<PathBuf>,
    /// The page of metrics that its ledger shall be on.
    pub shown: Option<Shown>,
    /// What ends waiting: once it is asked to end, a wait for room or for a receiver; when its urgency rises, the wait for the end.
    pub stop: Option<Stop>,
    /// The fault switch of the tests, at `send` or `deliver`; off.
    pub leak: Leak,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            messages: Config::default(),
            connections_max: 128,
            spin_ns: 50_000,
            timing: Timing::default(),
            backoff: Backoff::default(),
            security: Security::default(),
            per_tag: false,
            gathers: false,
            out: None,
            shown: None,
            stop: None,
            leak: Leak::off(),
        }
    }
}

impl Settings {
    /// Under the host of a process: its order to end, its fault switch, and a metrics page at `metrics`.
    ///
    /// # Errors
    /// The address of the page is in use.
    pub fn hosted(self, host: &Host, metrics: Option<SocketAddr>) -> Result<Self, RunError> {
        Ok(Self {
            shown: host.page(metrics)?,
            stop: Some(host.stop.clone()),
            leak: host.leak.clone(),
            ..self
        })
    }
}

/// Waits between attempts to connect: each twice as long as the one before, and up to half as long again at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first, in ns. Default 10 ms.
    pub first_ns: u64,
    /// The longest, in ns. Default 1 s.
    pub most_ns: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first_ns: 10_000_000,
            most_ns: 1_000_000_000,
        }
    }
}

impl Settings {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            buffer_bytes: self.messages.buffer_bytes,
            buffer_count: self.messages.buffer_count,
        }
    }

    pub(super) fn terms(&self) -> Terms {
        Terms {
            room: self.room_of(self.messages.buffer_bytes),
            security: self.security.clone(),
        }
    }

    /// Room of a connection whose buffers take so much.
    pub(super) fn room_of(&self, buffer_bytes: u32) -> Room {
        let frame = HEAD_BYTES + DATA_FIELDS_BYTES + HEAD_BYTES_MAX;
        Room {
            piece_bytes_max: (frame + buffer_bytes as usize).max(PIECE_BYTES_MIN),
            pieces: self.messages.buffer_count as usize,
        }
    }
}
