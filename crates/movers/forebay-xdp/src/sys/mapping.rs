//! Memory of this process that the kernel reads and writes, too.

use std::os::fd::RawFd;
use std::ptr::NonNull;

/// Some of it, for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is the process's, not a thread's.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps a part of what is behind a descriptor, with rights as of mmap(2). None if the kernel refuses, with its reason in `errno`.
    pub(crate) fn of_file(file: RawFd, offset: i64, bytes: usize, protection: i32) -> Option<Self> {
        Self::new(
            file,
            offset,
            bytes,
            (protection, libc::MAP_SHARED | libc::MAP_POPULATE),
        )
    }

    /// Maps new memory, all bytes 0.
    pub(crate) fn anonymous(bytes: usize) -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        Self::new(-1, 0, bytes, (libc::PROT_READ | libc::PROT_WRITE, flags))
    }

    /// Maps so much of a file, from its begin, and new memory behind it, as one range: both a number of whole pages.
    pub(crate) fn file_and_new(file: RawFd, file_bytes: usize, new_bytes: usize) -> Option<Self> {
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let new = (both, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let whole = Self::new(-1, 0, file_bytes.checked_add(new_bytes)?, new)?;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE;
        // SAFETY: this range lies in the mapping that was just made, and nothing refers to it.
        let at = unsafe { libc::mmap(whole.at.as_ptr().cast(), file_bytes, both, flags, file, 0) };
        (at != libc::MAP_FAILED).then_some(whole)
    }

    fn new(
        file: RawFd,
        offset: i64,
        bytes: usize,
        (protection, flags): (i32, i32),
    ) -> Option<Self> {
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file, offset) };
        match NonNull::new(at.cast()) {
            Some(place) if at != libc::MAP_FAILED => Some(Self { at: place, bytes }),
            _ => None,
        }
    }

    /// Where it begins, at a page.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.at
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
