//! What stops a probe.

use forebay_link::packet::PacketError;
use forebay_link::pcap::CaptureError;
use forebay_run::error::RunError;
use forebay_run::whole_file::BeginError;
use thiserror::Error;

/// Errors of the flow probe.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The capture cannot be opened.
    #[error(transparent)]
    Unopened(CaptureError),
    /// The capture is none, or broken.
    #[error("{path}: {source}")]
    Capture {
        /// Where it is.
        path: String,
        /// What is wrong with it.
        source: CaptureError,
    },
    /// The interface cannot be read.
    #[error(transparent)]
    Interface(#[from] PacketError),
    /// A setting of the engine.
    #[error(transparent)]
    Setting(#[from] forebay_flow::ConfigError),
    /// An output cannot be begun.
    #[error(transparent)]
    Output(#[from] BeginError),
    /// The collector is not there.
    #[error("{collector}: {source}; give --export the HOST:PORT where a collector listens")]
    Collector {
        /// Where it should be.
        collector: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The same exporter is asked for twice.
    #[error("{0} is given twice; leave one --export of it out")]
    Twice(String),
    /// Books, files, the system.
    #[error(transparent)]
    Run(#[from] RunError),
}
