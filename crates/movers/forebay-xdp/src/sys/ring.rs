//! A ring that programs of the kernel write records into (`Documentation/bpf/ringbuf.rst`), as its one reader.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::mapping::Mapping;
use super::{Map, of_bytes};
use crate::abi::Plain;
use crate::error::XdpError;

/// A record that is being written.
const BUSY: u32 = 1 << 31;
/// A record that was given up.
const DISCARDED: u32 = 1 << 30;
const HEADER_BYTES: usize = 8;

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
        let of_map = |offset, bytes, protection| {
            Mapping::of_file(map.number(), offset, bytes, protection)
                .ok_or_else(|| XdpError::system("mmap", map.spec.name))
        };
        Ok(Self {
            consumed: of_map(0, page_bytes, both)?,
            produced: of_map(
                page_bytes as i64,
                page_bytes + 2 * data_bytes,
                libc::PROT_READ,
            )?,
            page_bytes,
            data_bytes,
        })
    }

    /// A counter at the begin of a mapping.
    fn counter(mapping: &Mapping) -> &AtomicU64 {
        // SAFETY: the mapping has at least a page, begins at one, and lives as long as this borrow; the kernel writes the counter as a whole.
        unsafe { mapping.start().cast::<AtomicU64>().as_ref() }
    }

    /// Hands on at most so many records, and gives their number. Shorter records are skipped: none is written.
    pub(crate) fn read<T: Plain>(&mut self, most: usize, taken: &mut impl FnMut(T)) -> usize {
        let mut at = Self::counter(&self.consumed).load(Ordering::Relaxed);
        // SYNC POINT: the heads of all records before it were written.
        let end = Self::counter(&self.produced).load(Ordering::Acquire);
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
            Self::counter(&self.consumed).store(at, Ordering::Release);
        }
        count
    }

    fn head(&self, place: usize) -> &AtomicU32 {
        assert!(place.is_multiple_of(8) && place + HEADER_BYTES <= self.produced.bytes());
        // SAFETY: within the mapping and aligned, as is checked above.
        unsafe {
            self.produced
                .start()
                .add(place)
                .cast::<AtomicU32>()
                .as_ref()
        }
    }

    fn record(&self, place: usize, bytes: usize) -> &[u8] {
        let begin = place + HEADER_BYTES;
        assert!(begin + bytes <= self.produced.bytes());
        // SAFETY: within the mapping, as is checked above; the kernel does not touch a record between the end of its writing and the move of `consumed`.
        unsafe { std::slice::from_raw_parts(self.produced.start().add(begin).as_ptr(), bytes) }
    }
}
