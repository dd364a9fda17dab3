//! One look at a ledger, and the names of its metrics sorted for quick finding.

use std::collections::HashMap;
use std::time::Instant;

use forebay_ledger::{LedgerError, LedgerReader, Snapshot, Supervisor, Verdict, audit};
use forebay_run::is_alive;

/// What a ledger held at one time.
pub struct Sample {
    pub(super) at: Instant,
    /// Wall clock in ns.
    pub(super) now_ns: u64,
    pub(super) snapshot: Snapshot,
    pub(super) verdict: Verdict,
}

/// Metrics by group, name and owner.
pub(super) struct Metrics<'a>(HashMap<(&'a str, &'a str, &'a str), u64>);

impl Sample {
    /// Reads the ledger now. The writers do not notice.
    ///
    /// # Errors
    /// It is no ledger any more, or its writers commit faster than it can be read.
    pub fn take(reader: &LedgerReader) -> Result<Self, LedgerError> {
        let snapshot = reader.snapshot()?;
        let life = if is_alive(snapshot.run.supervisor_pid) {
            Supervisor::Alive
        } else {
            Supervisor::Gone
        };
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Ok(Self {
            at: Instant::now(),
            now_ns: since.map_or(0, |since| since.as_nanos() as u64),
            verdict: audit(&snapshot, life),
            snapshot,
        })
    }

    pub(super) fn metrics(&self) -> Metrics<'_> {
        let lines = self.snapshot.metrics();
        Metrics(
            lines
                .map(|line| ((line.group, line.name, line.owner), line.value))
                .collect(),
        )
    }
}

impl<'a> Metrics<'a> {
    /// The value of a metric, 0 when there is none.
    pub(super) fn value(&self, group: &str, name: &str, owner: &str) -> u64 {
        self.0.get(&(group, name, owner)).copied().unwrap_or(0)
    }

    /// Group, owner and value of every metric of that name.
    pub(super) fn named<'s>(
        &'s self,
        name: &'s str,
    ) -> impl Iterator<Item = (&'a str, &'a str, u64)> + 's {
        let of_name = self
            .0
            .iter()
            .filter(move |((_, other, _), _)| *other == name);
        of_name.map(|((group, _, owner), value)| (*group, *owner, *value))
    }
}
