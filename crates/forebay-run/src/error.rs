//! What can stop a run, and whose fault it is.

use std::path::PathBuf;

use thiserror::Error;

/// Errors of the assembly.
#[derive(Debug, Error)]
pub enum RunError {
    /// The builder's settings are out of range.
    #[error("configuration of the builder: {0}")]
    Builder(#[from] forebay_evb::ConfigError),
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
    /// A stage got something else than its plan.
    #[error("stage: {0}")]
    Stage(String),
    /// A socket failed.
    #[error("receiving on port {port}: {detail}")]
    Receive {
        /// Index of the port.
        port: usize,
        /// What the kernel said, in words.
        detail: String,
        /// The error.
        source: std::io::Error,
    },
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
    /// A stage died more often than it may.
    #[error("the {stage} died {times} times; the last time: {how}")]
    StageDied {
        /// Which.
        stage: String,
        /// How often.
        times: u32,
        /// Exit status or signal.
        how: String,
    },
    /// The emulator's settings are wrong.
    #[error("emulator: {0}")]
    Emulator(String),
}

impl RunError {
    /// Makes a file error.
    pub fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }
}
