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

#[cfg(test)]
mod tests {
    use forebay_ring::{Consumers, Producers, RingSetMemory, RingSetSpec};

    use super::*;

    #[test]
    fn a_record_says_no_more_than_its_tag_can_and_the_next_one_the_rest() {
        let most = u64::from(u32::MAX);
        let mut unsaid = Unsaid(most);
        unsaid.add(7);
        let first = unsaid.meta(3, 9);
        assert_eq!((first.tag, first.items, first.stamp_ns), (u32::MAX, 3, 9));
        assert_eq!(unsaid, Unsaid(7));
        assert_eq!((unsaid.meta(1, 9).tag, unsaid), (7, Unsaid(0)));
    }

    /// What was dropped last is said by an empty record; where nothing was there is none.
    #[test]
    fn what_no_message_can_say_is_said_at_the_end() {
        for dropped in [0, 5] {
            let spec = RingSetSpec::new("unsaid", vec![64 * 1024], 1500);
            let memory = RingSetMemory::create(&spec).unwrap();
            let mut producers = Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
            let mut consumers = Consumers::map(&spec, memory.consumer_fds().unwrap()).unwrap();
            let mut unsaid = Unsaid(dropped);
            let ring = &mut producers.rings[0];
            unsaid.say_at_the_end(ring);
            ring.publish();
            let said = consumers.rings[0].next().unwrap();
            let said = said.map(|it| (u64::from(it.meta.tag), it.meta.items, it.len));
            let record = (dropped, 0, UNIT_HEADER_BYTES as u32);
            assert_eq!(said, (dropped > 0).then_some(record));
            assert_eq!(unsaid, Unsaid(0));
        }
    }
}
