//! When packets of an open loop are due: each from the start, never from the one before, so that a sender that is late catches up.

use crate::config::Rate;

const NS: u128 = 1_000_000_000;

/// The instants of one target's packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    rate: Rate,
    begun_ns: u64,
    /// Packets or bits in front of the next packet.
    units: u128,
}

impl Schedule {
    pub(crate) const fn new(rate: Rate, begun_ns: u64) -> Self {
        Self {
            rate,
            begun_ns,
            units: 0,
        }
    }

    const fn units_in_a_second(&self) -> u128 {
        match self.rate {
            Rate::Bits(bits) => bits as u128,
            Rate::Packets(packets) => packets as u128,
        }
    }

    /// When the next packet is due.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        let offset_ns = self.units * NS / self.units_in_a_second();
        self.begun_ns
            .saturating_add(u64::try_from(offset_ns).unwrap_or(u64::MAX))
    }

    /// The next packet is made, with so many bytes.
    #[inline]
    pub(crate) const fn made(&mut self, bytes: usize) {
        self.units += match self.rate {
            Rate::Bits(_) => 8 * bytes as u128,
            Rate::Packets(_) => 1,
        };
    }

    /// The part of what was due until `now_ns` that was not made, 0 to 1.
    pub(crate) fn short(&self, now_ns: u64) -> f64 {
        let due = u128::from(now_ns.saturating_sub(self.begun_ns)) * self.units_in_a_second() / NS;
        match due {
            0 => 0.0,
            due => due.saturating_sub(self.units) as f64 / due as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_are_due_from_the_start() {
        let mut three = Schedule::new(Rate::Packets(3), 100);
        let due = [(); 4].map(|()| {
            let at = three.next_ns();
            three.made(1_000);
            at
        });
        assert_eq!(due, [100, 333_333_433, 666_666_766, 1_000_000_100]);
        let mut bits = Schedule::new(Rate::Bits(8_000), 0);
        bits.made(1_000);
        assert_eq!(bits.next_ns(), 1_000_000_000);
        bits.made(500);
        assert_eq!(bits.next_ns(), 1_500_000_000);
        assert_eq!(bits.short(3_000_000_000), 0.5);
        assert_eq!((bits.short(0), bits.short(1_000_000_000)), (0.0, 0.0));
    }

    proptest! {
        /// Against a sum in floating point: no error adds up.
        #[test]
        fn no_packet_drifts(rate in 1..2_000_000_u64, packets in 0..3_000_000_u64, begun_ns in 0..1_u64 << 60) {
            let mut schedule = Schedule::new(Rate::Packets(rate), begun_ns);
            schedule.units = u128::from(packets);
            let expected = packets as f64 * 1e9 / rate as f64;
            let offset = (schedule.next_ns() - begun_ns) as f64;
            prop_assert!((offset - expected).abs() <= 1.0 + expected * 1e-12, "{offset} {expected}");
        }
    }
}
