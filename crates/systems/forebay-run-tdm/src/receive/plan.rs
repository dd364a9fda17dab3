//! What a receiver is asked to do.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use forebay_tdm::key::Key;
use forebay_tdm::plan::PlanInput;

use super::{OriginalCsv, Output};

/// What a receiver does.
#[derive(Clone, Debug)]
pub struct ReceivePlan {
    /// Where it listens.
    pub bind: SocketAddr,
    /// Senders that are planned.
    pub senders: u16,
    /// Port, mode, and what is set by hand.
    pub port: PlanInput,
    /// Windows of each sender; 0: until their inputs end.
    pub windows: u32,
    /// How long to wait for all senders since the first is ready; none: without end.
    pub wait: Option<Duration>,
    /// From the plan to the first window.
    pub lead: Duration,
    /// One that says nothing for so long is taken for dead.
    pub silence: Duration,
    /// From a window's report until it is closed.
    pub settle: Duration,
    /// The key that senders must have, too.
    pub key: Option<Key>,
    /// It may listen beyond this host's loopback without a key.
    pub no_key: bool,
    /// What becomes of payloads.
    pub output: Output,
    /// Directory of ledger and record; none: that of the payloads, or nothing is kept.
    pub out: Option<PathBuf>,
    /// A line for each window, into the output's directory.
    pub rows: bool,
    /// A file in the original's form, into the output's directory.
    pub csv: Option<OriginalCsv>,
    /// A file for the histograms of travel time, lateness of windows and error of the clock, of each sender.
    pub histograms: Option<PathBuf>,
    /// Bytes that may wait for the disk; [`super::default_queue_bytes`] is usual.
    pub writer_queue_bytes: u64,
    /// Where Prometheus is answered.
    pub metrics: Option<SocketAddr>,
    /// A CPU for its thread.
    pub cpu: Option<usize>,
    /// The host's CPUs may sleep during a session; else they are kept awake, where they may.
    pub cpus_may_sleep: bool,
    /// Datagrams are taken one by one, without the kernel's merging.
    pub no_gro: bool,
}
