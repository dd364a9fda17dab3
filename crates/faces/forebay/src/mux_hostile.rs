//! `forebay mux hostile`: a client of the multiplexer that does what harm it can.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use forebay_run::record::Record;
use forebay_run_mux_client::hostile::{HostilePlan, HostileSummary};

use crate::output::{Format, parse_duration, print_line};
use crate::record::{To, carry_out, print_closing};

/// Is a client that does what harm it can, for showing on this host that others lose nothing by it.
///
/// It takes a place as any other client does, without privileges. In each connection it tells these lies: buffers that are not there, one buffer with two packets, ranges beyond a buffer, frames
/// that are too short or too long, the sender and the VLAN of others, buffers given back that are not there, or twice, buffers taken back that were never given back. It reaches for memory of others, keeps the frames that it is given and rings without end. The
/// connection ends by a position of a ring that cannot be, with all bells filled, or by one lie that is told until the multiplexer has heard enough, or it leaves with all that it holds; then
/// it comes again. It counts what it tells; `forebay mux run` has counted the same under the same names (`lies` and `parted` of its record), and `forebay mux status` shows it meanwhile.
/// Ends by Ctrl-C or SIGTERM.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay mux hostile --socket /run/forebay-mux.socket --name guest --connections 14\n\nExit codes: 0 the multiplexer took all that it was told while a connection was open, 1 it did not, 2 there is no such place for this user, nobody listens at the socket, or the multiplexer went away."
)]
pub(crate) struct MuxHostileArgs {
    /// The multiplexer's socket.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// The name of its place, as the multiplexer's file has it.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Ends after so many connections: each seven have all ends.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    connections: Option<u64>,
    /// Ends after so long.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Directory for ledger and record, for `forebay audit`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &MuxHostileArgs) -> Result<ExitCode> {
    let plan = HostilePlan {
        socket: args.socket.clone(),
        name: args.name.clone(),
        connections: args.connections,
        duration: args.duration,
        out: args.out.clone(),
    };
    carry_out(plan, args.format, To::Stdout, print_text)
}

fn print_text(record: &Record<HostileSummary>) {
    let Record { envelope, summary } = record;
    print_line(format_args!(
        "{}: {} connections in {:.2} s, {} frames given, {} given back, {} rings, {} reaches for memory of others",
        summary.name,
        summary.connections,
        envelope.duration_s,
        summary.frames_given,
        summary.frames_returned,
        summary.rings,
        summary.reaches,
    ));
    for (of, counts) in [
        ("lie", &summary.lies),
        ("end", &summary.ends),
        ("refused", &summary.refusals),
        ("reached", &summary.reached),
    ] {
        for (name, times) in counts {
            print_line(format_args!("{of}: {name}, {times} times"));
        }
    }
    print_closing(record);
}
