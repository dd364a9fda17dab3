//! A writer's private working copy of one group.

use crate::schema::{Counter, GroupId, Tally};

/// The words of one group as its writer sees them, until they are committed.
///
/// A `Counter` of another group is a bug of the caller: debug builds stop at it, release builds
/// must not bring a data path down and change nothing when the word is out of range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Book {
    group: GroupId,
    words: Vec<u64>,
}

impl Book {
    pub(crate) fn new(group: GroupId, words: Vec<u64>) -> Self {
        Self { group, words }
    }

    /// The group this book belongs to.
    #[must_use]
    pub const fn group(&self) -> GroupId {
        self.group
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&mut self, counter: Counter, n: u64) {
        if let Some(word) = self.word(counter) {
            *word = word.wrapping_add(n);
        }
    }

    /// Takes `n` away. A word that falls below 0 reads as negative in a balance.
    #[inline]
    pub fn sub(&mut self, counter: Counter, n: u64) {
        if let Some(word) = self.word(counter) {
            *word = word.wrapping_sub(n);
        }
    }

    /// Sets a cursor or a gauge.
    #[inline]
    pub fn set(&mut self, counter: Counter, value: u64) {
        if let Some(word) = self.word(counter) {
            *word = value;
        }
    }

    /// The value of a word.
    #[inline]
    #[must_use]
    pub fn value(&self, counter: Counter) -> u64 {
        debug_assert_eq!(counter.group, self.group.0, "a counter of another group");
        self.words.get(counter.word as usize).copied().unwrap_or(0)
    }

    /// Adds items and bytes to one term.
    #[inline]
    pub fn add_tally(&mut self, tally: Tally, items: u64, bytes: u64) {
        self.add(tally.items, items);
        self.add(tally.bytes, bytes);
    }

    /// Takes items and bytes from one term (`held`, when something leaves).
    #[inline]
    pub fn sub_tally(&mut self, tally: Tally, items: u64, bytes: u64) {
        self.sub(tally.items, items);
        self.sub(tally.bytes, bytes);
    }

    /// Items and bytes of one term.
    #[inline]
    #[must_use]
    pub fn tally(&self, tally: Tally) -> (u64, u64) {
        (self.value(tally.items), self.value(tally.bytes))
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    #[inline]
    fn word(&mut self, counter: Counter) -> Option<&mut u64> {
        debug_assert_eq!(counter.group, self.group.0, "a counter of another group");
        self.words.get_mut(counter.word as usize)
    }
}
