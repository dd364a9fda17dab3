//! The declarations of a ledger, as they are written into the file, and their validation.

mod names;

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::error::{LedgerError, SchemaError};
use crate::layout::MAX_WORDS;
use crate::loss::{ROW_WORDS, TABLE_WORDS};
use crate::unit::Unit;
use names::{check_exported_name, check_help, check_label, check_metric_name, check_name};

/// Longest name of a group, place, owner, reason or metric.
pub const MAX_NAME_BYTES: usize = 96;
/// Longest help text of a metric.
pub const MAX_HELP_BYTES: usize = 240;
/// Most words of one group.
pub const MAX_GROUP_WORDS: usize = 1 << 20;
/// Most rows of one loss table.
pub const MAX_LOSS_ROWS: usize = 1 << 20;
/// Words of an account before its drops: in, out, held.
pub(crate) const ACCOUNT_FIXED_WORDS: u32 = 6;

/// One word of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct WordRef {
    pub(crate) group: u32,
    pub(crate) word: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupEntry {
    pub(crate) name: String,
    pub(crate) words: u32,
}

/// An account: `base` is the first of its words, which are in, out, held, dropped… (items, bytes each).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccountEntry {
    pub(crate) group: u32,
    pub(crate) base: u32,
    pub(crate) place: String,
    pub(crate) owner: String,
    pub(crate) unit: Unit,
    /// Index of its list of reasons.
    pub(crate) reasons: u32,
    /// One observer sees all of its terms: it is shown, and not balanced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) one_observer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MetricKind {
    Counter,
    Gauge,
    Cursor,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetricEntry {
    pub(crate) at: WordRef,
    pub(crate) kind: MetricKind,
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) help: String,
}

/// Items and bytes of a named loss on a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DropAmount {
    /// Both are counted; the bytes are the word after the items.
    Exact(WordRef),
    /// The kernel counts drops; each was one to `items_max` items, together of `bytes_min` to `bytes_max`.
    Interval {
        items: WordRef,
        #[serde(default = "one")]
        items_max: u64,
        bytes_min: u64,
        bytes_max: u64,
    },
}

const fn one() -> u64 {
    1
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkDropEntry {
    pub(crate) reason: String,
    pub(crate) amount: DropAmount,
}

/// A link: what left `from` either entered `to` or is one of `drops` or is in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkEntry {
    pub(crate) place: String,
    pub(crate) owner: String,
    pub(crate) from: Vec<u32>,
    pub(crate) to: Vec<u32>,
    pub(crate) drops: Vec<LinkDropEntry>,
    /// Published and taken, each items with the bytes in the next word.
    pub(crate) in_flight: Option<(WordRef, WordRef)>,
    /// The word and what it counts.
    pub(crate) inferred_lost: Option<(WordRef, Unit)>,
    pub(crate) bound_items: u64,
    /// What the near side can have sent and not booked; absent where that is nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) unbooked_items: u64,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostEntry {
    pub(crate) at: WordRef,
    pub(crate) place: String,
    pub(crate) reason: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistogramEntry {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) owner: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LossTableEntry {
    pub(crate) group: u32,
    pub(crate) base: u32,
    pub(crate) rows: u32,
    /// Place and reason of each cause.
    pub(crate) causes: Vec<(String, String)>,
}

/// What the peer of an account has acknowledged of what went out of it: items, with the bytes in the next word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfirmedEntry {
    pub(crate) account: u32,
    pub(crate) at: WordRef,
}

/// Everything declared, in order of declaration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Directory {
    pub(crate) run_id: String,
    /// What kind of program writes it; empty where it does not say so.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) program: String,
    /// Accounts that stand for what the program does: each with all of its place and unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) headline: Vec<u32>,
    pub(crate) groups: Vec<GroupEntry>,
    pub(crate) reasons: Vec<Vec<String>>,
    pub(crate) accounts: Vec<AccountEntry>,
    pub(crate) links: Vec<LinkEntry>,
    pub(crate) metrics: Vec<MetricEntry>,
    pub(crate) host: Vec<HostEntry>,
    pub(crate) histograms: Vec<HistogramEntry>,
    pub(crate) loss_tables: Vec<LossTableEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) confirmed: Vec<ConfirmedEntry>,
}

impl Directory {
    /// The reasons of an account.
    pub(crate) fn reasons_of(&self, account: &AccountEntry) -> &[String] {
        self.reasons
            .get(account.reasons as usize)
            .map_or(&[], Vec::as_slice)
    }

    /// Checks everything a reader or writer will rely on.
    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        check_name("run", &self.run_id)?;
        self.check_headline()?;
        self.check_groups()?;
        self.check_accounts()?;
        for (index, link) in self.links.iter().enumerate() {
            self.check_link(index, link)?;
        }
        self.check_confirmed()?;
        self.check_metrics()?;
        self.check_loss_tables()?;
        self.check_volume()
    }

    fn check_headline(&self) -> Result<(), LedgerError> {
        if !self.program.is_empty() {
            check_name("program", &self.program)?;
        }
        let outside = |at: &u32| self.accounts.get(*at as usize).is_none();
        match self.headline.iter().position(outside) {
            Some(index) => Err(LedgerError::OutOfBounds {
                what: "headline",
                index,
            }),
            None => Ok(()),
        }
    }

    fn check_groups(&self) -> Result<(), LedgerError> {
        let mut seen = HashSet::with_capacity(self.groups.len());
        for group in &self.groups {
            check_name("group", &group.name)?;
            check_unique(&mut seen, "group", group.name.as_str(), || {
                group.name.clone()
            })?;
            check_limit("words of a group", group.words as usize, MAX_GROUP_WORDS)?;
        }
        Ok(())
    }

    /// Accounts must lie inside their groups and, taken together, fit into them: so a hostile
    /// directory cannot make a snapshot larger than its file.
    fn check_accounts(&self) -> Result<(), LedgerError> {
        for name in self.reasons.iter().flatten() {
            check_name("reason", name)?;
        }
        let mut free: Vec<u64> = self
            .groups
            .iter()
            .map(|group| u64::from(group.words))
            .collect();
        let mut seen = HashSet::with_capacity(self.accounts.len());
        for (index, account) in self.accounts.iter().enumerate() {
            let outside = LedgerError::OutOfBounds {
                what: "account",
                index,
            };
            check_name("place", &account.place)?;
            check_name("owner", &account.owner)?;
            let key = (account.place.as_str(), account.owner.as_str(), account.unit);
            check_unique(&mut seen, "account", key, || {
                format!("{}.{}", account.place, account.owner)
            })?;
            let reasons = self
                .reasons
                .get(account.reasons as usize)
                .ok_or(outside.clone())?;
            let width = u64::from(ACCOUNT_FIXED_WORDS) + 2 * reasons.len() as u64;
            self.check_span(account.group, account.base, width)
                .ok_or(outside.clone())?;
            let left = free
                .get_mut(account.group as usize)
                .ok_or(outside.clone())?;
            *left = left.checked_sub(width).ok_or(outside)?;
        }
        Ok(())
    }

    fn check_confirmed(&self) -> Result<(), LedgerError> {
        let mut seen = HashSet::with_capacity(self.confirmed.len());
        for (index, entry) in self.confirmed.iter().enumerate() {
            let outside = || LedgerError::OutOfBounds {
                what: "confirmed",
                index,
            };
            let account = self.accounts.get(entry.account as usize);
            let account = account.ok_or_else(outside)?;
            check_unique(&mut seen, "confirmed", entry.account, || {
                format!("{}.{}", account.place, account.owner)
            })?;
            self.check_span(entry.at.group, entry.at.word, 2)
                .ok_or_else(outside)?;
        }
        Ok(())
    }

    fn check_link(&self, index: usize, link: &LinkEntry) -> Result<(), LedgerError> {
        let outside = || LedgerError::OutOfBounds {
            what: "link",
            index,
        };
        check_name("link", &link.place)?;
        check_name("owner", &link.owner)?;
        let name = || format!("{}.{}", link.place, link.owner);
        let Some(&first) = link.to.first() else {
            return Err(SchemaError::NoFarSide { link: name() }.into());
        };
        let to = self.accounts.get(first as usize).ok_or_else(outside)?.unit;
        for &end in link.from.iter().chain(&link.to) {
            let from = self.accounts.get(end as usize).ok_or_else(outside)?.unit;
            if from != to {
                return Err(SchemaError::Units {
                    link: name(),
                    from,
                    to,
                }
                .into());
            }
        }
        for term in &link.drops {
            check_name("reason", &term.reason)?;
            match term.amount {
                DropAmount::Exact(at) => {
                    self.check_span(at.group, at.word, 2).ok_or_else(outside)?
                }
                DropAmount::Interval {
                    items,
                    bytes_min: min,
                    bytes_max: max,
                    ..
                } => {
                    if min > max {
                        return Err(SchemaError::Interval {
                            link: name(),
                            min,
                            max,
                        }
                        .into());
                    }
                    self.check_span(items.group, items.word, 1)
                        .ok_or_else(outside)?;
                }
            }
        }
        if let Some((published, taken)) = link.in_flight {
            self.check_span(published.group, published.word, 2)
                .ok_or_else(outside)?;
            self.check_span(taken.group, taken.word, 2)
                .ok_or_else(outside)?;
        }
        if let Some((at, _)) = link.inferred_lost {
            self.check_span(at.group, at.word, 1).ok_or_else(outside)?;
        }
        Ok(())
    }

    fn check_metrics(&self) -> Result<(), LedgerError> {
        let mut seen = HashSet::with_capacity(self.metrics.len());
        let mut kinds = HashMap::new();
        for (index, metric) in self.metrics.iter().enumerate() {
            // A cursor is not exported and may carry its owner's name.
            if metric.kind == MetricKind::Cursor {
                check_name("metric", &metric.name)?;
            } else {
                check_metric_name(&metric.name)?;
                check_exported_name(&metric.name)?;
            }
            // One name is one family for Prometheus, whatever the group.
            if *kinds.entry(metric.name.as_str()).or_insert(metric.kind) != metric.kind {
                return Err(SchemaError::Duplicate {
                    what: "metric",
                    name: metric.name.clone(),
                }
                .into());
            }
            check_label(&metric.owner)?;
            check_help(&metric.help)?;
            let key = (metric.at.group, metric.name.as_str(), metric.owner.as_str());
            check_unique(&mut seen, "metric", key, || metric.name.clone())?;
            self.check_span(metric.at.group, metric.at.word, 1).ok_or(
                LedgerError::OutOfBounds {
                    what: "metric",
                    index,
                },
            )?;
        }
        for (index, term) in self.host.iter().enumerate() {
            check_name("place", &term.place)?;
            check_name("reason", &term.reason)?;
            self.check_span(term.at.group, term.at.word, 1)
                .ok_or(LedgerError::OutOfBounds {
                    what: "host term",
                    index,
                })?;
        }
        let mut seen = HashSet::with_capacity(self.histograms.len());
        for histogram in &self.histograms {
            check_metric_name(&histogram.name)?;
            check_exported_name(&histogram.name)?;
            if kinds.contains_key(histogram.name.as_str()) {
                return Err(SchemaError::Duplicate {
                    what: "histogram",
                    name: histogram.name.clone(),
                }
                .into());
            }
            check_name("unit", &histogram.unit)?;
            check_label(&histogram.owner)?;
            let key = (histogram.name.as_str(), histogram.owner.as_str());
            check_unique(&mut seen, "histogram", key, || histogram.name.clone())?;
        }
        Ok(())
    }

    fn check_loss_tables(&self) -> Result<(), LedgerError> {
        for (index, table) in self.loss_tables.iter().enumerate() {
            self.check_span(table.group, table.base, u64::from(TABLE_WORDS))
                .ok_or(LedgerError::OutOfBounds {
                    what: "loss table",
                    index,
                })?;
            check_limit("rows of a loss table", table.rows as usize, MAX_LOSS_ROWS)?;
            check_limit(
                "causes of a loss table",
                table.causes.len(),
                usize::from(u16::MAX),
            )?;
            for (place, reason) in &table.causes {
                check_name("place", place)?;
                check_name("reason", reason)?;
            }
        }
        Ok(())
    }

    /// The sum of all declared sizes, before anything is laid out or allocated from it.
    fn check_volume(&self) -> Result<(), LedgerError> {
        let groups = self.groups.iter().map(|g| 2 * g.words as usize + 48);
        let rows = self
            .loss_tables
            .iter()
            .map(|t| t.rows as usize * ROW_WORDS + 16);
        let histograms = self.histograms.len() * (crate::histogram::WORDS + 16);
        let words = groups.chain(rows).sum::<usize>() + histograms;
        Ok(check_limit("words of a ledger", words, MAX_WORDS)?)
    }

    fn check_span(&self, group: u32, base: u32, width: u64) -> Option<()> {
        let words = u64::from(self.groups.get(group as usize)?.words);
        (u64::from(base) + width <= words).then_some(())
    }
}

fn check_unique<K: Eq + std::hash::Hash>(
    seen: &mut HashSet<K>,
    what: &'static str,
    key: K,
    name: impl Fn() -> String,
) -> Result<(), SchemaError> {
    if seen.insert(key) {
        Ok(())
    } else {
        Err(SchemaError::Duplicate { what, name: name() })
    }
}

fn check_limit(what: &'static str, asked: usize, limit: usize) -> Result<(), SchemaError> {
    if asked <= limit {
        return Ok(());
    }
    Err(SchemaError::TooLarge {
        what,
        asked: asked as u64,
        limit: limit as u64,
    })
}

/// FNV-1a over the directory's JSON: tells configurations apart and finds damage. It is no
/// protection against forgery, and need not be: every entry is checked as well.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
