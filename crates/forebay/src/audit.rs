//! `forebay audit`: closes the books of a run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use forebay_ledger::{Supervisor, audit, prometheus};
use forebay_run::run_dir::{is_live, open_ledger};

use crate::output::print_line;
use crate::session::BROKEN;

/// Shows the balance sheet of a run, live or ended; exits with 1 when anything is missing from it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay audit forebay-demo")]
pub(crate) struct AuditArgs {
    /// The run's directory, or its ledger.
    #[arg(value_name = "RUNDIR", default_value = "forebay-demo")]
    run: PathBuf,
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
    let is_mover = |name: &str| name.starts_with("mover-") && name.ends_with(".ledger");
    let names = std::fs::read_dir(run).into_iter().flatten().flatten();
    let mut ledgers = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_mover(name));
    match ledgers.next() {
        Some(name) => format!(
            "{} is a mover's directory, with a ledger for each stream; audit one of them, as {}",
            run.display(),
            run.join(name).display()
        ),
        None => format!(
            "there are no books to read in {}; give the --out of a run (of `forebay demo` without one: forebay-demo), or a ledger",
            run.display()
        ),
    }
}

pub(crate) fn run(args: &AuditArgs) -> Result<ExitCode> {
    let reader = open_ledger(&args.run).with_context(|| no_ledger(&args.run))?;
    let snapshot = reader.snapshot()?;
    let directory = if args.run.is_dir() {
        Some(args.run.as_path())
    } else {
        args.run.parent()
    };
    let alive = directory.is_some_and(|directory| is_live(directory, snapshot.run.supervisor_pid));
    let life = if alive {
        Supervisor::Alive
    } else {
        Supervisor::Gone
    };
    let verdict = audit(&snapshot, life);
    match args.format {
        AuditFormat::Json => print_line(serde_json::to_string(&verdict)?),
        AuditFormat::Text => print_line(verdict.sheet()),
        AuditFormat::Prometheus => print_line(prometheus::expose(&Arc::new(snapshot))?.trim_end()),
    }
    Ok(if verdict.closed {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(BROKEN)
    })
}
