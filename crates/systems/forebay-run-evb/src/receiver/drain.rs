//! The end of the receiver: sockets emptied, unfinished messages booked, rings closed.

use std::time::Duration;

use forebay_run::error::RunError;
use forebay_sys::clock;

use super::{BLOCKED_SLEEP, DRAIN_LIMIT_NS, Receiver};
use crate::plan::{FullPolicy, ReceiverPlan};
use crate::receiver::port::Turn;

/// Longest time to take what full rings kept in the sockets, and to drop it by name.
const DROP_LIMIT_NS: u64 = 2_000_000_000;
/// A datagram that was sent may still be on its way through the kernel: the sockets are looked at once more after this.
const LAST_LOOK: Duration = Duration::from_millis(10);

impl Receiver<'_> {
    /// Empties every socket: each port is done when it was found empty after the order to stop, or gives what came after it.
    pub(super) fn drain(&mut self, stop_ns: u64) -> Result<(), RunError> {
        let order_ns = clock::realtime_ns();
        let all: Vec<usize> = (0..self.ports.len()).collect();
        let plan = self.plan.receiver.clone();
        let mut left = self.empty(all.clone(), &plan, order_ns, stop_ns + DRAIN_LIMIT_NS)?;
        if left.is_empty() {
            std::thread::sleep(LAST_LOOK);
            left = self.empty(all, &plan, order_ns, stop_ns + DRAIN_LIMIT_NS)?;
        }
        if !left.is_empty() {
            tracing::warn!(
                ports = left.len(),
                "queues still full when the time to empty the sockets was over; the rest is dropped and counted"
            );
            let plan = ReceiverPlan {
                full: FullPolicy::Drop,
                ..plan
            };
            let left = self.empty(left, &plan, order_ns, clock::monotonic_ns() + DROP_LIMIT_NS)?;
            if !left.is_empty() {
                tracing::warn!(
                    ports = left.len(),
                    "sockets that are never empty were left alone"
                );
            }
        }
        Ok(())
    }

    /// Gives `waiting` ports their turns until each is done or the time is over; which are not.
    fn empty(
        &mut self,
        mut waiting: Vec<usize>,
        plan: &ReceiverPlan,
        order_ns: u64,
        limit_ns: u64,
    ) -> Result<Vec<usize>, RunError> {
        while !waiting.is_empty() && clock::monotonic_ns() < limit_ns {
            let mut progress = false;
            let mut left = Vec::new();
            for index in waiting {
                let turn = self.ports[index].turn(
                    plan,
                    &mut self.batch,
                    &mut self.producers,
                    &mut self.leak,
                )?;
                progress |= matches!(turn, Turn::Took { .. });
                if turn != Turn::Empty && !self.ports[index].is_past(order_ns) {
                    left.push(index);
                }
            }
            self.producers.notify();
            if !progress && !left.is_empty() {
                std::thread::sleep(BLOCKED_SLEEP);
            }
            waiting = left;
        }
        Ok(waiting)
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
