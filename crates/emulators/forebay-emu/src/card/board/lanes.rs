//! Links in loop-back: what each sends comes in again, if nothing is wrong with fibre, transceiver and alignment.

use forebay_wire::felix::board::PRBS_ERRORS_MOST;

use super::config::BoardConfig;
use super::defect::{Defect, Fault};
use super::prbs::{Prbs, is_found};
use crate::rng::Xoshiro256;

/// How long a link takes to align, in nanoseconds.
const ALIGN_NS: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    /// It will align, so long after its reset.
    aligns: bool,
    waited_ns: u64,
    /// The link whose PRBS its checker has found.
    found: Option<usize>,
    errors: u64,
    /// The bit, counted from the checker's start, that is wrong next; none drawn yet.
    next_error: Option<f64>,
}

#[derive(Debug, Clone)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    bits: f64,
}

fn mask(lanes: &[Lane], is: impl Fn(&Lane) -> bool) -> u64 {
    let bit = |(n, lane): (usize, &Lane)| u64::from(is(lane)) << n;
    lanes.iter().enumerate().map(bit).sum()
}

fn is_dead(link: usize, faults: &[Fault]) -> bool {
    faults.iter().any(
        |fault| matches!(fault.defect, Defect::DeadLink { link: of } if usize::from(of) == link),
    )
}

/// The share of the bits of a link that are wrong.
fn error_rate(link: usize, config: &BoardConfig) -> f64 {
    let rate = |fault: &Fault| match fault.defect {
        Defect::BitErrors { link: of, rate } if usize::from(of) == link => Some(rate),
        _ => None,
    };
    let of_faults = config.faults.iter().filter_map(rate);
    of_faults.fold(config.lane_error_rate, f64::max)
}

/// Bits from one that is wrong to the next, as of a random process with this rate.
fn distance(rate: f64, rng: &mut Xoshiro256) -> f64 {
    if rate > 0.0 {
        1.0 + (rng.unit().ln() / (-rate).ln_1p()).floor()
    } else {
        f64::INFINITY
    }
}

impl Lanes {
    pub(super) fn new(links: usize) -> Self {
        Self {
            lanes: vec![Lane::default(); links],
            bits: 0.0,
        }
    }

    /// The link whose bits arrive on this one, while it is aligned.
    pub(super) fn source(&self, link: usize, faults: &[Fault]) -> Option<usize> {
        let is_aligned = self.lanes.get(link).is_some_and(Lane::is_aligned);
        is_aligned.then(|| arriving(link, faults))
    }

    pub(super) fn aligned(&self) -> u64 {
        mask(&self.lanes, Lane::is_aligned)
    }

    pub(super) fn locked(&self) -> u64 {
        mask(&self.lanes, |lane| lane.found.is_some())
    }

    pub(super) fn bits(&self) -> u64 {
        self.bits as u64
    }

    pub(super) fn errors(&self, link: usize) -> u64 {
        self.lanes.get(link).map_or(0, |lane| lane.errors)
    }

    pub(super) fn reset(&mut self, links: u64, faults: &[Fault], rng: &mut Xoshiro256) {
        for (link, lane) in self.lanes.iter_mut().enumerate() {
            if links >> link & 1 == 0 {
                continue;
            }
            let fails = |fault: &Fault| match fault.defect {
                Defect::UnsteadyLink { link: of, fails } if usize::from(of) == link => {
                    rng.happens(fails)
                }
                _ => false,
            };
            let unsteady = faults.iter().map(fails).fold(false, |any, one| any | one);
            *lane = Lane {
                aligns: !unsteady && !is_dead(arriving(link, faults), faults),
                ..Lane::default()
            };
        }
    }

    /// Lets the checkers of these links look for the sequence of this order.
    pub(super) fn find_prbs(
        &mut self,
        links: u64,
        enabled: u64,
        order: u64,
        faults: &[Fault],
        rng: &mut Xoshiro256,
    ) {
        self.bits = 0.0;
        for link in 0..self.lanes.len() {
            if links >> link & 1 == 0 {
                continue;
            }
            let source = self
                .source(link, faults)
                .filter(|from| enabled >> from & 1 == 1);
            let state = rng.bits() as u32 | 1;
            let found = source.filter(|_| {
                let sent = Prbs::new(order, state);
                sent.is_some_and(|mut sent| is_found(order, || sent.bit()))
            });
            let lane = &mut self.lanes[link];
            (lane.found, lane.errors, lane.next_error) = (found, 0, None);
        }
    }

    pub(super) fn advance(&mut self, ns: u64, config: &BoardConfig, rng: &mut Xoshiro256) {
        self.bits += ns as f64 * 1e-9 * config.lane_bps;
        for (link, lane) in self.lanes.iter_mut().enumerate() {
            lane.waited_ns = lane.waited_ns.saturating_add(ns);
            if lane.found.is_none() {
                continue;
            }
            let rate = error_rate(arriving(link, &config.faults), config);
            let mut next = match lane.next_error {
                Some(next) => next,
                None => distance(rate, rng),
            };
            while next <= self.bits && lane.errors < PRBS_ERRORS_MOST {
                lane.errors += 1;
                next += distance(rate, rng);
            }
            lane.next_error = Some(next);
        }
    }
}

/// The fibre that comes in there.
fn arriving(link: usize, faults: &[Fault]) -> usize {
    let other = |fault: &Fault| match fault.defect.swapped()? {
        [a, b] if a == link => Some(b),
        [a, b] if b == link => Some(a),
        _ => None,
    };
    faults.iter().find_map(other).unwrap_or(link)
}

impl Defect {
    fn swapped(&self) -> Option<[usize; 2]> {
        match self {
            Self::SwappedLinks { links } => Some(links.map(usize::from)),
            _ => None,
        }
    }
}

impl Lane {
    fn is_aligned(&self) -> bool {
        self.aligns && self.waited_ns >= ALIGN_NS
    }
}
