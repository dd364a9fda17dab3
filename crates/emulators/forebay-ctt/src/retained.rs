//! The contexts that are on the chip, in the order in which their stay ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When the stay of each context ends, as far as is known: a use of it makes it longer, which is seen when it would end.
#[derive(Debug, Default)]
pub(crate) struct Retained {
    ends_ps: BinaryHeap<Reverse<(u64, u32)>>,
    most: usize,
    /// Contexts that came.
    pub(crate) fetched: u64,
    /// Contexts that went, each of which is written back.
    pub(crate) written: u64,
}

impl Retained {
    pub(crate) fn new(most: u64) -> Self {
        Self {
            most: most.max(1) as usize,
            ..Self::default()
        }
    }

    /// When there is room for one more, from `at_ps` on; those whose stay ended until then are written back. `until_ps` says when that of a flow does end.
    pub(crate) fn room_ps(&mut self, at_ps: u64, until_ps: impl Fn(u32) -> u64) -> u64 {
        let mut room_ps = at_ps;
        while let Some(Reverse((end_ps, flow))) = self.ends_ps.peek().copied() {
            let is_full = self.ends_ps.len() >= self.most;
            if end_ps > room_ps && !is_full {
                break;
            }
            self.ends_ps.pop();
            let until_ps = until_ps(flow);
            if until_ps > end_ps {
                self.ends_ps.push(Reverse((until_ps, flow)));
                continue;
            }
            room_ps = room_ps.max(end_ps);
            self.written += 1;
        }
        room_ps
    }

    /// The context of a flow comes, and stays until `end_ps`.
    pub(crate) fn take(&mut self, flow: u32, end_ps: u64) {
        self.fetched += 1;
        self.ends_ps.push(Reverse((end_ps, flow)));
    }

    /// Contexts that are there.
    pub(crate) fn held(&self) -> u64 {
        self.ends_ps.len() as u64
    }
}
