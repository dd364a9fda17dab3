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
    /// A capture cannot be replayed.
    #[error("capture {}: {source}", file.display())]
    Capture {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: forebay_link::pcap::CaptureError,
    },
    /// A capture holds nothing for the builder, or too much.
    #[error("{}: {found} sources of HADTU messages in {datagrams} UDP datagrams ({packets} packets); 1 to {most} can be replayed", file.display())]
    Sources {
        /// The file.
        file: PathBuf,
        /// Sources found.
        found: usize,
        /// Largest number that can be built of.
        most: usize,
        /// UDP datagrams in the capture.
        datagrams: u64,
        /// Packets in the capture.
        packets: u64,
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
