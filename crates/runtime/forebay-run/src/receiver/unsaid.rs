//! What a receiver dropped of a source and has not told the builder yet.

use forebay_ring::{Meta, Producer};
use forebay_wire::hadtu::UNIT_HEADER_BYTES;

/// Sub-events that were dropped since the last record, as far as they could be counted: the next one says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unsaid(pub(super) u64);

impl Unsaid {
    pub(super) fn add(&mut self, items: u64) {
        self.0 += items;
    }

    /// What goes with a record: how much of the source was dropped before it, in the place of its tag.
    pub(super) fn meta(&mut self, items: u32, stamp_ns: u64) -> Meta {
        let tag = u32::try_from(self.0).unwrap_or(u32::MAX);
        self.0 -= u64::from(tag);
        Meta {
            tag,
            items,
            flags: 0,
            stamp_ns,
        }
    }

    /// What was dropped last has no message behind it that could say so: an empty record does. Without room it stays inferred lost as well.
    pub(super) fn say_at_the_end(&mut self, ring: &mut Producer) {
        if let (1.., Ok(mut loan)) = (self.0, ring.reserve(UNIT_HEADER_BYTES)) {
            loan.fill(0);
            loan.commit(UNIT_HEADER_BYTES, self.meta(0, 0));
        }
    }
}
