//! The shape of a ring set, and where everything lies in its memory.

use crate::error::{RingError, SpecFault};
use crate::memory::PAGE_BYTES;
use crate::record::record_bytes;

/// Most rings in a set.
pub const RINGS_MAX: usize = 4096;

/// Least capacity of a ring in bytes: a multiple of the page size on every Linux.
pub const CAPACITY_BYTES_MIN: u64 = 64 * 1024;

/// Largest capacity of a ring in bytes.
pub const CAPACITY_BYTES_MAX: u64 = 1 << 38;

/// Distance of two slots in an index page: a pair of cache lines.
const SLOT_BYTES: u64 = 128;

/// The shape of a set of rings between one producer process and one consumer process. Both sides get it from the one that made the memory;
/// nothing of it is ever read from shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingSetSpec {
    /// Shows up in `/proc/PID/maps`.
    pub name: String,
    /// One ring for each entry; each a power of two from [`CAPACITY_BYTES_MIN`] to [`CAPACITY_BYTES_MAX`].
    pub capacities_bytes: Vec<u64>,
    /// Longest payload of a record in bytes.
    pub record_bytes_max: u32,
    /// Fault all pages in when mapping: a slower start, no page faults in the run. Default off.
    pub populate: bool,
}

impl RingSetSpec {
    /// A set that is not populated at start.
    pub fn new(name: impl Into<String>, capacities_bytes: Vec<u64>, record_bytes_max: u32) -> Self {
        RingSetSpec {
            name: name.into(),
            capacities_bytes,
            record_bytes_max,
            populate: false,
        }
    }

    /// Checks every limit.
    pub fn validate(&self) -> Result<(), RingError> {
        self.fault().map_or(Ok(()), |fault| {
            Err(RingError::Spec {
                name: self.name.clone(),
                fault,
            })
        })
    }

    fn fault(&self) -> Option<SpecFault> {
        let found = self.capacities_bytes.len();
        if !(1..=RINGS_MAX).contains(&found) {
            return Some(SpecFault::Rings {
                found,
                max: RINGS_MAX,
            });
        }
        self.capacities_bytes
            .iter()
            .enumerate()
            .find_map(|(ring, &bytes)| self.ring_fault(ring, bytes))
    }

    fn ring_fault(&self, ring: usize, bytes: u64) -> Option<SpecFault> {
        if !bytes.is_power_of_two() || !(CAPACITY_BYTES_MIN..=CAPACITY_BYTES_MAX).contains(&bytes) {
            return Some(SpecFault::Capacity {
                ring,
                bytes,
                min: CAPACITY_BYTES_MIN,
                max: CAPACITY_BYTES_MAX,
            });
        }
        let record_bytes_max = self.record_bytes_max;
        (record_bytes(u64::from(record_bytes_max)) > bytes).then_some(SpecFault::RecordBytes {
            ring,
            bytes,
            record_bytes_max,
        })
    }

    /// Bytes of memory that the rings take.
    pub fn data_bytes(&self) -> u64 {
        self.capacities_bytes.iter().sum()
    }

    /// Bytes of each index page.
    pub(crate) fn index_bytes(&self) -> u64 {
        slot_offset(self.capacities_bytes.len()).next_multiple_of(PAGE_BYTES)
    }
}

/// Where the wait flag lies in an index page.
pub(crate) const WAIT_OFFSET: u64 = 0;

/// Where a ring's slot lies in an index page.
pub(crate) const fn slot_offset(ring: usize) -> u64 {
    SLOT_BYTES * (1 + ring as u64)
}
