//! What others than exchanges say of both clocks: where both hosts' wall clocks are disciplined, by NTP or PTP, they are no further apart than both bounds together.
//!
//! A monotonic clock is slewed as the wall clock is (`kernel/time/timekeeping.c`), so what the wall clock shows more is the same number until somebody sets it.

use super::Line;

/// A wall clock that another program disciplines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wall {
    /// What it shows more than the clock that is followed, in ns.
    pub ahead_ns: i64,
    /// Bound of its error, in ns.
    pub error_ns: u64,
}

/// What the bound of a clock's error rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// Exchanges of readings alone: one of the wall clocks is not disciplined, or both say no more than exchanges do.
    #[default]
    Exchanges,
    /// Exchanges, and both wall clocks: together they say more.
    Disciplined,
    /// Exchanges alone, since both wall clocks say what cannot be.
    Contradicted,
}

/// The clock there less the one here, by both wall clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    at_ns: u64,
    offset_ns: i64,
    error_ns: u64,
}

impl Bound {
    /// At `at_ns` of the clock here.
    pub(super) const fn of(at_ns: u64, here: Wall, there: Wall) -> Self {
        Self {
            at_ns,
            offset_ns: here.ahead_ns.saturating_sub(there.ahead_ns),
            error_ns: here.error_ns.saturating_add(there.error_ns),
        }
    }

    /// The line within the bound, and what it rests on then.
    pub(super) fn narrow(&self, line: Line) -> (Line, Base) {
        let at_ns = self.at_ns.max(line.last_ns);
        let shown = i128::from(line.remote_ns(at_ns)) - i128::from(at_ns);
        // How far the middle of the bound lies above the line.
        let above = (i128::from(self.offset_ns) - shown) as f64;
        let (half, bound) = (line.error_at_ns(at_ns) as f64, self.error_ns as f64);
        let (low, high) = ((-half).max(above - bound), half.min(above + bound));
        if low > high {
            return (line, Base::Contradicted);
        }
        if high - low > 2.0 * half - 1.0 {
            return (line, Base::Exchanges);
        }
        let moved = f64::midpoint(low, high);
        let narrowed = Line {
            offset_ns: line.offset_ns.saturating_add(moved.round() as i64),
            error_ns: (high - low) / 2.0 + 1.0,
            last_ns: at_ns,
            ..line
        };
        (narrowed, Base::Disciplined)
    }
}
