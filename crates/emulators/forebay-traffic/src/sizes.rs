//! How the octets of a direction are cut into packets.

use crate::config::{IP_BYTES_MAX, Sizes};

/// Most bytes of a packet where none of the direction need be larger.
const ETHERNET_IP_BYTES_MAX: u32 = 1_500;
/// Bytes of small packets, and in how many of 256 draws: 52, 26, 14 and 8 %.
const SMALL: [(u32, u64); 4] = [(64, 133), (128, 67), (256, 36), (512, 20)];

/// What is left to send, so that it always can be: so many packets of `least` to `most` bytes have the sum `bytes`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) packets: u64,
    bytes: u64,
    least: u32,
    most: u32,
    sizes: Sizes,
}

impl Cut {
    /// Cuts these octets, or the nearest number of them that can be; and whether that is another one.
    pub(crate) fn new(packets: u64, bytes: u64, least: u32, sizes: Sizes) -> (Self, bool) {
        let fits_ethernet = bytes <= packets * u64::from(ETHERNET_IP_BYTES_MAX);
        let most = match fits_ethernet {
            true => ETHERNET_IP_BYTES_MAX,
            false => IP_BYTES_MAX,
        };
        let possible = bytes.clamp(packets * u64::from(least), packets * u64::from(most));
        let cut = Self {
            packets,
            bytes: possible,
            least,
            most,
            sizes,
        };
        (cut, sizes == Sizes::Profile && possible != bytes)
    }

    /// The smallest packet, or the smallest that leaves a sum which can be: for those that carry nothing.
    pub(crate) fn smallest(&mut self) -> u32 {
        let (low, _) = self.bounds();
        self.take(low)
    }

    /// A packet of random size, in the mean as large as those that are left.
    #[inline]
    pub(crate) fn draw(&mut self, random: u64) -> u32 {
        if self.sizes == Sizes::Small {
            self.packets -= 1;
            return small(random).max(self.least);
        }
        let (low, high) = self.bounds();
        let mean = (self.bytes / self.packets) as u32;
        // Of a direction that has jumbo packets all are that can be.
        let is_jumbo = self.most > ETHERNET_IP_BYTES_MAX && mean > ETHERNET_IP_BYTES_MAX;
        let least = if is_jumbo {
            ETHERNET_IP_BYTES_MAX + 1
        } else {
            self.least
        };
        let spread = (mean - least).min(self.most - mean);
        let within = scale(random, u64::from(2 * spread) + 1) as u32;
        self.take((mean - spread + within).clamp(low, high))
    }

    /// The least and the most bytes of the next packet, so that those behind it can have the rest.
    #[inline]
    fn bounds(&self) -> (u32, u32) {
        if self.sizes == Sizes::Small {
            return (self.least, self.least);
        }
        let others = self.packets - 1;
        let low = self.bytes.saturating_sub(others * u64::from(self.most));
        let high = self.bytes - others * u64::from(self.least);
        let high = high.min(u64::from(self.most)) as u32;
        ((low as u32).max(self.least), high)
    }

    #[inline]
    fn take(&mut self, size: u32) -> u32 {
        self.packets -= 1;
        if self.sizes == Sizes::Profile {
            self.bytes -= u64::from(size);
        }
        size
    }
}

fn small(random: u64) -> u32 {
    let mut draw = random >> 56;
    for (size, draws) in SMALL {
        if draw < draws {
            return size;
        }
        draw -= draws;
    }
    SMALL[0].0
}

/// A number below `bound`.
#[inline]
pub(crate) fn scale(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use forebay_emu::rng::hash;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn draws_of_small_packets_are_all_256() {
        assert_eq!(SMALL.iter().map(|(_, draws)| draws).sum::<u64>(), 256);
        let sum: u64 = SMALL
            .iter()
            .map(|(size, draws)| u64::from(*size) * draws)
            .sum();
        assert_eq!(sum / 256, 142);
        let mut cut = Cut::new(10_000, 0, 28, Sizes::Small).0;
        let sum: u32 = (0..10_000).map(|at| cut.draw(hash(7, at))).sum();
        assert!((138..148).contains(&(sum / 10_000)), "{sum}");
    }

    #[test]
    fn what_no_packets_have_is_brought_to_the_nearest_sum() {
        let sent = |packets, bytes| {
            let (mut cut, adjusted) = Cut::new(packets, bytes, 40, Sizes::Profile);
            let sum: u32 = (0..packets).map(|at| cut.draw(hash(7, at))).sum();
            (sum, adjusted)
        };
        assert_eq!(sent(3, 119), (120, true));
        assert_eq!(sent(3, 120), (120, false));
        assert_eq!(sent(3, 27_060), (27_060, false));
        assert_eq!(sent(3, 27_061), (27_060, true));
        assert_eq!(sent(0, 1), (0, true));
        assert_eq!(sent(0, 0), (0, false));
        // The largest sum for which no packet need be larger than Ethernet's.
        let mut cut = Cut::new(3, 4_500, 40, Sizes::Profile).0;
        assert_eq!([1, 2, 3].map(|at| cut.draw(hash(7, at))), [1_500; 3]);
    }

    proptest! {
        #[test]
        fn any_sum_that_can_be_is_met(
            packets in 1..200_u64, share in 0.0..=1.0_f64, least in 20..68_u32, seed: u64, smallest in 0..4_u64,
        ) {
            let (from, to) = (packets * u64::from(least), packets * u64::from(IP_BYTES_MAX));
            let bytes = from + ((to - from) as f64 * share) as u64;
            let (mut cut, adjusted) = Cut::new(packets, bytes, least, Sizes::Profile);
            prop_assert!(!adjusted);
            let sizes: Vec<u32> = (0..packets).map(|at| match at {
                at if at < smallest => cut.smallest(),
                at => cut.draw(hash(seed, at)),
            }).collect();
            prop_assert_eq!(sizes.iter().map(|size| u64::from(*size)).sum::<u64>(), bytes);
            prop_assert!(sizes.iter().all(|size| (least..=IP_BYTES_MAX).contains(size)));
            let fits = bytes <= packets * 1500;
            prop_assert!(!fits || sizes.iter().all(|size| *size <= 1500));
        }
    }
}
