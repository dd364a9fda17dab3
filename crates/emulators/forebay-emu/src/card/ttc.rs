//! The emulator of timing, trigger and control: when triggers are asked for.
//!
//! Times are whole *ticks* of 1/96 ns: a word of a link in FULL mode is 400 of them, a byte of any E-link of a GBT link a whole number too.

use forebay_wire::felix::TtcMessage;

use crate::config::{ConfigError, Limit, RATE_HZ, in_range};
use crate::rng::Xoshiro256;

/// Ticks of a nanosecond.
pub(super) const TICKS_PER_NS: u64 = 96;
/// Bunches of an orbit of the LHC.
pub const ORBIT_BUNCHES: u64 = 3564;
/// Rate of bunches in Hz: 40.079 MHz.
pub const BUNCH_HZ: u64 = 40_079_000;
/// Ticks of a bunch are this many divided by [`BUNCH_KHZ`].
const BUNCH_TICKS: u128 = 96 * 1_000_000;
const BUNCH_KHZ: u128 = BUNCH_HZ as u128 / 1000;

/// When triggers come, and how many.
#[derive(Debug, Clone, PartialEq)]
pub struct TtcConfig {
    /// Triggers asked for in a second, on average: 0.001 to 100,000,000. BUSY and dead time hold some of them back.
    pub rate_hz: f64,
    /// How they are spread. Default fixed.
    pub spread: Spread,
    /// After a trigger no other one for so many bunches (simple dead time), 0 to 3,564. Default 0, so that a fixed rate is what it says; the central trigger of ATLAS has 4.
    pub dead_time_bunches: u64,
    /// Resets the trigger number (ECR) so often, in nanoseconds, 1,000 and more. Default none.
    pub ecr_period_ns: Option<u64>,
    /// The DMA buffer that gets a message about each trigger, on E-link 0x600. Default none.
    pub to_host: Option<usize>,
    /// What these messages say is the trigger's type. Default 1.
    pub trigger_type: u16,
    /// When no more triggers come. Default never.
    pub limit: Limit,
    /// A trigger that is made later than this is late, in nanoseconds; see [`Behind`](crate::Behind). Default 1 ms.
    pub behind_after_ns: u64,
}

/// How triggers are spread in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// All at the same distance.
    Fixed,
    /// As of a random process: distances are exponential.
    Poisson,
    /// Trains of filled bunches from the beginning of each orbit on, any filled bunch with the same probability, at most one trigger in a bunch.
    Trains(Trains),
}

/// Which bunches of an orbit are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trains {
    /// How many trains there are; 1 or more. Default 39.
    pub trains: u16,
    /// Bunches of a train; 1 or more. Default 72: with 39 trains the 2,808 bunches that the LHC was designed for.
    pub bunches: u16,
    /// Empty bunches between two trains. Default 8.
    pub gap_bunches: u16,
}

impl Default for Trains {
    fn default() -> Self {
        Self {
            trains: 39,
            bunches: 72,
            gap_bunches: 8,
        }
    }
}

impl Trains {
    const fn filled(self) -> u64 {
        self.trains as u64 * self.bunches as u64
    }

    const fn spacing(self) -> u64 {
        self.bunches as u64 + self.gap_bunches as u64
    }

    /// The bunch, counted from the start of the run, that is the `n`-th filled one.
    const fn bunch(self, n: u64) -> u64 {
        let (orbit, of_orbit) = (n / self.filled(), n % self.filled());
        let (train, of_train) = (
            of_orbit / self.bunches as u64,
            of_orbit % self.bunches as u64,
        );
        orbit * ORBIT_BUNCHES + train * self.spacing() + of_train
    }
}

impl TtcConfig {
    /// A fixed rate, without end.
    #[must_use]
    pub fn at_rate(rate_hz: f64) -> Self {
        Self {
            rate_hz,
            spread: Spread::Fixed,
            dead_time_bunches: 0,
            ecr_period_ns: None,
            to_host: None,
            trigger_type: 1,
            limit: Limit {
                events: None,
                duration_ns: None,
            },
            behind_after_ns: 1_000_000,
        }
    }

    pub(super) fn validate(&self, buffers: usize) -> Result<(), ConfigError> {
        in_range("ttc.rate_hz", self.rate_hz, RATE_HZ.0, RATE_HZ.1)?;
        let dead = self.dead_time_bunches;
        in_range("ttc.dead_time_bunches", dead, 0, ORBIT_BUNCHES)?;
        if let Some(period) = self.ecr_period_ns {
            in_range("ttc.ecr_period_ns", period, 1000, u64::MAX / TICKS_PER_NS)?;
        }
        if let Some(buffer) = self.to_host {
            in_range("ttc.to_host", buffer, 0, buffers - 1)?;
        }
        if let Spread::Trains(trains) = self.spread {
            in_range("ttc.trains", trains.trains, 1, ORBIT_BUNCHES as u16)?;
            in_range("ttc.bunches", trains.bunches, 1, ORBIT_BUNCHES as u16)?;
            let last = (u64::from(trains.trains) - 1) * trains.spacing();
            let ends = last + u64::from(trains.bunches);
            in_range("bunches of all trains", ends, 1, ORBIT_BUNCHES)?;
            // At most one in a bunch; beyond that nothing would be random.
            let most = trains.filled() as f64 * BUNCH_HZ as f64 / ORBIT_BUNCHES as f64;
            in_range("ttc.rate_hz", self.rate_hz, RATE_HZ.0, most)?;
        }
        Ok(())
    }
}

/// A trigger that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trigger {
    /// Which of the run, from 0.
    pub(super) number: u64,
    /// Its number as front ends say it: 24 bits, and 8 bits of resets above.
    pub(super) l1id: u32,
    /// When, in ticks.
    pub(super) at: u64,
}

impl Trigger {
    /// What the card says of it to the host.
    pub(super) fn message(self, trigger_type: u16) -> TtcMessage {
        let bunches = (u128::from(self.at) * BUNCH_KHZ / BUNCH_TICKS) as u64;
        TtcMessage {
            bunch: (bunches % ORBIT_BUNCHES) as u16,
            l1id: self.l1id & 0xff_ffff,
            resets: (self.l1id >> 24) as u8,
            orbit: (bunches / ORBIT_BUNCHES) as u32,
            trigger_type,
            l0id: self.l1id & 0xff_ffff,
            triggers: self.number + 1,
        }
    }
}

/// The first tick of a bunch.
fn bunch_ticks(bunch: u64) -> u64 {
    (u128::from(bunch) * BUNCH_TICKS).div_ceil(BUNCH_KHZ) as u64
}

/// When triggers are asked for, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Ttc {
    spread: Spread,
    period: f64,
    /// Logarithm of the probability that a filled bunch has no trigger.
    log_none: f64,
    rng: Xoshiro256,
    /// Poisson: the time of the last one; trains: how many filled bunches have been.
    walked: f64,
    filled: u64,
    index: u64,
    next: Option<u64>,
    ends_at: u64,
    dead: u64,
    dead_until: u64,
    ecr_period: Option<u64>,
    next_ecr: u64,
    l1id: u32,
    resets: u8,
    given: u64,
    most: u64,
}

impl Ttc {
    pub(super) fn new(config: &TtcConfig, seed: u64) -> Self {
        let log_none = match config.spread {
            Spread::Trains(trains) => {
                let orbits_hz = BUNCH_HZ as f64 / ORBIT_BUNCHES as f64;
                let chance = config.rate_hz / (trains.filled() as f64 * orbits_hz);
                (-chance.min(1.0)).ln_1p()
            }
            Spread::Fixed | Spread::Poisson => 0.0,
        };
        let ticks = |ns: u64| ns.saturating_mul(TICKS_PER_NS);
        let ecr_period = config.ecr_period_ns.map(ticks);
        let mut ttc = Self {
            spread: config.spread,
            period: 1e9 * TICKS_PER_NS as f64 / config.rate_hz,
            log_none,
            rng: Xoshiro256::new(seed),
            walked: 0.0,
            filled: 0,
            index: 0,
            next: None,
            ends_at: config.limit.duration_ns.map_or(u64::MAX, ticks),
            dead: bunch_ticks(config.dead_time_bunches),
            dead_until: 0,
            ecr_period,
            next_ecr: ecr_period.unwrap_or(u64::MAX),
            l1id: 0,
            resets: 0,
            given: 0,
            most: config.limit.events.unwrap_or(u64::MAX),
        };
        if ttc.most > 0 {
            ttc.walk();
        }
        ttc
    }

    /// When the next one is asked for.
    #[inline]
    pub(super) fn peek(&self) -> Option<u64> {
        self.next
    }

    /// The next one is not given.
    #[inline]
    pub(super) fn skip(&mut self) {
        self.index += 1;
        self.walk();
    }

    /// None before this time is given: how many there were, at most `most`.
    pub(super) fn skip_until(&mut self, at: u64, most: u64) -> u64 {
        let from = self.index;
        if self.spread == Spread::Fixed && self.next.is_some_and(|next| next < at) {
            // Short of the mark, as the division is not exact.
            let index = ((at.min(self.ends_at) as f64 / self.period) as u64).saturating_sub(1);
            if index > self.index {
                self.index = index;
                self.walk();
            }
        }
        let last = self.index.saturating_add(most);
        while self.next.is_some_and(|next| next < at) && self.index < last {
            self.skip();
        }
        self.index - from
    }

    /// Takes the next one, due at `at`, if the dead time of the one before is over.
    #[inline]
    pub(super) fn give(&mut self, at: u64) -> Option<Trigger> {
        if at < self.dead_until {
            self.skip();
            return None;
        }
        self.dead_until = at + self.dead;
        if at >= self.next_ecr {
            self.reset(at);
        }
        let trigger = Trigger {
            number: self.given,
            l1id: u32::from(self.resets) << 24 | self.l1id,
            at,
        };
        self.l1id = (self.l1id + 1) & 0xff_ffff;
        self.given += 1;
        if self.given < self.most {
            self.skip();
        } else {
            self.stop();
        }
        Some(trigger)
    }

    #[cold]
    fn reset(&mut self, at: u64) {
        let period = self.ecr_period.unwrap_or(u64::MAX);
        let resets = (at - self.next_ecr) / period + 1;
        self.resets = self.resets.wrapping_add(resets as u8);
        self.next_ecr += resets * period;
        self.l1id = 0;
    }

    /// No more.
    pub(super) fn stop(&mut self) {
        self.next = None;
        self.ends_at = 0;
    }

    /// Finds the time of the one at hand.
    #[inline]
    fn walk(&mut self) {
        let at = match self.spread {
            Spread::Fixed => (self.index as f64 * self.period) as u64,
            Spread::Poisson => {
                self.walked -= self.rng.unit().ln() * self.period;
                self.walked as u64
            }
            Spread::Trains(trains) => {
                let empty = self.rng.unit().ln() / self.log_none;
                self.filled = self.filled.saturating_add(empty as u64);
                let at = bunch_ticks(trains.bunch(self.filled));
                self.filled += 1;
                at
            }
        };
        self.next = (at < self.ends_at).then_some(at);
    }
}

#[cfg(test)]
#[path = "ttc_tests.rs"]
mod tests;
