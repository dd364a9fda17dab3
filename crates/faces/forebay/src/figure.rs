//! `forebay figure`: published figures, measured on this machine or computed by a model.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use forebay_bench::figure::{self, Options};

use crate::output::{Format, print_line};
use crate::session::BROKEN;

/// Exit code of a figure that was interrupted, as shells number it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Measures a published figure on this machine and sets the published values beside what was measured.
///
/// C1 to C3 are computed by a model, as they are of hardware that is not here, and say so. Else each point is a run of the real chain (emulated sources, receiver and builder as processes, UDP over loopback), several
/// times. Written are the rows (CSV), a picture (SVG and PNG) and a report (JSON). Ctrl-C keeps the rows so far.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay figure H7 --quick --out /tmp/figures")]
pub(crate) struct FigureArgs {
    /// Which: H1, H2, …
    #[arg(required_unless_present_any = ["all", "list"])]
    id: Vec<String>,
    /// All of them, and one page that shows them.
    #[arg(long, conflicts_with = "id")]
    all: bool,
    /// Says which there are.
    #[arg(long)]
    list: bool,
    /// Directory for rows and pictures.
    #[arg(long, default_value = "forebay-figures", value_name = "DIR")]
    out: PathBuf,
    /// One short run of each point, and fewer points.
    #[arg(long)]
    quick: bool,
    /// Text for people, or one JSON object (an array of reports for several figures).
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &FigureArgs) -> Result<ExitCode> {
    if args.list {
        list(args.format);
        return Ok(ExitCode::SUCCESS);
    }
    let reports = figure::make(
        &args.id,
        &Options {
            out: args.out.clone(),
            quick: args.quick,
        },
    )?;
    match (args.format, reports.as_slice()) {
        (_, []) => bail!("nothing was measured"),
        (Format::Json, [one]) if args.id.len() == 1 => print_line(serde_json::to_string(one)?),
        (Format::Json, all) => print_line(serde_json::to_string(all)?),
        (Format::Text, all) => all
            .iter()
            .for_each(|report| print_line(format_args!("{}\n", report.text()))),
    }
    let interrupted = reports.iter().any(|report| report.interrupted);
    let broken = reports.iter().any(|report| report.rows_with_residual > 0);
    Ok(match (interrupted, broken) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::from(BROKEN),
        (false, false) => ExitCode::SUCCESS,
    })
}

fn list(format: Format) {
    match format {
        Format::Json => {
            let entries: Vec<_> = figure::list()
                .into_iter()
                .map(|(id, title)| serde_json::json!({ "id": id, "title": title }))
                .collect();
            print_line(serde_json::json!(entries));
        }
        Format::Text => figure::list()
            .into_iter()
            .for_each(|(id, title)| print_line(format_args!("{id:4} {title}"))),
    }
}
