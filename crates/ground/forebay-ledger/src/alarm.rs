//! The live alarm: a residual that stays.
//!
//! While data flows the groups are read one after the other, so a link is off by what moved between
//! two reads. It is a fault only when it is more than can be in flight, or stays.

use std::collections::BTreeMap;

use crate::audit::may_be_underway;
use crate::balance::{Balance, Residual};

/// One line of the books by its number in the [`Balance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    /// Index in [`Balance::accounts`].
    Account(usize),
    /// Index in [`Balance::links`].
    Link(usize),
}

/// A residual that stayed above its bound for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// The line.
    pub line: Line,
    /// Where.
    pub place: String,
    /// Whose.
    pub owner: String,
    /// The residual when the alarm was raised.
    pub residual: Residual,
    /// Since when it is above its bound, in ns of the caller's clock.
    pub since_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Excess {
    since_ns: u64,
    raised: bool,
}

/// Watches balances of one ledger over time.
#[derive(Clone, Debug)]
pub struct ResidualAlarm {
    hold_ns: u64,
    excess: BTreeMap<Line, Excess>,
}

impl ResidualAlarm {
    /// Raises an alarm when a residual is above its bound for `hold_ns`; 1 s suits a run whose groups
    /// commit many times a second.
    #[must_use]
    pub const fn new(hold_ns: u64) -> Self {
        Self {
            hold_ns,
            excess: BTreeMap::new(),
        }
    }

    /// Looks at a balance taken at `now_ns` and returns the alarms newly raised. An alarm is raised
    /// once, and again only after its line was within the bound in between.
    pub fn handle_balance(&mut self, balance: &Balance, now_ns: u64) -> Vec<Alarm> {
        let accounts = balance.accounts.iter().enumerate().map(|(index, line)| {
            (
                Line::Account(index),
                &line.place,
                &line.owner,
                line.residual,
                0,
            )
        });
        let links = balance
            .links
            .iter()
            .enumerate()
            .filter_map(|(index, line)| {
                Some((
                    Line::Link(index),
                    &line.place,
                    &line.owner,
                    line.residual?,
                    line.bound_items,
                ))
            });
        let mut alarms = Vec::new();
        for (line, place, owner, residual, bound) in accounts.chain(links) {
            if may_be_underway(residual, bound) {
                self.excess.remove(&line);
            } else if let Some(since_ns) = self.handle_excess(line, now_ns) {
                let (place, owner) = (place.clone(), owner.clone());
                alarms.push(Alarm {
                    line,
                    place,
                    owner,
                    residual,
                    since_ns,
                });
            }
        }
        alarms
    }

    /// Lines whose alarm stands.
    pub fn raised(&self) -> impl Iterator<Item = Line> + '_ {
        self.excess
            .iter()
            .filter(|(_, excess)| excess.raised)
            .map(|(&line, _)| line)
    }

    /// Since when the line is above its bound, if the alarm is to be raised now.
    fn handle_excess(&mut self, line: Line, now_ns: u64) -> Option<u64> {
        let excess = self.excess.entry(line).or_insert(Excess {
            since_ns: now_ns,
            raised: false,
        });
        let due = !excess.raised && now_ns.saturating_sub(excess.since_ns) >= self.hold_ns;
        excess.raised |= due;
        due.then_some(excess.since_ns)
    }
}
