//! The queues behind links, as their test fills and empties them.

use super::defect::{Defect, Fault};
use crate::card::config::LinkFifo;
use crate::card::fifo::Fifo;
use crate::card::payload::Chunk;
use crate::card::ttc::Trigger;

#[derive(Debug, Clone)]
pub(super) struct Queues {
    queues: Vec<Fifo>,
    bytes: usize,
}

impl Queues {
    pub(super) fn new(links: usize) -> Self {
        let config = LinkFifo::default();
        Self {
            queues: vec![Fifo::new(&config); links],
            bytes: config.bytes,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    pub(super) fn set_marks(&mut self, link: usize, xoff: u64, xon: u64) {
        if let Some(queue) = self.queues.get_mut(link) {
            queue.set_marks(xoff as usize, xon as usize);
        }
    }

    pub(super) fn fill(&self, link: usize) -> u64 {
        self.queues.get(link).map_or(0, |queue| queue.held().bytes)
    }

    pub(super) fn is_xoff(&self, link: usize, faults: &[Fault]) -> bool {
        let stuck = faults.iter().find_map(|fault| match fault.defect {
            Defect::XoffStuck { link: of, high } if usize::from(of) == link => Some(high),
            _ => None,
        });
        let own = self.queues.get(link).is_some_and(Fifo::is_xoff);
        stuck.unwrap_or(own)
    }

    pub(super) fn push(&mut self, link: usize, bytes: usize) {
        if let Some(queue) = self.queues.get_mut(link).filter(|_| bytes > 0) {
            let trigger = Trigger {
                number: 0,
                l1id: 0,
                at: 0,
            };
            queue.push(Chunk::new(trigger, bytes), 0, 0);
        }
    }

    pub(super) fn pop(&mut self, link: usize, bytes: usize) {
        let Some(queue) = self.queues.get_mut(link) else {
            return;
        };
        let mut left = bytes;
        while left > 0
            && let Some(entry) = queue.front()
        {
            let taken = left.min(entry.chunk.bytes - entry.done);
            let done = entry.done + taken;
            queue.placed(done, done == entry.chunk.bytes);
            left -= taken;
        }
        queue.goes_on(0);
    }
}
