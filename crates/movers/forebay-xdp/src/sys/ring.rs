//! A ring that programs of the kernel write records into (`Documentation/bpf/ringbuf.rst`), as its one reader.

use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{Map, of_bytes};
use crate::abi::Plain;
use crate::error::XdpError;

/// A record that is being written.
const BUSY: u32 = 1 << 31;
/// A record that was given up.
const DISCARDED: u32 = 1 << 30;
const HEADER_BYTES: usize = 8;

/// Some memory that is shared with the kernel.
#[derive(Debug)]
struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is the process's, not a thread's.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(map: &Map, offset: usize, bytes: usize, protection: i32) -> Result<Self, XdpError> {
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                map.number().as_raw_fd(),
                offset as libc::off_t,
            )
        };
        match NonNull::new(at.cast()) {
            Some(place) if at != libc::MAP_FAILED => Ok(Self { at: place, bytes }),
            _ => Err(XdpError::system("mmap", map.spec.name)),
        }
    }

    /// A counter at its begin.
    fn counter(&self) -> &AtomicU64 {
        // SAFETY: the mapping has at least a page, begins at one, and lives as long as this borrow; the kernel writes the counter as a whole.
        unsafe { self.at.cast::<AtomicU64>().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// The reader's end of a ring.
#[derive(Debug)]
pub(crate) struct Ring {
    /// A page that says up to where was read.
    consumed: Mapping,
    /// A page that says up to where was written, and the data twice in a row, so that no record is cut at the end.
    produced: Mapping,
    page_bytes: usize,
    data_bytes: usize,
}

impl Ring {
    /// Maps the ring of a map of this kind.
    pub(crate) fn new(map: &Map) -> Result<Self, XdpError> {
        // SAFETY: a call without arguments that are pointers.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let data_bytes = map.spec.entries as usize;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        Ok(Self {
            consumed: Mapping::new(map, 0, page_bytes, both)?,
            produced: Mapping::new(
                map,
                page_bytes,
                page_bytes + 2 * data_bytes,
                libc::PROT_READ,
            )?,
            page_bytes,
            data_bytes,
        })
    }

    /// Hands on at most so many records, and gives their number. Shorter records are skipped: none is written.
    pub(crate) fn read<T: Plain>(&mut self, most: usize, taken: &mut impl FnMut(T)) -> usize {
        let mut at = self.consumed.counter().load(Ordering::Relaxed);
        // SYNC POINT: the heads of all records before it were written.
        let end = self.produced.counter().load(Ordering::Acquire);
        let mut count = 0;
        while at < end && count < most {
            let place = self.page_bytes + at as usize % self.data_bytes;
            // SYNC POINT: with the bit BUSY gone, the record was written.
            let head = self.head(place).load(Ordering::Acquire);
            if head & BUSY != 0 {
                break;
            }
            let bytes = (head & !(BUSY | DISCARDED)) as usize;
            if head & DISCARDED == 0
                && let Some(record) = of_bytes(self.record(place, bytes))
            {
                taken(record);
                count += 1;
            }
            at += (HEADER_BYTES + bytes).next_multiple_of(8) as u64;
            // SYNC POINT: the kernel may write there from now on.
            self.consumed.counter().store(at, Ordering::Release);
        }
        count
    }

    fn head(&self, place: usize) -> &AtomicU32 {
        assert!(place.is_multiple_of(8) && place + HEADER_BYTES <= self.produced.bytes);
        // SAFETY: within the mapping and aligned, as is checked above.
        unsafe { self.produced.at.add(place).cast::<AtomicU32>().as_ref() }
    }

    fn record(&self, place: usize, bytes: usize) -> &[u8] {
        let begin = place + HEADER_BYTES;
        assert!(begin + bytes <= self.produced.bytes);
        // SAFETY: within the mapping, as is checked above; the kernel does not touch a record between the end of its writing and the move of `consumed`.
        unsafe { std::slice::from_raw_parts(self.produced.at.add(begin).as_ptr(), bytes) }
    }
}
