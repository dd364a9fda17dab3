//! `forebay bench`: how fast, each number beside a reference of the same run.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use forebay_bench::bench::{self, Options};

use crate::output::Format;

/// Measures the speed of the chain on this machine, each number beside a reference of the same run.
///
/// Parts: chain (highest rate without a loss), mark (CPU over water marks), small (one sub-event per datagram), huge,
/// tmpfs, disk, memory; all of them without a name. Close other programs first: the load is noted with each result.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay bench chain --quick")]
pub(crate) struct BenchArgs {
    /// Which parts.
    part: Vec<String>,
    /// Few short runs: for a look, not for a result.
    #[arg(long)]
    quick: bool,
    /// Directory for the results, and where the disk is measured.
    #[arg(long, default_value = "target/bench", value_name = "DIR")]
    out: PathBuf,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode> {
    let program = std::env::current_exe().context("finding this program")?;
    let options = Options {
        quick: args.quick,
        work: args.out.clone(),
        program,
    };
    let text = args.format == Format::Text;
    let report = bench::run(&args.part, &options, |line| {
        if text {
            crate::output::print_line(format_args!("{}", line.text()));
        }
    })?;
    let json = serde_json::to_string_pretty(&report)?;
    let stamp: String = report
        .conditions
        .date
        .chars()
        .take(19)
        .filter(|letter| *letter != ':')
        .collect();
    let path = args.out.join(format!("bench-{stamp}.json"));
    std::fs::write(&path, &json).with_context(|| format!("writing {}", path.display()))?;
    if text {
        crate::output::print_line(format_args!("{}", report.conditions.line()));
        report
            .warnings
            .iter()
            .for_each(|warning| crate::output::print_line(format_args!("WARNING: {warning}")));
        crate::output::print_line(format_args!("{}", path.display()));
    } else {
        crate::output::print_line(format_args!("{}", serde_json::to_string(&report)?));
    }
    Ok(ExitCode::SUCCESS)
}
