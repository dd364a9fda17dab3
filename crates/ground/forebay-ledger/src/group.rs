//! The commit protocol: two copies of a group's words and a sequence number that names the valid one.
//!
//! The writer fills the copy that is not valid, then publishes it by `seq`. A writer killed between
//! the two leaves the last committed copy untouched. A reader copies the valid copy and takes
//! it only if `seq` has not moved meanwhile. Unlike a plain seqlock a reader is never blocked by a
//! writer that was stopped in the middle of a commit.
//!
//! Orderings. The data words are relaxed atomics, so a reader may see a word that is newer than the
//! `seq` it read; it must find out. Two pairs do that:
//!
//! 1. SYNC POINT `publish`: the writer's `seq.store(Release)` pairs with the reader's `seq.load(Acquire)`: a reader
//!    that sees `seq` sees all words of that copy, or newer ones.
//! 2. SYNC POINT `overwrite`: the writer's `fence(Release)` before the first word pairs with the reader's
//!    `fence(Acquire)` after the last. If the reader saw a word of commit *s + 2* (which goes into the same
//!    copy as *s*), then the fences make the writer's earlier `seq = s + 1` visible to the reader's second
//!    load of `seq`, which therefore differs from *s*. Without the writer's fence the data stores could be seen
//!    before the preceding store of `seq`, as a release store orders only what comes before it.
//!
//! On x86-64 both fences and both orderings are plain moves.

use crate::book::Book;
use crate::error::LedgerError;
use crate::layout::GroupPlace;
use crate::schema::{GroupId, Schema};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::words::Words;

/// How often a reader tries to get a consistent copy of a group before it gives up.
pub const READ_ATTEMPTS: u32 = 10_000;

/// The one writer of one group.
///
/// That there is only one is the caller's duty across processes: a stage is started again only after its
/// predecessor is known to be dead.
#[derive(Debug)]
pub struct GroupWriter {
    words: Words,
    group: GroupId,
    place: GroupPlace,
}

impl GroupWriter {
    /// Attaches to `group` of a formatted ledger.
    ///
    /// # Errors
    /// The memory is not the ledger of this schema, or the group is not of this schema.
    pub fn attach(schema: &Schema, words: &Words, group: GroupId) -> Result<Self, LedgerError> {
        schema.check(words)?;
        let index = group.0 as usize;
        let place = schema.layout.groups.get(index).copied();
        let place = place.ok_or(LedgerError::OutOfBounds {
            what: "group",
            index,
        })?;
        Ok(Self {
            words: words.clone(),
            group,
            place,
        })
    }

    /// The last committed state, to go on from; all 0 in a fresh ledger.
    #[must_use]
    pub fn restore(&self) -> Book {
        // The caller is the only writer, so nothing moves: the partner of this load is the
        // predecessor's `publish`.
        let seq = self.words[self.place.seq].load(Ordering::Acquire);
        let copy = copy_of(&self.words, &self.place, seq);
        Book::new(
            self.group,
            copy.iter()
                .map(|word| word.load(Ordering::Relaxed))
                .collect(),
        )
    }

    /// Makes the whole book valid at once: a reader or a successor sees all of it or nothing.
    #[inline]
    pub fn commit(&mut self, book: &Book) {
        debug_assert_eq!(book.group(), self.group, "a book of another group");
        let words: &[AtomicU64] = &self.words;
        commit_words(words, &self.place, book.words().iter().copied());
    }

    /// How often this group was committed, by this writer and its predecessors.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.words[self.place.seq].load(Ordering::Relaxed)
    }
}

fn copy_of<'a>(words: &'a [AtomicU64], place: &GroupPlace, seq: u64) -> &'a [AtomicU64] {
    let start = place.copies[(seq & 1) as usize];
    &words[start..start + place.words]
}

/// The writer's half of the protocol.
#[inline]
pub(crate) fn commit_words(
    words: &[AtomicU64],
    place: &GroupPlace,
    values: impl IntoIterator<Item = u64>,
) {
    let seq = &words[place.seq];
    // Only this writer stores `seq`.
    let next = seq.load(Ordering::Relaxed).wrapping_add(1);
    // SYNC POINT overwrite: partner is the fence in `read_words`.
    fence(Ordering::Release);
    for (word, value) in copy_of(words, place, next).iter().zip(values) {
        word.store(value, Ordering::Relaxed);
    }
    // SYNC POINT publish: partner is the first load in `read_words`.
    seq.store(next, Ordering::Release);
}

/// The reader's half: one attempt. True when `into` holds one committed state.
pub(crate) fn read_words(words: &[AtomicU64], place: &GroupPlace, into: &mut Vec<u64>) -> bool {
    let seq = &words[place.seq];
    // SYNC POINT publish.
    let before = seq.load(Ordering::Acquire);
    into.clear();
    into.extend(
        copy_of(words, place, before)
            .iter()
            .map(|word| word.load(Ordering::Relaxed)),
    );
    // SYNC POINT overwrite.
    fence(Ordering::Acquire);
    seq.load(Ordering::Relaxed) == before
}

/// Reads a committed state within [`READ_ATTEMPTS`]; `None` when the writer was faster each time.
pub(crate) fn read_group(words: &[AtomicU64], place: &GroupPlace) -> Option<Vec<u64>> {
    let mut copy = Vec::with_capacity(place.words);
    for _ in 0..READ_ATTEMPTS {
        if read_words(words, place, &mut copy) {
            return Some(copy);
        }
        std::hint::spin_loop();
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const PLACE: GroupPlace = GroupPlace {
        seq: 0,
        copies: [1, 5],
        words: 3,
    };

    #[test]
    fn a_writer_killed_after_any_store_leaves_the_last_commit() {
        let words = Words::zeroed(9);
        for round in 1..5u64 {
            let before = read_group(&words, &PLACE);
            for stores in 0..4 {
                let values = (0..4).map(|store| match store {
                    killed if killed == stores => panic!("killed"),
                    _ => u64::MAX,
                });
                // The place has room for one more store than the values of a commit: the death is before `seq` moves at the latest.
                let one_more = GroupPlace { words: 4, ..PLACE };
                let dies = AssertUnwindSafe(|| commit_words(&words, &one_more, values));
                catch_unwind(dies).unwrap_err();
                assert_eq!(
                    read_group(&words, &PLACE),
                    before,
                    "round {round}, {stores} stores"
                );
            }
            commit_words(&words, &PLACE, [round; 3]);
            assert_eq!(read_group(&words, &PLACE), Some(vec![round; 3]));
        }
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p forebay-ledger --release --lib loom`.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    const PLACE: GroupPlace = GroupPlace {
        seq: 0,
        copies: [1, 3],
        words: 2,
    };

    fn memory() -> Arc<Vec<AtomicU64>> {
        Arc::new((0..5).map(|_| AtomicU64::new(0)).collect())
    }

    #[test]
    fn loom_a_reader_sees_whole_commits_only() {
        loom::model(|| {
            let words = memory();
            let writer = {
                let words = Arc::clone(&words);
                thread::spawn(move || (1..=3).for_each(|n| commit_words(&words, &PLACE, [n, n])))
            };
            let mut copy = Vec::new();
            if read_words(&words, &PLACE, &mut copy) {
                assert_eq!(copy[0], copy[1], "a torn commit was taken");
            }
            writer.join().unwrap();
            assert!(read_words(&words, &PLACE, &mut copy));
            assert_eq!(copy, [3, 3]);
        });
    }

    #[test]
    fn loom_who_sees_seq_sees_its_words() {
        loom::model(|| {
            let words = memory();
            let reader = {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    // Relaxed: the load inside `read_words` must be the one that synchronises.
                    let seq = words[PLACE.seq].load(Ordering::Relaxed);
                    let mut copy = Vec::new();
                    if read_words(&words, &PLACE, &mut copy) {
                        assert!(
                            copy.iter().all(|&n| n >= seq),
                            "commit {seq} announced, {copy:?} found"
                        );
                    }
                })
            };
            commit_words(&words, &PLACE, [1, 1]);
            reader.join().unwrap();
        });
    }

    #[test]
    fn loom_commits_are_seen_in_order() {
        loom::model(|| {
            let words = memory();
            let writer = {
                let words = Arc::clone(&words);
                thread::spawn(move || (1..=2).for_each(|n| commit_words(&words, &PLACE, [n, n])))
            };
            let (mut first, mut second) = (Vec::new(), Vec::new());
            let both =
                read_words(&words, &PLACE, &mut first) && read_words(&words, &PLACE, &mut second);
            assert!(!both || first[0] <= second[0], "a later read went back");
            writer.join().unwrap();
        });
    }
}
