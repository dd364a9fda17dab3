//! `forebay net bus`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use forebay_run::Stop;
use forebay_run_net::Address;
use forebay_run_net::bus::{Registry, RegistrySummary};

use super::security::SecurityArgs;
use crate::output::{Format, counted, note_line, print_line};

/// One turn: an order to end costs this much.
const TURN: Duration = Duration::from_millis(20);

/// Keeps a registry: publishers announce themselves to it, subscribers find them.
///
/// An offer that is not renewed for 5 s vanishes, and one whose publisher ends at once. Ends by Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = with_exit_codes!("Example:
  forebay net bus tcp://127.0.0.1:7000 &
  forebay net sub --bus tcp://127.0.0.1:7000 --tag 42 &
  seq 10 | forebay net pub tcp://127.0.0.1:0 --bus tcp://127.0.0.1:7000 --tag 42"))]
pub(crate) struct BusArgs {
    /// Where to listen: tcp://HOST:PORT.
    address: Address,
    #[command(flatten)]
    security: SecurityArgs,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &BusArgs) -> Result<ExitCode> {
    if !matches!(args.address, Address::Tcp { .. }) {
        bail!("{}: a registry listens on tcp://HOST:PORT", args.address);
    }
    let stop = Stop::of_process()?;
    let mut registry = Registry::listen(&args.address, &args.security.read()?)?;
    note_line(format_args!(
        "forebay: listening on {}",
        registry.address()?
    ));
    while !stop.is_asked() {
        registry.serve(TURN)?;
    }
    let summary = registry.summary();
    match args.format {
        Format::Json => print_line(serde_json::to_string(summary)?),
        Format::Text => lines(summary).into_iter().for_each(print_line),
    }
    Ok(ExitCode::SUCCESS)
}

/// What it did, for people.
fn lines(summary: &RegistrySummary) -> Vec<String> {
    let mut lines = vec![format!(
        "{}, {}, {} of them ended with their lease, {}",
        counted(summary.connections, "connection"),
        counted(summary.offers, "offer"),
        summary.expired,
        counted(summary.answers, "answer"),
    )];
    for (reason, count) in &summary.refused {
        let clients = counted(*count, "client");
        lines.push(format!("{clients} let go: {reason}"));
    }
    if summary.accept_errors > 0 {
        let times = counted(summary.accept_errors, "time");
        lines.push(format!(
            "the system refused {times} to take a connection in"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_who_was_let_go_and_what_the_system_refused() {
        let mut summary = RegistrySummary {
            connections: 3,
            offers: 1,
            expired: 1,
            answers: 2,
            ..RegistrySummary::default()
        };
        let first = "3 connections, 1 offer, 1 of them ended with their lease, 2 answers";
        assert_eq!(lines(&summary), [first]);
        summary.refused = [("memory", 2), ("silent", 1)].into();
        summary.accept_errors = 1;
        let more = [
            "2 clients let go: memory",
            "1 client let go: silent",
            "the system refused 1 time to take a connection in",
        ];
        assert_eq!(lines(&summary)[1..], more);
    }
}
