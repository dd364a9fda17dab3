//! The record of a run, version 2: `run.json` in its directory, and what a program prints with `--format json`. The keys of [`Envelope`] are the same for every
//! program; what it has to say beside them stands next to them.
//!
//! | what happened | condition | reason | exit code |
//! |---|---|---|---|
//! | the input, the duration or the number of items came to its end, or the first signal came | `ended` | `input_ended`, `limit_reached`, `requested` | 0 |
//! | beside that something that a user of the data must know (a taint): a disk was full, a sink stalled, a connection was lost, a stage died | `tainted` | that of the taint | 0 |
//! | beside that, with `--strict`, a loss by name | as above | as above | 3 |
//! | of `net send`, `net pub` and `tdm send`: nobody has said what became of all that was sent | `tainted` | `connection_lost` | 4 |
//! | something failed: a card, a sender or a receiver was lost without which there is no run, an output cannot be written, blocks were left unread, payloads of a test stream are wrong | `interrupted`, `tainted`, `ended` | `connection_lost`, `write_failed`, `start_failed`, or as above | 2 |
//! | the books do not close, somebody removed what was written, or what was read back or checked is wrong | `tainted`, `ended` | `residual`, `output_removed` | 1 |
//! | the process was killed | `interrupted` | `supervisor_lost` | none: there is no record, and `forebay audit` reads the ledger |
//!
//! Of several lines the one furthest down holds for the exit code. A run that never began is exit code 2, and has no record. `docs/OPERATIONS.md` has the same table.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use forebay_host::Changes;
use forebay_ledger::{Closed, Condition, Lost, Reason, Taint, TaintKind, Verdict};
use forebay_sys::process;
use serde::Serialize;
use serde_json::Value;

/// Version of the record.
pub const RECORD_VERSION: u32 = 2;

/// Exit codes of a run that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The books close; what was lost has a name.
    Done = 0,
    /// The books do not close, or somebody removed what was written.
    Broken = 1,
    /// Something failed.
    Failed = 2,
    /// With `--strict`: something was lost, even by name.
    Lost = 3,
    /// Nobody has said what became of what was sent.
    Unconfirmed = 4,
}

/// The keys that every record has.
#[derive(Clone, Debug, Serialize)]
pub struct Envelope {
    /// Version of the record, [`RECORD_VERSION`].
    pub record_version: u32,
    /// The program, as `tohost` or `tdm-send`.
    pub program: String,
    /// Name of the run.
    pub run_id: String,
    /// How it ended, as its ledger says.
    pub condition: Condition,
    /// Why it ended.
    pub reason: Reason,
    /// What failed; none: nothing did.
    pub failed: Option<String>,
    /// What a user of the data must know.
    pub taints: Vec<Taint>,
    /// What an operator should know.
    pub warnings: Vec<String>,
    /// How long it ran, in s.
    pub duration_s: f64,
    /// CPU time of its processes by stage, in s.
    pub cpu_s: BTreeMap<String, f64>,
    /// Its processes by stage.
    pub pids: BTreeMap<String, u32>,
    /// What the books leave over, and what they still say to be inside; all 0 when they close.
    #[serde(flatten)]
    pub books: Closed,
    /// Losses by `place.reason.owner`.
    pub drops: BTreeMap<String, Lost>,
    /// What the whole host counted below the sockets meanwhile; none where the run keeps no directory.
    pub host_counters: Option<Changes>,
    /// It could not be left in the run's directory.
    #[serde(skip)]
    pub unkept: bool,
}

impl Envelope {
    /// Of this process, which had so long: what it needed, and nothing that it did.
    #[must_use]
    pub fn of_process(program: &str, run_id: &str, duration_s: f64) -> Self {
        let cpu = process::own_cpu_time();
        let cpu_s = (cpu.user_ns + cpu.system_ns) as f64 / 1e9;
        Self {
            record_version: RECORD_VERSION,
            program: program.to_owned(),
            run_id: run_id.to_owned(),
            condition: Condition::Ended,
            reason: Reason::None,
            failed: None,
            taints: Vec::new(),
            warnings: Vec::new(),
            duration_s,
            cpu_s: BTreeMap::from([(program.to_owned(), cpu_s)]),
            pids: BTreeMap::from([(program.to_owned(), std::process::id())]),
            books: Closed::default(),
            drops: BTreeMap::new(),
            host_counters: None,
            unkept: false,
        }
    }

    /// With condition, reason and losses as an audit says of its ledger.
    #[must_use]
    pub fn with(mut self, verdict: &Verdict) -> Self {
        (self.condition, self.reason) = (verdict.condition, verdict.reason);
        self.books = verdict.closed_books();
        self.drops = verdict.balance.drops();
        self
    }

    /// Whether nothing is left over, and nothing left inside.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.books.is_closed() && !self.is_tainted(TaintKind::Residual)
    }

    /// Whether it has a taint of this kind.
    #[must_use]
    pub fn is_tainted(&self, kind: TaintKind) -> bool {
        self.taints.iter().any(|taint| taint.kind == kind)
    }

    /// CPU time of all its processes, in s.
    #[must_use]
    pub fn cpu_s(&self) -> f64 {
        self.cpu_s.values().sum()
    }

    /// Something failed, perhaps beside other things.
    pub fn fail(&mut self, why: String) {
        let before = self.failed.take();
        let all = before.map(|before| format!("{before}; {why}"));
        self.failed = all.or(Some(why));
    }

    /// It cannot be left in the run's directory, for this reason.
    pub fn leave(&mut self, why: &dyn fmt::Display) {
        let text = format!("{why}; the record goes to standard output");
        self.warnings.push(text);
        self.unkept = true;
    }

    /// Takes in the books of a further ledger of the same process, but for losses at a place of which `is_counted` says that they are in its own books, too. What the
    /// whole host counted is told once: by this one.
    pub fn include(&mut self, other: &mut Self, is_counted: impl Fn(&str) -> bool) {
        other.host_counters = None;
        self.books = self.books.with(&other.books);
        let drops = other.drops.iter().filter(|(name, _)| !is_counted(name));
        add_drops(&mut self.drops, drops);
        let residual = other.taints.iter();
        let residual = residual.filter(|taint| taint.kind == TaintKind::Residual);
        self.taints.extend(residual.cloned());
    }

    /// Items lost by `place.reason`, over all owners.
    #[must_use]
    pub fn drops_by_reason(&self) -> BTreeMap<&str, u64> {
        let mut sums = BTreeMap::new();
        for (name, lost) in &self.drops {
            let dots = name.match_indices('.').nth(1);
            let reason = dots.map_or(name.as_str(), |(at, _)| &name[..at]);
            *sums.entry(reason).or_default() += lost.items;
        }
        sums
    }

    /// Items lost for this reason, at all places.
    #[must_use]
    pub fn lost(&self, reason: &str) -> u64 {
        let drops = self.drops.iter();
        let drops = drops.filter(|(name, _)| name.split('.').nth(1) == Some(reason));
        drops.map(|(_, lost)| lost.items).sum()
    }

    /// The exit code, by the table above; `--strict` is the caller's.
    #[must_use]
    pub fn exit(&self) -> Exit {
        if !self.is_closed() || self.is_tainted(TaintKind::OutputRemoved) {
            Exit::Broken
        } else if self.failed.is_some() {
            Exit::Failed
        } else if self.is_tainted(TaintKind::Unconfirmed) {
            Exit::Unconfirmed
        } else {
            Exit::Done
        }
    }
}

/// Adds losses to those of the same names.
pub fn add_drops<'a>(
    sums: &mut BTreeMap<String, Lost>,
    drops: impl IntoIterator<Item = (&'a String, &'a Lost)>,
) {
    for (name, lost) in drops {
        let sum = sums.entry(name.clone()).or_default();
        sum.items += lost.items;
        sum.items_max += lost.items_max;
        sum.bytes += lost.bytes;
        sum.bytes_max += lost.bytes_max;
    }
}

/// The record of a run: what every program says, and what this one has to say beside it. The two have no key in common.
#[derive(Clone, Debug, Serialize)]
pub struct Record<S> {
    /// What every program says.
    #[serde(flatten)]
    pub envelope: Envelope,
    /// What this one says beside it.
    #[serde(flatten)]
    pub summary: S,
}

impl<S> Record<S> {
    /// Whether the books close.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.envelope.is_closed()
    }
}

impl<S> Deref for Record<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.summary
    }
}

/// A record of any version, as a reader finds it.
#[derive(Clone, Debug)]
pub struct RecordView(Value);

impl RecordView {
    /// Of a JSON text; none of one that is no record.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        let view = Self(value);
        view.run_id()?;
        Some(view)
    }

    /// Its version; 1 where it does not say one.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.0["record_version"].as_u64().unwrap_or(1)
    }

    /// A key of the summary. Before version 2 the event builder's had a summary of its own.
    #[must_use]
    pub fn get(&self, key: &str) -> &Value {
        let inner = &self.0["summary"];
        match self.0.get(key) {
            Some(value) => value,
            None => &inner[key],
        }
    }

    /// Name of the run.
    #[must_use]
    pub fn run_id(&self) -> Option<&str> {
        self.get("run_id").as_str()
    }

    /// What the whole host counted; none of a run without a directory, or of an older version.
    #[must_use]
    pub fn host_counters(&self) -> Option<Changes> {
        let told = self.0.get("host_counters")?;
        serde_json::from_value(told.clone()).ok()
    }
}

#[cfg(test)]
mod tests;
