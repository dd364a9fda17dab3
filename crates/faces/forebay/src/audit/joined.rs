//! The books of several directories as one sheet.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use forebay_host::Changes;
use forebay_ledger::join::{Joined, join};
use serde_json::{Map, Value, json};

use super::{AuditFormat, Judged, judge, parts};
use crate::output::print_line;

/// What could be read, and what could not.
#[derive(Default)]
struct Books {
    read: Vec<(String, Judged)>,
    unread: Vec<(String, String)>,
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
            Ok(judged) => self.read.push((name, judged)),
            Err(error) => self.unread.push((name, format!("{error:#}"))),
        }
    }
}

/// The joined books as one JSON object. What the audit of each directory has beside the verdict stands beside that of its party.
fn json(joined: &Joined, books: &Books, closed: bool) -> Result<Value> {
    let mut told = serde_json::to_value(joined)?;
    told["closed"] = closed.into();
    let unread = books.unread.iter();
    let unread = unread.map(|(name, why)| json!({"name": name, "why": why}));
    told["unread"] = unread.collect::<Vec<Value>>().into();
    let (mut hosts, mut removed) = (Map::new(), Map::new());
    for ((name, judged), party) in books.read.iter().zip(0..) {
        let party = &mut told["parties"][party];
        for (key, value) in judged.beside()? {
            match key.as_str() {
                "host_counters" => hosts.insert(name.clone(), value.clone()),
                "output_removed" => removed.insert(name.clone(), value.clone()),
                _ => None,
            };
            party[key] = value;
        }
    }
    told["host_counters"] = hosts.into();
    if !removed.is_empty() {
        told["output_removed"] = removed.into();
    }
    Ok(told)
}

/// The joined books for people: what is wrong last, and the verdict at the very end.
fn text(joined: &Joined, books: &Books) -> String {
    let mut text = joined.tables();
    for (name, judged) in &books.read {
        let lines = judged.host.iter().flat_map(Changes::lines);
        let lines: Vec<String> = lines.collect();
        if !lines.is_empty() {
            text += &format!("\n{name}:\n{}\n", lines.join("\n"));
        }
    }
    for (name, why) in &books.unread {
        text += &format!("\nNOT PART OF THIS: {name}: {why}\n");
    }
    text + &joined.closing(books.unread.is_empty())
}

/// Shows the books of `runs` joined; whether they balance and nothing is gone.
pub(super) fn show(runs: &[PathBuf], format: AuditFormat) -> Result<bool> {
    let books = Books::of(runs);
    let parties = books.read.iter();
    let joined = join(parties.map(|(name, judged)| judged.party(name)).collect());
    let closed = joined.closed && books.unread.is_empty();
    match format {
        AuditFormat::Json => print_line(json(&joined, &books, closed)?),
        AuditFormat::Text => print_line(text(&joined, &books).trim_end()),
        AuditFormat::Prometheus => {
            bail!("--format prometheus tells the books of one directory; ask for each of them")
        }
    }
    let removed = books.read.iter().any(|(_, judged)| judged.removed.any());
    Ok(closed && !removed)
}
