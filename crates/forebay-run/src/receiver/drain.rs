//! The end of the receiver: sockets emptied, unfinished messages booked, rings closed.

use forebay_sys::clock;

use super::{BLOCKED_SLEEP, DRAIN_LIMIT_NS, Receiver};
use crate::error::RunError;
use crate::receiver::port::Turn;

impl Receiver<'_> {
    /// Empties every socket once: each port is done when it was found empty after the order to stop.
    pub(super) fn drain(&mut self, stop_ns: u64) -> Result<(), RunError> {
        let mut waiting: Vec<usize> = (0..self.ports.len()).collect();
        while !waiting.is_empty() && clock::monotonic_ns() < stop_ns + DRAIN_LIMIT_NS {
            let mut progress = false;
            let mut left = Vec::new();
            for index in waiting {
                let turn = self.ports[index].turn(
                    &self.plan.receiver,
                    &mut self.batch,
                    &mut self.producers,
                    &mut self.leak,
                )?;
                progress |= turn == Turn::Took;
                if turn != Turn::Empty {
                    left.push(index);
                }
            }
            self.producers.notify();
            if !progress && !left.is_empty() {
                std::thread::sleep(BLOCKED_SLEEP);
            }
            waiting = left;
        }
        if !waiting.is_empty() {
            tracing::warn!(
                ports = waiting.len(),
                "sockets still not empty when the time to drain them was over"
            );
        }
        Ok(())
    }

    /// Books what is left and tells the builder that nothing more comes.
    pub(super) fn close(&mut self) {
        for port in &mut self.ports {
            port.finish(&mut self.producers);
        }
        self.housekeeping();
        for ring in &mut self.producers.rings {
            ring.close();
        }
        self.producers.notify();
    }
}
