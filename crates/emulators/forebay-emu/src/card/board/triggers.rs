//! The TTC input: what a source of triggers sends, and what the card counts of it.

use super::defect::{Defect, Fault};
use crate::card::ttc::{BUNCH_HZ, ORBIT_BUNCHES, Spread, TICKS_PER_NS, Ttc, TtcConfig};
use crate::config::Limit;
use crate::rng::{Xoshiro256, hash};

/// What a source is to send: triggers at random, a reset of the bunch counter (BCR) at each orbit, and resets of the trigger number (ECR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtcBurst {
    /// Triggers in a second, on average, 1 to 10,000,000.
    pub rate_hz: u32,
    /// How long, in nanoseconds; at most 10 s.
    pub for_ns: u64,
    /// From one ECR to the next, in nanoseconds, 1,000 and more.
    pub ecr_period_ns: u64,
}

/// What was sent, or counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TtcSent {
    /// Triggers.
    pub l1a: u64,
    /// Resets of the bunch counter.
    pub bcr: u64,
    /// Resets of the trigger number.
    pub ecr: u64,
}

/// Longest burst in nanoseconds.
const BURST_NS_MOST: u64 = 10_000_000_000;

#[derive(Debug, Clone)]
pub(super) struct TriggerInput {
    pub(super) counts: TtcSent,
    /// Triggers that came, counted or not.
    came: u64,
    bursts: u64,
    seed: u64,
}

impl TriggerInput {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            counts: TtcSent::default(),
            came: 0,
            bursts: 0,
            seed,
        }
    }

    pub(super) fn clear(&mut self) {
        self.counts = TtcSent::default();
    }

    /// Sends a burst; the card counts it when this input is chosen.
    pub(super) fn play(&mut self, burst: &TtcBurst, is_chosen: bool, faults: &[Fault]) -> TtcSent {
        self.bursts += 1;
        let seed = hash(self.seed, self.bursts);
        let for_ns = burst.for_ns.min(BURST_NS_MOST);
        let config = TtcConfig {
            spread: Spread::Poisson,
            ecr_period_ns: Some(burst.ecr_period_ns.clamp(1000, BURST_NS_MOST)),
            limit: Limit {
                events: None,
                duration_ns: Some(for_ns),
            },
            ..TtcConfig::at_rate(f64::from(burst.rate_hz.clamp(1, 10_000_000)))
        };
        let mut source = Ttc::new(&config, seed);
        let mut sent = TtcSent {
            bcr: (u128::from(for_ns) * u128::from(BUNCH_HZ)
                / 1_000_000_000
                / u128::from(ORBIT_BUNCHES)) as u64,
            ecr: for_ns.saturating_sub(1) / burst.ecr_period_ns.clamp(1000, BURST_NS_MOST),
            ..TtcSent::default()
        };
        while let Some(at) = source.peek() {
            debug_assert!(at / TICKS_PER_NS <= for_ns);
            sent.l1a += u64::from(source.give(at).is_some());
        }
        if is_chosen {
            self.count(&sent, &mut Xoshiro256::new(hash(seed, 1)), faults);
        }
        sent
    }

    fn count(&mut self, sent: &TtcSent, rng: &mut Xoshiro256, faults: &[Fault]) {
        let mut seen = *sent;
        for fault in faults {
            match fault.defect {
                Defect::TtcUnlocked => return,
                Defect::TriggersSkipped { every } => {
                    let skipped = (self.came + sent.l1a) / every - self.came / every;
                    seen.l1a = seen.l1a.saturating_sub(skipped);
                }
                Defect::BcrLost { chance } => {
                    seen.bcr = (0..sent.bcr).filter(|_| !rng.happens(chance)).count() as u64;
                }
                _ => {}
            }
        }
        self.came += sent.l1a;
        self.counts.l1a += seen.l1a;
        self.counts.bcr += seen.bcr;
        self.counts.ecr += seen.ecr;
    }
}
