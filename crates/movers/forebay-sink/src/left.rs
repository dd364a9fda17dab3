//! What a sink left in its queue, counted record by record.

use forebay_ring::{Producers, RingError, RingSetMemory, RingSetSpec, View};
use forebay_wire::hld::EventPlaces;

/// What lay in a queue.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Events and bytes, as the records of the queue say: what a sink would have taken in.
    pub taken: (u64, u64),
    /// Events and bytes that are found in the records, each by its own size: what is lost.
    pub found: (u64, u64),
    /// Where the last record ends.
    pub end: u64,
}

impl Left {
    /// Counts the records between the committed positions of the sink and of the builder. The builder is gone, and the supervisor
    /// takes its side: the thread of a sink that hangs may still hold the other. The walk ends where a record is no record: what the
    /// books miss then stays a residual, and so does a record in which not as many events lie as it says.
    ///
    /// # Errors
    /// The queue cannot be mapped, or the position is none of it.
    pub fn count(
        spec: &RingSetSpec,
        memory: &RingSetMemory,
        (head, tail): (u64, u64),
    ) -> Result<Self, RingError> {
        let mut producers = Producers::map(spec, memory.producer_fds()?)?;
        let ring = &mut producers.rings[0];
        ring.resume(tail)?;
        let mut left = Self {
            end: head,
            ..Self::default()
        };
        for record in ring.written_since(head) {
            left.taken.0 += u64::from(record.meta.items);
            left.taken.1 += u64::from(record.len);
            left.end = record.end;
            if let Some(events) = ring.view(&record) {
                left.find(&events);
            }
        }
        Ok(left)
    }

    /// Counts the events of a record, up to one that has no size or does not end in it.
    fn find(&mut self, events: &View<'_>) {
        for event in EventPlaces::new(events.len(), |at| events.read_u32_le(at)) {
            self.found.0 += 1;
            self.found.1 += event.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_ring::Meta;

    use super::*;

    /// Bytes of an event.
    const EVENT_BYTES: usize = 40;

    /// A queue with records of 1, 2 and 3 events; the last one is not shown. The last event of each has `last_size` as its size.
    fn queue(last_size: u32) -> (RingSetSpec, RingSetMemory, [u64; 3]) {
        let spec = RingSetSpec::new("queue", vec![1 << 20], 1 << 16);
        let memory = RingSetMemory::create(&spec).unwrap();
        let mut producers = Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
        let ends = [1, 2, 3].map(|items: u32| {
            let meta = Meta {
                tag: 7,
                items,
                flags: 0,
                stamp_ns: 0,
            };
            if items == 3 {
                producers.rings[0].publish();
            }
            let bytes = items as usize * EVENT_BYTES;
            let mut loan = producers.rings[0].reserve(bytes).unwrap();
            loan.fill(0);
            for event in loan.chunks_exact_mut(EVENT_BYTES) {
                event[..4].copy_from_slice(&(EVENT_BYTES as u32 - 4).to_le_bytes());
            }
            loan[bytes - EVENT_BYTES..][..4].copy_from_slice(&last_size.to_le_bytes());
            loan.commit(bytes, meta)
        });
        (spec, memory, ends)
    }

    #[test]
    fn what_lies_between_the_two_books_is_counted_by_records_and_by_events() {
        let (spec, memory, ends) = queue(EVENT_BYTES as u32);
        let count = |head, tail| {
            let left = Left::count(&spec, &memory, (head, tail)).unwrap();
            assert_eq!(left.taken, left.found);
            (left.taken.0, left.taken.1, left.end)
        };
        assert_eq!(count(0, ends[1]), (3, 120, ends[1]));
        // Committed to the books, and its writer died before it was shown.
        assert_eq!(count(0, ends[2]), (6, 240, ends[2]));
        assert_eq!(count(ends[0], ends[2]), (5, 200, ends[2]));
        assert_eq!(count(ends[2], ends[2]), (0, 0, ends[2]));
    }

    #[test]
    fn an_event_whose_size_cannot_be_is_not_found() {
        for size in [0, 31, EVENT_BYTES as u32 + 1, u32::MAX] {
            let (spec, memory, ends) = queue(size);
            let left = Left::count(&spec, &memory, (0, ends[2])).unwrap();
            assert_eq!((left.taken, left.found), ((6, 240), (3, 120)), "{size}");
        }
    }

    #[test]
    fn the_walk_ends_where_there_is_no_record() {
        let (spec, memory, ends) = queue(EVENT_BYTES as u32);
        // The builder's book says more than was ever written.
        let left = Left::count(&spec, &memory, (0, ends[2] + 4096)).unwrap();
        assert_eq!((left.taken.0, left.end), (6, ends[2]));
    }
}
