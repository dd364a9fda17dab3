//! Lost ranges: which trigger numbers of which source are in no event, and why.

use forebay_ledger::{DropReason, reasons};

reasons! {
    /// Why a source is missing in an event; the names are those of the loss table.
    pub enum Cause {
        /// It showed nothing before the time-out.
        Timeout = "timeout",
        /// It went on with a later trigger number.
        Skipped = "skipped_trigger",
        /// It had closed.
        Closed = "source_closed",
        /// What it sent did not carry the event's tag.
        TagMismatch = "tag_mismatch",
        /// What it sent in its place did not carry a number that can be true.
        Astray = "out_of_window",
        /// What it sent in its place came, and the receiver dropped it by name.
        Dropped = "dropped_by_receiver",
    }
}

impl Cause {
    /// Whether nothing came, as far as is known when the event is closed.
    pub(crate) fn never_came(self) -> bool {
        match self {
            Self::Timeout | Self::Skipped | Self::Closed => true,
            Self::TagMismatch | Self::Astray | Self::Dropped => false,
        }
    }

    /// The number of a cause in a word of the ledger, in which 0 is none.
    pub(crate) fn code(self) -> u64 {
        self.index() as u64 + 1
    }

    pub(crate) fn from_code(code: u64) -> Option<Self> {
        Self::all().find(|cause| cause.code() == code)
    }
}

/// A range of trigger numbers that one source is missing in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostRange {
    /// Index of the source.
    pub source: usize,
    /// First trigger number.
    pub first: u32,
    /// Last trigger number, inclusive.
    pub last: u32,
    /// Number of events concerned.
    pub items: u64,
    /// Bytes of what came and was not taken; 0 where nothing came: nobody can know what it would have been.
    pub bytes: u64,
    /// Why.
    pub cause: Cause,
}

/// Joins single losses of one source to ranges.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OpenRange(Option<LostRange>);

impl OpenRange {
    pub(crate) fn restored(range: Option<LostRange>) -> Self {
        Self(range)
    }

    pub(crate) fn range(&self) -> Option<&LostRange> {
        self.0.as_ref()
    }

    /// Adds one loss; returns the range that it ends, if it does not continue it.
    pub(crate) fn add(
        &mut self,
        source: usize,
        trigger: u32,
        follows: u32,
        cause: Cause,
        bytes: u64,
    ) -> Option<LostRange> {
        if let Some(open) = &mut self.0
            && open.cause == cause
            && open.last == follows
        {
            open.last = trigger;
            open.items += 1;
            open.bytes += bytes;
            return None;
        }
        self.0.replace(LostRange {
            source,
            first: trigger,
            last: trigger,
            items: 1,
            bytes,
            cause,
        })
    }

    /// Ends the range.
    pub(crate) fn close(&mut self) -> Option<LostRange> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_losses_of_one_cause_are_one_range() {
        let mut open = OpenRange::default();
        assert_eq!(open.add(3, 10, 9, Cause::Timeout, 0), None);
        assert_eq!(open.add(3, 11, 10, Cause::Timeout, 0), None);
        let ended = open.add(3, 12, 11, Cause::Closed, 0).unwrap();
        assert_eq!((ended.first, ended.last, ended.items), (10, 11, 2));
        let ended = open.add(3, 20, 19, Cause::TagMismatch, 40).unwrap();
        assert_eq!(
            (ended.first, ended.last, ended.cause),
            (12, 12, Cause::Closed)
        );
        assert_eq!(open.add(3, 21, 20, Cause::TagMismatch, 60), None);
        let ended = open.close().unwrap();
        assert_eq!((ended.first, ended.last, ended.bytes), (20, 21, 100));
        assert_eq!(open.close(), None);
    }

    #[test]
    fn causes_survive_their_code() {
        for cause in Cause::all() {
            assert_eq!(Cause::from_code(cause.code()), Some(cause));
        }
        assert_eq!(Cause::from_code(0), None);
        assert_eq!(Cause::from_code(9), None);
    }
}
