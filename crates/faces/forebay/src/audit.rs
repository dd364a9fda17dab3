//! `forebay audit`: closes the books of a run.

mod host;
mod joined;
mod senders;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use forebay_evb::silence::Heard;
use forebay_evb::triggers::Triggers;
use forebay_host::Changes;
use forebay_ledger::join::{Joined, JoinedLink, Meets, Party, join};
use forebay_ledger::{Snapshot, Supervisor, Verdict, audit, prometheus};
use forebay_run::chain::Roll;
use forebay_run::record::RecordView;
use forebay_run::removed::Removed;
use forebay_run::run_dir::{is_live, open_ledger};
use serde_json::{Map, Value};

use crate::output::print_line;
use crate::session::{BROKEN, closing, first_words};
use senders::Senders;

/// Shows the balance sheet of a run, live or ended; exits with 1 when its books do not close, or somebody removed what it wrote.
///
/// For the directory of a chain it shows the books of every member, and of the links between them. With several directories, as those of senders and receivers on several hosts, their books are joined into one sheet, link by link: what a sender says
/// it sent is what a receiver says it received, and losses of the link by name; what is left over is unexplained, and the exit code 1.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay audit forebay-demo\n         forebay audit data sender-a sender-b"
)]
pub(crate) struct AuditArgs {
    /// The run's directory, or its ledger; or a directory with several of them, as that of a chain of processes.
    #[arg(value_name = "RUNDIR", default_value = "forebay-demo")]
    runs: Vec<PathBuf>,
    /// Text for people, one JSON object, or Prometheus' text.
    #[arg(long, value_enum, default_value_t)]
    format: AuditFormat,
}

/// How the books are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum AuditFormat {
    /// Tables for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
    /// The text that Prometheus reads.
    Prometheus,
}

/// What to do when there is no ledger to read.
fn no_ledger(run: &Path) -> String {
    format!(
        "there are no books to read in {}; give the --out of a run (of `forebay demo` without one: forebay-demo), or a ledger",
        run.display()
    )
}

/// Directories below `run` that have a ledger, where it has none itself, and the ledgers that a mover has there for its streams: the parts of a chain, or the runs of one place.
pub(crate) fn parts(run: &Path) -> Vec<PathBuf> {
    if !run.is_dir() || run.join("ledger").symlink_metadata().is_ok() {
        return Vec::new();
    }
    let entries = |of: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(of).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let mut found = Vec::new();
    for part in entries(run) {
        found.extend(entries(&part));
        found.push(part);
    }
    found.retain(|part| match part.is_dir() {
        true => part.join("ledger").symlink_metadata().is_ok(),
        false => is_of_stream(part),
    });
    found.sort();
    found
}

/// Whether a file is the ledger of a mover's stream, by its name.
fn is_of_stream(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("mover-") && name.ends_with(".ledger")
}

/// The books of one run, and what its record has beside them.
struct Judged {
    snapshot: Snapshot,
    verdict: Verdict,
    senders: Senders,
    host: Option<Changes>,
    /// Of a run that builds events.
    triggers: Option<Triggers>,
    /// Sources that are silent, or were.
    silent: Vec<Heard>,
    /// What was written and somebody removed.
    removed: Removed,
}

impl Judged {
    /// Whether the books close, and nothing is gone of what was written.
    fn is_whole(&self) -> bool {
        self.verdict.closed && !self.removed.any()
    }

    fn sheet(&self) -> String {
        let verdict = self.senders.named(&self.verdict);
        let mut sheet = verdict.tables();
        let host = self.host.iter().flat_map(Changes::lines);
        for line in self.lines().into_iter().chain(host) {
            sheet += "\n";
            sheet += &line;
        }
        let closing = closing(&verdict, self.triggers.as_ref(), &self.removed);
        format!("{sheet}\n{}{closing}", self.senders.not_known())
    }

    /// What is said of triggers and of silent sources.
    fn lines(&self) -> Vec<String> {
        let triggers = self.triggers.iter().flat_map(Triggers::lines);
        triggers.chain(Heard::lines(&self.silent)).collect()
    }

    /// As a party to the books of several.
    fn party(&self, name: &str) -> Party {
        let mut lines = self.lines();
        lines.extend(self.senders.not_known().lines().map(str::to_owned));
        let first = first_words(self.triggers.as_ref(), &self.removed);
        let verdict = self.senders.named(&self.verdict);
        Party::new(name, &self.snapshot, verdict).told(lines, first)
    }

    fn json(&self) -> Result<Value> {
        let mut told = self.senders.json(&self.verdict)?;
        if let Some(object) = told.as_object_mut() {
            object.extend(self.beside()?);
        }
        Ok(told)
    }

    /// What is said beside the verdict.
    fn beside(&self) -> Result<Map<String, Value>> {
        let mut told = Map::new();
        if let Some(host) = &self.host {
            told.insert("host_counters".to_owned(), serde_json::to_value(host)?);
        }
        if let Some(triggers) = &self.triggers {
            told.insert("triggers".to_owned(), serde_json::to_value(triggers)?);
            told.insert("subevents_missing".to_owned(), triggers.never_came.into());
            let silent = serde_json::to_value(&self.silent)?;
            told.insert("silent_sources".to_owned(), silent);
        }
        if self.removed.any() {
            let removed = serde_json::to_value(self.removed)?;
            told.insert("output_removed".to_owned(), removed);
        }
        Ok(told)
    }
}

/// The books of one run.
fn judge(run: &Path) -> Result<Judged> {
    let reader = open_ledger(run).with_context(|| no_ledger(run))?;
    let snapshot = reader.snapshot()?;
    let directory = if run.is_dir() {
        Some(run)
    } else {
        run.parent()
    };
    let alive = directory.is_some_and(|directory| is_live(directory, snapshot.run.supervisor_pid));
    let life = if alive {
        Supervisor::Alive
    } else {
        Supervisor::Gone
    };
    let verdict = audit(&snapshot, life);
    let record = directory.and_then(|directory| host::record(directory, snapshot.run_id()));
    Ok(Judged {
        senders: record.as_ref().map(Senders::of).unwrap_or_default(),
        host: record.as_ref().and_then(RecordView::host_counters),
        triggers: Triggers::of(&snapshot),
        silent: Heard::by_trouble(Heard::all(&snapshot)),
        removed: Removed::of(&snapshot),
        snapshot,
        verdict,
    })
}

pub(crate) fn run(args: &AuditArgs) -> Result<ExitCode> {
    let whole = match args.runs.as_slice() {
        [run] => one(args, run)?,
        several => joined::show(several, args.format)?,
    };
    Ok(if whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(BROKEN)
    })
}

/// The books of one directory; whether they close and nothing is gone.
fn one(args: &AuditArgs, run: &Path) -> Result<bool> {
    let parts = parts(run);
    Ok(if parts.is_empty() {
        let judged = judge(run)?;
        let whole = judged.is_whole();
        match args.format {
            AuditFormat::Json => print_line(judged.json()?),
            AuditFormat::Text => print_line(judged.sheet()),
            AuditFormat::Prometheus => {
                print_line(prometheus::expose(&Arc::new(judged.snapshot))?.trim_end());
            }
        }
        whole
    } else {
        all(args, run, &parts)?
    })
}

/// The books of all parts of a chain, one after the other; whether all close and nothing is gone.
fn all(args: &AuditArgs, run: &Path, parts: &[PathBuf]) -> Result<bool> {
    let mut verdicts = BTreeMap::new();
    for part in parts {
        let name = part.strip_prefix(run).unwrap_or(part);
        verdicts.insert(name.display().to_string(), judge(part)?);
    }
    let between = Between::of(run, &verdicts)?;
    let closed = verdicts.values().all(|judged| judged.verdict.closed)
        && between.as_ref().is_none_or(Between::is_closed);
    match args.format {
        AuditFormat::Json => {
            let told = verdicts
                .iter()
                .map(|(name, judged)| Ok((name.clone(), judged.json()?)));
            let runs = told.collect::<Result<serde_json::Map<_, _>>>()?;
            let mut told = serde_json::json!({ "closed": closed, "runs": runs });
            if let Some(between) = &between {
                told["links"] = serde_json::to_value(&between.joined.links)?;
                told["missing"] = serde_json::to_value(&between.missing)?;
            }
            print_line(told);
        }
        AuditFormat::Text => {
            for (name, judged) in &verdicts {
                let sheet = judged.sheet();
                print_line(format_args!("== {name} ==\n{sheet}\n"));
            }
            let text = between.as_ref().map(Between::text).unwrap_or_default();
            if !text.is_empty() {
                print_line(format_args!("== between them ==\n{}", text.trim_end()));
            }
        }
        AuditFormat::Prometheus => {
            let names: Vec<&str> = verdicts.keys().map(String::as_str).collect();
            bail!(
                "{} has several runs; ask for one of them: {}",
                run.display(),
                names.join(", ")
            );
        }
    }
    Ok(closed && verdicts.values().all(Judged::is_whole))
}

/// What the members of a chain say of each other.
struct Between {
    joined: Joined,
    /// Members of which nothing is here.
    missing: Vec<String>,
}

impl Between {
    /// The links between the members of the chain whose directory it is; none when it is no chain's.
    fn of(run: &Path, verdicts: &BTreeMap<String, Judged>) -> Result<Option<Self>> {
        let Some(roll) = Roll::read(run)? else {
            return Ok(None);
        };
        let parties = verdicts.iter().filter_map(|(name, judged)| {
            let member = roll.members.get(name.split('/').next()?)?;
            let meets = Meets {
                by_network: member.is_linked,
                by_memory: member.shares_memory,
            };
            let began_ns = judged.verdict.balance.run.start_ns;
            let is_of_this_run = began_ns >= roll.started_ns;
            is_of_this_run.then(|| judged.party(name).meeting(meets))
        });
        let members = roll.members.iter().filter(|(_, one)| !one.is_launched);
        let missing = members.filter(|(name, _)| !run.join(name).is_dir());
        Ok(Some(Self {
            joined: join(parties.collect()).of_chain(),
            missing: missing.map(|(name, _)| name.clone()).collect(),
        }))
    }

    fn is_closed(&self) -> bool {
        self.joined.closed && self.missing.is_empty()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if !self.joined.links.is_empty() {
            text += &self.joined.links_text();
            text += &self.joined.closing(self.missing.is_empty());
        }
        let is_off = |link: &JoinedLink| link.place == "messaging" && !link.is_closed();
        if self.joined.links.iter().any(is_off) {
            text += "A publisher's messages to a program outside of this chain are among these: name its directory, too.\n";
        }
        for member in &self.missing {
            text += &format!("NOT PART OF THIS: {member}: it has no directory here\n");
        }
        text
    }
}
