//! What can go wrong between a client and the daemon.

use forebay_ring::RingError;
use forebay_sys::SysError;
use thiserror::Error;

use crate::protocol::{MessageError, Refusal};

/// Why a client is none, or is one no longer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The system refuses: nobody listens there, say.
    #[error(transparent)]
    System(#[from] SysError),
    /// The daemon refuses.
    #[error("the multiplexer refuses: {0}")]
    Refused(Refusal),
    /// The daemon did not answer in time.
    #[error("the multiplexer has not answered within {waited_ms} ms")]
    Silent {
        /// How long it was waited for, ms.
        waited_ms: u128,
    },
    /// The daemon has ended the connection, or is dead: connect again.
    #[error("the multiplexer is gone; connect again")]
    Gone,
    /// What came is no message of a daemon.
    #[error("the multiplexer sent what is no answer: {0}")]
    Message(#[from] MessageError),
    /// A message came that is not due.
    #[error("the multiplexer sent {found} where {expected} is due")]
    Unexpected {
        /// What was due.
        expected: &'static str,
        /// What came.
        found: &'static str,
    },
    /// The memory that came is not what it should be, or a position in it is impossible.
    #[error("shared memory of the multiplexer: {0}")]
    Ring(#[from] RingError),
}

/// Why a frame is not sent.
#[derive(Debug, Error)]
pub enum SendError {
    /// All buffers are with the daemon; [`crate::Client::wait`] wakes when some are back.
    #[error("all {frames} buffers are on their way: wait until some are back")]
    Full {
        /// How many there are.
        frames: u32,
    },
    /// It is no frame that the link takes.
    #[error("a frame of {found} bytes; {least} to {most} can be sent")]
    Length {
        /// Its bytes.
        found: usize,
        /// Least that a frame has.
        least: usize,
        /// Most that the link takes.
        most: usize,
    },
    /// It is no client any longer.
    #[error(transparent)]
    Client(#[from] ClientError),
}
