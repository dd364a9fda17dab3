//! Memory that others write and the provider sends from: a mapping of a sealed memory file.

use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::abi::FI_TRANSMIT;
use super::memory::{Registration, description};
use super::objects::Domain;
use crate::error::FabricError;

/// Memory of a file that others write: mapped for reading alone, registered, and read by the provider only. It stays mapped while something of it
/// is under way: a send holds an `Arc` of it.
pub struct SharedMemory {
    registration: Option<Registration>,
    start: NonNull<u8>,
    len: usize,
    domain: Arc<Domain>,
}

// SAFETY: a mapping that is never written, and whose bytes are not read from here: only its address is used.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Maps the whole file.
    pub(crate) fn map(domain: &Arc<Domain>, file: BorrowedFd<'_>) -> Result<Self, FabricError> {
        let failed = |call| {
            let errno = std::io::Error::last_os_error().raw_os_error();
            domain
                .library()
                .failed(call, errno.unwrap_or(libc::EIO).into())
        };
        let fd = file.as_raw_fd();
        // SAFETY: the descriptor is open; the call has no other argument.
        let seals = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
        if seals < 0 {
            return Err(failed("fcntl(F_GET_SEALS)"));
        }
        // SAFETY: numbers alone, for which zero is a value; the call fills them.
        let mut found: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open, and the structure lives until the call returns.
        if unsafe { libc::fstat(fd, &raw mut found) } != 0 {
            return Err(failed("fstat"));
        }
        let len = usize::try_from(found.st_size).unwrap_or_default();
        if seals & libc::F_SEAL_SHRINK == 0 || len == 0 {
            return Err(FabricError::NotShareable);
        }
        // SAFETY: a new mapping of an open file, at an address that the kernel chooses.
        let start = unsafe {
            let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(ptr::null_mut(), len, protection, flags, fd, 0)
        };
        let start = (start != libc::MAP_FAILED).then_some(start);
        let start = start.and_then(|start| NonNull::new(start.cast::<u8>()));
        let mut shared = Self {
            registration: None,
            start: start.ok_or_else(|| failed("mmap"))?,
            len,
            domain: Arc::clone(domain),
        };
        // SAFETY: the mapping stays until the registration is closed, see `drop`; the file cannot shrink, so all of it stays there.
        let registration =
            unsafe { Registration::new(domain, shared.start.as_ptr(), len, FI_TRANSMIT) }?;
        shared.registration = Some(registration);
        Ok(shared)
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: an empty file is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where a range begins that lies in it, and what the provider of `domain` calls it: null when it is another one's.
    pub(super) fn place(
        &self,
        range: &Range<usize>,
        domain: &Arc<Domain>,
    ) -> (*mut u8, *mut c_void) {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "a range behind the memory"
        );
        let known = self.is_of(domain).then_some(&self.registration);
        // SAFETY: within the mapping, as just checked.
        let start = unsafe { self.start.as_ptr().add(range.start) };
        (start, description(known.and_then(Option::as_ref)))
    }

    pub(super) fn is_of(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let closed = self.registration.take().is_none_or(Registration::close);
        if closed {
            // SAFETY: mapped by `map` with this length, and the provider does not know it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

impl std::fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedMemory({} bytes)", self.len)
    }
}
