//! Where a ledger in memory belongs: behind its words stands the directory of its run, so that others can bring it there when its process was killed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{LEDGER, open_ledger};

/// The last bytes of such a ledger; before them the length of the path, as a u64 in this host's order.
const MAGIC: [u8; 8] = *b"FOREBAYD";
/// How the copy is named before it takes the ledger's name.
const BROUGHT: &str = "brought";
/// Longest path that is read.
const PATH_BYTES_MAX: usize = 4096;

/// What stands behind the words of a ledger whose run has this directory.
pub(super) fn trailer(directory: &Path) -> Vec<u8> {
    let path = directory.as_os_str().as_bytes();
    let mut bytes = path.to_vec();
    // A ledger is made of words.
    bytes.resize(path.len().next_multiple_of(8), 0);
    bytes.extend_from_slice(&(path.len() as u64).to_ne_bytes());
    bytes.extend_from_slice(&MAGIC);
    bytes
}

/// The directory that stands behind the words of a ledger, and how long the rest of it is.
fn read_trailer(ledger: &File) -> Option<(PathBuf, u64)> {
    let bytes = ledger.metadata().ok()?.len();
    let mut end = [0; 16];
    ledger
        .read_exact_at(&mut end, bytes.checked_sub(16)?)
        .ok()?;
    let (length, magic) = end.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_ne_bytes(*length)).ok()?;
    if magic != MAGIC || length > PATH_BYTES_MAX {
        return None;
    }
    let begin = bytes.checked_sub(16 + length.next_multiple_of(8) as u64)?;
    let mut path = vec![0; length];
    ledger.read_exact_at(&mut path, begin).ok()?;
    Some((std::ffi::OsString::from_vec(path).into(), begin))
}

/// Whether a directory leads to this ledger, or cannot be asked: it is the only account of its run then.
pub(super) fn is_awaited(memory: &Path) -> bool {
    let directory = File::open(memory)
        .ok()
        .and_then(|ledger| read_trailer(&ledger));
    let Some((directory, _)) = directory else {
        return false;
    };
    match fs::read_link(directory.join(LEDGER)) {
        Ok(target) => target == memory,
        // No directory, no such name in it, or a file: that of a later run.
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput
        ),
    }
}

/// What is to become of a ledger in memory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is there now.
    Brought(PathBuf),
    /// No directory waits for it.
    Homeless,
    /// Its process lives, or another one looks after it.
    InUse,
    /// It belongs into a directory that cannot take it now, for this reason.
    Stays(String),
}

/// Brings the ledger `memory` into the directory of its run, if its process is dead and that directory still leads to it, and removes it from memory. Of several
/// that try it at a time one does it; a run that begins there meanwhile, which would take the ledger itself, is left to do so, and is not held up by the copy.
pub(super) fn bring(memory: &Path) -> Fate {
    let Ok(ledger) = File::open(memory) else {
        return Fate::InUse;
    };
    // It stands there only when its process has its lock, or is dead.
    let Some((directory, bytes)) = read_trailer(&ledger) else {
        return Fate::Homeless;
    };
    if ledger.try_lock().is_err() {
        return Fate::InUse;
    }
    let link = directory.join(LEDGER);
    let waits = || fs::read_link(&link).is_ok_and(|target| target == memory);
    let stays = |error: io::Error| Fate::Stays(format!("{}: {error}", directory.display()));
    let home = match File::open(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Fate::Homeless,
        Err(error) => return stays(error),
        Ok(home) => home,
    };
    if !waits() || open_ledger(memory).is_err() {
        return Fate::Homeless;
    }
    match (ledger.metadata(), home.metadata()) {
        (Ok(own), Ok(theirs)) if own.uid() == theirs.uid() => {}
        (Err(error), _) | (_, Err(error)) => return stays(error),
        _ => return stays(io::Error::other("the directory is another user's")),
    }
    let brought = directory.join(format!("{LEDGER}.{BROUGHT}"));
    let fate = match copy(&ledger, bytes, &brought) {
        Err(error) => stays(error),
        Ok(()) => match home.try_lock() {
            Err(TryLockError::WouldBlock) => Fate::InUse,
            Err(TryLockError::Error(error)) => stays(error),
            // Whatever began there while it was copied has taken it.
            Ok(()) if !waits() => Fate::InUse,
            Ok(()) => match fs::rename(&brought, &link) {
                Ok(()) => Fate::Brought(link),
                Err(error) => stays(error),
            },
        },
    };
    if matches!(fate, Fate::Brought(_)) {
        let _ = fs::remove_file(memory);
    } else {
        let _ = fs::remove_file(&brought);
    }
    fate
}

/// Copies the first `bytes` into a file that is made for it, also where something of that name lies.
fn copy(ledger: &File, bytes: u64, to: &Path) -> io::Result<()> {
    let mut content = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    ledger.read_exact_at(&mut content, 0)?;
    // Room that the killed run had taken for it.
    let _ = fs::remove_file(to);
    let mut made = File::options()
        .write(true)
        .create_new(true)
        .mode(0o666)
        .open(to)?;
    made.write_all(&content)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::panic,
        reason = "a test that cannot go on has failed"
    )]

    use forebay_ledger::SchemaBuilder;

    use super::*;
    use crate::run_dir::RunDir;

    #[test]
    fn a_ledger_comes_home_once_and_only_when_its_process_is_dead() {
        let schema = SchemaBuilder::new("home").finish().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let mut made = RunDir::prepare(&out, "home", &mut Vec::new()).unwrap();
        let (words, file, run) = made.create_ledger(&schema).unwrap();
        let (link, memory) = (out.join("ledger"), made.memory().to_path_buf());
        assert_eq!(bring(&memory), Fate::InUse, "it lives");
        // Killed: nothing of it is tidied up, and the kernel takes its locks back.
        made._lock.take().unwrap().unlock().unwrap();
        assert_eq!(bring(&memory), Fate::InUse, "a stage of it lives");
        made.ledger.take().unwrap().unlock().unwrap();
        std::mem::forget(made);
        drop((words, file, run));
        let busy = File::open(&out).unwrap();
        busy.lock().unwrap();
        assert_eq!(bring(&memory), Fate::InUse, "a run begins there");
        assert!(!out.join("ledger.brought").exists());
        drop(busy);
        // Nothing can be written under the copy's name.
        fs::create_dir(out.join("ledger.brought")).unwrap();
        let Fate::Stays(why) = bring(&memory) else {
            panic!("nothing hinders it");
        };
        assert!(why.contains("File exists"), "{why}");
        assert!(memory.exists());
        fs::remove_dir(out.join("ledger.brought")).unwrap();
        let barrier = std::sync::Barrier::new(8);
        let brought = std::thread::scope(|scope| {
            let one = || {
                barrier.wait();
                // All other runs of this host bring ledgers home, too.
                bring(&memory)
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            all.into_iter()
                .map(|one| one.join().unwrap())
                .filter(|fate| matches!(fate, Fate::Brought(_)))
                .count()
        });
        assert!(brought <= 1, "{brought}");
        assert!(!memory.exists());
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
        assert_eq!(open_ledger(&out).unwrap().run_id(), "home");
        assert_eq!(link.metadata().unwrap().len(), schema.bytes_needed() as u64);
    }

    #[test]
    fn a_path_of_any_length_is_read_as_it_was_written_and_garbage_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        for length in [1, 7, 8, 9, 4000] {
            let home = PathBuf::from("/".repeat(length));
            let mut bytes = vec![0xff; 64];
            bytes.extend(trailer(&home));
            assert!(bytes.len().is_multiple_of(8));
            fs::write(&path, &bytes).unwrap();
            assert_eq!(read_trailer(&File::open(&path).unwrap()), Some((home, 64)));
        }
        let mut lie = vec![0; 8];
        lie.extend(u64::MAX.to_ne_bytes());
        lie.extend(MAGIC);
        for garbage in [Vec::new(), vec![0; 15], vec![0xff; 64], lie] {
            fs::write(&path, garbage).unwrap();
            assert_eq!(read_trailer(&File::open(&path).unwrap()), None);
        }
    }
}
