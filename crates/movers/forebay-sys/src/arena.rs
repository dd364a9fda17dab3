//! A memfd that one process at a time owns as plain bytes, and that outlives this process.
//!
//! A stage's scratch memory lies here so that its successor finds, after a `kill -9`, what the kernel had
//! already written into it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::mm::MapFlags;

use crate::SysError;
use crate::mapping::{Access, Pages, file_bytes, sealed_memfd};

/// The sole right to a memfd's bytes, in this process and among processes.
///
/// It is a lock of an open file description (`F_OFD_SETLK`) that nobody else has: the memfd is opened anew for it. A
/// record lock of the process would go as soon as any descriptor of the memfd is closed. The kernel drops the lock with
/// the description when the owner dies, after its memory is gone, so a successor cannot overlap with it.
#[derive(Debug)]
struct Claim {
    /// As it was handed over, to be shared.
    fd: OwnedFd,
    /// Holds the lock; never duplicated.
    _lock: OwnedFd,
}

impl Claim {
    fn take(fd: OwnedFd) -> Result<Self, SysError> {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let lock = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| SysError::new("open", path, errno))?;
        let whole = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        // SAFETY: the descriptor is open, and the kernel only reads the structure, which lives until the call returns.
        let locked = unsafe { libc::fcntl(lock.as_raw_fd(), libc::F_OFD_SETLK, &whole) };
        if locked == 0 {
            return Ok(Self { fd, _lock: lock });
        }
        let error = std::io::Error::last_os_error();
        Err(
            SysError::new("claim arena", format!("fd {}", fd.as_raw_fd()), error)
                .with_remedy("it is held by another owner; an arena has one owner at a time"),
        )
    }
}

/// A memfd mapped as bytes and owned exclusively while this value lives.
#[derive(Debug)]
pub struct ByteArena {
    // Declared before the claim: the pages go first, then the right to them.
    pages: Pages,
    claim: Claim,
}

impl ByteArena {
    /// Creates the memfd of an arena of `bytes`; hand it to [`ByteArena::attach`], here or in another process.
    ///
    /// # Errors
    /// When memory or descriptors run out.
    pub fn create(bytes: u64) -> Result<OwnedFd, SysError> {
        sealed_memfd("forebay-arena", bytes)
    }

    /// Claims and maps an arena; its content stays as the previous owner left it. All pages are touched now, so
    /// that the data path meets no page fault.
    ///
    /// # Errors
    /// `EBUSY`/`EAGAIN` when it has an owner; else when it cannot be mapped.
    pub fn attach(fd: OwnedFd) -> Result<Self, SysError> {
        let claim = Claim::take(fd)?;
        let bytes = file_bytes(&claim.fd, "arena")?;
        let pages = Pages::map(
            claim.fd.as_fd(),
            bytes,
            Access::ReadWrite,
            MapFlags::POPULATE,
        )?;
        Ok(Self { pages, claim })
    }

    /// The whole arena.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped while `self` lives; the claim keeps other owners out, `&self` keeps writers out.
        unsafe { std::slice::from_raw_parts(self.pages.start(), self.pages.bytes()) }
    }

    /// The whole arena, to be written.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.pages.start(), self.pages.bytes()) }
    }

    /// Disjoint slots of `stride_bytes` each, to be written; a rest shorter than a slot is left out.
    ///
    /// # Panics
    /// When `stride_bytes` is 0.
    pub fn slots_mut(&mut self, stride_bytes: usize) -> impl Iterator<Item = &mut [u8]> {
        self.bytes_mut().chunks_exact_mut(stride_bytes)
    }

    /// Another descriptor of the same memory, to keep it alive beyond this owner; it carries no right to the bytes.
    ///
    /// # Errors
    /// When descriptors run out.
    pub fn share_fd(&self) -> Result<OwnedFd, SysError> {
        self.claim
            .fd
            .try_clone()
            .map_err(|source| SysError::new("dup", "arena", source))
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.pages.start()
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_outlives_the_owner() {
        let fd = ByteArena::create(8192).unwrap();
        let mut first = ByteArena::attach(fd.try_clone().unwrap()).unwrap();
        first.bytes_mut()[4097] = 9;
        drop(first);
        assert_eq!(ByteArena::attach(fd).unwrap().bytes()[4097], 9);
    }

    #[test]
    fn a_second_owner_is_refused_until_the_first_is_gone() {
        let fd = ByteArena::create(4096).unwrap();
        let first = ByteArena::attach(fd.try_clone().unwrap()).unwrap();
        let refused = ByteArena::attach(fd.try_clone().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("one owner"), "{refused}");
        drop(first);
        ByteArena::attach(fd).unwrap();
    }

    #[test]
    fn a_descriptor_that_is_closed_does_not_end_the_claim() {
        let fd = ByteArena::create(4096).unwrap();
        let first = ByteArena::attach(fd.try_clone().unwrap()).unwrap();
        drop(first.share_fd().unwrap());
        drop(fd.try_clone().unwrap());
        let refused = ByteArena::attach(fd).unwrap_err();
        assert!(refused.to_string().contains("one owner"), "{refused}");
    }

    #[test]
    fn slots_are_disjoint() {
        let mut arena = ByteArena::attach(ByteArena::create(4096).unwrap()).unwrap();
        for (number, slot) in arena.slots_mut(1000).enumerate() {
            slot.fill(number as u8 + 1);
        }
        assert_eq!(
            [999, 1000, 3999, 4000].map(|at| arena.bytes()[at]),
            [1, 2, 4, 0]
        );
    }
}
