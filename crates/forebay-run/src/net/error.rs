//! What can stop an end point. A connection that ends stops nothing: it is counted, and made again where this side makes it.

use forebay_link::bytes::{ByteLinkError, DoorError};
use thiserror::Error;

use crate::error::RunError;

/// Errors of an end point.
#[derive(Debug, Error)]
pub enum NetError {
    /// A setting outside its range.
    #[error(transparent)]
    Setting(#[from] forebay_msg::ConfigError),
    /// It cannot listen.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// The backend cannot be used at all.
    #[error(transparent)]
    Link(#[from] ByteLinkError),
    /// No room for a measurement.
    #[error("the histogram cannot be made: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
    /// The books or the system.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Misuse: a message longer than a buffer.
    #[error(
        "a message of {bytes} bytes is longer than a buffer of {most}; raise buffer_bytes on both sides, or split it"
    )]
    TooLong {
        /// Its payload.
        bytes: usize,
        /// The buffer's.
        most: u32,
    },
    /// A signal came while something was waited for.
    #[error("interrupted while waiting")]
    Stopped,
    /// The receiver wants no more.
    #[error("the receiver has ended and takes no more")]
    Left,
    /// Nobody was there, or took anything, for too long.
    #[error("{peer} took nothing for {waited_ms} ms: {why}")]
    Stuck {
        /// Who.
        peer: String,
        /// How long.
        waited_ms: u64,
        /// What is known.
        why: String,
    },
}

impl From<forebay_sys::SysError> for NetError {
    fn from(error: forebay_sys::SysError) -> Self {
        Self::Run(error.into())
    }
}
