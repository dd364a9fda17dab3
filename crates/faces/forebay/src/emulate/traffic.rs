//! `forebay emulate traffic`: the packets of a profile of network flows.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use forebay_report::text::{bytes, si};
use forebay_run::record::Record;
use forebay_run_traffic::{START_S, TrafficPlan, TrafficSummary};

use crate::output::{Format, print_line};
use crate::record::{To, carry_out};

/// Makes the packets of a profile of network flows, in order of time, with the truth of each flow.
///
/// A profile is a table of FlowTest's form: a line START_TIME,END_TIME,L3_PROTO,L4_PROTO,SRC_PORT,DST_PORT,PACKETS,BYTES,PACKETS_REV,BYTES_REV (and SRC_IP,DST_IP where they are
/// chosen), and a biflow a row, sorted by start, with times in ms and octets of IP. The same profile and seed make the same bytes. Sizes of packets add up to the octets of the row
/// where some do; the truth says what was sent.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay emulate traffic --profile morning.csv --pcap morning.pcap --truth morning-truth.csv --snap 128\n\nExit codes: 0 the books close, 1 they do not, 2 it could not be done: the error names line, column and value of a profile."
)]
pub(super) struct TrafficArgs {
    /// The profile.
    #[arg(long, value_name = "FILE.csv")]
    profile: PathBuf,
    /// The capture that packets go into, in pcap's form with times in ns. It is not written over.
    #[arg(long, value_name = "FILE.pcap")]
    pcap: PathBuf,
    /// A table of what each flow sent: row,src,dst,src_port,dst_port,protocol,packets,octets,packets_rev,octets_rev,start_ns,end_ns,tcp_flags,tcp_flags_rev.
    #[arg(long, value_name = "FILE.csv")]
    truth: Option<PathBuf>,
    /// Frames are cut to so many bytes in the capture, 64 to 9034; without it they are whole.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=9034))]
    snap: Option<u32>,
    /// Keeps the packets of the profile and makes them small: 143 octets in the mean.
    #[arg(long)]
    small_packets: bool,
    /// All that is random follows from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// When the profile's clock begins, in s since 1970.
    #[arg(long, value_name = "SECONDS", default_value_t = START_S)]
    start: u32,
    /// Directory for ledger and record, for `forebay audit`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &TrafficArgs) -> Result<ExitCode> {
    let plan = TrafficPlan {
        profile: args.profile.clone(),
        capture: args.pcap.clone(),
        truth: args.truth.clone(),
        snap_bytes: args.snap,
        seed: args.seed,
        small_packets: args.small_packets,
        start_s: args.start,
        out: args.out.clone(),
    };
    carry_out(plan, args.format, To::Stdout, print_text)
}

fn print_text(record: &Record<TrafficSummary>) {
    let Record { envelope, summary } = record;
    print_line(format_args!(
        "{} packets ({}) of {} flows in {:.2} s, {} a second",
        summary.packets,
        bytes(summary.octets as f64),
        summary.flows,
        envelope.duration_s,
        si(summary.packet_rate_hz, "packets"),
    ));
    if summary.adjusted_flows > 0 {
        print_line(format_args!(
            "{} flows have other octets than their row: no packets have that sum",
            summary.adjusted_flows
        ));
    }
    for (name, lost) in &envelope.drops {
        print_line(format_args!("{name}: {}", lost.items));
    }
}
