//! The verdict on a run's books.

use serde::Serialize;

use crate::balance::{AccountLine, Amount, Balance, Level, LinkLine, Residual};
use crate::run::{Condition, Reason, RunStatus};
use crate::snapshot::Snapshot;
use crate::unit::Unit;

/// What the caller knows of the supervisor's process; this crate cannot look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supervisor {
    /// It lives.
    Alive,
    /// It is dead.
    Gone,
}

/// Which rules the verdict follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Data flows: links may be off by what can be in flight, as groups are read one after the other.
    Running,
    /// All is over: every residual must be 0, nothing may be left inside.
    Ended,
    /// The run died: what was held or in flight is named, the rest must close.
    Interrupted,
}

impl Phase {
    const fn of(run: &RunStatus, supervisor: Supervisor) -> Self {
        match (run.condition, supervisor) {
            (Condition::Ended | Condition::Tainted, _) => Self::Ended,
            (Condition::Interrupted, _) | (_, Supervisor::Gone) => Self::Interrupted,
            (Condition::Starting | Condition::Running, Supervisor::Alive) => Self::Running,
        }
    }
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// An account does not close.
    AccountResidual,
    /// A link does not close.
    LinkResidual,
    /// The run is over, but something is still said to be inside a hop.
    LeftHeld,
    /// The run is over, but something is still said to be inside a link.
    LeftInFlight,
}

impl Fault {
    const fn says(self) -> &'static str {
        match self {
            Self::AccountResidual | Self::LinkResidual => "unaccounted for",
            Self::LeftHeld => "still held at the end",
            Self::LeftInFlight => "still in flight at the end",
        }
    }
}

/// A line of the books that does not close.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offender {
    /// What is wrong.
    pub fault: Fault,
    /// Where: the hop or the link.
    pub place: String,
    /// Whose.
    pub owner: String,
    /// What an item is.
    pub unit: Unit,
    /// How much: positive when it vanished, negative when it appeared.
    pub residual: Residual,
}

impl std::fmt::Display for Offender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Residual { items, bytes } = self.residual;
        let (place, owner, unit) = (&self.place, &self.owner, self.unit);
        write!(
            f,
            "{place} {owner}: {items} {unit}, {bytes} bytes {}",
            self.fault.says()
        )
    }
}

/// How an amount was found to be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Underway {
    /// Inside a hop, counted.
    Held,
    /// Inside a link, counted at both of its ends.
    InFlight,
    /// Not accounted for, but no more than can be where nobody can count (a socket buffer): an inference.
    Inferred,
    /// More came than the sender's books say, but no more than it can have sent after its last commit: an inference, and negative.
    Unbooked,
}

/// Something that had neither arrived nor been lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnderwayLine {
    /// How it was found.
    pub kind: Underway,
    /// Where: the hop or the link.
    pub place: String,
    /// Whose.
    pub owner: String,
    /// What an item is.
    pub unit: Unit,
    /// How much.
    pub amount: Level,
}

/// What went out of a hop and no peer has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnconfirmedLine {
    /// Where it went out.
    pub place: String,
    /// Whose.
    pub owner: String,
    /// What an item is.
    pub unit: Unit,
    /// How much.
    #[serde(flatten)]
    pub amount: Amount,
}

/// The verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether every line closes under the rules of the phase.
    pub closed: bool,
    /// Which rules were followed.
    pub phase: Phase,
    /// How the run ended; `interrupted` also when its dead supervisor left it `running`.
    pub condition: Condition,
    /// Why.
    pub reason: Reason,
    /// Of when the books are, in ns since the Unix epoch, for a run that did not end by itself: its last sign of life. What happened after it is in no
    /// books.
    pub as_of_ns: Option<u64>,
    /// Lines that do not close, the greatest first.
    pub offenders: Vec<Offender>,
    /// What had neither arrived nor been lost. In an interrupted run: in flight when the run died.
    pub underway: Vec<UnderwayLine>,
    /// What went out and no peer has acknowledged, the greatest first; while data flows, all that is on its way. In no balance.
    pub unconfirmed: Vec<UnconfirmedLine>,
    /// Links whose sender keeps no books, as `place.owner`.
    pub unknown_links: Vec<String>,
    /// All lines.
    pub balance: Balance,
}

/// What a program says of its own books, in its summary and its exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Closed {
    /// Sum of the magnitudes of all residuals, in items.
    pub residual_items: u64,
    /// The same in bytes.
    pub residual_bytes: u64,
    /// What the books of an ended run still say to be inside a hop or a link, in items.
    pub left_items: u64,
    /// The same in bytes.
    pub left_bytes: u64,
}

impl Closed {
    /// Whether the books close: nothing is left over, and nothing is left inside.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        *self == Self::default()
    }

    /// These numbers and those of other books: what is left in one does not cancel what is left in the other.
    #[must_use]
    pub const fn with(self, other: &Self) -> Self {
        Self {
            residual_items: self.residual_items.saturating_add(other.residual_items),
            residual_bytes: self.residual_bytes.saturating_add(other.residual_bytes),
            left_items: self.left_items.saturating_add(other.left_items),
            left_bytes: self.left_bytes.saturating_add(other.left_bytes),
        }
    }
}

impl Verdict {
    /// The same verdict in four numbers, which are all 0 when it is `closed`.
    #[must_use]
    pub fn closed_books(&self) -> Closed {
        let mut books = Closed::default();
        for line in &self.offenders {
            let (items, bytes) = match line.fault {
                Fault::AccountResidual | Fault::LinkResidual => {
                    (&mut books.residual_items, &mut books.residual_bytes)
                }
                Fault::LeftHeld | Fault::LeftInFlight => {
                    (&mut books.left_items, &mut books.left_bytes)
                }
            };
            let add = |sum: &mut u64, more: i128| {
                *sum = sum.saturating_add(u64::try_from(more.unsigned_abs()).unwrap_or(u64::MAX));
            };
            add(items, line.residual.items);
            add(bytes, line.residual.bytes);
        }
        books
    }
}

/// Judges the books of `snapshot`.
#[must_use]
pub fn audit(snapshot: &Snapshot, supervisor: Supervisor) -> Verdict {
    let balance = snapshot.balance();
    let phase = Phase::of(&balance.run, supervisor);
    judge(balance, phase)
}

/// Judges the books of `snapshot` as those of a run that has ended, by the one that is about to write how.
#[must_use]
pub fn audit_at_end(snapshot: &Snapshot) -> Verdict {
    judge(snapshot.balance(), Phase::Ended)
}

fn judge(balance: Balance, phase: Phase) -> Verdict {
    let mut findings = Findings {
        phase,
        offenders: Vec::new(),
        underway: Vec::new(),
    };
    balance
        .accounts
        .iter()
        .for_each(|line| findings.account(line));
    balance.links.iter().for_each(|line| findings.link(line));
    let Findings {
        mut offenders,
        underway,
        ..
    } = findings;
    offenders.sort_by_key(|o| {
        std::cmp::Reverse((
            o.residual.items.unsigned_abs(),
            o.residual.bytes.unsigned_abs(),
        ))
    });
    let unknown = balance.links.iter().filter(|line| line.residual.is_none());
    let died = phase == Phase::Interrupted && balance.run.condition != Condition::Interrupted;
    let unconfirmed = unconfirmed(&balance);
    let (condition, reason) = match balance.run.condition {
        _ if died => (Condition::Interrupted, Reason::SupervisorLost),
        Condition::Ended if !unconfirmed.is_empty() => (Condition::Tainted, Reason::ConnectionLost),
        condition => (condition, balance.run.reason),
    };
    Verdict {
        closed: offenders.is_empty(),
        phase,
        condition,
        reason,
        as_of_ns: died.then_some(balance.run.heartbeat_ns.max(balance.run.start_ns)),
        offenders,
        underway,
        unconfirmed,
        unknown_links: unknown
            .map(|line| format!("{}.{}", line.place, line.owner))
            .collect(),
        balance,
    }
}

fn unconfirmed(balance: &Balance) -> Vec<UnconfirmedLine> {
    let accounts = balance.accounts.iter();
    let lines = accounts.filter_map(|line| {
        Some(UnconfirmedLine {
            place: line.place.clone(),
            owner: line.owner.clone(),
            unit: line.unit,
            amount: line.unconfirmed.filter(|left| *left != Amount::default())?,
        })
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort_by_key(|line| std::cmp::Reverse((line.amount.items, line.amount.bytes)));
    lines
}

struct Findings {
    phase: Phase,
    offenders: Vec<Offender>,
    underway: Vec<UnderwayLine>,
}

impl Findings {
    fn account(&mut self, line: &AccountLine) {
        let who = (&line.place, &line.owner, line.unit);
        self.offend(Fault::AccountResidual, who, line.residual);
        self.inside(Underway::Held, Fault::LeftHeld, who, line.held);
    }

    fn link(&mut self, line: &LinkLine) {
        let who = (&line.place, &line.owner, line.unit);
        self.inside(Underway::InFlight, Fault::LeftInFlight, who, line.in_flight);
        let Some(residual) = line.residual else {
            return;
        };
        let kind = match self.phase {
            Phase::Ended => None,
            // Groups are read one after the other: what came meanwhile may not be in the sender's yet.
            Phase::Running => {
                may_be_underway(residual, line.bound_items).then_some(Underway::Inferred)
            }
            Phase::Interrupted => left_by_the_dead(residual, line),
        };
        match kind {
            Some(kind) => self.note(kind, who, as_level(residual)),
            None => self.offend(Fault::LinkResidual, who, residual),
        }
    }

    /// What is inside a hop or a link is legitimate until the run is over.
    fn inside(
        &mut self,
        kind: Underway,
        left: Fault,
        who: (&String, &String, Unit),
        amount: Level,
    ) {
        if self.phase == Phase::Ended {
            let residual = Residual {
                items: amount.items.into(),
                bytes: amount.bytes.into(),
            };
            self.offend(left, who, residual);
        } else {
            self.note(kind, who, amount);
        }
    }

    fn offend(
        &mut self,
        fault: Fault,
        (place, owner, unit): (&String, &String, Unit),
        residual: Residual,
    ) {
        if !residual.is_zero() {
            let (place, owner) = (place.clone(), owner.clone());
            self.offenders.push(Offender {
                fault,
                place,
                owner,
                unit,
                residual,
            });
        }
    }

    fn note(
        &mut self,
        kind: Underway,
        (place, owner, unit): (&String, &String, Unit),
        amount: Level,
    ) {
        if amount != Level::default() {
            let (place, owner) = (place.clone(), owner.clone());
            self.underway.push(UnderwayLine {
                kind,
                place,
                owner,
                unit,
                amount,
            });
        }
    }
}

/// Bytes without an item cannot be on their way.
pub(crate) fn may_be_underway(residual: Residual, bound_items: u64) -> bool {
    residual.is_zero()
        || residual.items != 0 && residual.items.unsigned_abs() <= u128::from(bound_items)
}

/// What a link of a dead run may be short of, or have too many of, and by which of its bounds. The two directions have nothing to do with each other, and
/// items and bytes go the same way.
fn left_by_the_dead(residual: Residual, line: &LinkLine) -> Option<Underway> {
    let Residual { items, bytes } = residual;
    if items > 0 && bytes >= 0 {
        return (items <= line.bound_items.into()).then_some(Underway::Inferred);
    }
    let unbooked = items < 0 && bytes <= 0 && -items <= line.unbooked_items.into();
    (unbooked || residual.is_zero()).then_some(Underway::Unbooked)
}

fn as_level(residual: Residual) -> Level {
    let clamp = |value: i128| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    Level {
        items: clamp(residual.items),
        bytes: clamp(residual.bytes),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_in_one_of_several_books_is_left_in_all_of_them() {
        let own = Closed {
            residual_items: 1,
            left_bytes: 7,
            ..Closed::default()
        };
        let one = Closed {
            residual_items: 2,
            residual_bytes: 30,
            left_items: 4,
            left_bytes: u64::MAX,
        };
        let expected = Closed {
            residual_items: 3,
            residual_bytes: 30,
            left_items: 4,
            left_bytes: u64::MAX,
        };
        assert_eq!(own.with(&one).with(&Closed::default()), expected);
        for only in [
            Closed {
                residual_items: 1,
                ..Closed::default()
            },
            Closed {
                residual_bytes: 1,
                ..Closed::default()
            },
            Closed {
                left_items: 1,
                ..Closed::default()
            },
            Closed {
                left_bytes: 1,
                ..Closed::default()
            },
        ] {
            assert!(!Closed::default().with(&only).is_closed(), "{only:?}");
        }
    }

    #[test]
    fn bytes_without_items_are_not_on_their_way() {
        let residual = |items, bytes| Residual { items, bytes };
        assert!(may_be_underway(residual(0, 0), 0));
        assert!(may_be_underway(residual(5, 700), 5));
        assert!(may_be_underway(residual(-5, -700), 5));
        assert!(!may_be_underway(residual(6, 700), 5));
        assert!(!may_be_underway(residual(0, 1), 5));
        assert!(!may_be_underway(residual(0, -1), 5));
    }
}
