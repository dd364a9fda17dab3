//! What a sink left in its queue, counted record by record.

use forebay_ring::{Producers, RingSetMemory};

use crate::error::RunError;
use crate::plan::Plan;

/// What lay in a queue.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) events: u64,
    pub(super) bytes: u64,
    /// Where the last record ends.
    pub(super) end: u64,
}

impl Left {
    /// Counts the records between the committed positions of the sink and of the builder. The builder is gone, and the supervisor
    /// takes its side: the thread of a sink that hangs may still hold the other. The walk ends where a record is no record: what the
    /// books miss then stays a residual.
    pub(super) fn count(
        plan: &Plan,
        sink: usize,
        memory: &RingSetMemory,
        (head, tail): (u64, u64),
    ) -> Result<Self, RunError> {
        let mut producers = Producers::map(&plan.sink_ring(sink), memory.producer_fds()?)?;
        producers.rings[0].resume(tail)?;
        let mut left = Self {
            end: head,
            ..Self::default()
        };
        for record in producers.rings[0].written_since(head) {
            left.events += u64::from(record.meta.items);
            left.bytes += u64::from(record.len);
            left.end = record.end;
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use forebay_ring::Meta;

    use super::*;
    use crate::presets;

    /// A queue with records of 1, 2 and 3 events and 100 bytes each; the last one is not shown.
    fn queue() -> (Plan, RingSetMemory, [u64; 3]) {
        let local = std::net::Ipv4Addr::LOCALHOST.into();
        let mut plan = presets::plan("test", std::path::Path::new("."), local, 0, 1);
        plan.sinks = vec![presets::file_sink(".".into(), "te")];
        let spec = plan.sink_ring(0);
        let memory = RingSetMemory::create(&spec).unwrap();
        let mut producers = Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
        let ends = [1, 2, 3].map(|items| {
            let meta = Meta {
                tag: 7,
                items,
                flags: 0,
                stamp_ns: 0,
            };
            if items == 3 {
                producers.rings[0].publish();
            }
            producers.rings[0].reserve(100).unwrap().commit(100, meta)
        });
        (plan, memory, ends)
    }

    #[test]
    fn what_lies_between_the_two_books_is_counted() {
        let (plan, memory, ends) = queue();
        let count = |head, tail| {
            let left = Left::count(&plan, 0, &memory, (head, tail)).unwrap();
            (left.events, left.bytes, left.end)
        };
        assert_eq!(count(0, ends[1]), (3, 200, ends[1]));
        // Committed to the books, and its writer died before it was shown.
        assert_eq!(count(0, ends[2]), (6, 300, ends[2]));
        assert_eq!(count(ends[0], ends[2]), (5, 200, ends[2]));
        assert_eq!(count(ends[2], ends[2]), (0, 0, ends[2]));
    }

    #[test]
    fn the_walk_ends_where_there_is_no_record() {
        let (plan, memory, ends) = queue();
        // The builder's book says more than was ever written.
        let left = Left::count(&plan, 0, &memory, (0, ends[2] + 4096)).unwrap();
        assert_eq!((left.events, left.end), (6, ends[2]));
    }
}
