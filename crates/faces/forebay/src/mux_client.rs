//! `forebay mux client`: clients of the multiplexer.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use forebay_report::text::bytes;
use forebay_run::record::Record;
use forebay_run_mux_client::workload::{INITIATED, Kind, ROUNDS};
use forebay_run_mux_client::{MuxClientPlan, MuxClientSummary};

use crate::output::{Format, parse_duration, print_line};
use crate::record::{To, carry_out, print_closing};

/// What a client does with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Workload {
    /// Each datagram goes back, and what comes over TCP.
    Echo,
    /// Every 10,000th datagram goes back.
    RxMostly,
    /// Each datagram goes back 10,000 times.
    TxMostly,
    /// The first datagram goes back --packets times, and the client ends.
    TxInitiated,
    /// Each datagram is copied and its bytes are added up --rounds times, and it goes back.
    Heavy,
}

/// Is a client of a multiplexer, without privileges: answers what comes over UDP in the way of a workload.
///
/// It comes in by the name of its place at the multiplexer's socket, and has an IP stack of its own over the frames that it is given (ARP, neighbour discovery, IPv4, IPv6, UDP, TCP), with the
/// addresses of its place. With --raw there is no stack: the echo turns datagrams round as frames. `forebay load` asks from the other side of the wire. When the multiplexer goes away the client
/// waits until it is back. Ends by Ctrl-C or SIGTERM with its books closed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  forebay mux client echo --socket /run/forebay-mux.socket --name echo\n  forebay mux client tx-initiated --socket /run/forebay-mux.socket --name bulk --packets 50000 --format json\n\nExit codes: 0 the books close, 1 they do not, 2 there is no such place for this user, nobody listens at the socket, or the multiplexer ended it."
)]
pub(crate) struct MuxClientArgs {
    /// What it does with what comes.
    #[arg(value_enum)]
    workload: Workload,
    /// The multiplexer's socket.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// The name of its place, as the multiplexer's file has it.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Without an IP stack: datagrams go back as the frames that brought them. For echo alone.
    #[arg(long)]
    raw: bool,
    /// Its port, of UDP and for echo of TCP.
    #[arg(long, value_name = "PORT", default_value_t = 9500, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Datagrams that tx-initiated sends (default: 1000000).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    packets: Option<u64>,
    /// How many times heavy works on each datagram (default: 10).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
    /// Bits of its IPv4 addresses that name the network; those of IPv6 addresses are 64.
    #[arg(long, value_name = "BITS", default_value_t = 24, value_parser = clap::value_parser!(u8).range(0..=32))]
    prefix: u8,
    /// Ends after so long.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Whether it waits for a multiplexer that went away, and takes its place again.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    reconnect: bool,
    /// Directory for ledger and record, for `forebay audit`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn kind(args: &MuxClientArgs) -> Result<Kind> {
    if args.packets.is_some() && args.workload != Workload::TxInitiated {
        bail!("--packets is for tx-initiated");
    }
    if args.rounds.is_some() && args.workload != Workload::Heavy {
        bail!("--rounds is for heavy");
    }
    Ok(match args.workload {
        Workload::Echo => Kind::Echo,
        Workload::RxMostly => Kind::RxMostly,
        Workload::TxMostly => Kind::TxMostly,
        Workload::TxInitiated => Kind::TxInitiated {
            packets: args.packets.unwrap_or(INITIATED),
        },
        Workload::Heavy => Kind::Heavy {
            rounds: args.rounds.unwrap_or(ROUNDS),
        },
    })
}

pub(crate) fn run(args: &MuxClientArgs) -> Result<ExitCode> {
    let plan = MuxClientPlan {
        workload: kind(args)?,
        socket: args.socket.clone(),
        name: args.name.clone(),
        raw: args.raw,
        port: args.port,
        prefixes: [args.prefix, 64],
        duration: args.duration,
        reconnect: args.reconnect,
        out: args.out.clone(),
    };
    carry_out(plan, args.format, To::Stdout, print_text)
}

fn print_text(record: &Record<MuxClientSummary>) {
    let Record { envelope, summary } = record;
    print_line(format_args!(
        "{} at place {} ({}): {} frames came ({}), {} went ({}), in {:.2} s",
        summary.workload,
        summary.name,
        summary.place,
        summary.frames_received,
        bytes(summary.frames_received_bytes as f64),
        summary.frames_sent,
        bytes(summary.frames_sent_bytes as f64),
        envelope.duration_s,
    ));
    print_line(format_args!(
        "{} datagrams came: {} answered, {} not by design, {} without room; {} sent",
        summary.datagrams_came,
        summary.datagrams_answered,
        summary.datagrams_by_design,
        summary.datagrams_no_room,
        summary.datagrams_sent,
    ));
    if summary.tcp.came_bytes > 0 {
        print_line(format_args!(
            "TCP: {} bytes came, {} went back",
            summary.tcp.came_bytes, summary.tcp.returned_bytes
        ));
    }
    if summary.daemon_gone > 0 {
        print_line(format_args!(
            "the multiplexer went away {} times; the client had its place {} times",
            summary.daemon_gone, summary.connections
        ));
    }
    print_closing(record);
}
