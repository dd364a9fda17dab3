//! Shared mappings of files and memfds, seen as atomic words.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{FallocateFlags, MemfdFlags, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::SysError;

/// Whether a mapping may be written through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Loads only; a store through such a mapping ends the process with `SIGSEGV`.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

/// An owned range of mapped pages, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the range is owned by this value alone and stays mapped until it is dropped; the code that makes
// references into it upholds their aliasing rules (`Mapping` by atomics, `ByteArena` by its claim).
unsafe impl Send for Pages {}
// SAFETY: as above; `Pages` itself gives out nothing but its address and length.
unsafe impl Sync for Pages {}

impl Pages {
    pub(crate) fn map(
        fd: impl AsFd,
        bytes: usize,
        access: Access,
        extra: MapFlags,
    ) -> Result<Self, SysError> {
        let prot = match access {
            Access::ReadOnly => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: the kernel picks a free range (null hint, no MAP_FIXED), so no existing memory changes.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                prot,
                MapFlags::SHARED | extra,
                fd,
                0,
            )
        };
        let start =
            start.map_err(|errno| SysError::new("mmap", format!("{bytes} bytes"), errno))?;
        NonNull::new(start.cast::<u8>())
            .map(|start| Self { start, bytes })
            .ok_or_else(|| {
                SysError::new("mmap", format!("{bytes} bytes"), rustix::io::Errno::INVAL)
            })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` got, and every reference into it borrows from this value's owner.
        let unmapped =
            unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A shared mapping of a whole file or memfd as `u64` words, read and written atomically.
///
/// All processes that map the same file see the same words. The file must not be made shorter while it is
/// mapped (a sealed memfd cannot be): touching a page past its end is a `SIGBUS`.
#[derive(Debug)]
pub struct Mapping {
    pages: Pages,
    access: Access,
}

/// Takes the pages of `[offset, offset + bytes)` of a file in memory from the system, cleared, as they would be when they are first touched. What is
/// in them stays as it is, also when another process writes there meanwhile.
///
/// The kernel asked once provides pages, and clears each of them as it is touched, which is most of what that costs. Asked for those that it has provided, it clears
/// them (Linux mm/shmem.c, `shmem_get_folio_gfp`).
///
/// # Errors
/// The memory cannot be had.
pub fn take_pages(fd: impl AsFd, offset: u64, bytes: u64) -> Result<(), SysError> {
    for _ in 0..2 {
        rustix::fs::fallocate(&fd, FallocateFlags::empty(), offset, bytes).map_err(|errno| {
            SysError::new("fallocate", format!("{bytes} bytes of memory"), errno)
        })?;
    }
    Ok(())
}

impl Mapping {
    /// Maps the whole of `fd`; bytes beyond the last whole word are left out.
    ///
    /// # Errors
    /// When the file is empty or cannot be mapped with this access.
    pub fn of_fd(fd: impl AsFd, access: Access) -> Result<Self, SysError> {
        let bytes = file_bytes(&fd, "mapped file")?;
        Ok(Self {
            pages: Pages::map(fd, bytes, access, MapFlags::empty())?,
            access,
        })
    }

    /// Creates `path` (it must not exist yet) with `bytes` of zeroes and maps it for reading and writing.
    ///
    /// # Errors
    /// When it exists, cannot be created or the file system has no room.
    pub fn create_file(path: &Path, bytes: u64) -> Result<(Self, File), SysError> {
        Self::create(path, bytes, 0o666)
    }

    /// The same for a file that nobody but its owner may open.
    ///
    /// # Errors
    /// As [`create_file`](Self::create_file).
    pub fn create_private_file(path: &Path, bytes: u64) -> Result<(Self, File), SysError> {
        Self::create(path, bytes, 0o600)
    }

    fn create(path: &Path, bytes: u64, mode: u32) -> Result<(Self, File), SysError> {
        let target = path.display().to_string();
        let file = OpenOptions::new()
            .mode(mode)
            .read(true)
            .write(true)
            .create_new(true)
            .open(path);
        let file = file.map_err(|source| SysError::new("open", &*target, source))?;
        // Blocks are taken now: a full disk is an error here instead of a SIGBUS at some later store.
        let taken = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes);
        taken.map_err(|errno| {
            // What cannot be had leaves nothing.
            let _ = std::fs::remove_file(path);
            SysError::new("fallocate", format!("{target} to {bytes} bytes"), errno)
        })?;
        Ok((Self::of_fd(&file, Access::ReadWrite)?, file))
    }

    /// Opens and maps an existing file.
    ///
    /// # Errors
    /// When it cannot be opened, is no regular file, is empty or cannot be mapped.
    pub fn open_file(path: &Path, access: Access) -> Result<Self, SysError> {
        let target = path.display().to_string();
        let failed = |source| SysError::new("open", &*target, source);
        let file = OpenOptions::new()
            .read(true)
            .write(access == Access::ReadWrite)
            // A pipe of that name would otherwise be waited for without end.
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path)
            .map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            let kind = io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
            return Err(failed(kind));
        }
        Self::of_fd(file, access)
    }

    /// The mapped words.
    ///
    /// A store through a read-only mapping ends the process with `SIGSEGV`; it cannot change the file.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: page-aligned, mapped for as long as `self` lives, and every access in this and in other processes
        // is atomic because this type gives out nothing else; any bit pattern is a valid u64.
        unsafe {
            std::slice::from_raw_parts(
                self.pages.start().cast::<AtomicU64>(),
                self.pages.bytes() / 8,
            )
        }
    }

    /// How it was mapped.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }
}

impl AsRef<[AtomicU64]> for Mapping {
    fn as_ref(&self) -> &[AtomicU64] {
        self.words()
    }
}

/// Creates an anonymous memory file of `bytes` zeroes whose size is sealed: no holder can shrink or grow it.
///
/// # Errors
/// When memory or descriptors run out.
pub fn sealed_memfd(name: &str, bytes: u64) -> Result<OwnedFd, SysError> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(|errno| SysError::new("memfd_create", name, errno))?;
    rustix::fs::ftruncate(&fd, bytes)
        .map_err(|errno| SysError::new("ftruncate", format!("{name} to {bytes} bytes"), errno))?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .map_err(|errno| SysError::new("fcntl(F_ADD_SEALS)", name, errno))?;
    Ok(fd)
}

/// Tells the size of an open file.
pub(crate) fn file_bytes(fd: impl AsFd, target: &str) -> Result<usize, SysError> {
    let stat = rustix::fs::fstat(fd).map_err(|errno| SysError::new("fstat", target, errno))?;
    usize::try_from(stat.st_size)
        .map_err(|_| SysError::new("fstat", target, rustix::io::Errno::FBIG))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn two_mappings_of_one_memfd_share_words() {
        let fd = sealed_memfd("words", 4096).unwrap();
        let writer = Mapping::of_fd(&fd, Access::ReadWrite).unwrap();
        let reader = Mapping::of_fd(&fd, Access::ReadOnly).unwrap();
        assert_eq!(reader.words().len(), 512);
        writer.words()[511].store(7, Relaxed);
        assert_eq!(reader.as_ref()[511].load(Relaxed), 7);
        assert_eq!(reader.access(), Access::ReadOnly);
    }

    #[test]
    fn a_sealed_memfd_keeps_its_size() {
        let fd = sealed_memfd("sealed", 4096).unwrap();
        assert!(rustix::fs::ftruncate(&fd, 0).is_err());
        assert!(rustix::fs::ftruncate(&fd, 8192).is_err());
    }

    #[test]
    fn a_file_is_made_once_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let (mapping, _file) = Mapping::create_file(&path, 8192).unwrap();
        mapping.words()[3].store(42, Relaxed);
        assert_eq!(
            Mapping::open_file(&path, Access::ReadOnly).unwrap().words()[3].load(Relaxed),
            42
        );
        let again = Mapping::create_file(&path, 8192).unwrap_err();
        assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
        assert!(again.to_string().contains("ledger"), "{again}");
    }

    #[test]
    fn a_file_that_finds_no_room_is_not_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        assert!(Mapping::create_file(&path, 1 << 60).is_err());
        assert!(!path.exists());
    }

    #[test]
    fn an_empty_file_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        assert!(Mapping::of_fd(&file, Access::ReadOnly).is_err());
    }
}
