//! The books of several directories as one sheet.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use forebay_ledger::join::{Party, join};
use forebay_run::host::Changes;
use forebay_run::summary::Removed;
use serde_json::{Value, json};

use super::{AuditFormat, judge, parts};
use crate::output::print_line;
use crate::session::gone;

/// What could be read, and what could not.
#[derive(Default)]
struct Books {
    parties: Vec<Party>,
    hosts: Vec<(String, Changes)>,
    unread: Vec<(String, String)>,
    /// What was written there and somebody removed.
    removed: Vec<(String, Removed)>,
}

impl Books {
    fn of(runs: &[PathBuf]) -> Self {
        let mut books = Self::default();
        for run in runs {
            let parts = parts(run);
            if parts.is_empty() {
                books.read(run);
            } else {
                parts.iter().for_each(|part| books.read(part));
            }
        }
        books
    }

    /// Books of another version, or none at all, do not hide those of the others.
    fn read(&mut self, run: &Path) {
        let name = run.display().to_string();
        match judge(run) {
            Ok(judged) => {
                self.hosts
                    .extend(judged.host.map(|host| (name.clone(), host)));
                if judged.removed.any() {
                    self.removed.push((name.clone(), judged.removed));
                }
                let party = Party::new(&name, &judged.snapshot, judged.verdict);
                self.parties.push(party);
            }
            Err(error) => self.unread.push((name, format!("{error:#}"))),
        }
    }
}

/// Shows the books of `runs` joined; whether they balance and nothing is gone.
pub(super) fn show(runs: &[PathBuf], format: AuditFormat) -> Result<bool> {
    let Books {
        parties,
        hosts,
        unread,
        removed,
    } = Books::of(runs);
    let joined = join(parties);
    let closed = joined.closed && unread.is_empty();
    match format {
        AuditFormat::Json => {
            let mut told = serde_json::to_value(&joined)?;
            told["closed"] = closed.into();
            let unread = unread.iter();
            let unread = unread.map(|(name, why)| json!({"name": name, "why": why}));
            told["unread"] = unread.collect::<Vec<Value>>().into();
            let hosts = hosts.into_iter();
            let hosts = hosts.map(|(name, host)| Ok((name, serde_json::to_value(host)?)));
            told["host_counters"] = hosts.collect::<Result<serde_json::Map<_, _>>>()?.into();
            if !removed.is_empty() {
                let removed = removed.iter();
                let removed =
                    removed.map(|(name, gone)| Ok((name.clone(), serde_json::to_value(gone)?)));
                told["output_removed"] = removed.collect::<Result<serde_json::Map<_, _>>>()?.into();
            }
            print_line(told);
        }
        AuditFormat::Text => {
            print_line(joined.sheet().trim_end());
            for (name, host) in &hosts {
                let lines = host.lines();
                if !lines.is_empty() {
                    print_line(format_args!("\n{name}:\n{}", lines.join("\n")));
                }
            }
            for (name, removed) in &removed {
                if let Some(gone) = gone(removed) {
                    print_line(format_args!("{name}: {gone}"));
                }
            }
            for (name, why) in &unread {
                print_line(format_args!("NOT PART OF THIS: {name}: {why}"));
            }
        }
        AuditFormat::Prometheus => {
            bail!("--format prometheus tells the books of one directory; ask for each of them")
        }
    }
    Ok(closed && removed.is_empty())
}
