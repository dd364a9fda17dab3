//! What somebody else does to a file while it is written: it may be removed, renamed or cut, and no write fails for that.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use forebay_wire::hld::{EVENT_HEADER_BYTES, EventHeader, EventId};
use forebay_wire::unit::round_up_8;

/// How an open file is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
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
pub(super) fn fate(file: &File, bytes: u64) -> io::Result<Fate> {
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
pub(super) type Identity = [u64; 2];

/// What an open file is.
pub(super) fn identity(file: &File) -> io::Result<Identity> {
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
pub(super) fn find(of: Identity, path: &Path) -> Option<PathBuf> {
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
pub(super) fn moved_to(file: &File, path: &Path) -> Option<PathBuf> {
    let own = file.metadata().ok()?;
    let same = |found: fs::Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
    let is_there = fs::metadata(path).is_ok_and(same);
    if is_there || own.nlink() == 0 {
        return None;
    }
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

/// Whole events at the front of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) events: u64,
    /// Up to where they reach, the start event included; 0 when that is gone, too.
    pub(super) end: u64,
}

/// So much of a file is read at once: heads of events lie close together.
const READ_BYTES: usize = 1 << 20;

/// Heads of events in a file, read in large blocks.
struct Heads<R> {
    /// Reads at an offset, as [`FileExt::read_at`].
    read: R,
    block: Vec<u8>,
    begin: u64,
}

impl<R: FnMut(&mut [u8], u64) -> io::Result<usize>> Heads<R> {
    fn new(read: R) -> Self {
        let (block, begin) = (Vec::new(), 0);
        Self { read, block, begin }
    }

    /// The bytes of a head; none where the file ends or cannot be read.
    fn at(&mut self, offset: u64) -> Option<&[u8; EVENT_HEADER_BYTES]> {
        if self.inside(offset).is_none() {
            self.fill(offset);
        }
        let inside = self.inside(offset)?;
        self.block[inside..].first_chunk()
    }

    /// Where a whole head is in the block.
    fn inside(&self, offset: u64) -> Option<usize> {
        let inside = usize::try_from(offset.checked_sub(self.begin)?).ok()?;
        (inside.checked_add(EVENT_HEADER_BYTES)? <= self.block.len()).then_some(inside)
    }

    fn fill(&mut self, offset: u64) {
        self.begin = offset;
        self.block.resize(READ_BYTES, 0);
        let mut length = 0;
        while length < READ_BYTES
            && let Ok(count @ 1..) = (self.read)(&mut self.block[length..], offset + length as u64)
        {
            length += count;
        }
        self.block.truncate(length);
    }
}

impl Kept {
    /// Counts what is left in a file of `run` that was cut to `bytes`.
    pub(super) fn count(file: &File, run: u32, bytes: u64) -> Self {
        Self::count_in(|into, offset| file.read_at(into, offset), run, bytes)
    }

    fn count_in(
        read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
        run: u32,
        bytes: u64,
    ) -> Self {
        let frame = EVENT_HEADER_BYTES as u64;
        let mut heads = Heads::new(read);
        let mut at = |offset: u64| {
            let header = EventHeader::parse(heads.at(offset)?).ok()?;
            let length = round_up_8(u64::from(header.size));
            let whole = length >= frame && length <= bytes - offset && header.run == run;
            whole.then_some((header.id, length))
        };
        let mut kept = Self::default();
        if bytes < frame || !at(0).is_some_and(|(id, _)| id == EventId::START) {
            return kept;
        }
        kept.end = frame;
        while kept.end < bytes
            && let Some((id, length)) = at(kept.end)
            && id != EventId::STOP
        {
            kept.events += 1;
            kept.end += length;
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u32 = 3;

    /// A file of events of these lengths.
    fn events(lengths: &[u32]) -> Vec<u8> {
        let mut bytes = EventHeader::new(EventId::START, 0, RUN).to_bytes().to_vec();
        for length in lengths {
            let mut header = EventHeader::new(EventId::data(1), 0, RUN);
            header.size = *length;
            bytes.extend_from_slice(&header.to_bytes());
            let end = bytes.len() + round_up_8(u64::from(*length)) as usize - EVENT_HEADER_BYTES;
            bytes.resize(end, 0xab);
        }
        bytes
    }

    /// What is kept of the first `bytes` of it, and in how many reads that was found.
    fn count(file: &[u8], bytes: usize) -> (Kept, usize) {
        let mut reads = 0;
        let read = |into: &mut [u8], offset: u64| {
            reads += 1;
            // As a system call may: less than was asked for.
            let from = file.get(offset as usize..bytes).unwrap_or_default();
            let count = into.len().min(from.len()).min(READ_BYTES / 2 + 7);
            into[..count].copy_from_slice(&from[..count]);
            Ok(count)
        };
        let kept = Kept::count_in(read, RUN, bytes as u64);
        (kept, reads)
    }

    #[test]
    fn what_is_left_of_a_cut_file_is_counted_in_few_reads() {
        let lengths: Vec<u32> = (0..100_000).map(|n| 32 + n % 90).collect();
        let file = events(&lengths);
        let mut ends: Vec<u64> = vec![32];
        for length in &lengths {
            ends.push(ends.last().unwrap() + round_up_8(u64::from(*length)));
        }
        for cut in [
            file.len(),
            file.len() - 1,
            file.len() / 2,
            READ_BYTES + 5,
            64,
            33,
            32,
        ] {
            let (kept, reads) = count(&file, cut);
            let events = ends.iter().filter(|end| **end <= cut as u64).count() - 1;
            let expected = Kept {
                events: events as u64,
                end: ends[events],
            };
            assert_eq!(kept, expected, "cut to {cut}");
            assert!(
                reads <= 4 * (cut / (1 << 20) + 1),
                "{reads} reads of {cut} bytes"
            );
        }
        assert_eq!(count(&file, 31).0, Kept::default());
    }

    #[test]
    fn events_longer_than_a_read_are_counted_too() {
        let long = 2 * READ_BYTES as u32 + 40;
        let file = events(&[long, 40, long, 48]);
        let (kept, reads) = count(&file, file.len() - 1);
        assert_eq!(kept.events, 3);
        assert_eq!(kept.end, file.len() as u64 - 48);
        assert!(reads <= 15, "{reads}");
    }

    #[test]
    fn a_file_is_found_by_what_it_is_wherever_it_lies_nearby() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        fs::create_dir_all(out.join("below")).unwrap();
        let path = out.join("a.hld");
        let other = out.join("b.hld");
        fs::write(&path, events(&[])).unwrap();
        fs::write(&other, events(&[])).unwrap();
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
