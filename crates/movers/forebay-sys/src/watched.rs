//! What somebody else does to a file while it is written: it may be removed, renamed or cut, and no write fails for that.

mod file;
mod runs;

use std::collections::{HashSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

pub use file::{Gone, WatchedFile, create_free};

/// How often a file is looked at into which nothing is written.
pub const LOOK: Duration = Duration::from_millis(250);

/// Front of what is said of files that somebody removed or cut.
pub const OUTPUT_REMOVED: &str = "output_removed:";

/// How an open file is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// As it was left.
    Whole,
    /// It has no name any more: what is in it is gone when it is closed.
    Removed,
    /// Shorter than it was left.
    Cut {
        /// How long it is now.
        bytes: u64,
    },
    /// Longer than it was left: a block that was written in part, or somebody else's bytes.
    Longer,
}

/// Looks at an open file that was left with `bytes`.
pub fn fate(file: &File, bytes: u64) -> io::Result<Fate> {
    let data = file.metadata()?;
    Ok(match data.len() {
        _ if data.nlink() == 0 => Fate::Removed,
        now if now < bytes => Fate::Cut { bytes: now },
        now if now > bytes => Fate::Longer,
        _ => Fate::Whole,
    })
}

/// What a file is, whatever it is called: its inode, and when it was made in ns since 1970 (0 where the file system does not say), as an inode's number is used
/// again. The number of its device may be another one after a restart of the host.
pub type Identity = [u64; 2];

/// What an open file is.
pub fn identity(file: &File) -> io::Result<Identity> {
    Ok(identity_of(&file.metadata()?))
}

fn identity_of(data: &fs::Metadata) -> Identity {
    let made = data.created().ok();
    let since_1970 = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made_ns = since_1970.map_or(0, |since| since.as_nanos() as u64);
    [data.ino(), made_ns]
}

/// Most names that are looked at for a file that has lost its own.
const NAMES_MAX: usize = 65_536;

/// The device of a directory, unless it cannot be looked at.
fn device(directory: &Path) -> Option<u64> {
    fs::metadata(directory).ok().map(|data| data.dev())
}

/// Where a search for what lay at `path` begins, and the device that it keeps to, as no file is renamed beyond it: its directory, and the one above, unless that
/// is the root or of another device.
fn nearby(path: &Path) -> Option<(Vec<PathBuf>, u64)> {
    let own = path.parent()?;
    let above = own.parent().filter(|above| {
        let whole = above.canonicalize();
        whole.is_ok_and(|whole| whole.parent().is_some())
    });
    let mut near: Vec<PathBuf> = [Some(own), above]
        .into_iter()
        .flatten()
        .map(Path::to_path_buf)
        .collect();
    let own_device = near.iter().find_map(|directory| device(directory))?;
    near.retain(|directory| device(directory) == Some(own_device));
    Some((near, own_device))
}

/// Where a file lies now that lay at `path`: there, in or below its directory, or beside and below that one's neighbours, on the same device. The nearest are
/// looked at first, up to `NAMES_MAX`.
pub fn find(of: Identity, path: &Path) -> Option<PathBuf> {
    let is_it = |path: &Path| fs::symlink_metadata(path).is_ok_and(|data| identity_of(&data) == of);
    if is_it(path) {
        return Some(path.to_path_buf());
    }
    let (near, own_device) = nearby(path)?;
    let mut directories = VecDeque::from(near);
    let mut seen: HashSet<PathBuf> = directories.iter().cloned().collect();
    let mut names = 0;
    while let Some(directory) = directories.pop_front() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            names += 1;
            if names > NAMES_MAX {
                return None;
            }
            let path = entry.path();
            if entry.ino() == of[0] && is_it(&path) {
                return Some(path);
            }
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory && device(&path) == Some(own_device) && seen.insert(path.clone()) {
                directories.push_back(path);
            }
        }
    }
    None
}

/// Where an open file lies now, when it is no longer found at `path`.
pub fn moved_to(file: &File, path: &Path) -> Option<PathBuf> {
    let own = file.metadata().ok()?;
    let same = |found: fs::Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
    let is_there = fs::metadata(path).is_ok_and(same);
    if is_there || own.nlink() == 0 {
        return None;
    }
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_what_it_is_wherever_it_lies_nearby() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        fs::create_dir_all(out.join("below")).unwrap();
        let path = out.join("a.hld");
        let other = out.join("b.hld");
        fs::write(&path, b"one").unwrap();
        fs::write(&other, b"two").unwrap();
        let id = identity(&File::open(&path).unwrap()).unwrap();
        for now in [
            &out.join("c.hld"),
            &out.join("below/c.hld"),
            &folder.path().join("c.hld"),
        ] {
            fs::rename(find(id, &path).unwrap(), now).unwrap();
            // Another file under the old name is not it.
            fs::copy(&other, &path).unwrap();
            assert_eq!(find(id, &path).as_ref(), Some(now));
            fs::remove_file(&path).unwrap();
        }
        fs::remove_file(folder.path().join("c.hld")).unwrap();
        assert_eq!(find(id, &path), None);
    }

    #[test]
    fn the_search_keeps_to_the_device_and_does_not_begin_at_the_root() {
        let begins = |path: &str| nearby(Path::new(path)).unwrap().0;
        assert_eq!(begins("/dev/a.hld"), [Path::new("/dev")]);
        assert_eq!(begins("/dev/../dev/a.hld"), [Path::new("/dev/../dev")]);
        // Memory is mounted there, on most hosts as a device of its own.
        let (dev, memory) = (Path::new("/dev"), Path::new("/dev/shm"));
        let is_one = device(dev) == device(memory);
        assert_eq!(begins("/dev/shm/a.hld").contains(&dev.into()), is_one);
        let file = tempfile::NamedTempFile::new_in(memory).unwrap();
        let id = identity(file.as_file()).unwrap();
        assert_eq!(find(id, &dev.join("a.hld")).is_some(), is_one);
        assert!(find(id, &memory.join("a.hld")).is_some());
    }
}
