//! What is found in an HLD file: events, their borders, and what is wrong, place by place.

use core::fmt;

use crate::Error;
use crate::hld::{Event, EventHeader};

/// What the scanner found next.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A start event: a file begins.
    Start {
        /// Where, in bytes from the start of the input.
        offset: u64,
        /// Its header.
        header: EventHeader,
    },
    /// A complete event whose sub-events are all sound.
    Event(Found<'a>),
    /// A stop event: a file ends.
    Stop {
        /// Where, in bytes from the start of the input.
        offset: u64,
        /// Its header.
        header: EventHeader,
    },
    /// Bytes that belong to no sound event, or a missing start or stop event (0 bytes).
    Broken(Broken),
}

/// A complete event and its place.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Where it starts, in bytes from the start of the input.
    pub offset: u64,
    /// The event.
    pub event: Event<'a>,
    /// How many sub-events it holds.
    pub sub_events: u32,
}

/// How the input ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a stop event.
    Clean,
    /// After a complete event, but without a stop event.
    Boundary,
    /// With bytes that belong to no complete event.
    Cut,
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn golden_lines() {
        let reason = Reason::CutInside { size: 56, have: 40 };
        let broken = Broken {
            offset: 32,
            reason,
            bytes: 40,
        };
        assert_eq!(
            broken.to_string(),
            "at byte 32: the file ends inside of an event: 40 of 56 bytes (40 bytes skipped)"
        );
        assert_eq!(reason.name(), "cut_inside_event");
        let inner = Error::Leftover { offset: 8, room: 4 };
        assert_eq!(Reason::SubEvent(inner).name(), "leftover_bytes");
    }
}
