//! What can stop a run, and whose fault it is.

use std::path::PathBuf;

use thiserror::Error;

use crate::hops::VARIABLE;

/// Errors of the assembly.
#[derive(Debug, Error)]
pub enum RunError {
    /// The books cannot be declared.
    #[error("books: {0}")]
    Schema(#[from] forebay_ledger::SchemaError),
    /// The ledger is not this run's.
    #[error("ledger: {0}")]
    Ledger(#[from] forebay_ledger::LedgerError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] forebay_sys::SysError),
    /// The channel between supervisor and stage broke.
    #[error("control channel: {0}")]
    Control(#[from] forebay_sys::control::ControlError),
    /// A ring's memory or peer is wrong.
    #[error("ring: {0}")]
    Ring(#[from] forebay_ring::RingError),
    /// Peer: what came over the control channel is not what it should be.
    #[error("control channel: {bytes} bytes are no {what}: {source}")]
    NotUnderstood {
        /// What it should be.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// Where it goes wrong.
        source: serde_json::Error,
    },
    /// Misuse: a message cannot be written down for the control channel.
    #[error("control channel: this {what} cannot be written down: {source}")]
    NotSayable {
        /// What it is.
        what: &'static str,
        /// Why not.
        source: serde_json::Error,
    },
    /// Peer: the supervisor handed over less than the stage needs.
    #[error("the supervisor handed over no descriptor for the {what}")]
    PartMissing {
        /// What lacks.
        what: &'static str,
    },
    /// Configuration: the fault switch.
    #[error("{VARIABLE}: {0}")]
    Leak(#[from] forebay_ledger::LeakError),
    /// Resource: a stage is alive and does not get to work.
    #[error("the {stage} does not get ready within {limit_s} s")]
    NotReady {
        /// Name of the stage.
        stage: &'static str,
        /// How long it had, in s.
        limit_s: u64,
    },
    /// Misuse: a stage that is a thread panicked.
    #[error("the thread of the {stage} panicked")]
    Panicked {
        /// Name of the stage.
        stage: &'static str,
    },
    /// A socket failed.
    #[error(transparent)]
    Link(#[from] forebay_link::LinkError),
    /// A file of the run cannot be made or written.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A stage ended by itself before it was ready.
    #[error("the {stage} did not begin ({how}); what it said stands above")]
    NotBegun {
        /// Name of the stage.
        stage: &'static str,
        /// Exit status.
        how: String,
    },
    /// A stage died more often than it may.
    #[error("the {stage} died {times} times; the last time: {how}")]
    StageDied {
        /// Name of the stage.
        stage: String,
        /// How often.
        times: u32,
        /// Exit status or signal.
        how: String,
    },
    /// More ports are asked for than there are from the first one on.
    #[error(
        "{count} ports from {base_port} on: the last would be beyond 65535; choose a lower first port"
    )]
    Ports {
        /// The first one.
        base_port: u16,
        /// How many.
        count: usize,
    },
    /// The error of a system.
    #[error(transparent)]
    Failure(Box<dyn std::error::Error + Send + Sync>),
}

impl RunError {
    /// A message of `bytes` bytes that is no `what`.
    pub fn not_understood(
        what: &'static str,
        bytes: usize,
    ) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::NotUnderstood {
            what,
            bytes,
            source,
        }
    }

    /// A `what` that cannot be written down.
    pub fn not_sayable(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::NotSayable { what, source }
    }

    /// Makes a file error.
    pub fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }
}
