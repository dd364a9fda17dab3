//! `forebay emulate traffic`: the packets of a profile of network flows.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use forebay_report::text::{bytes, si};
use forebay_run::record::Record;
use forebay_run_traffic::{
    InterfaceSummary, NAMED, NamedProfile, Pace, START_S, SendBy, Source, Target, TrafficPlan,
    TrafficSummary, WINDOW_PACKETS, write_profile,
};

use crate::output::{Format, parse_bytes, print_line};
use crate::record::{To, carry_out};

/// Most packets of a profile.
const PACKETS_MAX: u64 = 1_000_000_000_000;

/// Makes the packets of a profile of network flows, in order of time, with the truth of each flow.
///
/// A profile is a table of FlowTest's form: a line START_TIME,END_TIME,L3_PROTO,L4_PROTO,SRC_PORT,DST_PORT,PACKETS,BYTES,PACKETS_REV,BYTES_REV (and SRC_IP,DST_IP where they are
/// chosen), and a biflow a row, sorted by start, with times in ms and octets of IP. The same profile and seed make the same bytes. Sizes of packets add up to the octets of the row
/// where some do; the truth says what was sent.
///
/// A profile may be named instead: geant-like-afternoon, geant-like-morning, geant-like-sunday, nix-like-afternoon, nix-like-morning, nix-like-night, nix-like-weekend. These are made
/// from a few numbers and the seed, have the aggregates that are published of real networks, and are no measurement: --list tells each.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  forebay emulate traffic --profile morning.csv --pcap morning.pcap --truth morning-truth.csv --snap 128\n  forebay emulate traffic --profile geant-like-morning --packets 10M --pcap morning.pcap\n  forebay emulate traffic --profile nix-like-night --write-profile night.csv\n  forebay emulate traffic --profile geant-like-morning --interface veth0 --rate 50k --truth sent.csv\n\nExit codes: 0 the books close, 1 they do not, 2 it could not be done: the error names line, column and value of a profile."
)]
pub(super) struct TrafficArgs {
    /// The profile: one of the names, or a file.
    #[arg(long, value_name = "NAME|FILE.csv", required_unless_present = "list")]
    profile: Option<PathBuf>,
    /// Lists the profiles that have a name.
    #[arg(long, conflicts_with_all = ["profile", "pcap", "write_profile"])]
    list: bool,
    /// Packets of a profile that has a name, as 500k or 10M (default: 2M); their times follow from its rate.
    #[arg(long, value_name = "N", value_parser = packets)]
    packets: Option<u64>,
    /// The capture that packets go into, in pcap's form with times in ns. It is not written over.
    #[arg(long, value_name = "FILE.pcap", required_unless_present_any = ["list", "write_profile", "interface"])]
    pcap: Option<PathBuf>,
    /// The interface that packets are sent on, in the time of the profile if nothing else is said; needs CAP_NET_RAW. Packets above its MTU are made as large as it takes, and counted.
    #[arg(long, value_name = "IF", conflicts_with_all = ["list", "pcap", "write_profile", "start"])]
    interface: Option<String>,
    /// So many packets a second on the interface, as 50k or 1.5M: evenly, whatever times the profile has.
    #[arg(long, value_name = "PACKETS/s", requires = "interface", conflicts_with_all = ["list", "pcap", "write_profile", "start"], value_parser = rate)]
    rate: Option<f64>,
    /// The time of the profile on the interface, so much faster: 0.01 is a hundredth of its rate.
    #[arg(long, value_name = "FACTOR", requires = "interface", conflicts_with_all = ["rate", "list", "pcap", "write_profile", "start"], value_parser = speed)]
    speed: Option<f64>,
    /// How packets for the interface come to the kernel (default: sendmmsg): by sendmmsg, which copies them, or through a ring in shared memory (PACKET_TX_RING), into which this program copies them; on a virtual cable the kernel copies those again. The books say the same either way. A ring is not for loopback, nor for drivers that give its places back before a packet is sent (virtio_net without napi_tx, hip04).
    #[arg(long, value_enum, value_name = "HOW", requires = "interface", conflicts_with_all = ["list", "pcap", "write_profile", "start"])]
    send_by: Option<SendByArg>,
    /// Writes the rows of the profile instead, in FlowTest's form. That has no place for trains: of a written profile --timing uniform makes the same packets again, and trains have a gap of their own.
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["pcap", "truth", "out"])]
    write_profile: Option<PathBuf>,
    /// A table of what each flow sent: row,src,dst,src_port,dst_port,protocol,packets,octets,packets_rev,octets_rev,start_ns,end_ns,tcp_flags,tcp_flags_rev.
    #[arg(long, value_name = "FILE.csv")]
    truth: Option<PathBuf>,
    /// Frames are cut to so many bytes in the capture, 64 to 9034; without it they are whole. On an interface packets are made so small, 74 bytes of a frame at least.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=9034))]
    snap: Option<u32>,
    /// Keeps the packets of the profile and makes them small: 143 octets in the mean.
    #[arg(long)]
    small_packets: bool,
    /// When the packets of a flow are sent: uniform over its duration, or in trains that are; as the profile has it without it, which is trains for those that have a name.
    #[arg(long, value_enum, value_name = "HOW")]
    timing: Option<TimingArg>,
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

/// When the packets of a flow are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TimingArg {
    /// At instants that are uniform over its duration.
    Uniform,
    /// In trains.
    Trains,
}

/// How packets come to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SendByArg {
    /// In calls of up to 64 packets.
    Sendmmsg,
    /// Through memory that is shared with it.
    Ring,
}

/// Slowest and fastest rate onto an interface, in packets a second.
const RATE_HZ: (f64, f64) = (0.001, 1e9);
/// Slowest and fastest time of a profile.
const SPEED: (f64, f64) = (1e-9, 1e9);

/// A number, with k, M or G behind it, within bounds.
fn number(text: &str, (least, most): (f64, f64), example: &str) -> Result<f64, String> {
    let (figures, factor) = match text.char_indices().next_back() {
        Some((at, 'k')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let number = figures.parse::<f64>().ok().map(|number| number * factor);
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("write a number as {example}, {least} at least and {most} at most"))
}

/// Packets in a second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    number(text, RATE_HZ, "50k or 1.5M")
}

/// A factor of the profile's time.
fn speed(text: &str) -> Result<f64, String> {
    number(text, SPEED, "0.01")
}

/// Where packets go.
fn target(args: &TrafficArgs) -> Result<Target> {
    if let Some(name) = args.interface.clone() {
        let speed = Pace::Speed {
            factor: args.speed.unwrap_or(1.0),
        };
        let pace = args
            .rate
            .map_or(speed, |packet_rate_hz| Pace::Rate { packet_rate_hz });
        let send_by = args.send_by.map(|how| match how {
            SendByArg::Sendmmsg => SendBy::Sendmmsg,
            SendByArg::Ring => SendBy::Ring,
        });
        return Ok(Target::Interface {
            name,
            pace,
            send_by,
        });
    }
    let path = args.pcap.clone().context("--pcap is missing")?;
    Ok(Target::Capture(path))
}

/// A number of packets.
pub(crate) fn packets(text: &str) -> Result<u64, String> {
    let least = NamedProfile::packets_min();
    let wrong = || {
        format!(
            "{text:?} is no number of packets; write it as 500k or 10M, {least} at least and 1T at most"
        )
    };
    let packets = parse_bytes(text).map_err(|_| wrong())?;
    (least..=PACKETS_MAX)
        .contains(&packets)
        .then_some(packets)
        .ok_or_else(wrong)
}

pub(super) fn run(args: &TrafficArgs) -> Result<ExitCode> {
    if args.list {
        list(args.format)?;
        return Ok(ExitCode::SUCCESS);
    }
    let profile = args.profile.as_deref().context("--profile is missing")?;
    let source = Source::of(profile, args.packets)?;
    if let Some(path) = &args.write_profile {
        return write(&source, args, path);
    }
    let plan = TrafficPlan {
        profile: source,
        to: target(args)?,
        truth: args.truth.clone(),
        snap_bytes: args.snap,
        seed: args.seed,
        small_packets: args.small_packets,
        trains: args.timing.map(|timing| timing == TimingArg::Trains),
        start_s: args.start,
        out: args.out.clone(),
    };
    carry_out(plan, args.format, To::Stdout, print_text)
}

/// Tells the profiles that have a name.
fn list(format: Format) -> Result<()> {
    if format == Format::Json {
        let all = NAMED.each_ref().map(|profile| {
            serde_json::json!({
                "name": profile.name,
                "stands_for": profile.stands_for,
                "says": profile.says,
                "packet_rate_hz": profile.packet_rate_hz,
                "packet_bytes_mean": profile.packet_bytes,
                "heaviest_flows_share": f64::from(profile.elephant_permille) / 1_000.0,
            })
        });
        print_line(serde_json::to_string(
            &serde_json::json!({ "profiles": all }),
        )?);
        return Ok(());
    }
    print_line(
        "Synthetic; no row was measured on a real network. In brackets the published profile that each stands for.",
    );
    for profile in &NAMED {
        print_line(format_args!(
            "{:<21} [{}] {}; {} flows at a time have {} % of the packets, in the mean over windows of {}",
            profile.name,
            profile.stands_for,
            profile.says,
            profile.elephants,
            profile.elephant_permille / 10,
            si(WINDOW_PACKETS as f64, "packets"),
        ));
    }
    Ok(())
}

/// Writes the rows of a profile.
fn write(source: &Source, args: &TrafficArgs, path: &Path) -> Result<ExitCode> {
    let written = write_profile(source, args.seed, path)?;
    match args.format {
        Format::Json => print_line(serde_json::to_string(&written)?),
        Format::Text => print_line(format_args!(
            "{} flows with {} packets ({}) in {}",
            written.rows,
            written.packets,
            bytes(written.octets as f64),
            path.display(),
        )),
    }
    Ok(ExitCode::SUCCESS)
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
    if let Some(interface) = &summary.interface {
        print_interface(interface, summary.packet_rate_hz);
    }
    for (name, lost) in &envelope.drops {
        print_line(format_args!("{name}: {}", lost.items));
    }
}

/// What went onto an interface, and whether it was what was asked for.
fn print_interface(interface: &InterfaceSummary, rate_hz: f64) {
    if let Some(asked_hz) = interface.packet_rate_asked_hz {
        print_line(format_args!(
            "asked for {} a second on {}, sent {}{}",
            si(asked_hz, "packets"),
            interface.name,
            si(rate_hz, "packets"),
            if interface.was_limit {
                ": this generator or its host was the limit"
            } else {
                ""
            },
        ));
    }
    if interface.shortened_packets > 0 {
        print_line(format_args!(
            "{} packets were made smaller, by {} in all: the interface takes {} bytes",
            interface.shortened_packets,
            bytes(interface.shortened_octets as f64),
            interface.mtu_bytes,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers_within_bounds() {
        assert_eq!(rate("50k"), Ok(50e3));
        assert_eq!(rate("1.5M"), Ok(1.5e6));
        assert_eq!(rate("0.5"), Ok(0.5));
        assert_eq!(speed("0.01"), Ok(0.01));
        for wrong in ["", "k", "-1", "0", "nan", "2G", "5kk", "5µ", "inf"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
