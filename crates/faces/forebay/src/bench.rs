//! `forebay bench`: how fast, each number beside a reference of the same run.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use forebay_bench::bench::{self, Options};

use crate::output::Format;

/// Exit code when a goal is missed and `--strict` is given.
const MISSED: u8 = 3;

/// Measures the speed of the chain on this machine, each number beside a reference of the same run.
///
/// Parts: chain (highest rate without a loss), mark (CPU over water marks), ring (CPU over the size of the rings), small (one
/// sub-event per datagram), huge, tmpfs, disk, memory, net (messaging), readout (links: the
/// decoder alone, and card, to-host and subscriber together), probe (flow records of captures),
/// probe-flows (a million flows at a time), probe-live (heavy flows on a
/// virtual wire, offload off and on), traffic (the generator into captures), mux (the multiplexer against sockets of Linux), tdm (time-division UDP), tdm-long (the same for five minutes); all of them without a name. Close other programs first: the load is noted with each result.
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
    /// Exit with 3 when a goal is missed.
    #[arg(long)]
    strict: bool,
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
    // The lines that there are, are kept; the exit code says that some are missing.
    if report.interrupted {
        crate::output::note_line(format_args!("interrupted: the results so far are kept"));
    }
    let missed = report.lines.iter().any(|line| line.met == Some(false));
    Ok(if report.interrupted {
        ExitCode::from(crate::figure::INTERRUPTED)
    } else if !report.failed.is_empty() {
        ExitCode::FAILURE
    } else if missed && args.strict {
        ExitCode::from(MISSED)
    } else {
        ExitCode::SUCCESS
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;

    #[test]
    fn the_help_names_every_part() {
        let command = BenchArgs::augment_args(clap::Command::new("bench"));
        let help = command.get_long_about().unwrap().to_string();
        for (part, _) in bench::list() {
            let named = help.split([' ', ',', ';']).any(|word| word == part);
            assert!(named, "{part} is not in {help}");
        }
    }
}
