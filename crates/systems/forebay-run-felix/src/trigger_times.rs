//! When triggers were due: a small file that an emulated card writes and a subscriber of its chunks reads, to know how long they took.
//!
//! Generated chunks carry the low 8 bits of their trigger's number, so each [`EVERY`]-th trigger that was given has a slot: its number, and when it was due, on the
//! monotonic clock of the host. The last [`SLOTS`] are kept. Numbers are those of the run, from 0: a reader counts an E-link's chunks from its first one on.
//!
//! ```text
//! word 0  "FBTIMES" and the version       word 8 + 2 i  number + 1, or 0 while it is written
//! word 1  slots                           word 9 + 2 i  when it was due, in ns
//! ```

use std::fs::{self, File};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use forebay_sys::mapping::{Access, Mapping};

use forebay_run::error::RunError;

/// Each so many triggers one has a slot.
pub const EVERY: NonZeroU64 = NonZeroU64::new(256).unwrap();
/// Slots: the last 4 million triggers.
pub const SLOTS: u64 = 1 << 14;
const MAGIC: u64 = u64::from_le_bytes(*b"FBTIMES\x01");
const AT_SLOTS: usize = 8;
const WORDS: usize = AT_SLOTS + 2 * SLOTS as usize;

/// Where a trigger's slot is, if it has one.
fn place(number: u64) -> Option<usize> {
    let sample = number / EVERY;
    (number % EVERY == 0).then_some(AT_SLOTS + 2 * (sample % SLOTS) as usize)
}

fn not_ours(what: &'static str, path: &Path, why: &str) -> RunError {
    RunError::file(what, path)(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// The card's side.
#[derive(Debug)]
pub struct TriggerTimes(Mapping);

impl TriggerTimes {
    /// Makes the file, for its user alone; one that a card before has left is replaced.
    ///
    /// # Errors
    /// It cannot be made, or something else lies there.
    pub fn create(path: &Path) -> Result<Self, RunError> {
        let making = "making the file of trigger times";
        if path.symlink_metadata().is_ok() {
            if times_of(path).is_err() {
                let why = "something else lies there; name another file, or remove that one";
                return Err(not_ours(making, path, why));
            }
            fs::remove_file(path).map_err(RunError::file(making, path))?;
        }
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        let file = file.map_err(RunError::file(making, path))?;
        // Room is taken now: a full disk is an error here, and not one of some later store.
        rustix::fs::fallocate(
            &file,
            rustix::fs::FallocateFlags::empty(),
            0,
            8 * WORDS as u64,
        )
        .map_err(|errno| RunError::file(making, path)(errno.into()))?;
        let mapping = Mapping::of_fd(&file, Access::ReadWrite)?;
        mapping.words()[1].store(SLOTS, Ordering::Relaxed);
        mapping.words()[0].store(MAGIC, Ordering::Release);
        Ok(Self(mapping))
    }

    /// The trigger of this number was due then.
    pub fn put(&mut self, number: u64, due_ns: u64) {
        let Some(at) = place(number) else { return };
        let [of, due] = pair(&self.0, at);
        of.store(0, Ordering::Relaxed);
        // SYNC POINT: with the reader's fence. A reader that sees the new time sees the 0 or what comes after it.
        fence(Ordering::Release);
        due.store(due_ns, Ordering::Relaxed);
        // SYNC POINT: with the reader's first load.
        of.store(number + 1, Ordering::Release);
    }
}

fn pair(mapping: &Mapping, at: usize) -> [&AtomicU64; 2] {
    let words = mapping.words();
    [&words[at], &words[at + 1]]
}

/// The subscriber's side.
#[derive(Debug)]
pub struct SeenTimes(Mapping);

fn times_of(path: &Path) -> Result<Mapping, RunError> {
    let reading = "reading trigger times from";
    let mapping = Mapping::open_file(path, Access::ReadOnly)?;
    let words = mapping.words();
    let is_ours = words.len() >= WORDS
        && words[0].load(Ordering::Acquire) == MAGIC
        && words[1].load(Ordering::Relaxed) == SLOTS;
    if is_ours {
        return Ok(mapping);
    }
    let why = "it is no file of trigger times; name the one of trigger_times in the card's file";
    Err(not_ours(reading, path, why))
}

impl SeenTimes {
    /// Opens the card's file.
    ///
    /// # Errors
    /// It is not there, or something else.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        times_of(path).map(Self)
    }

    /// When a trigger was due; none where it has no slot, or its slot is another one's by now.
    pub fn due_ns(&self, number: u64) -> Option<u64> {
        let [of, due] = pair(&self.0, place(number)?);
        if of.load(Ordering::Acquire) != number + 1 {
            return None;
        }
        let due_ns = due.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        (of.load(Ordering::Relaxed) == number + 1).then_some(due_ns)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn times_are_those_of_the_last_triggers_with_a_slot() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("times");
        let mut card = TriggerTimes::create(&path).unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let seen = SeenTimes::open(&path).unwrap();
        assert_eq!(seen.due_ns(0), None, "nothing was put");
        card.put(0, 5);
        card.put(512, 7);
        card.put(513, 9);
        let all = [0, 256, 512, 513].map(|number| seen.due_ns(number));
        assert_eq!(all, [Some(5), None, Some(7), None]);
        card.put(SLOTS * 256, 11);
        assert_eq!((seen.due_ns(0), seen.due_ns(SLOTS * 256)), (None, Some(11)));
        // The next card's are in a file of their own.
        let _next = TriggerTimes::create(&path).unwrap();
        assert_eq!(SeenTimes::open(&path).unwrap().due_ns(512), None);
        assert_eq!(seen.due_ns(512), Some(7));
    }

    #[test]
    fn a_reader_beside_the_writer_never_sees_another_triggers_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("times");
        let mut card = TriggerTimes::create(&path).unwrap();
        let seen = SeenTimes::open(&path).unwrap();
        // Triggers of one slot follow each other in it; a number never comes back.
        const LAST: u64 = 400_000;
        let trigger = |turn: u64| turn * SLOTS * 256;
        let begun = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..=LAST {
                    begun.store(turn, Ordering::Release);
                    card.put(trigger(turn), turn);
                }
            });
            let mut turn = 0;
            while turn < LAST {
                turn = begun.load(Ordering::Acquire);
                for near in turn.saturating_sub(1)..=turn + 1 {
                    let found = seen.due_ns(trigger(near));
                    assert!(
                        found.is_none_or(|due_ns| due_ns == near),
                        "{near}: {found:?}"
                    );
                }
            }
        });
        assert_eq!(seen.due_ns(trigger(LAST)), Some(LAST));
    }

    #[test]
    fn what_is_something_else_is_neither_read_nor_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("letter");
        fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        let read = SeenTimes::open(&path).unwrap_err().to_string();
        assert!(read.contains("trigger_times"), "{read}");
        let made = TriggerTimes::create(&path).unwrap_err().to_string();
        assert!(
            made.contains("letter") && made.contains("another file"),
            "{made}"
        );
        assert_eq!(path.metadata().unwrap().len(), 1 << 20);
    }
}
