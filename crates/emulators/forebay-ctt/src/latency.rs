//! Latencies, counted by the clock.

/// How many packets had each latency, in clocks; longer ones than the longest are that.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    cycle_ps: u64,
    clip_ps: u64,
    counts: Vec<u64>,
    sum_ps: u128,
    packets: u64,
}

impl Latencies {
    pub(crate) fn new(cycle_ps: u64, clip_ps: u64) -> Self {
        Self {
            cycle_ps,
            clip_ps,
            counts: vec![0; (clip_ps / cycle_ps) as usize + 1],
            sum_ps: 0,
            packets: 0,
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, latency_ps: u64) {
        let clipped_ps = latency_ps.min(self.clip_ps);
        self.counts[(clipped_ps / self.cycle_ps) as usize] += 1;
        self.sum_ps += u128::from(clipped_ps);
        self.packets += 1;
    }

    /// In ns; 0 of no packets.
    pub(crate) fn mean_ns(&self) -> f64 {
        self.sum_ps as f64 / 1e3 / self.packets.max(1) as f64
    }

    /// The least latency that so much of all packets have at most, in ns, to a clock; 0 of no packets.
    pub(crate) fn at_ns(&self, share: f64) -> f64 {
        let wanted = ((self.packets as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (cycles, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return (cycles as u64 * self.cycle_ps) as f64 / 1e3;
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_the_counts_and_clipped() {
        let mut latencies = Latencies::new(5_000, 40_960_000);
        assert_eq!((latencies.mean_ns(), latencies.at_ns(0.5)), (0.0, 0.0));
        for ns in [100, 200, 300, 1_000_000] {
            latencies.count(ns * 1_000);
        }
        assert_eq!(
            [0.25, 0.5, 0.75, 1.0].map(|share| latencies.at_ns(share)),
            [100.0, 200.0, 300.0, 40_960.0]
        );
        assert_eq!(latencies.mean_ns(), (600.0 + 40_960.0) / 4.0);
    }
}
