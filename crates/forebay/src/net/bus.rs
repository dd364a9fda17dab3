//! `forebay net bus`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use forebay_run::net::Address;
use forebay_run::net::bus::Registry;

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
    let signals = forebay_run::signals()?;
    let mut registry = Registry::listen(&args.address, &args.security.read()?)?;
    note_line(format_args!(
        "forebay: listening on {}",
        registry.address()?
    ));
    while signals.count() == 0 {
        registry.serve(TURN)?;
    }
    let summary = registry.summary();
    match args.format {
        Format::Json => print_line(serde_json::to_string(summary)?),
        Format::Text => print_line(format_args!(
            "{}, {}, {} of them ended with their lease, {}",
            counted(summary.connections, "connection"),
            counted(summary.offers, "offer"),
            summary.expired,
            counted(summary.answers, "answer"),
        )),
    }
    Ok(ExitCode::SUCCESS)
}
