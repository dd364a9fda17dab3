//! Closing the books: what went in, what came out, what was lost by name, what is left over.
//!
//! The residual is the only number here that is derived from others.

use serde::{Serialize, Serializer};

use crate::directory::{AccountEntry, DropAmount, HostEntry, LinkEntry};
use crate::run::RunStatus;
use crate::snapshot::Snapshot;
use crate::unit::Unit;

/// Items and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Number of items.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Amount {
    /// Adds `more`; what is beyond all numbers stays at the largest.
    pub(crate) const fn add(&mut self, more: Self) {
        self.items = self.items.saturating_add(more.items);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

/// Items and bytes of something that goes up and down, and below 0 only by a bug.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Level {
    /// Number of items.
    pub items: i64,
    /// Their bytes.
    pub bytes: i64,
}

/// What is left over: positive when something vanished, negative when something appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Residual {
    /// Items left over; where the kernel merges items before it drops them, the distance to their interval.
    #[serde(serialize_with = "clamped")]
    pub items: i128,
    /// Bytes left over; with kernel terms the distance to their interval.
    #[serde(serialize_with = "clamped")]
    pub bytes: i128,
}

/// JSON has no 128-bit numbers that others read.
fn clamped<S: Serializer>(value: &i128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64((*value).clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

impl AccountLine {
    fn confirm(&mut self, confirmed: Amount) {
        self.confirmed = Some(confirmed);
        self.unconfirmed = Some(Amount {
            items: self.outgoing.items.saturating_sub(confirmed.items),
            bytes: self.outgoing.bytes.saturating_sub(confirmed.bytes),
        });
    }
}

impl Residual {
    /// Whether nothing is left over.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.items == 0 && self.bytes == 0
    }
}

/// A named loss. Items and bytes are known exactly when their bounds are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DropLine {
    /// Why.
    pub reason: String,
    /// Items lost; the least where the kernel may have merged some.
    pub items: u64,
    /// Most items lost.
    pub items_max: u64,
    /// Least bytes lost.
    pub bytes_min: u64,
    /// Most bytes lost.
    pub bytes_max: u64,
}

/// The account of one owner at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountLine {
    /// Where.
    pub place: String,
    /// Whose.
    pub owner: String,
    /// What an item is.
    pub unit: Unit,
    /// What came in.
    pub incoming: Amount,
    /// What went on.
    pub outgoing: Amount,
    /// What is inside.
    pub held: Level,
    /// Named losses that occurred.
    pub dropped: Vec<DropLine>,
    /// `in − out − Σ dropped − held`; 0 where there is only one observer.
    pub residual: Residual,
    /// Whether one observer sees all of its terms: it is not balanced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_observer: bool,
    /// What the peer has acknowledged of what went on, by its own count; nothing where no peer does that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<Amount>,
    /// What went on and the peer has not acknowledged: it took effect there, or not. In no balance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<Amount>,
}

/// One connection between two hops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkLine {
    /// Where.
    pub place: String,
    /// Whose.
    pub owner: String,
    /// What an item is.
    pub unit: Unit,
    /// What left the near side; nothing when the sender is foreign and keeps no books.
    pub sent: Option<Amount>,
    /// What entered the far side.
    pub received: Amount,
    /// Named losses that occurred.
    pub dropped: Vec<DropLine>,
    /// What is known to be inside the link.
    pub in_flight: Level,
    /// `sent − received − Σ dropped − in flight`; nothing when unknown.
    pub residual: Option<Residual>,
    /// Items that gaps in numbers say are lost. An inference: it enters no balance.
    pub inferred_lost_items: Option<u64>,
    /// What they are.
    pub inferred_unit: Option<Unit>,
    /// Items that can be in flight where nobody can count them.
    pub bound_items: u64,
    /// Items that the near side can have sent and not booked.
    #[serde(skip)]
    pub unbooked_items: u64,
}

/// A loss of the whole host, charged to nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostLine {
    /// Where.
    pub place: String,
    /// Always `host`.
    pub owner: &'static str,
    /// Why.
    pub reason: String,
    /// Items.
    pub items: u64,
}

/// All accounts and links of a ledger at one snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Balance {
    /// The run's name.
    pub run_id: String,
    /// The run's header.
    pub run: RunStatus,
    /// In order of declaration.
    pub accounts: Vec<AccountLine>,
    /// In order of declaration.
    pub links: Vec<LinkLine>,
    /// For information.
    pub host: Vec<HostLine>,
    /// Sum of the magnitudes of all residuals, so that two faults cannot cancel. It mixes units: only
    /// whether it is 0 has a meaning across units.
    pub residual_items: u64,
    /// The same for bytes.
    pub residual_bytes: u64,
}

impl Snapshot {
    /// Closes the books of this snapshot.
    #[must_use]
    pub fn balance(&self) -> Balance {
        let directory = &self.directory;
        let accounts = directory.accounts.iter();
        let mut accounts: Vec<_> = accounts.map(|entry| self.account_line(entry)).collect();
        for entry in &directory.confirmed {
            if let Some(line) = accounts.get_mut(entry.account as usize) {
                let (items, bytes) = self.pair(entry.at);
                line.confirm(Amount { items, bytes });
            }
        }
        let links: Vec<_> = directory
            .links
            .iter()
            .map(|entry| self.link_line(entry))
            .collect();
        let residuals = || {
            let of_links = links.iter().filter_map(|line| line.residual);
            accounts.iter().map(|line| line.residual).chain(of_links)
        };
        Balance {
            run_id: directory.run_id.clone(),
            run: self.run,
            residual_items: magnitude(residuals().map(|r| r.items)),
            residual_bytes: magnitude(residuals().map(|r| r.bytes)),
            host: directory
                .host
                .iter()
                .map(|entry| self.host_line(entry))
                .collect(),
            accounts,
            links,
        }
    }

    fn account_line(&self, entry: &AccountEntry) -> AccountLine {
        let term = |index: u32| {
            let word = entry.base + 2 * index;
            self.pair(crate::directory::WordRef {
                group: entry.group,
                word,
            })
        };
        let amount = |(items, bytes)| Amount { items, bytes };
        let (incoming, outgoing) = (amount(term(0)), amount(term(1)));
        let held = level(term(2));
        let mut residual = Residual {
            items: i128::from(incoming.items) - i128::from(outgoing.items) - i128::from(held.items),
            bytes: i128::from(incoming.bytes) - i128::from(outgoing.bytes) - i128::from(held.bytes),
        };
        let mut dropped = Vec::new();
        for (index, reason) in (3..).zip(self.directory.reasons_of(entry)) {
            let (items, bytes) = term(index);
            residual.items -= i128::from(items);
            residual.bytes -= i128::from(bytes);
            push_drop(&mut dropped, reason, (items, items), (bytes, bytes));
        }
        if entry.one_observer {
            residual = Residual::default();
        }
        let (place, owner) = (entry.place.clone(), entry.owner.clone());
        AccountLine {
            place,
            owner,
            unit: entry.unit,
            incoming,
            outgoing,
            held,
            dropped,
            residual,
            one_observer: entry.one_observer,
            confirmed: None,
            unconfirmed: None,
        }
    }

    fn link_line(&self, entry: &LinkEntry) -> LinkLine {
        let sent = (!entry.from.is_empty()).then(|| self.sum(&entry.from, 1));
        let received = self.sum(&entry.to, 0);
        let dropped = self.link_drops(entry);
        let in_flight = entry
            .in_flight
            .map_or_else(Level::default, |(published, taken)| {
                let (published, taken) = (self.pair(published), self.pair(taken));
                level((
                    published.0.wrapping_sub(taken.0),
                    published.1.wrapping_sub(taken.1),
                ))
            });
        LinkLine {
            place: entry.place.clone(),
            owner: entry.owner.clone(),
            unit: self.unit_of(entry),
            residual: sent.map(|sent| link_residual(sent, received, &dropped, in_flight)),
            sent,
            received,
            dropped,
            in_flight,
            inferred_lost_items: entry.inferred_lost.map(|(at, _)| self.at(at)),
            inferred_unit: entry.inferred_lost.map(|(_, unit)| unit),
            bound_items: entry.bound_items,
            unbooked_items: entry.unbooked_items,
        }
    }

    pub(crate) fn link_drops(&self, entry: &LinkEntry) -> Vec<DropLine> {
        let mut dropped = Vec::new();
        for term in &entry.drops {
            let (items, bytes) = self.drop_amount(&term.amount);
            push_drop(&mut dropped, &term.reason, items, bytes);
        }
        dropped
    }

    /// Least and most items, least and most bytes.
    pub(crate) fn drop_amount(&self, amount: &DropAmount) -> ((u64, u64), (u64, u64)) {
        match *amount {
            DropAmount::Exact(at) => {
                let (items, bytes) = self.pair(at);
                ((items, items), (bytes, bytes))
            }
            DropAmount::Interval {
                items,
                items_max,
                bytes_min,
                bytes_max,
            } => {
                let drops = self.at(items);
                let times = |each: u64| drops.saturating_mul(each);
                (
                    (drops, times(items_max)),
                    (times(bytes_min), times(bytes_max)),
                )
            }
        }
    }

    pub(crate) fn unit_of(&self, entry: &LinkEntry) -> Unit {
        let account = entry
            .to
            .first()
            .and_then(|&id| self.directory.accounts.get(id as usize));
        account.map_or(Unit::Bytes, |account| account.unit)
    }

    /// Sum over accounts of their term `index` (0 in, 1 out).
    fn sum(&self, accounts: &[u32], index: u32) -> Amount {
        let entries = accounts
            .iter()
            .filter_map(|&id| self.directory.accounts.get(id as usize));
        entries.fold(Amount::default(), |sum, entry| {
            let word = entry.base + 2 * index;
            let (items, bytes) = self.pair(crate::directory::WordRef {
                group: entry.group,
                word,
            });
            Amount {
                items: sum.items.saturating_add(items),
                bytes: sum.bytes.saturating_add(bytes),
            }
        })
    }

    fn host_line(&self, entry: &HostEntry) -> HostLine {
        HostLine {
            place: entry.place.clone(),
            owner: "host",
            reason: entry.reason.clone(),
            items: self.at(entry.at),
        }
    }
}

/// Only losses that occurred make a line.
fn push_drop(lines: &mut Vec<DropLine>, reason: &str, items: (u64, u64), bytes: (u64, u64)) {
    if items.1 > 0 || bytes.1 > 0 {
        lines.push(DropLine {
            reason: reason.to_owned(),
            items: items.0,
            items_max: items.1,
            bytes_min: bytes.0,
            bytes_max: bytes.1,
        });
    }
}

const fn level((items, bytes): (u64, u64)) -> Level {
    Level {
        items: items.cast_signed(),
        bytes: bytes.cast_signed(),
    }
}

pub(crate) fn link_residual(
    sent: Amount,
    received: Amount,
    dropped: &[DropLine],
    in_flight: Level,
) -> Residual {
    let total = |of: fn(&DropLine) -> u64| {
        dropped
            .iter()
            .map(|line| i128::from(of(line)))
            .sum::<i128>()
    };
    let items = i128::from(sent.items) - i128::from(received.items) - i128::from(in_flight.items);
    let bytes = i128::from(sent.bytes) - i128::from(received.bytes) - i128::from(in_flight.bytes);
    Residual {
        items: distance(
            items,
            total(|line| line.items),
            total(|line| line.items_max),
        ),
        bytes: distance(
            bytes,
            total(|line| line.bytes_min),
            total(|line| line.bytes_max),
        ),
    }
}

/// How far `value` lies outside `min..=max`.
fn distance(value: i128, min: i128, max: i128) -> i128 {
    value - value.clamp(min, max.max(min))
}

fn magnitude(values: impl Iterator<Item = i128>) -> u64 {
    let sum = values.fold(0u128, |sum, value| sum.saturating_add(value.unsigned_abs()));
    u64::try_from(sum).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn distance_is_zero_inside_and_signed_outside() {
        assert_eq!(distance(5, 3, 7), 0);
        assert_eq!(distance(2, 3, 7), -1);
        assert_eq!(distance(9, 3, 7), 2);
    }

    /// Bytes may be lost without an item (the end of a chunk), and items without a byte (packets that only their numbers tell of).
    #[test]
    fn a_loss_of_items_or_of_bytes_alone_is_a_line() {
        let mut lines = Vec::new();
        push_drop(&mut lines, "none", (0, 0), (0, 0));
        push_drop(&mut lines, "bytes", (0, 0), (0, 50));
        push_drop(&mut lines, "items", (0, 4), (0, 0));
        let found: Vec<_> = lines
            .iter()
            .map(|line| (line.reason.as_str(), line.items_max, line.bytes_max))
            .collect();
        assert_eq!(found, [("bytes", 0, 50), ("items", 4, 0)]);
    }

    #[test]
    fn residuals_of_opposite_sign_do_not_cancel() {
        assert_eq!(magnitude([3, -3].into_iter()), 6);
        assert_eq!(magnitude([i128::MAX, i128::MAX].into_iter()), u64::MAX);
    }

    #[test]
    fn a_residual_beyond_json_is_clamped() {
        let huge = Residual {
            items: i128::MAX,
            bytes: i128::MIN,
        };
        let text = serde_json::to_string(&huge).unwrap();
        assert_eq!(
            text,
            format!(r#"{{"items":{},"bytes":{}}}"#, i64::MAX, i64::MIN)
        );
    }
}
