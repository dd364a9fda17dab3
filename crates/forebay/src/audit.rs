//! `forebay audit`: closes the books of a run.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use forebay_ledger::{Supervisor, audit};
use forebay_run::run_dir::open_ledger;
use forebay_run::supervisor::is_alive;

use crate::output::Format;
use crate::session::BROKEN;

/// Shows the balance sheet of a run, live or ended; exits with 1 when anything is missing from it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay audit forebay-demo")]
pub(crate) struct AuditArgs {
    /// The run's directory, or its ledger.
    #[arg(value_name = "RUNDIR", default_value = "forebay-demo")]
    run: PathBuf,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &AuditArgs) -> Result<ExitCode> {
    let reader = open_ledger(&args.run)?;
    let snapshot = reader.snapshot()?;
    let life = if is_alive(snapshot.run.supervisor_pid) {
        Supervisor::Alive
    } else {
        Supervisor::Gone
    };
    let verdict = audit(&snapshot, life);
    match args.format {
        Format::Json => say!("{}", serde_json::to_string(&verdict)?),
        Format::Text => say!("{}", verdict.sheet()),
    }
    Ok(if verdict.closed {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(BROKEN)
    })
}
