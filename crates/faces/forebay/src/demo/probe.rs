//! `forebay demo probe`: the flow probe on a virtual wire, with its offload off and on, in one command.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use forebay_bench::live_pair::{self, Options, Report, Seen, Side, Volume};
use forebay_report::text::{bytes, si};
use forebay_run::Stop;

use crate::output::{Format, note_line, note_text, print_line, settle_notes};
use crate::range;
use crate::session::BROKEN;

/// The longest packet of the profiles, in bytes.
const MTU_BYTES: u32 = 9_020;

/// Runs the flow probe on this machine: packets of a profile on a virtual wire, the probe at its far end, and nfcapd where it is installed. First all packets come to the probe; then
/// those of heavy flows are counted by a program of the kernel (XDP), and do not.
///
/// Wire and programs are in a network namespace of their own, which ends with this command. What generator, kernel, probe and nfcapd have counted is held against each other: every
/// packet that was sent is in a record, or lost by name. Needs root, unshare, setpriv and nsenter (Debian package util-linux), ip (iproute2), and a binary that was built where clang is.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay demo probe --profile nix-like-morning --rate 200k --duration 5s\n\nExit codes: 0 all books close and all parties agree to the packet, 1 they do not, 2 it could not be done."
)]
pub(crate) struct ProbeArgs {
    /// The profile whose packets are sent: a name of `forebay emulate traffic --list`, or a file in FlowTest's form.
    #[arg(
        long,
        default_value = "geant-like-morning",
        value_name = "NAME|FILE.csv"
    )]
    profile: String,
    /// Packets a second, as 50k or 1.5M.
    #[arg(long, default_value = "100k", value_name = "PACKETS/s", value_parser = crate::emulate::rate)]
    rate: f64,
    /// How long packets are sent in each of the two runs.
    #[arg(long, default_value = "5s", value_parser = range::duration)]
    duration: Duration,
    /// Packets of a profile that has a name in each run, as 500k, in place of --duration. A file has its own.
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = crate::emulate::packets)]
    packets: Option<u64>,
    /// What the probe reads of flows beside their counts, as tls,dns: see `forebay probe`.
    #[arg(long, value_name = "NAME,…")]
    plugins: Option<String>,
    /// Everything random follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for ledgers and records.
    #[arg(long, default_value = "forebay-demo-probe", value_name = "DIR")]
    out: PathBuf,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &ProbeArgs) -> Result<ExitCode> {
    let options = options(args)?;
    let is_text = args.format == Format::Text;
    if is_text {
        note_line(format_args!(
            "{} of {} on a virtual wire, in each of two runs; records in {}",
            si(options.packet_rate_hz, "packets/s"),
            options.profile,
            options.out.display(),
        ));
    }
    let stop = Stop::of_process()?;
    let mut live = Live(is_text && std::io::stderr().is_terminal());
    let report = live_pair::run(&options, &stop, &mut |seen| live.tell(seen));
    live.end();
    let report = report?;
    match args.format {
        Format::Json => print_line(serde_json::to_string(&report)?),
        Format::Text => print(&report),
    }
    if let Some(failed) = &report.failed {
        note_line(format_args!("forebay: {failed}"));
    }
    Ok(match (report.agrees, &report.failed) {
        (false, _) => ExitCode::from(BROKEN),
        (true, None) => ExitCode::SUCCESS,
        (true, Some(_)) => ExitCode::from(2),
    })
}

fn options(args: &ProbeArgs) -> Result<Options> {
    let is_file = args.profile.ends_with(".csv");
    let of_duration = (args.rate * args.duration.as_secs_f64()).max(1_000.0) as u64;
    Ok(Options {
        program: std::env::current_exe().context("finding this program")?,
        profile: args.profile.clone(),
        packet_rate_hz: args.rate,
        packets: args.packets.or((!is_file).then_some(of_duration)),
        seed: args.seed,
        mtu_bytes: MTU_BYTES,
        probe_args: args
            .plugins
            .iter()
            .flat_map(|names| ["--plugins".to_owned(), names.clone()])
            .collect(),
        one_cpu: None,
        collects: true,
        out: args.out.clone(),
    })
}

/// A line that is written over, on a terminal.
struct Live(bool);

impl Live {
    fn tell(&mut self, seen: &Seen) {
        if self.0 {
            note_text(&format!("\r\x1b[K{}", line(seen)));
        }
    }

    /// Leaves the line, before what else is said.
    fn end(&self) {
        if self.0 {
            note_text("\r\x1b[K");
        }
        settle_notes();
    }
}

fn line(seen: &Seen) -> String {
    format!(
        "offload {}: {} packets sent, {} in the probe, {} lost by its ring",
        seen.offload.name(),
        seen.sent,
        seen.taken,
        seen.lost,
    )
}

/// A line of the sheet: what it is of, and how one run has it.
type Line = (&'static str, fn(&Side) -> String);

const LINES: [Line; 11] = [
    ("sent", |side| volume(side.sent)),
    ("lost on the wire", |side| {
        format!("{} packets", side.wire_dropped_packets)
    }),
    ("lost by the probe's ring", |side| {
        format!(
            "{} packets, {:.3} %",
            side.ring_lost.packets, side.ring_lost_percent
        )
    }),
    ("octets that are lost so", |side| {
        format!("{:.3} %", side.ring_lost_octets_percent)
    }),
    ("in the probe", |side| volume(side.taken)),
    ("counted below user space", |side| volume(side.offloaded)),
    ("in records", |side| volume(side.recorded)),
    ("records", |side| side.flows.to_string()),
    ("nfcapd has", |side| match &side.collected {
        Some(all) => volume(Volume {
            packets: all.packets,
            octets: all.octets,
        }),
        None => "nothing: it is not there".to_owned(),
    }),
    ("its records", |side| {
        side.collected
            .map_or_else(String::new, |all| all.flows.to_string())
    }),
    ("CPU of the probe", |side| {
        format!("{:.2} s", side.probe_cpu_s)
    }),
];

fn volume(volume: Volume) -> String {
    format!(
        "{} packets ({})",
        volume.packets,
        bytes(volume.octets as f64)
    )
}

fn print(report: &Report) {
    let row = |name: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>34}")).collect();
        print_line(format!("{name:26}{cells}").trim_end());
    };
    let heads = report
        .runs
        .iter()
        .map(|side| format!("offload {}", side.offload.name()));
    row("", heads.collect());
    for (name, of) in LINES {
        row(name, report.runs.iter().map(of).collect());
    }
    for side in &report.runs {
        notes(side, report.mtu_bytes);
    }
    if report.collector == "none" {
        print_line("Records went to nobody: nfcapd is not installed (Debian package nfdump).");
    }
    if report.interrupted {
        print_line("Ended early.");
    }
    print_line(match report.agrees {
        true => {
            "The books close, and all parties agree: every packet that was sent is in a record, or lost by name."
        }
        false => "THE BOOKS DO NOT CLOSE, or parties do not agree.",
    });
}

/// What else there is to say of a run.
fn notes(side: &Side, mtu_bytes: u32) {
    let name = side.offload.name();
    if let Some(kind) = &side.offload_kind {
        print_line(format_args!("offload {name}: {kind}"));
    }
    for (reason, items) in &side.lost {
        print_line(format_args!("offload {name}: lost at {reason}: {items}"));
    }
    if side.generator_was_limit {
        let rate = si(side.packet_rate_hz, "packets/s");
        print_line(format_args!(
            "offload {name}: the generator or this host was the limit, at {rate}"
        ));
    }
    if side.shortened_packets > 0 {
        print_line(format_args!(
            "offload {name}: {} packets were larger than the {mtu_bytes} bytes that the wire takes, and were sent as large as that",
            side.shortened_packets
        ));
    }
    if let Some(lost) = side
        .collected
        .map(|all| all.datagrams_lost)
        .filter(|lost| *lost > 0)
    {
        print_line(format_args!(
            "offload {name}: the kernel had no room for {lost} datagrams in nfcapd's socket"
        ));
    }
    for text in &side.disagreements {
        print_line(format_args!("offload {name}: NOT THE SAME: {text}"));
    }
    if side.residual != [0; 2] {
        let [items, octets] = side.residual;
        print_line(format_args!(
            "offload {name}: LEFT OVER: {items} items, {octets} bytes"
        ));
    }
}

#[cfg(test)]
mod tests {
    use forebay_bench::live_pair::Offload;

    use super::*;

    #[test]
    fn the_live_line_says_which_run_it_is_and_how_far() {
        let seen = Seen {
            offload: Offload::Xdp,
            sent: 1_200,
            taken: 1_100,
            lost: 100,
        };
        assert_eq!(
            line(&seen),
            "offload xdp: 1200 packets sent, 1100 in the probe, 100 lost by its ring"
        );
    }
}
