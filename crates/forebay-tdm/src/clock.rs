//! What the receiver's clock shows, from exchanges of readings with it.
//!
//! An exchange has four readings: a probe leaves (here), comes (there), its answer leaves (there), comes back (here). Half of the
//! difference of both ways is the offset of the clocks, if both ways take the same time; if they do not, the error is at most half of
//! what both ways took (RFC 5905, section 8). So of a burst of exchanges the shortest is kept. Through the kept ones of the last
//! [`POINTS_MAX`] bursts goes the line of Theil and Sen (median of all slopes, median of what is left; P. K. Sen, J. Am. Stat. Assoc. 63, 1379):
//! one bad burst in four does not move it. The host's clock is never touched.

use std::collections::VecDeque;

/// Bursts that the line goes through.
pub const POINTS_MAX: usize = 16;
/// What two clocks may differ in rate, in 10^-6: more is no oscillator but an error.
const SKEW_MAX: f64 = 500e-6;
/// Taken for the skew's error while too few points show it, in 10^-6.
const SKEW_UNKNOWN: f64 = 100e-6;
/// What a point may be off beyond its bounds before it counts as a step of the clock, in ns.
const STEP_SLACK_NS: f64 = 2_000.0;
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
        let gained = (self.since(local_ns) * self.skew).round() as i128;
        let remote = i128::from(local_ns) + i128::from(self.offset_ns) + gained;
        u64::try_from(remote.max(0)).unwrap_or(u64::MAX)
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
        (i128::from(local_ns) - i128::from(self.at_ns)) as f64
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
    line: Option<Line>,
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
        let verdict = match (self.line, self.doubt.take()) {
            (Some(line), None) if !agrees(&line, &point) => {
                self.doubt = Some(point);
                return Burst::Unsure;
            }
            (Some(line), Some(_)) if agrees(&line, &point) => {
                self.outliers += 1;
                Burst::Outlier
            }
            (Some(_), Some(doubt)) => {
                self.steps += 1;
                self.points.clear();
                self.points.push_back(doubt);
                // Two of the new kind: their difference is no skew yet.
                Burst::Stepped
            }
            _ => Burst::Kept,
        };
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
        self.line = self.fit();
        verdict
    }

    /// What is known; `None` before the first burst.
    #[must_use]
    pub const fn line(&self) -> Option<Line> {
        self.line
    }

    /// The last burst contradicts the line: nobody should rely on it now.
    #[must_use]
    pub const fn is_unsure(&self) -> bool {
        self.doubt.is_some()
    }

    /// Enough bursts have shown offset and skew.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.points.len() >= POINTS_FOR_SKEW && !self.is_unsure()
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
        (self.best, self.doubt, self.line) = (None, None, None);
    }

    fn fit(&self) -> Option<Line> {
        let last = self.points.back()?;
        let x = |point: &Point| (i128::from(point.at_ns) - i128::from(last.at_ns)) as f64;
        let y = |point: &Point| (i128::from(point.offset_ns) - i128::from(last.offset_ns)) as f64;
        let points: Vec<(f64, f64)> = self
            .points
            .iter()
            .map(|point| (x(point), y(point)))
            .collect();
        let pairs = points.iter().enumerate().flat_map(|(at, one)| {
            let later = points.get(at + 1..).unwrap_or_default();
            later.iter().map(move |other| (one, other))
        });
        let slopes = pairs.filter(|(one, other)| other.0 > one.0);
        let slopes = slopes.map(|(one, other)| (other.1 - one.1) / (other.0 - one.0));
        let shown = points.len() >= POINTS_FOR_SKEW;
        let skew = if shown {
            median(slopes.collect()).clamp(-SKEW_MAX, SKEW_MAX)
        } else {
            0.0
        };
        let at_last = median(points.iter().map(|(x, y)| y - skew * x).collect());
        // The wrong points of a robust line say nothing of its error: the middle half of what is left over does.
        let left: Vec<f64> = points
            .iter()
            .map(|(x, y)| (y - skew * x - at_last).abs())
            .collect();
        let noise = 3.0 * median(left);
        let span = points.first().map_or(0.0, |(x, _)| -x);
        let skew_error = if shown && span > 0.0 {
            // 0.5 ppm: what a good oscillator moves in minutes (ITU-T G.8262, temperature).
            4.0 * noise.max(50.0) / span + 0.5e-6
        } else {
            SKEW_UNKNOWN
        };
        // Half of what both ways took bounds the error of one exchange, and so that of the line through several.
        let delays = self.points.iter().map(|point| point.delay_ns as f64 / 2.0);
        Some(Line {
            at_ns: last.at_ns,
            offset_ns: last.offset_ns.saturating_add(at_last.round() as i64),
            skew,
            error_ns: median(delays.collect()) + noise,
            skew_error,
            last_ns: last.at_ns,
        })
    }
}

/// Does a point lie where the line says, within the bounds of both?
fn agrees(line: &Line, point: &Point) -> bool {
    let offset = i128::from(line.remote_ns(point.at_ns)) - i128::from(point.at_ns);
    let off = (offset - i128::from(point.offset_ns)).unsigned_abs() as f64;
    let bound = line.error_at_ns(point.at_ns) as f64 + point.delay_ns as f64 / 2.0;
    off <= bound + STEP_SLACK_NS
}

/// The middle one; of none 0.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle).copied().unwrap_or(0.0);
    if values.len() % 2 == 1 {
        return upper;
    }
    let lower = middle.checked_sub(1).and_then(|at| values.get(at));
    lower.map_or(upper, |lower| f64::midpoint(*lower, upper))
}

#[cfg(test)]
mod tests;
