//! Files that are written past the page cache (`O_DIRECT`; open(2), statx(2)).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, FallocateFlags, StatxFlags, fallocate, statx};

mod memory;

pub use memory::DirectMemory;

/// Memory, places in the file and lengths are multiples of so many bytes: enough for every disk in use, whose own are 512 or 4,096.
pub const ALIGN_BYTES: usize = 4096;

/// Whether the file system of this file writes past the page cache, with this alignment or a finer one. The kernel says so (`STATX_DIOALIGN`, Linux 6.1);
/// of one that says nothing it is not believed: some take the flag and go through the cache all the same.
pub fn is_taken(file: &impl AsFd) -> bool {
    let Ok(told) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
        return false;
    };
    let fits = |bytes: u32| (1..=ALIGN_BYTES as u32).contains(&bytes);
    told.stx_mask & StatxFlags::DIOALIGN.bits() != 0
        && fits(told.stx_dio_mem_align)
        && fits(told.stx_dio_offset_align)
}

/// Whether files in this directory can be written past the page cache. Looked at by a file without a name.
///
/// # Errors
/// No file can be made there.
pub fn is_taken_in(directory: &Path) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_TMPFILE);
    match options.open(directory) {
        Ok(file) => Ok(is_taken(&file)),
        // A file system that has no files without names: none of those that write past the cache.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The same file once more, for appending past the page cache.
///
/// # Errors
/// Its file system does not do that, descriptors have run out, or there is no `/proc`.
pub fn open_again(file: &File) -> io::Result<File> {
    if !is_taken(file) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut options = OpenOptions::new();
    options.append(true).custom_flags(libc::O_DIRECT);
    options.open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Gives a file room on its disk from `offset` on, without making it longer: what is written there later needs none to be looked for.
///
/// # Errors
/// The file system has no such call, or no room.
pub fn reserve(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn memory_is_no_disk() {
        let folder = Path::new("/dev/shm");
        if folder.is_dir() {
            assert!(!is_taken_in(folder).unwrap());
        }
        assert!(is_taken_in(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn room_is_there_and_the_file_no_longer_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("a")).unwrap();
        if let Err(error) = reserve(&file, 0, 1 << 20) {
            forebay_testing::skip!("no room on a disk can be asked for here: {error}");
            return;
        }
        let data = file.metadata().unwrap();
        assert_eq!(data.len(), 0);
        assert!(data.blocks() * 512 >= 1 << 20, "{}", data.blocks());
    }

    #[test]
    fn what_is_appended_past_the_cache_lies_behind_what_was_there() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(folder.path().join("a"))
            .unwrap();
        file.write_all(&[1; ALIGN_BYTES]).unwrap();
        let Ok(mut direct) = open_again(&file) else {
            forebay_testing::skip!("this file system does not write past the page cache");
            return;
        };
        let mut memory = DirectMemory::new(ALIGN_BYTES).unwrap();
        memory.fill(2);
        direct.write_all(&memory).unwrap();
        let refused = direct.write(&memory[..7]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
        let found = std::fs::read(folder.path().join("a")).unwrap();
        assert_eq!(found, [[1; ALIGN_BYTES], [2; ALIGN_BYTES]].concat());
    }
}
