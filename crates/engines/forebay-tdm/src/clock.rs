//! What the receiver's clock shows, from exchanges of readings with it.
//!
//! An exchange has four readings: a probe leaves (here), comes (there), its answer leaves (there), comes back (here). Half of the
//! difference of both ways is the offset of the clocks, if both ways take the same time; if they do not, the error is at most half of
//! what both ways took (RFC 5905, section 8). So of a burst of exchanges the shortest is kept. Through the kept ones of the last
//! [`POINTS_MAX`] bursts goes the line of Theil and Sen (median of all slopes, median of what is left; P. K. Sen, J. Am. Stat. Assoc. 63, 1379):
//! one bad burst in four does not move it. In these medians values have weights (L. A. Jaeckel, Ann. Math. Stat. 43, 1449):
//! an exchange that took little longer than the shortest says more than one that waited somewhere, and a slope between two far bursts more than one between
//! two that followed each other. The bounds of its errors are certain, and not those of a distribution, as long as the ways take no less than no time. A clock that is set jumps and keeps its rate: so after a step the skew that was known holds until there are
//! points enough for another. The host's clock is never touched.

mod bound;

use std::collections::VecDeque;

pub use bound::{Base, Wall};

use bound::Bound;

/// Bursts that the line goes through.
pub const POINTS_MAX: usize = 16;
/// What two clocks may differ in rate, in 10^-6: more is no oscillator but an error.
const SKEW_MAX: f64 = 500e-6;
/// Taken for the skew's error while too few points show it, in 10^-6.
const SKEW_UNKNOWN: f64 = 100e-6;
/// What a point may be off beyond its bounds before it counts as a step of the clock, in ns.
const STEP_SLACK_NS: f64 = 2_000.0;
/// What an exchange is off that took no longer than the shortest, in ns: readings of the clock, stamps, ways of different length. For weights alone.
const NOISE_NS: f64 = 200.0;
/// From the first burst to the last of a line that can be relied on, in ns: what a burst is off goes into the skew divided by this.
const SETTLED_NS: u64 = 800_000_000;
/// Points that show a skew.
const POINTS_FOR_SKEW: usize = 4;

/// Four readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The probe left, by the clock here, in ns.
    pub sent_ns: u64,
    /// It came, by the clock there.
    pub came_ns: u64,
    /// The answer left, by the clock there.
    pub left_ns: u64,
    /// It came back, by the clock here.
    pub back_ns: u64,
}

impl Exchange {
    /// What the clock there shows more than the one here, in ns, and what both ways took.
    /// `None` when the readings contradict each other: an answer that left before its probe came, or took less than no time.
    fn measured(&self) -> Option<Point> {
        let here = self.back_ns.checked_sub(self.sent_ns)?;
        let there = self.left_ns.checked_sub(self.came_ns)?;
        let delay_ns = here.checked_sub(there)?;
        let forth = i128::from(self.came_ns) - i128::from(self.sent_ns);
        let back = i128::from(self.left_ns) - i128::from(self.back_ns);
        Some(Point {
            at_ns: self.sent_ns + here / 2,
            offset_ns: i64::try_from((forth + back) / 2).ok()?,
            delay_ns,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Point {
    at_ns: u64,
    offset_ns: i64,
    delay_ns: u64,
}

/// Offset and skew: what the clock there shows when the one here shows `t` is `t + offset + skew * (t - at)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Where the offset holds, by the clock here, in ns.
    pub at_ns: u64,
    /// In ns.
    pub offset_ns: i64,
    /// What the clock there gains on the one here, as a ratio.
    pub skew: f64,
    /// Bound of the error at `at_ns`, in ns.
    pub error_ns: f64,
    /// Bound of the skew's error, as a ratio.
    pub skew_error: f64,
    /// When the last burst was, by the clock here.
    pub last_ns: u64,
}

impl Line {
    /// What the clock there shows when the one here shows `local_ns`.
    #[must_use]
    pub fn remote_ns(&self, local_ns: u64) -> u64 {
        // Of each burst it is asked, so it does without wider numbers and calls: half away from zero, as `round`.
        let gained = self.since(local_ns) * self.skew;
        let gained = (gained + 0.5_f64.copysign(gained)) as i64;
        local_ns.saturating_add_signed(self.offset_ns.saturating_add(gained))
    }

    /// What the clock here shows when the one there shows `remote_ns`.
    #[must_use]
    pub fn local_ns(&self, remote_ns: u64) -> u64 {
        let flat = i128::from(remote_ns) - i128::from(self.offset_ns);
        let since = (flat - i128::from(self.at_ns)) as f64;
        let gained = (since * self.skew / (1.0 + self.skew)).round() as i128;
        u64::try_from((flat - gained).max(0)).unwrap_or(u64::MAX)
    }

    /// Bound of the error when the clock here shows `local_ns`, in ns. It grows with the time since the last burst.
    #[must_use]
    pub fn error_at_ns(&self, local_ns: u64) -> u64 {
        let age = local_ns.abs_diff(self.last_ns) as f64;
        (self.error_ns + age * self.skew_error).ceil() as u64
    }

    fn since(&self, local_ns: u64) -> f64 {
        local_ns.wrapping_sub(self.at_ns).cast_signed() as f64
    }
}

/// What a burst has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burst {
    /// It goes into the line.
    Kept,
    /// No exchange of it was answered.
    Empty,
    /// It contradicts the line: another burst must show which of both holds.
    Unsure,
    /// The one before it was wrong, not the line.
    Outlier,
    /// One of the clocks has jumped: the line begins anew.
    Stepped,
}

/// Follows the clock of a peer.
#[derive(Debug, Default)]
pub struct Clock {
    points: VecDeque<Point>,
    best: Option<Point>,
    doubt: Option<Point>,
    fitted: Option<Line>,
    /// What both wall clocks say, and the line with that.
    bound: Option<Bound>,
    line: Option<Line>,
    base: Base,
    /// One of the clocks was set: the line holds no longer, or it does.
    was_set: bool,
    /// Skew and the bound of its error from before a step.
    kept: Option<(f64, f64)>,
    /// Exchanges whose readings contradicted each other.
    pub contradictions: u64,
    /// Jumps of one of the clocks.
    pub steps: u64,
    /// Bursts that were wrong.
    pub outliers: u64,
}

impl Clock {
    /// One exchange of the burst that is going on.
    pub fn add(&mut self, exchange: &Exchange) {
        match exchange.measured() {
            Some(point) => {
                if self.best.is_none_or(|best| point.delay_ns < best.delay_ns) {
                    self.best = Some(point);
                }
            }
            None => self.contradictions += 1,
        }
    }

    /// The burst is over.
    pub fn end_burst(&mut self) -> Burst {
        let Some(point) = self.best.take() else {
            return Burst::Empty;
        };
        let was_set = std::mem::take(&mut self.was_set);
        let doubt = self.doubt.take().filter(|_| !was_set);
        let verdict = match (self.fitted, doubt) {
            (Some(line), None) if was_set && !agrees(&line, &point) => {
                self.steps += 1;
                let rate = (line.skew, line.skew_error);
                self.kept = self.knows_skew().then_some(rate);
                self.points.clear();
                Burst::Stepped
            }
            (Some(line), None) if !agrees(&line, &point) => {
                self.doubt = Some(point);
                return Burst::Unsure;
            }
            (Some(line), Some(_)) if agrees(&line, &point) => {
                self.outliers += 1;
                Burst::Outlier
            }
            (Some(line), Some(doubt)) => {
                self.steps += 1;
                let jump_ns = off(&line, &doubt);
                let moved = Line {
                    offset_ns: line.offset_ns.saturating_add(jump_ns as i64),
                    error_ns: line.error_ns + doubt.delay_ns as f64 / 2.0,
                    ..line
                };
                // Both are of the new kind; is their difference what the rate from before says?
                let same_rate = self.knows_skew() && agrees(&moved, &point);
                self.kept = same_rate.then_some((line.skew, line.skew_error));
                self.points.clear();
                self.points.push_back(doubt);
                Burst::Stepped
            }
            _ => Burst::Kept,
        };
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
        self.fitted = self.fit();
        self.narrow();
        verdict
    }

    /// What is known; `None` before the first burst.
    #[must_use]
    pub const fn line(&self) -> Option<Line> {
        self.line
    }

    /// What the bound of its error rests on.
    #[must_use]
    pub const fn base(&self) -> Base {
        self.base
    }

    /// Both wall clocks, here and there, when the clock here shows `now_ns`; none when one of them is not disciplined.
    pub fn bound(&mut self, now_ns: u64, walls: Option<(Wall, Wall)>) {
        self.bound = walls.map(|(here, there)| Bound::of(now_ns, here, there));
        self.narrow();
    }

    fn narrow(&mut self) {
        (self.line, self.base) = match (self.fitted, self.bound) {
            (Some(line), Some(bound)) => {
                let (line, base) = bound.narrow(line);
                (Some(line), base)
            }
            (line, _) => (line, Base::Exchanges),
        };
    }

    /// The last burst contradicts the line: nobody should rely on it now.
    #[must_use]
    pub const fn is_unsure(&self) -> bool {
        self.doubt.is_some() || self.was_set
    }

    /// One of the clocks was set: the next burst shows by how much.
    pub fn was_set(&mut self) {
        self.best = None;
        self.bound = None;
        self.narrow();
        self.was_set = self.fitted.is_some();
    }

    /// Enough bursts have shown offset and skew.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let long = self.kept.is_some() || self.known_for_ns() >= SETTLED_NS;
        long && self.knows_skew() && !self.is_unsure()
    }

    fn knows_skew(&self) -> bool {
        self.points.len() >= POINTS_FOR_SKEW || self.kept.is_some()
    }

    /// From the first burst of the line to the last, in ns.
    #[must_use]
    pub fn known_for_ns(&self) -> u64 {
        match (self.points.front(), self.points.back()) {
            (Some(first), Some(last)) => last.at_ns.saturating_sub(first.at_ns),
            _ => 0,
        }
    }

    /// Half of the shortest way there and back, in ns.
    #[must_use]
    pub fn delay_ns(&self) -> u64 {
        let shortest = self.points.iter().map(|point| point.delay_ns).min();
        shortest.unwrap_or(0) / 2
    }

    /// Forgets everything: the peer has another clock now.
    pub fn forget(&mut self) {
        self.points.clear();
        (self.best, self.doubt, self.fitted, self.kept) = (None, None, None, None);
        self.was_set = false;
        self.bound = None;
        self.narrow();
    }

    fn fit(&self) -> Option<Line> {
        let last = self.points.back()?;
        let x = |point: &Point| (i128::from(point.at_ns) - i128::from(last.at_ns)) as f64;
        let y = |point: &Point| (i128::from(point.offset_ns) - i128::from(last.offset_ns)) as f64;
        let points: Vec<(f64, f64, f64)> = self
            .points
            .iter()
            .map(|point| (x(point), y(point), point.delay_ns as f64 / 2.0))
            .collect();
        let pairs = || {
            let each = points.iter().enumerate();
            each.flat_map(|(at, one)| {
                let later = points.get(at + 1..).unwrap_or_default();
                later.iter().map(move |other| (one, other))
            })
        };
        let shortest = points.iter().map(|point| point.2);
        let shortest = shortest.fold(f64::INFINITY, f64::min);
        let noise = |half: f64| half - shortest + NOISE_NS;
        let slope = |((x, y, half), other): (&(f64, f64, f64), &(f64, f64, f64))| {
            let span = other.0 - x;
            let weight = span / (noise(*half) + noise(other.2));
            (span > 0.0).then(|| ((other.1 - y) / span, weight * weight))
        };
        let shown = points.len() >= POINTS_FOR_SKEW;
        let skew = if shown {
            median(pairs().filter_map(slope).collect()).clamp(-SKEW_MAX, SKEW_MAX)
        } else {
            self.kept.map_or(0.0, |(skew, _)| skew)
        };
        let rest = points.iter().map(|(x, y, half)| {
            let weight = 1.0 / noise(*half);
            (y - skew * x, weight * weight)
        });
        let at_last = median(rest.collect());
        // What is certain: each point is off by half of its delay at most, and so is the rise between two of them by both halves.
        let rises = pairs().filter_map(|((x, y, half), other)| {
            let span = other.0 - x;
            let off = other.1 - y - skew * span;
            (span > 0.0).then(|| (off.abs() + half + other.2) / span)
        });
        let skew_error = if shown {
            // 0.5 ppm: what a good oscillator moves in minutes (ITU-T G.8262, temperature).
            rises.fold(SKEW_MAX, f64::min) + 0.5e-6
        } else {
            self.kept.map_or(SKEW_UNKNOWN, |(_, error)| error)
        };
        let bounds = points.iter().map(|(x, y, half)| {
            let off = (y - skew * x - at_last).abs();
            off + half - x * skew_error
        });
        let error_ns = bounds.fold(f64::INFINITY, f64::min);
        Some(Line {
            at_ns: last.at_ns,
            offset_ns: last.offset_ns.saturating_add(at_last.round() as i64),
            skew,
            error_ns,
            skew_error,
            last_ns: last.at_ns,
        })
    }
}

/// Does a point lie where the line says, within the bounds of both?
fn agrees(line: &Line, point: &Point) -> bool {
    let bound = line.error_at_ns(point.at_ns) as f64 + point.delay_ns as f64 / 2.0;
    off(line, point).abs() <= bound + STEP_SLACK_NS
}

/// By how much a point lies above the line, in ns.
fn off(line: &Line, point: &Point) -> f64 {
    let offset = i128::from(line.remote_ns(point.at_ns)) - i128::from(point.at_ns);
    (i128::from(point.offset_ns) - offset) as f64
}

/// The value with as much weight below as above it; of none 0.
fn median(mut values: Vec<(f64, f64)>) -> f64 {
    values.sort_by(|one, other| one.0.total_cmp(&other.0));
    let all: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    for (at, (value, weight)) in values.iter().enumerate() {
        below += weight;
        if below > all / 2.0 {
            return *value;
        }
        if below == all / 2.0 {
            let next = values.get(at + 1).map_or(*value, |(next, _)| *next);
            return f64::midpoint(*value, next);
        }
    }
    values.last().map_or(0.0, |(value, _)| *value)
}

#[cfg(test)]
mod tests;
