//! What can stop a run, and whose fault it is.

use std::path::PathBuf;

use thiserror::Error;

/// Errors of the assembly.
#[derive(Debug, Error)]
pub enum RunError {
    /// The builder's settings are out of range.
    #[error("configuration of the builder: {0}")]
    Builder(#[from] forebay_evb::ConfigError),
    /// A remote mover would not take what a sink sends.
    #[error(transparent)]
    Mover(#[from] crate::plan::MoverLimit),
    /// A sink's queue can never take the largest event.
    #[error(transparent)]
    QueueTooSmall(#[from] crate::plan::QueueTooSmall),
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
    /// Misuse: a stage or a sink was started that the plan does not have.
    #[error("the plan has no {what}")]
    NotInPlan {
        /// What was asked for.
        what: &'static str,
    },
    /// Misuse: a sink that writes nothing was given a queue and a thread.
    #[error("sink {sink} has no writer: a null sink is a part of the builder")]
    SinkWithoutWriter {
        /// Its name.
        sink: String,
    },
    /// Configuration: the fault switch.
    #[error(transparent)]
    Leak(#[from] forebay_ledger::LeakError),
    /// Resource: a stage is alive and does not get to work.
    #[error("the {stage} does not get ready within {limit_s} s")]
    NotReady {
        /// Which.
        stage: &'static str,
        /// How long it had, in s.
        limit_s: u64,
    },
    /// Misuse: a stage that is a thread panicked.
    #[error("the thread of the {stage} panicked")]
    Panicked {
        /// Which.
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
    /// More sources are asked for than a capture has.
    #[error(
        "{asked} sources are asked for, and {} holds {found}; leave the number out, or name the first port too: these ports are then sources, silent or not",
        file.display()
    )]
    SourcesMissing {
        /// The file.
        file: PathBuf,
        /// How many are asked for.
        asked: usize,
        /// How many there are.
        found: usize,
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
    /// The certificates with which E-links are subscribed to.
    #[error("E-links: {0}")]
    Certificates(#[from] Box<crate::net::CertificateError>),
    /// The subscriber of E-links cannot go on.
    #[error("E-links: {0}")]
    Elinks(#[source] Box<crate::net::NetError>),
    /// Configuration: the emulator's settings are wrong.
    #[error("emulator: {0}")]
    Emulator(#[from] forebay_emu::ConfigError),
}

impl RunError {
    /// A message of `bytes` bytes that is no `what`.
    pub(crate) fn not_understood(
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
    pub(crate) fn not_sayable(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
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
