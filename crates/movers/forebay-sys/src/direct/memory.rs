//! Memory that is written past the page cache.

use std::alloc::{Layout, alloc, dealloc};
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{Advice, madvise};

use super::ALIGN_BYTES;

/// Of an x86 or ARM with pages of 4 KiB: larger ones have larger huge pages, and go without.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Memory for what is written past the page cache: aligned, zero at first, and in huge pages where it has room for one and the kernel gives them (`MADV_HUGEPAGE`,
/// madvise(2)). The disk then gets a few long runs of memory in place of a page each.
#[derive(Debug)]
pub struct DirectMemory {
    base: NonNull<u8>,
    layout: Layout,
}

impl DirectMemory {
    /// So many bytes, 1 at least.
    ///
    /// # Errors
    /// There is no memory, or none was asked for.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let is_huge = bytes >= HUGE_PAGE_BYTES;
        let align = if is_huge {
            HUGE_PAGE_BYTES
        } else {
            ALIGN_BYTES
        };
        let layout = Layout::from_size_align(bytes, align).ok();
        let layout = layout.filter(|_| bytes > 0);
        let layout = layout.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc(layout) };
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        if is_huge {
            // SAFETY: the range is this allocation, and the advice changes none of its bytes. A kernel without huge pages refuses it, and pages are small then.
            let _ = unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        // SAFETY: the range is this allocation. Its pages come here, behind the advice.
        unsafe { base.write_bytes(0, bytes) };
        Ok(Self { base, layout })
    }
}

impl Deref for DirectMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: all bytes of the allocation are set, and it lives as long as this.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for DirectMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.layout.size()) }
    }
}

impl Drop for DirectMemory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nobody has it any more.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

// SAFETY: it is the only owner of its bytes, as a `Vec<u8>` is.
unsafe impl Send for DirectMemory {}
// SAFETY: as above: a shared reference reads alone.
unsafe impl Sync for DirectMemory {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_and_zero_and_keeps_what_is_written() {
        for bytes in [
            1,
            4_096,
            5_000,
            HUGE_PAGE_BYTES - 1,
            2 * HUGE_PAGE_BYTES + 7,
        ] {
            let mut memory = DirectMemory::new(bytes).unwrap();
            assert_eq!(memory.as_ptr().align_offset(ALIGN_BYTES), 0);
            assert_eq!(memory.len(), bytes);
            assert!(memory.iter().all(|byte| *byte == 0));
            memory.fill(7);
            assert!(memory.iter().all(|byte| *byte == 7));
        }
        assert!(DirectMemory::new(0).is_err());
        assert!(DirectMemory::new(usize::MAX).is_err());
    }

    #[test]
    fn the_kernel_is_asked_for_huge_pages() {
        let Ok(kernel) = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        else {
            forebay_testing::skip!("this kernel has no huge pages");
            return;
        };
        let memory = DirectMemory::new(2 * HUGE_PAGE_BYTES).unwrap();
        // Memory with another advice than its neighbours' has a line of its own.
        let begin = format!("{:x}-", memory.as_ptr() as usize);
        let all = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (_, own) = all.split_once(&begin).unwrap();
        let (_, flags) = own.split_once("VmFlags:").unwrap();
        let flags = flags.lines().next().unwrap();
        assert!(flags.contains(" hg"), "{flags}; {kernel}");
    }
}
