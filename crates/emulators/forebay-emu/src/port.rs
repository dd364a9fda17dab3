//! A port of a switch: it sends at its rate what waits in its buffer, and what finds the buffer full is dropped.
//!
//! A packet takes its room from its last bit in to its last bit out (store and forward). Times are whole picoseconds; what a packet's time has
//! beyond them is carried to the next one, so that a million packets take exactly what a million packets take.

use std::collections::VecDeque;

const PS_PER_S: u128 = 1_000_000_000_000;

/// Packets and bytes of a port: `offered = left + dropped + held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortCounts {
    /// That came.
    pub offered: Load,
    /// That were sent.
    pub left: Load,
    /// That found the buffer full.
    pub dropped: Load,
    /// That wait or are being sent.
    pub held: Load,
}

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Load {
    const fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }

    const fn take(&mut self, bytes: u64) {
        self.packets -= 1;
        self.bytes -= bytes;
    }
}

impl PortCounts {
    /// What came and is in none of the others: (0, 0).
    #[must_use]
    pub const fn residual(&self) -> (i64, i64) {
        let packets = self.left.packets + self.dropped.packets + self.held.packets;
        let bytes = self.left.bytes + self.dropped.bytes + self.held.bytes;
        (
            self.offered.packets.cast_signed() - packets.cast_signed(),
            self.offered.bytes.cast_signed() - bytes.cast_signed(),
        )
    }
}

/// A port.
#[derive(Debug, Clone)]
pub struct Port {
    rate_bps: u64,
    buffer_bytes: u64,
    /// When each that is held has left, and its bytes.
    held: VecDeque<(u64, u64)>,
    free_ps: u64,
    /// What `free_ps` lacks, in ps / rate.
    rest: u128,
    busy_ps: u64,
    highest_bytes: u64,
    counts: PortCounts,
}

impl Port {
    /// A port of `rate_bps` bit/s (1 or more) whose buffer holds `buffer_bytes` bytes.
    #[must_use]
    pub fn new(rate_bps: u64, buffer_bytes: u64) -> Self {
        Self {
            rate_bps: rate_bps.max(1),
            buffer_bytes,
            held: VecDeque::new(),
            free_ps: 0,
            rest: 0,
            busy_ps: 0,
            highest_bytes: 0,
            counts: PortCounts::default(),
        }
    }

    /// A packet of so many bytes on the wire has come at `now_ps`, no earlier than the one before it. Gives when its last bit leaves; `None`: it is dropped.
    pub fn offer(&mut self, now_ps: u64, bytes: u64) -> Option<u64> {
        self.handle_time(now_ps);
        self.counts.offered.add(bytes);
        if self.counts.held.bytes + bytes > self.buffer_bytes {
            self.counts.dropped.add(bytes);
            return None;
        }
        if self.free_ps < now_ps {
            (self.free_ps, self.rest) = (now_ps, 0);
        }
        let rate = u128::from(self.rate_bps);
        let parts = u128::from(bytes) * 8 * PS_PER_S + self.rest;
        let takes_ps = u64::try_from(parts / rate).unwrap_or(u64::MAX);
        self.rest = parts % rate;
        self.free_ps = self.free_ps.saturating_add(takes_ps);
        self.busy_ps = self.busy_ps.saturating_add(takes_ps);
        self.held.push_back((self.free_ps, bytes));
        self.counts.held.add(bytes);
        self.highest_bytes = self.highest_bytes.max(self.counts.held.bytes);
        Some(self.free_ps)
    }

    /// It is `now_ps`: what is sent by now has left the buffer.
    pub fn handle_time(&mut self, now_ps: u64) {
        while let Some(&(left_ps, bytes)) = self.held.front()
            && left_ps <= now_ps
        {
            self.held.pop_front();
            self.counts.held.take(bytes);
            self.counts.left.add(bytes);
        }
    }

    /// What came and what became of it, as of the last time told.
    #[must_use]
    pub const fn counts(&self) -> &PortCounts {
        &self.counts
    }

    /// Time for which it sends what came so far, in ps.
    #[must_use]
    pub const fn busy_ps(&self) -> u64 {
        self.busy_ps
    }

    /// When it has sent all that it holds, in ps.
    #[must_use]
    pub const fn free_ps(&self) -> u64 {
        self.free_ps
    }

    /// Most bytes that its buffer ever held.
    #[must_use]
    pub const fn highest_bytes(&self) -> u64 {
        self.highest_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Xoshiro256;

    #[test]
    fn a_packet_takes_its_time_and_the_next_one_waits_for_it() {
        let mut port = Port::new(1_000_000_000, 4_000);
        assert_eq!(port.offer(5, 1_500), Some(12_000_005));
        assert_eq!(port.offer(5, 1_500), Some(24_000_005));
        assert_eq!(port.offer(5, 1_500), None, "the buffer holds 4000 bytes");
        assert_eq!(
            port.offer(12_000_005, 1_500),
            Some(36_000_005),
            "one has left"
        );
        assert_eq!(port.offer(50_000_000, 125), Some(51_000_000));
        let counts = *port.counts();
        assert_eq!(counts.offered.packets, 5);
        assert_eq!((counts.dropped.packets, counts.dropped.bytes), (1, 1_500));
        assert_eq!((counts.left.packets, counts.held.packets), (3, 1));
        assert_eq!(counts.residual(), (0, 0));
        assert_eq!((port.busy_ps(), port.highest_bytes()), (37_000_000, 3_000));
    }

    #[test]
    fn what_is_no_whole_picosecond_is_not_lost() {
        // 1 byte at 3 bit/s: 8/3 s.
        let mut port = Port::new(3, 1_000);
        let mut left = 0;
        for _ in 0..300 {
            left = port.offer(0, 1).unwrap();
        }
        assert_eq!(left, 800 * PS_PER_S as u64);
    }

    #[test]
    fn the_counts_close_whatever_comes() {
        for seed in 0..50 {
            let mut random = Xoshiro256::new(seed);
            let mut port = Port::new(1 + random.below(10_000_000_000), random.below(200_000));
            let mut now = 0;
            let mut last = 0;
            for _ in 0..500 {
                now += random.below(20_000_000);
                if let Some(left) = port.offer(now, random.below(9_000)) {
                    assert!(left >= last && left >= now, "seed {seed}: in order");
                    last = left;
                }
                assert_eq!(port.counts().residual(), (0, 0), "seed {seed}");
                assert!(port.counts().held.bytes <= port.buffer_bytes, "seed {seed}");
            }
            port.handle_time(port.free_ps());
            assert_eq!(port.counts().held, Load::default(), "seed {seed}");
            assert!(port.busy_ps() <= port.free_ps(), "seed {seed}");
        }
    }
}
