//! Bytes that belong to the producer, read without trusting it.
//!
//! The consumer's mapping is read-only, but the producer could write at any time. An honest one does not touch what is published and not
//! released. For a hostile one the rule is: **every byte is read once, and what was read is what is used.** A plain load followed by an
//! empty `asm!` that takes the value (or the address of the copy) gives that: the compiler must assume that the block changed the value (or
//! all memory that it can reach), so it can neither go back to the shared bytes for a second look nor merge the copy with its source, which
//! are the two ways in which a race with another process becomes visible. It costs no instruction, and the copy is the platform's
//! `memcpy`. There is no `&[u8]` of the shared bytes: Rust promises the compiler that those never change.

use std::arch::asm;
use std::fmt;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("forebay-ring needs a 64-bit machine: positions and single loads are 64 bits wide");

/// A range of a ring (or frame), bounds-checked when made. It borrows its consumer, so nothing can be released meanwhile.
#[derive(Clone, Copy)]
pub struct View<'a> {
    at: NonNull<u8>,
    len: usize,
    consumer: PhantomData<&'a ()>,
}

// SAFETY: a view only reads memory that stays mapped while the consumer is borrowed; any thread may do so.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}

macro_rules! read_words {
    ($($le:ident $be:ident $word:ty;)*) => {$(
        #[doc = concat!("The little-endian `", stringify!($word), "` at `offset`, aligned or not; `None` outside the view.")]
        #[inline]
        pub fn $le(&self, offset: usize) -> Option<$word> {
            let at = self.part(offset, size_of::<$word>())?.at.cast::<$word>();
            // SAFETY: `part` has checked that the word's bytes are inside the view.
            let word = unsafe { at.read_unaligned() };
            Some(<$word>::from_le(opaque(word.into()) as $word))
        }

        #[doc = concat!("The big-endian `", stringify!($word), "` at `offset`, aligned or not; `None` outside the view.")]
        #[inline]
        pub fn $be(&self, offset: usize) -> Option<$word> {
            self.$le(offset).map(<$word>::swap_bytes)
        }
    )*};
}

/// The same value, which the compiler no longer connects with where it came from.
#[inline(always)]
fn opaque(mut value: u64) -> u64 {
    // SAFETY: the block has no instructions; the value stays in its register.
    unsafe { asm!("/* {0} */", inout(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Ends the compiler's knowledge of what lies behind both addresses.
#[inline(always)]
fn forget(from: *const u8, to: *const u8) {
    // SAFETY: the block has no instructions; without `nomem` the compiler must assume that it read and wrote memory.
    unsafe { asm!("/* {0} {1} */", in(reg) from, in(reg) to, options(nostack, preserves_flags)) };
}

impl<'a> View<'a> {
    /// # Safety
    /// `len` bytes from `at` stay mapped for reading as long as `'a` lasts.
    #[inline]
    pub(crate) unsafe fn new(at: NonNull<u8>, len: usize) -> Self {
        View {
            at,
            len,
            consumer: PhantomData,
        }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Where its bytes begin, for code that is not Rust; it is valid as long as the view's frame, or range of a ring, is not given back. The rule above holds
    /// there as well: what is read twice may differ.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.at.as_ptr().cast_const()
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of it; `None` outside the view.
    #[inline]
    pub fn part(&self, offset: usize, len: usize) -> Option<View<'a>> {
        let inside = offset <= self.len && len <= self.len - offset;
        // SAFETY: `offset` is inside the view, checked above; the part lives as long as the whole.
        inside.then(|| unsafe { View::new(self.at.add(offset), len) })
    }

    read_words! {
        read_u16_le read_u16_be u16;
        read_u32_le read_u32_be u32;
        read_u64_le read_u64_be u64;
    }

    /// The `N` bytes at `offset`, such as a header; `None` outside the view.
    #[inline]
    pub fn array<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.copy_to(offset, &mut bytes).then_some(bytes)
    }

    /// Fills `to` from `offset` on; `false`, and nothing copied, if the view ends before.
    #[inline]
    #[must_use]
    pub fn copy_to(&self, offset: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.part(offset, to.len()) else {
            return false;
        };
        let (from, into) = (from.at.as_ptr().cast_const(), to.as_mut_ptr());
        forget(from, into);
        // SAFETY: the source was checked to lie inside the view, the target is a slice of this process's own memory, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, into, to.len()) };
        forget(from, into);
        true
    }

    /// Hints the processor that all of it will be read soon.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_lines(self.at.as_ptr(), self.len);
    }

    /// Shows all bytes in order, in private blocks: as fast as memory is read, where single words would each be a read of their own.
    #[inline]
    pub fn each_block(&self, mut look: impl FnMut(&[u8])) {
        // Fits the nearest cache, so that the copy costs no memory bandwidth.
        let mut block = [0; 4096];
        let mut at = 0;
        while at < self.len {
            let taken = block.len().min(self.len - at);
            // It is inside: `at + taken` is at most the length.
            let _inside = self.copy_to(at, &mut block[..taken]);
            look(&block[..taken]);
            at += taken;
        }
    }

    /// Appends a copy of the whole.
    pub fn append_to(&self, to: &mut Vec<u8>) {
        to.reserve(self.len);
        let from = self.at.as_ptr().cast_const();
        let into = to.spare_capacity_mut().as_mut_ptr().cast::<u8>();
        forget(from, into);
        // SAFETY: the view's bytes are mapped; the vector has so many spare ones, in this process's own memory, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, into, self.len) };
        forget(from, into);
        // SAFETY: the copy has just written the bytes between the old length and the new one.
        unsafe { to.set_len(to.len() + self.len) };
    }

    /// A copy of the whole.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes
    }

    /// Writes the bytes to a descriptor without a copy in this process: the kernel reads them, once. Returns how many it took.
    pub fn write_to(&self, fd: impl AsFd) -> std::io::Result<usize> {
        let raw = fd.as_fd().as_raw_fd();
        // SAFETY: the kernel only reads the view's bytes, which stay mapped during the call.
        let written = unsafe { libc::write(raw, self.at.as_ptr().cast(), self.len) };
        usize::try_from(written).map_err(|_| std::io::Error::last_os_error())
    }

    /// Writes the bytes at `file_offset`, as [`Self::write_to`].
    pub fn write_at(&self, fd: impl AsFd, file_offset: u64) -> std::io::Result<usize> {
        let raw = fd.as_fd().as_raw_fd();
        // SAFETY: the kernel only reads the view's bytes, which stay mapped during the call.
        let written = unsafe {
            libc::pwrite(
                raw,
                self.at.as_ptr().cast(),
                self.len,
                file_offset as libc::off_t,
            )
        };
        usize::try_from(written).map_err(|_| std::io::Error::last_os_error())
    }
}

/// Hints the processor that `bytes` will be read soon: [`View::prefetch`] for private memory.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    prefetch_lines(bytes.as_ptr(), bytes.len());
}

/// Fetches into the second-level cache, where what is read one event later does not push out what is read now.
#[inline(always)]
fn prefetch_lines(at: *const u8, len: usize) {
    const LINE_BYTES: usize = 64;
    #[cfg(target_arch = "x86_64")]
    for offset in (0..len + at.addr() % LINE_BYTES).step_by(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see, and faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(offset).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, len, LINE_BYTES);
}

/// Most views that one call of [`write_views`] or [`write_views_at`] takes (the kernel's `UIO_MAXIOV`).
pub const VIEWS_MAX: usize = 1024;

/// Writes many views in one system call, without a copy in this process. Takes the first [`VIEWS_MAX`] of them and returns the bytes
/// written, which may end inside a view.
pub fn write_views(fd: impl AsFd, views: &[View<'_>]) -> std::io::Result<usize> {
    let parts = io_parts(views);
    let raw = fd.as_fd().as_raw_fd();
    // SAFETY: the kernel only reads the views' bytes, which stay mapped during the call; there are at most `VIEWS_MAX` parts.
    let written = unsafe { libc::writev(raw, parts.as_ptr(), parts.len() as libc::c_int) };
    usize::try_from(written).map_err(|_| std::io::Error::last_os_error())
}

/// As [`write_views`], at `file_offset`.
pub fn write_views_at(
    fd: impl AsFd,
    views: &[View<'_>],
    file_offset: u64,
) -> std::io::Result<usize> {
    let parts = io_parts(views);
    let (raw, count) = (fd.as_fd().as_raw_fd(), parts.len() as libc::c_int);
    // SAFETY: as in `write_views`.
    let written = unsafe { libc::pwritev(raw, parts.as_ptr(), count, file_offset as libc::off_t) };
    usize::try_from(written).map_err(|_| std::io::Error::last_os_error())
}

fn io_parts(views: &[View<'_>]) -> Vec<libc::iovec> {
    let part = |view: &View<'_>| libc::iovec {
        iov_base: view.at.as_ptr().cast(),
        iov_len: view.len,
    };
    views.iter().take(VIEWS_MAX).map(part).collect()
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} bytes)", self.len)
    }
}
