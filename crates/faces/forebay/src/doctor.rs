//! `forebay doctor`: what this host lacks.

mod counters;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use forebay_host::doctor::{Check, Facts, Needs, Standing, examine};
use forebay_run::run_dir::clean_memory;
use forebay_run_evb::config;
use forebay_run_evb::plan::Plan;
use forebay_run_evb::presets;

use crate::chain_needs::{ChainNeeds, needs_of};
use crate::check::check_chain;
use crate::output::{Format, print_line};
use crate::session::run_id;
use crate::set::SetArg;

/// Checks this host: limits of sockets, memory, files, priority; each with what it should be, why, and the command to mend it.
///
/// Then it says what the host lost below its sockets since it was started: in cards, drivers, queues and protocols, each counter with what it means
/// and what to do.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay doctor chain.toml")]
pub(crate) struct DoctorArgs {
    /// Chain file whose needs are meant; without it those of 90 sources.
    file: Option<PathBuf>,
    /// Explain these counters alone, by their names in `forebay audit`, as interface.eth0.rx_dropped.
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with = "file")]
    counter: Vec<String>,
    /// Take ledgers out of /dev/shm that killed processes of this user left there, and say which: audit what is still of interest before.
    #[arg(long, conflicts_with_all = ["file", "counter"])]
    clean: bool,
    #[command(flatten)]
    set: SetArg,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    if args.clean {
        clean(args.format);
        return Ok(ExitCode::SUCCESS);
    }
    if !args.counter.is_empty() {
        return counters::explain(&args.counter, args.format);
    }
    let (needs, checks, warnings) = match &args.file {
        Some(file) => match check_chain(file, &args.set)? {
            Some(chain) => {
                let all = ChainNeeds::of(&chain?)?;
                (all.all(), all.examine(), all.warnings)
            }
            None => of_builder(&config::load(file, &args.set.keys, &run_id())?.plan)?,
        },
        None => {
            let local = [127, 0, 0, 1].into();
            let mut plan = presets::plan("doctor", "forebay-run".as_ref(), local, 50000, 90);
            plan.sinks = vec![presets::file_sink("forebay-run".into(), "be")];
            of_builder(&plan)?
        }
    };
    match args.format {
        Format::Json => print_line(format_args!(
            "{}",
            serde_json::json!({ "needs": needs, "checks": checks, "warnings": warnings, "counters": counters::of_host() })
        )),
        Format::Text => {
            print_line(format_args!(
                "For {} sockets of {} bytes, and {} bytes of memory:",
                needs.sockets, needs.socket_buffer_bytes, needs.memory_bytes
            ));
            checks.iter().for_each(|check| print_line(line(check)));
            for warning in &warnings {
                print_line(format_args!("warning  {warning}"));
            }
            counters::print(&counters::of_host());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What an event builder needs, and the host against it.
fn of_builder(plan: &Plan) -> Result<(Needs, Vec<Check>, Vec<String>)> {
    let needs = needs_of(plan)?;
    let checks = examine(&Facts::read(needs.socket_buffer_bytes), &needs);
    Ok((needs, checks, Vec::new()))
}

/// Takes what killed processes left out of memory.
fn clean(format: Format) {
    let (kept, removed): (Vec<_>, Vec<_>) = clean_memory()
        .into_iter()
        .partition(|one| one.kept.is_some());
    match format {
        Format::Json => print_line(serde_json::json!({ "removed": removed, "kept": kept })),
        Format::Text if removed.is_empty() && kept.is_empty() => print_line("Nothing to remove."),
        Format::Text => {
            for one in kept.iter().chain(&removed) {
                let (path, bytes) = (one.path.display(), one.bytes);
                match &one.kept {
                    Some(kept) => print_line(format_args!(
                        "{path} ({bytes} bytes) is {} now, in the directory of its run",
                        kept.display()
                    )),
                    None => print_line(format_args!("removed {path} ({bytes} bytes)")),
                }
            }
        }
    }
}

/// One setting for people; what is as it should be takes one line.
pub(crate) fn line(check: &Check) -> String {
    let Check {
        name,
        standing,
        found,
        wanted,
        why,
        remedy,
    } = check;
    let head = format!("{:8} {name}: {found}", standing.name());
    match standing {
        Standing::Good | Standing::Unknown => head,
        Standing::Advice | Standing::Warning => {
            format!("{head}, should be {wanted}\n         {why}\n         mend: {remedy}")
        }
    }
}
