//! Packets in trains: how many are left of one, and how far they are apart.

use forebay_emu::rng::mix;

use crate::config::Trains;
use crate::sizes::scale;

/// About a second; doubled 32 times it is no overflow.
const GAP_NS_MAX: u64 = 1 << 30;

/// What is left of a flow's train.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Train {
    packets_max: u32,
    /// Mean time between packets of this flow's trains, ns.
    gap_ns: u64,
    left: u32,
}

impl Train {
    /// The trains of the flow with this key of its random numbers, in front of the first one.
    pub(crate) fn new(trains: &Trains, random_key: u64) -> Self {
        let doublings = scale(
            mix(!random_key),
            u64::from(trains.gap_doublings.min(32)) + 1,
        );
        Self {
            packets_max: trains.packets_max.max(1),
            gap_ns: trains.gap_ns.clamp(1, GAP_NS_MAX) << doublings,
            left: 0,
        }
    }

    /// The time to the next packet, ns, if that is of the same train; a train of its own begins otherwise.
    #[inline]
    pub(crate) fn gap_ns(&mut self, random: u64) -> Option<u64> {
        if self.left == 0 {
            self.left = scale(random, u64::from(self.packets_max)) as u32;
            return None;
        }
        self.left -= 1;
        // From half of the mean to one and a half.
        Some(self.gap_ns / 2 + scale(random, self.gap_ns))
    }

    /// The trains that so many packets make in the mean; at least 1 of any packets.
    #[inline]
    pub(crate) const fn trains_of(&self, packets: u64) -> u64 {
        let packets_mean_doubled = self.packets_max as u64 + 1;
        (packets * 2).div_ceil(packets_mean_doubled)
    }
}

#[cfg(test)]
mod tests {
    use forebay_emu::rng::hash;

    use super::*;

    #[test]
    fn trains_are_as_long_and_as_dense_as_they_are_asked_for() {
        let trains = Trains {
            packets_max: 7,
            gap_ns: 1_000,
            gap_doublings: 0,
        };
        let mut train = Train::new(&trains, 5);
        let gaps: Vec<Option<u64>> = (0..40_000).map(|at| train.gap_ns(hash(3, at))).collect();
        let within: Vec<u64> = gaps.iter().flatten().copied().collect();
        assert!(within.iter().all(|gap| (500..1_500).contains(gap)));
        let mean = within.iter().sum::<u64>() as f64 / within.len() as f64;
        assert!((980.0..1_020.0).contains(&mean), "{mean}");
        let packets_mean = gaps.len() as f64 / (gaps.len() - within.len()) as f64;
        assert!((3.9..4.1).contains(&packets_mean), "{packets_mean}");
        assert_eq!(
            [0, 1, 4, 5, 400].map(|n| train.trains_of(n)),
            [0, 1, 1, 2, 100]
        );
    }

    #[test]
    fn flows_have_different_gaps_and_any_setting_is_borne() {
        let trains = Trains {
            packets_max: u32::MAX,
            gap_ns: u64::MAX,
            gap_doublings: u32::MAX,
        };
        let mut means = std::collections::BTreeSet::new();
        for key in 0..1_000 {
            let mut train = Train::new(&trains, hash(1, key));
            means.insert(train.gap_ns);
            assert_eq!(train.gap_ns(u64::MAX), None);
            assert!(train.gap_ns(u64::MAX).is_some());
        }
        assert_eq!(means.len(), 33);
    }
}
