//! What a caller that gathers says of messages that were delivered.

use crate::books::Untaken;
use crate::end_point::{EndPoint, Role};

/// An end point that takes such words.
pub(super) trait Acknowledges {
    fn taken(&mut self, messages: u64, bytes: u64);
    fn untaken(&mut self, why: Untaken, messages: u64, bytes: u64);
    fn removed(&mut self, files: u64, messages: u64, bytes: u64);
    fn decline(&mut self);
}

impl<R: Role> Acknowledges for EndPoint<R> {
    fn taken(&mut self, messages: u64, bytes: u64) {
        Self::taken(self, messages, bytes);
    }

    fn untaken(&mut self, why: Untaken, messages: u64, bytes: u64) {
        Self::untaken(self, why, messages, bytes);
    }

    fn removed(&mut self, files: u64, messages: u64, bytes: u64) {
        self.books.removed(files, messages, bytes);
    }

    fn decline(&mut self) {
        self.declines = true;
    }
}

/// Says what has become of messages that were delivered, the oldest first, for a caller that [gathers](super::Settings::gathers). What nothing is said of stays in
/// the books as held, and is confirmed to nobody: its senders count it as unconfirmed.
pub struct Acknowledgement<'a> {
    end_point: &'a mut dyn Acknowledges,
}

impl std::fmt::Debug for Acknowledgement<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acknowledgement").finish_non_exhaustive()
    }
}

impl<'a> Acknowledgement<'a> {
    pub(super) fn by(end_point: &'a mut dyn Acknowledges) -> Self {
        Self { end_point }
    }

    /// The oldest so many messages that were delivered, of so many bytes, have taken effect: they are in the caller's hands now, and only now confirmed to
    /// their senders.
    pub fn taken(self, messages: u64, bytes: u64) {
        self.end_point.taken(messages, bytes);
    }

    /// The oldest so many messages that were delivered, of so many bytes, were thrown away by the caller: their loss is in these books, by name. What was not wanted is
    /// confirmed, too. What could not be written is not, and nothing behind it that came over the same connection: their sender counts it as unconfirmed.
    pub fn untaken(self, why: Untaken, messages: u64, bytes: u64) {
        self.end_point.untaken(why, messages, bytes);
    }

    /// Somebody removed or cut so many of the caller's files, and so many messages of so many bytes went with them that had taken effect. Their senders were told that
    /// they came: that they are gone stands in these books.
    pub fn removed(self, files: u64, messages: u64, bytes: u64) {
        self.end_point.removed(files, messages, bytes);
    }

    /// What comes from now on is lost as not wanted, confirmed as such, and handed to nobody: the caller has enough.
    pub fn decline(self) {
        self.end_point.decline();
    }
}
