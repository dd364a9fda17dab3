//! What can be wrong with an HLD file, place by place.

use core::fmt;

use crate::Error;

/// A place in a file that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Where, in bytes from the start of the input.
    pub offset: u64,
    /// What is wrong there.
    pub reason: Reason,
    /// Bytes that were skipped; 0 when something is missing.
    pub bytes: u64,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            offset,
            reason,
            bytes,
        } = self;
        write!(f, "at byte {offset}: {reason} ({bytes} bytes skipped)")
    }
}

/// What is wrong at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// No event header where one should be.
    #[error("no event header: {0}")]
    Header(Error),
    /// An event whose sub-events do not make sense.
    #[error("bad sub-event: {0}")]
    SubEvent(Error),
    /// An event that reaches over the start of another one: its size or a sub-event's is wrong.
    #[error("another event starts inside of this one, {offset} bytes on")]
    EventInside {
        /// Where the other one starts, from the start of this event.
        offset: u64,
    },
    /// An event larger than the scanner may hold.
    #[error("event of {size} bytes, the limit is {limit}")]
    BeyondLimit {
        /// The event's size field.
        size: u32,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file ends inside of an event.
    #[error("the file ends inside of an event: {have} of {size} bytes")]
    CutInside {
        /// The event's size field.
        size: u32,
        /// Bytes that are there.
        have: u64,
    },
    /// Events without a start event before them.
    #[error("no start event")]
    NoStartEvent,
    /// The end of the file, or another start event, without a stop event before it.
    #[error("no stop event")]
    NoStopEvent,
}

impl Reason {
    /// A short name, fit for a counter, a label or a JSON field.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Header(error) | Self::SubEvent(error) => error.reason(),
            Self::EventInside { .. } => "event_inside_event",
            Self::BeyondLimit { .. } => "beyond_limit",
            Self::CutInside { .. } => "cut_inside_event",
            Self::NoStartEvent => "no_start_event",
            Self::NoStopEvent => "no_stop_event",
        }
    }
}
