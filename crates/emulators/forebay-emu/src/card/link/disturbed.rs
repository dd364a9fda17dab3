//! A link with which something is wrong.

use super::Link;
use crate::card::account::CardLoss;
use crate::card::fault::CardFaultKind;
use crate::card::payload::Chunk;
use crate::card::triggers::Triggers;
use crate::card::ttc::TICKS_PER_NS;

impl Link {
    /// The first chunk of those up to `last` that something may befall.
    #[inline]
    pub(super) fn sound_until(&self, last: u64) -> u64 {
        match &self.faults {
            Some(faults) => faults.sound_until(self.sent).min(last),
            None => last,
        }
    }

    /// Finds what befalls the chunk that comes next; a link that is stuck is so from the moment at which it would send.
    #[inline]
    pub(super) fn look(&mut self, triggers: &Triggers) {
        if let Some(faults) = &mut self.faults
            && faults.look(self.sent)
            && faults.strike.stuck_ns > 0
        {
            let begin = self.free_at.max(triggers.at(self.sent).at);
            self.free_at = begin + faults.strike.stuck_ns * TICKS_PER_NS;
        }
    }

    /// Whether the front end obeys, having been told to stop.
    #[inline]
    pub(super) fn is_held_up(&self) -> bool {
        self.fifo.is_xoff()
            && !self
                .faults
                .as_ref()
                .is_some_and(|faults| faults.strike.ignores_xoff)
    }

    /// What was in front of a link that has stopped is lost; false when it has not.
    #[inline]
    pub(super) fn has_stopped(&mut self, triggers: &Triggers, last: u64) -> bool {
        let has_stopped = self
            .faults
            .as_ref()
            .is_some_and(|faults| faults.has_stopped);
        while has_stopped && self.sent < last {
            let bytes = self.bytes(triggers.at(self.sent)) as u64;
            self.dropped[CardLoss::StoppedLink].add((1, bytes));
            self.sent += 1;
        }
        has_stopped
    }

    /// The chunk as it comes out of the link; what it has lost is booked.
    #[inline]
    pub(super) fn strike(&mut self, chunk: Chunk) -> Chunk {
        let Some(faults) = &mut self.faults else {
            return chunk;
        };
        let strike = faults.strike;
        if strike.ignores_xoff && self.fifo.is_xoff() {
            faults.counts[CardFaultKind::XoffIgnored] += 1;
        }
        let struck = strike.apply(chunk);
        let cut = (chunk.bytes - struck.bytes) as u64;
        if strike.stops {
            faults.has_stopped = true;
            self.dropped[CardLoss::StoppedLink].add((1, cut));
        } else if strike.cuts {
            self.truncated += 1;
            self.dropped[CardLoss::Truncated].add((0, cut));
        }
        struck
    }
}
