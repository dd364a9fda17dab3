//! Sealed memory files and their mappings.

use std::ffi::c_void;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::atomics::{AtomicU64, Ordering};
use crate::error::RingError;

/// The unit in which memory is mapped. Taken as a constant so that both sides agree; larger pages (64 KiB) divide it not, but the
/// least capacity of a ring.
pub(crate) const PAGE_BYTES: u64 = 4096;

const SEALS: SealFlags = SealFlags::GROW
    .union(SealFlags::SHRINK)
    .union(SealFlags::SEAL);

fn system(call: &'static str, what: &'static str) -> impl FnOnce(Errno) -> RingError {
    move |errno| RingError::System { call, what, errno }
}

/// A memory file of a fixed size, which nobody but this user can open again for writing.
pub(crate) fn create(what: &'static str, name: &str, bytes: u64) -> Result<OwnedFd, RingError> {
    let fd = unsealed(what, name, bytes)?;
    seal(what, &fd, SEALS)?;
    Ok(fd)
}

/// A memory file of a fixed size that is written through one mapping alone, the one that is returned, and those that `also` makes: nobody can make another one for writing
/// afterwards, however the file is opened.
pub(crate) fn create_own<T, E: From<RingError>>(
    what: &'static str,
    name: &str,
    bytes: u64,
    also: impl FnOnce(BorrowedFd<'_>) -> Result<T, E>,
) -> Result<(OwnedFd, Mapping, T), E> {
    let fd = unsealed(what, name, bytes)?;
    let mapping = Mapping::whole(what, &fd, bytes, Access::ReadWrite)?;
    let made = also(fd.as_fd())?;
    seal(what, &fd, SEALS | SealFlags::FUTURE_WRITE)?;
    Ok((fd, mapping, made))
}

fn seal(what: &'static str, fd: &OwnedFd, seals: SealFlags) -> Result<(), RingError> {
    rustix::fs::fcntl_add_seals(fd, seals).map_err(system("fcntl(F_ADD_SEALS)", what))
}

fn unsealed(what: &'static str, name: &str, bytes: u64) -> Result<OwnedFd, RingError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create(name, flags).map_err(system("memfd_create", what))?;
    rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR).map_err(system("fchmod", what))?;
    rustix::fs::ftruncate(&fd, bytes).map_err(system("ftruncate", what))?;
    Ok(fd)
}

/// A second descriptor of the same memory, which cannot be mapped for writing.
pub(crate) fn read_only(what: &'static str, fd: &OwnedFd) -> Result<OwnedFd, RingError> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(system("open(O_RDONLY)", what))
}

/// A second descriptor with the same rights.
pub(crate) fn duplicate(what: &'static str, fd: &OwnedFd) -> Result<OwnedFd, RingError> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(system("fcntl(F_DUPFD_CLOEXEC)", what))
}

/// The sole right to write a side's index, and with it to be that side: a lock of an open file description that nobody else has.
///
/// The kernel drops it with the descriptor when its owner dies, after its memory is gone, so a successor cannot overlap with it.
pub(crate) fn claim(what: &'static str, fd: &OwnedFd) -> Result<OwnedFd, RingError> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let lock = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(system("open(O_RDWR)", what))?;
    let whole = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the kernel only reads the structure, which lives until the call returns.
    if unsafe { libc::fcntl(lock.as_raw_fd(), libc::F_OFD_SETLK, &whole) } == 0 {
        return Ok(lock);
    }
    let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL);
    Err(match errno {
        Errno::AGAIN | Errno::ACCESS => RingError::Claimed { what },
        errno => system("fcntl(F_OFD_SETLK)", what)(errno),
    })
}

/// Checks that a memory file has the size that the set's shape gives and cannot change it.
pub(crate) fn verify(
    what: &'static str,
    fd: BorrowedFd<'_>,
    expected: u64,
) -> Result<(), RingError> {
    verify_seals(what, fd, expected, SealFlags::GROW | SealFlags::SHRINK)
}

/// The same of one that nobody can map for writing any more.
pub(crate) fn verify_own(
    what: &'static str,
    fd: BorrowedFd<'_>,
    expected: u64,
) -> Result<(), RingError> {
    verify_seals(what, fd, expected, SEALS | SealFlags::FUTURE_WRITE)
}

fn verify_seals(
    what: &'static str,
    fd: BorrowedFd<'_>,
    expected: u64,
    needed: SealFlags,
) -> Result<(), RingError> {
    let found = rustix::fs::fstat(fd)
        .map_err(system("fstat", what))?
        .st_size as u64;
    if found != expected {
        return Err(RingError::Size {
            what,
            expected,
            found,
        });
    }
    let seals = rustix::fs::fcntl_get_seals(fd).map_err(system("fcntl(F_GET_SEALS)", what))?;
    if !seals.contains(needed) {
        return Err(RingError::Seals {
            what,
            found: seals.bits(),
        });
    }
    Ok(())
}

/// What a side may do with a memory file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

impl Access {
    fn protection(self) -> ProtFlags {
        match self {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

/// A range of address space, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is an address range that belongs to the process, not to a thread; all access goes through the types that hold it.
unsafe impl Send for Mapping {}
// SAFETY: as above; `Mapping` itself hands out nothing but its address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The whole of a memory file, whose size `verify` has checked.
    pub(crate) fn whole(
        what: &'static str,
        fd: &OwnedFd,
        len: u64,
        access: Access,
    ) -> Result<Self, RingError> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        Self::shared(what, fd, len, access, flags)
    }

    /// The same; its pages come when they are touched.
    pub(crate) fn lazy(
        what: &'static str,
        fd: &impl AsFd,
        len: u64,
        access: Access,
    ) -> Result<Self, RingError> {
        Self::shared(what, fd, len, access, MapFlags::SHARED)
    }

    fn shared(
        what: &'static str,
        fd: &impl AsFd,
        len: u64,
        access: Access,
        flags: MapFlags,
    ) -> Result<Self, RingError> {
        // SAFETY: the kernel chooses a free range, so no existing object is touched.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                len as usize,
                access.protection(),
                flags,
                fd,
                0,
            )
        };
        Mapping::owning(base.map_err(system("mmap", what))?, len as usize, what)
    }

    /// `[offset, offset + bytes)` of a memory file twice in a row, so that what wraps at the end is contiguous.
    pub(crate) fn doubled(
        fd: &OwnedFd,
        offset: u64,
        bytes: u64,
        access: Access,
        populate: bool,
    ) -> Result<Self, RingError> {
        let (what, one, two) = ("ring data", bytes as usize, 2 * bytes as usize);
        // SAFETY: the kernel chooses a free range; it is only reserved.
        let reserved = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                two,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let mapping = Mapping::owning(reserved.map_err(system("mmap", what))?, two, what)?;
        let mut flags = MapFlags::SHARED | MapFlags::FIXED;
        flags.set(MapFlags::POPULATE, populate);
        for half in 0..2 {
            // SAFETY: `half * one` is inside the range of `2 * one` bytes reserved above.
            let at = unsafe { mapping.base.as_ptr().add(half * one) }.cast::<c_void>();
            // SAFETY: the range replaced is the one reserved above, which nobody else knows yet.
            unsafe { rustix::mm::mmap(at, one, access.protection(), flags, fd.as_fd(), offset) }
                .map_err(system("mmap", what))?;
        }
        Ok(mapping)
    }

    fn owning(base: *mut c_void, len: usize, what: &'static str) -> Result<Self, RingError> {
        let base = NonNull::new(base.cast::<u8>()).ok_or(RingError::System {
            call: "mmap",
            what,
            errno: Errno::NOMEM,
        })?;
        Ok(Mapping { base, len })
    }

    /// First byte.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length of the range.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this object and everything that points into it holds it.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap: {unmapped:?}");
    }
}

/// An object of atomics inside a mapping, which it keeps alive.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    object: NonNull<T>,
    _mapping: Arc<Mapping>,
}

// SAFETY: a `Shared<T>` is a counted reference to a `T: Sync` in memory that any thread may use.
unsafe impl<T: Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared {
            object: self.object,
            _mapping: Arc::clone(&self._mapping),
        }
    }
}

/// Types that may lie in shared memory: made of atomics only, every bit pattern valid, `repr(C)`.
///
/// # Safety
/// The implementor has interior mutability in every byte it reads and no invalid bit patterns.
pub(crate) unsafe trait Plain: Sync {}

// SAFETY: one `AtomicU64` per field, `repr(C)`.
unsafe impl Plain for crate::index::Slot {}
// SAFETY: one `AtomicU32`, `repr(C)`.
unsafe impl Plain for crate::wake::WaitFlag {}

impl<T: Plain> Shared<T> {
    /// The object at `offset`; `None` if it would not lie inside the mapping or not be aligned.
    pub(crate) fn at(mapping: &Arc<Mapping>, offset: usize) -> Option<Self> {
        let end = offset.checked_add(size_of::<T>())?;
        if end > mapping.len() || !offset.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: `offset + size_of::<T>()` is inside the mapping, checked above.
        let object = unsafe { mapping.base().add(offset) }.cast::<T>();
        Some(Shared {
            object,
            _mapping: Arc::clone(mapping),
        })
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `at` checked bounds and alignment (a mapping begins on a page); the mapping lives as long as `self`; `T: Plain` is valid for
        // any bytes and shared with other processes only through atomics. On a read-only mapping the callers only load.
        unsafe { self.object.as_ref() }
    }
}

/// A row of words in a mapping, each read or written at once. Their order against each other is given by the index next to them.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    first: NonNull<AtomicU64>,
    len: usize,
    _mapping: Arc<Mapping>,
}

// SAFETY: counted references to atomics in memory that any thread may use.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// `len` words at `offset`; `None` if they would not lie inside the mapping or not be aligned.
    pub(crate) fn at(mapping: &Arc<Mapping>, offset: usize, len: usize) -> Option<Self> {
        let end = len
            .checked_mul(size_of::<AtomicU64>())?
            .checked_add(offset)?;
        if end > mapping.len() || !offset.is_multiple_of(align_of::<AtomicU64>()) {
            return None;
        }
        // SAFETY: `offset` is inside the mapping, checked above.
        let first = unsafe { mapping.base().add(offset) }.cast::<AtomicU64>();
        Some(Words {
            first,
            len,
            _mapping: Arc::clone(mapping),
        })
    }

    #[inline]
    fn word(&self, index: usize) -> Option<&AtomicU64> {
        // SAFETY: `index < len`, and `at` checked that so many words are inside the mapping, which lives as long as `self`; an atomic word has no
        // invalid value. On a read-only mapping the callers only load.
        (index < self.len).then(|| unsafe { self.first.add(index).as_ref() })
    }

    /// The word; 0 outside the row.
    #[inline]
    pub(crate) fn load(&self, index: usize) -> u64 {
        self.word(index)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Sets the word; nothing outside the row.
    #[inline]
    pub(crate) fn store(&self, index: usize, value: u64) {
        if let Some(word) = self.word(index) {
            word.store(value, Ordering::Relaxed);
        }
    }
}
