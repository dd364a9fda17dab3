//! When flows have been quiet for too long: a wheel of lists, each for a time of 67 ms.
//!
//! A packet does not touch it. When the time of an entry comes that had packets since, it is put where it belongs by then: so an entry is never in a later list
//! than where it belongs, and is moved at most once for each of its packets. Lists whose time is over are appended to one list of what is due, in one step each.

use super::entry::Hot;
use super::list::Lists;

/// A list has the times of 2^26 ns.
const TICK_SHIFT: u32 = 26;
/// What is due.
const DUE: usize = 0;

#[derive(Debug)]
pub(super) struct Wheel {
    /// What is due, and one list for each tick of a turn.
    lists: Lists,
    /// A bit for each list of a tick that may have entries.
    occupied: Vec<u64>,
    mask: u64,
    /// All up to this tick is due.
    tick: u64,
}

impl Wheel {
    /// For time-outs of at most `longest_ns`.
    pub(super) fn new(entries: usize, longest_ns: u64) -> Self {
        // A time-out may begin within a tick and end in the one behind its last.
        let ticks = ((longest_ns >> TICK_SHIFT) + 3).next_power_of_two().max(64);
        Self {
            lists: Lists::new(1 + ticks as usize, entries),
            occupied: vec![0; ticks as usize / 64],
            mask: ticks - 1,
            tick: 0,
        }
    }

    /// The list of entries that are due at a time.
    #[inline]
    pub(super) const fn list(&self, due_ns: u64) -> usize {
        let tick = (due_ns >> TICK_SHIFT) + 1;
        if tick <= self.tick {
            DUE
        } else {
            1 + (tick & self.mask) as usize
        }
    }

    /// Puts an entry where it is due.
    #[inline]
    pub(super) fn arm(&mut self, entries: &mut [Hot], at: u32, due_ns: u64) {
        let list = self.list(due_ns);
        if list != DUE {
            self.occupied[(list - 1) / 64] |= 1 << ((list - 1) % 64);
        }
        self.lists.push(entries, list, at);
    }

    #[inline]
    pub(super) fn disarm(&mut self, entries: &mut [Hot], at: u32) {
        self.lists.remove(entries, at);
    }

    /// Makes due what is up to a time. It takes as long as lists have entries, however long it was since.
    #[inline]
    pub(super) fn advance(&mut self, entries: &mut [Hot], now_ns: u64) {
        let now = now_ns >> TICK_SHIFT;
        if now > self.tick {
            self.turn(entries, now);
        }
    }

    fn turn(&mut self, entries: &mut [Hot], now: u64) {
        while let Some(tick) = self.occupied_after(self.tick, now) {
            let slot = (tick & self.mask) as usize;
            self.occupied[slot / 64] &= !(1 << (slot % 64));
            self.lists.append(entries, 1 + slot, DUE);
            self.tick = tick;
        }
        self.tick = now;
    }

    /// The first of what is due.
    #[inline]
    pub(super) fn due(&self) -> Option<u32> {
        self.lists.first(DUE)
    }

    /// The first of what is due or will be next, and its list.
    pub(super) fn next(&mut self) -> Option<(usize, u32)> {
        if let Some(at) = self.due() {
            return Some((DUE, at));
        }
        let last = self.tick.saturating_add(self.mask);
        while let Some(tick) = self.occupied_after(self.tick, last) {
            let slot = (tick & self.mask) as usize;
            if let Some(at) = self.lists.first(1 + slot) {
                return Some((1 + slot, at));
            }
            // Its entries have ended meanwhile.
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        None
    }

    /// From when on something may be due, ns.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let next = self.occupied_after(self.tick, self.tick.saturating_add(self.mask));
        next.map(|tick| tick << TICK_SHIFT)
    }

    /// The next tick whose list may have entries.
    fn occupied_after(&self, after: u64, last: u64) -> Option<u64> {
        let last = last.min(after.saturating_add(self.mask));
        let mut tick = after + 1;
        while tick <= last {
            let slot = tick & self.mask;
            let rest = self.occupied[slot as usize / 64] >> (slot % 64);
            if rest != 0 {
                let found = tick + u64::from(rest.trailing_zeros());
                return (found <= last).then_some(found);
            }
            tick += 64 - slot % 64;
        }
        None
    }
}
