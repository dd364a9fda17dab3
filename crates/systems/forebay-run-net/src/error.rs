//! What can stop an end point. A connection that ends stops nothing: it is counted, and made again where this side makes it.

use forebay_link::bytes::{ByteLinkError, DoorError};
use thiserror::Error;

use forebay_run::error::RunError;

/// Errors of an end point.
#[derive(Debug, Error)]
pub enum NetError {
    /// A setting outside its range.
    #[error(transparent)]
    Setting(#[from] forebay_msg::OutOfRange),
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
        "a message of {bytes} bytes is longer than a buffer of {most}; raise buffer_bytes (--buffer-bytes) on both sides, or split it"
    )]
    TooLong {
        /// Its payload.
        bytes: usize,
        /// The buffer's.
        most: u32,
    },
    /// Misuse: a page that cannot be written yet.
    #[error(
        "of the memory's bytes {from} to {to} a message is on its way; wait until it is returned"
    )]
    Lent {
        /// The first byte.
        from: usize,
        /// The one behind the last.
        to: usize,
    },
    /// Misuse: a range that the memory does not have.
    #[error("bytes {from} to {to} are not in the memory, which has {bytes}")]
    OutOfMemory {
        /// The first byte.
        from: usize,
        /// The one behind the last.
        to: usize,
        /// The memory's.
        bytes: usize,
    },
    /// Misuse: memory of a size that cannot be.
    #[error(
        "memory of {pages} pages of {page_bytes} bytes; together they may have 1 byte to 64 GiB"
    )]
    MemorySize {
        /// Pages.
        pages: usize,
        /// Bytes of each.
        page_bytes: usize,
    },
    /// Misuse: memory of another end point.
    #[error("the memory is not this end point's: it was registered with another one")]
    UnknownMemory,
    /// Misuse: a message of too many parts.
    #[error(
        "a message of {parts} parts; at most {} are possible",
        forebay_link::bytes::PARTS_MAX
    )]
    TooManyParts {
        /// Parts.
        parts: usize,
    },
    /// A signal came while something was waited for.
    #[error("interrupted while waiting")]
    Stopped,
    /// The receiver wants no more.
    #[error("the receiver has ended and takes no more")]
    Left,
    /// All publishers refused what was asked for, and would refuse it again.
    #[error("{peer} refused what was asked for, {why}")]
    Refused {
        /// The first of them.
        peer: String,
        /// The reason's name, and what it means.
        why: String,
    },
    /// Something else is there than what is looked for.
    #[error("{peer}: {what}, {times} times in a row; {remedy}")]
    NoEndPoint {
        /// Where.
        peer: String,
        /// What it says.
        what: String,
        /// How often it said so.
        times: usize,
        /// What to do.
        remedy: &'static str,
    },
    /// The two sides' certificates or encryption do not fit together.
    #[error("{what} ({times} times in a row)")]
    NotTogether {
        /// Where, what it is, and what to do.
        what: String,
        /// How often it happened.
        times: usize,
    },
    /// Subscribers that a measurement waits for did not come.
    #[error(
        "{came} of {wanted} subscribers came within {seconds} s; start the other side with the same --subscribers, --tags and --deal-tags"
    )]
    TooFewSubscribers {
        /// How many subscribed to something.
        came: usize,
        /// How many were waited for.
        wanted: u32,
        /// How long, in s.
        seconds: u64,
    },
    /// Nobody was there, or took anything, for too long.
    #[error("{peer} took nothing for {waited_ms} ms: {why}")]
    Stuck {
        /// The peer.
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
