//! The balance sheet: a verdict as text, by place, with the owners that matter.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

use crate::audit::{Phase, Underway, Verdict};
use crate::balance::{Amount, DropLine, Level, Residual};
use crate::run::Reason;
use crate::table::{Table, bytes, items};
use crate::unit::Unit;

/// Owners named with each loss, and lines named with each finding.
const OWNERS_SHOWN: usize = 3;
pub(crate) const FINDINGS_SHOWN: usize = 20;
/// In the place of a residual.
const ONE_OBSERVER: &str = "not balanced: one observer";

/// One row of the sheet: all owners of a place with the same unit.
#[derive(Clone, Debug)]
struct PlaceSum {
    place: String,
    unit: Unit,
    owners: usize,
    known: bool,
    /// Balanced for at least one owner.
    balanced: bool,
    /// in or sent, out or received, dropped (least), dropped (most), held or in flight, residual
    items: [i128; 6],
    bytes: [i128; 6],
}

/// Sums in order of first appearance.
#[derive(Debug, Default)]
struct PlaceSums {
    rows: Vec<PlaceSum>,
    index: HashMap<(String, Unit), usize>,
}

impl PlaceSums {
    fn add(
        &mut self,
        (place, unit): (&str, Unit),
        (near, far): (Option<Amount>, Amount),
        dropped: &[DropLine],
        inside: Level,
        residual: Option<Residual>,
        balanced: bool,
    ) {
        let rows = &mut self.rows;
        let index = *self
            .index
            .entry((place.to_owned(), unit))
            .or_insert_with(|| {
                let (items, bytes) = ([0; 6], [0; 6]);
                rows.push(PlaceSum {
                    place: place.to_owned(),
                    unit,
                    owners: 0,
                    known: true,
                    balanced: false,
                    items,
                    bytes,
                });
                rows.len() - 1
            });
        let Some(row) = rows.get_mut(index) else {
            return;
        };
        let near = near.unwrap_or_default();
        let left = residual.unwrap_or_default();
        let total = |of: fn(&DropLine) -> u64| {
            dropped
                .iter()
                .map(|line| i128::from(of(line)))
                .sum::<i128>()
        };
        row.owners += 1;
        row.known &= residual.is_some();
        row.balanced |= balanced;
        let new_items = [
            near.items.into(),
            far.items.into(),
            total(|line| line.items),
            total(|line| line.items_max),
            inside.items.into(),
            left.items.abs(),
        ];
        let new_bytes = [
            near.bytes.into(),
            far.bytes.into(),
            total(|line| line.bytes_min),
            total(|line| line.bytes_max),
            inside.bytes.into(),
            left.bytes.abs(),
        ];
        row.items
            .iter_mut()
            .zip(new_items)
            .for_each(|(sum, new)| *sum += new);
        row.bytes
            .iter_mut()
            .zip(new_bytes)
            .for_each(|(sum, new)| *sum += new);
    }

    fn render(&self, head: &[&str]) -> String {
        let mut table = Table::new(3, head);
        for row in &self.rows {
            let known = |text: String| {
                if row.known {
                    text
                } else {
                    "unknown".to_owned()
                }
            };
            let cells = |sums: &[i128; 6], show: fn(i128) -> String| {
                let [near, far, least, most, inside, left] = *sums;
                let lost = if least == most {
                    show(least)
                } else {
                    format!("{} to {}", show(least), show(most))
                };
                [
                    known(show(near)),
                    show(far),
                    lost,
                    show(inside),
                    if row.balanced {
                        known(show(left))
                    } else {
                        ONE_OBSERVER.to_owned()
                    },
                ]
            };
            let mut first = vec![
                row.place.clone(),
                row.owners.to_string(),
                row.unit.to_string(),
            ];
            first.extend(cells(&row.items, items));
            table.row(first);
            // Of what was lost on the way nobody knows the bytes: there are accounts of items alone.
            if row.bytes != [0; 6] || row.items == [0; 6] {
                let mut second = vec![String::new(), String::new(), "bytes".to_owned()];
                second.extend(cells(&row.bytes, bytes));
                table.row(second);
            }
        }
        table.render()
    }
}

/// All losses of one reason at one place.
#[derive(Debug, Default)]
struct LossSum {
    items: i128,
    items_max: i128,
    bytes_min: i128,
    bytes_max: i128,
    owners: Vec<(String, u64)>,
}

impl Verdict {
    /// The balance sheet as text.
    #[must_use]
    pub fn sheet(&self) -> String {
        self.to_string()
    }

    /// The balance sheet without its last words: how the run ended, and all tables.
    #[must_use]
    pub fn tables(&self) -> String {
        let why = match self.reason {
            Reason::None => String::new(),
            reason => format!(" ({})", reason.name()),
        };
        let how = self.condition.name();
        let parts = [
            format!("run {}: {how}{why}\n", self.balance.run_id),
            self.links_text(),
            self.accounts_text(),
            self.losses_text(),
            self.inferred_text(),
            self.host_text(),
            self.underway_text(),
            self.unconfirmed_text(),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n")
    }

    fn accounts_text(&self) -> String {
        let mut sums = PlaceSums::default();
        for line in &self.balance.accounts {
            let terms = (Some(line.incoming), line.outgoing);
            sums.add(
                (&line.place, line.unit),
                terms,
                &line.dropped,
                line.held,
                Some(line.residual),
                !line.one_observer,
            );
        }
        sums.render(&[
            "place", "owners", "unit", "in", "out", "dropped", "held", "residual",
        ])
    }

    fn links_text(&self) -> String {
        let mut sums = PlaceSums::default();
        for line in &self.balance.links {
            let terms = (line.sent, line.received);
            sums.add(
                (&line.place, line.unit),
                terms,
                &line.dropped,
                line.in_flight,
                line.residual,
                true,
            );
        }
        sums.render(&[
            "link",
            "owners",
            "unit",
            "sent",
            "received",
            "dropped",
            "in flight",
            "residual",
        ])
    }

    /// The table of named losses, the largest first; nothing where nothing was lost.
    #[must_use]
    pub fn losses_text(&self) -> String {
        let accounts = self
            .balance
            .accounts
            .iter()
            .map(|line| (&line.place, &line.owner, &line.dropped));
        let links = self
            .balance
            .links
            .iter()
            .map(|line| (&line.place, &line.owner, &line.dropped));
        let mut order = Vec::new();
        let mut sums: HashMap<(&str, &str), LossSum> = HashMap::new();
        for (place, owner, dropped) in links.chain(accounts) {
            for loss in dropped {
                let key = (place.as_str(), loss.reason.as_str());
                let sum = sums.entry(key).or_insert_with(|| {
                    order.push(key);
                    LossSum::default()
                });
                sum.items += i128::from(loss.items);
                sum.items_max += i128::from(loss.items_max);
                sum.bytes_min += i128::from(loss.bytes_min);
                sum.bytes_max += i128::from(loss.bytes_max);
                sum.owners.push((owner.clone(), loss.items));
            }
        }
        let mut table = Table::new(
            2,
            &["lost at", "reason", "items", "bytes", "most of them from"],
        );
        order.sort_by_key(|key| Reverse(sums.get(key).map_or(0, |sum| sum.items_max)));
        for key in order {
            if let Some(sum) = sums.get(&key) {
                table.row(vec![
                    key.0.into(),
                    key.1.into(),
                    sum.items_text(),
                    sum.bytes_text(),
                    sum.owners_text(),
                ]);
            }
        }
        table.render()
    }

    fn inferred_text(&self) -> String {
        let mut table = Table::new(3, &["inferred lost before", "owner", "unit", "items"]);
        let links = self.balance.links.iter();
        let lost = links.filter_map(|line| Some((line, line.inferred_lost_items?)));
        let mut lost: Vec<_> = lost.filter(|(_, lost)| *lost > 0).collect();
        lost.sort_by_key(|(_, lost)| Reverse(*lost));
        for (line, lost) in lost {
            table.row(vec![
                line.place.clone(),
                line.owner.clone(),
                line.inferred_unit.unwrap_or(line.unit).to_string(),
                items(lost.into()),
            ]);
        }
        table.render()
    }

    fn host_text(&self) -> String {
        let mut table = Table::new(2, &["host", "reason", "items"]);
        for line in self.balance.host.iter().filter(|line| line.items > 0) {
            table.row(vec![
                line.place.clone(),
                line.reason.clone(),
                items(line.items.into()),
            ]);
        }
        table.render()
    }

    fn underway_text(&self) -> String {
        let head = match self.phase {
            Phase::Interrupted => "in flight when the run died",
            Phase::Running | Phase::Ended => "in flight now",
        };
        let mut table = Table::new(4, &[head, "owner", "how known", "unit", "items", "bytes"]);
        for line in self.underway.iter().take(FINDINGS_SHOWN) {
            let how = match line.kind {
                Underway::Held => "held",
                Underway::InFlight => "counted",
                Underway::Inferred => "inferred",
                Underway::Unbooked => "not booked by its sender",
            };
            table.row(vec![
                line.place.clone(),
                line.owner.clone(),
                how.to_owned(),
                line.unit.to_string(),
                items(line.amount.items.into()),
                bytes(line.amount.bytes.into()),
            ]);
        }
        table.render() + &more(self.underway.len())
    }

    fn unconfirmed_text(&self) -> String {
        let head = match self.phase {
            Phase::Running => "not confirmed yet",
            Phase::Interrupted | Phase::Ended => "unconfirmed",
        };
        let mut table = Table::new(3, &[head, "owner", "unit", "items", "bytes"]);
        for line in self.unconfirmed.iter().take(FINDINGS_SHOWN) {
            table.row(vec![
                line.place.clone(),
                line.owner.clone(),
                line.unit.to_string(),
                items(line.amount.items.into()),
                bytes(line.amount.bytes.into()),
            ]);
        }
        table.render() + &more(self.unconfirmed.len())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.tables(), self.closing(&[]))
    }
}

impl LossSum {
    /// Where the kernel merges items before it drops them, its count is a lower bound.
    fn items_text(&self) -> String {
        if self.items == self.items_max {
            return items(self.items);
        }
        format!(
            "at least {}, at most {}",
            items(self.items),
            items(self.items_max)
        )
    }

    fn bytes_text(&self) -> String {
        if self.bytes_min == self.bytes_max {
            return bytes(self.bytes_min);
        }
        format!("{} to {}", bytes(self.bytes_min), bytes(self.bytes_max))
    }

    /// The owners that lost most.
    fn owners_text(&self) -> String {
        let mut owners: Vec<_> = self.owners.iter().collect();
        owners.sort_by_key(|(_, lost)| Reverse(*lost));
        let shown = owners
            .iter()
            .take(OWNERS_SHOWN)
            .map(|(owner, lost)| format!("{owner} {}", items((*lost).into())));
        let mut text = shown.collect::<Vec<_>>().join(", ");
        if owners.len() > OWNERS_SHOWN {
            text += &format!(", {} more", owners.len() - OWNERS_SHOWN);
        }
        text
    }
}

pub(crate) fn more(lines: usize) -> String {
    if lines > FINDINGS_SHOWN {
        format!("  … and {} more\n", lines - FINDINGS_SHOWN)
    } else {
        String::new()
    }
}
