//! `forebay tdm bench`: what slots and pacing are worth, on a switch port that is made for it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use forebay_bench::tdm::{self, Options, Report, Scheme, port_burst_bytes};
use forebay_run_tdm::{Mode, Plan, PlanError, PlanInput};
use serde_json::Value;

use crate::output::{Format, note_line, parse_bytes, parse_duration, print_line};
use crate::session::BROKEN;

/// A token bucket that is smaller than a packet of an Ethernet lets none through.
const PORT_BURST_BYTES_MIN: u64 = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SchemeArg {
    Incast,
    Slots,
    SlotsPaced,
    Credit,
}

/// Compares schemes on this machine: each sender is a network namespace, and a bridge port with a token bucket (tbf) stands for a switch's port with a shallow buffer.
///
/// Nothing of it touches the host's own network, and nothing is left when it ends or is killed. Clocks of senders are set off by milliseconds and by up to 100 ppm, and what they
/// find out is compared with the truth. Needs root.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay tdm bench --senders 3 --port-rate 1G --port-buffer 128K --window 2.5ms --repeat 10\n\nExit codes: 0 done, 1 an account does not close, 2 it could not be done."
)]
pub(crate) struct BenchArgs {
    /// Senders, 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    senders: u16,
    /// Rate of the port, in bit/s.
    #[arg(long, value_name = "BITS", default_value = "1G", value_parser = parse_bytes)]
    port_rate: u64,
    /// Bytes that the port's queue holds (tbf's limit).
    #[arg(long, value_name = "BYTES", default_value = "128Ki", value_parser = parse_bytes)]
    port_buffer: u64,
    /// Bytes that the port lets pass at once (tbf's burst): how late its timer may be, no buffer; else a quarter of --port-buffer, and 16Ki at least.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    port_burst: Option<u64>,
    /// Length of a window; else computed.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    window: Option<Duration>,
    /// The guard; else computed.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    dead_time: Option<Duration>,
    /// How long senders send, in each session: about so long where windows are computed.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    duration: Duration,
    /// What is compared, with commas or blanks between.
    #[arg(long, value_enum, num_args = 1.., value_delimiter = ',', default_value = "incast,slots,slots-paced")]
    schemes: Vec<SchemeArg>,
    /// Sessions of each scheme; medians are told.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// For the senders' clocks.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Leave the senders' clocks as the host's.
    #[arg(long)]
    true_clocks: bool,
    /// Queue of senders' interfaces, as fq, which keeps launch times (SO_TXTIME) so that bursts leave at their instants; else the kernel's choice.
    #[arg(long, value_name = "QDISC", value_parser = parse_queue)]
    sender_queue: Option<String>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Words of tc, and nothing else.
fn parse_queue(text: &str) -> Result<String, String> {
    let is_word = |it: char| it.is_ascii_alphanumeric() || "_ .:".contains(it);
    if text.trim().is_empty() || !text.chars().all(is_word) {
        return Err(
            "it is a queue of tc with its parameters, as fq or \"fq limit 1000\"".to_owned(),
        );
    }
    Ok(text.to_owned())
}

pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode> {
    let options = Options {
        program: std::env::current_exe().context("finding this program")?,
        senders: args.senders,
        port_rate_bps: args.port_rate,
        port_buffer_bytes: args.port_buffer,
        port_burst_bytes: args
            .port_burst
            .unwrap_or_else(|| port_burst_bytes(args.port_buffer)),
        window: args.window,
        dead_time: args.dead_time,
        duration: args.duration,
        schemes: schemes(&args.schemes),
        repeat: args.repeat,
        sender_queue: args.sender_queue.clone(),
        clock_seed: (!args.true_clocks).then_some(args.seed),
    };
    check(&options)?;
    let report = tdm::run(&options, |line| note_line(format_args!("forebay: {line}")))?;
    match args.format {
        Format::Json => print_line(serde_json::to_string(&report)?),
        Format::Text => print(&report),
    }
    let open = report
        .schemes
        .iter()
        .any(|scheme| scheme["residual_items"] != 0);
    Ok(if open {
        ExitCode::from(BROKEN)
    } else {
        ExitCode::SUCCESS
    })
}

/// Each once, in the order in which they are named.
fn schemes(named: &[SchemeArg]) -> Vec<Scheme> {
    let mut once: Vec<SchemeArg> = Vec::new();
    for scheme in named {
        if !once.contains(scheme) {
            once.push(*scheme);
        }
    }
    once.into_iter().map(SchemeArg::scheme).collect()
}

/// A plan that cannot work is told before hosts are made for it.
fn check(options: &Options) -> Result<()> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    if options.port_burst_bytes < PORT_BURST_BYTES_MIN {
        bail!(
            "the port lets {} bytes pass at once (--port-burst), and no whole packet gets through: give at least {PORT_BURST_BYTES_MIN}, or leave it out",
            options.port_burst_bytes
        );
    }
    for scheme in &options.schemes {
        let mode = Mode::ALL.into_iter().find(|it| it.name() == scheme.name());
        let plan = Plan::compute(&PlanInput {
            link_rate_bps: options.port_rate_bps,
            port_buffer_bytes: options.port_buffer_bytes,
            shares: vec![1; usize::from(options.senders)],
            mode: mode.unwrap_or(Mode::SlotsPaced),
            window_ns: options.window.map(nanos),
            guard_ns: options.dead_time.map(nanos),
            ..PlanInput::default()
        });
        if let Err(error) = plan {
            bail!("{}", in_own_options(error));
        }
    }
    if options.duration.is_zero() {
        bail!("--duration is 0: nothing would be sent; 1s is usual");
    }
    Ok(())
}

/// The bench has other options than a receiver, and not all of them.
fn in_own_options(error: PlanError) -> String {
    match error {
        PlanError::Range { key, value, range } if key == "rate of the port" => {
            format!("{key} (--port-rate) is {value}; {range}")
        }
        PlanError::Buffer {
            port_buffer_bytes,
            packet_bytes,
        } => format!(
            "the port's buffer (--port-buffer) is {port_buffer_bytes} bytes and a packet takes {packet_bytes} of it; it must hold at least two: 128Ki is usual"
        ),
        other => other.to_string(),
    }
}

impl SchemeArg {
    const fn scheme(self) -> Scheme {
        match self {
            Self::Incast => Scheme::Incast,
            Self::Slots => Scheme::Slots,
            Self::SlotsPaced => Scheme::SlotsPaced,
            Self::Credit => Scheme::Credit,
        }
    }
}

fn print(report: &Report) {
    print_line(format_args!(
        "{:<12} {:>9} {:>9} {:>10} {:>10} {:>8} {:>7} {:>9} {:>10} {:>9} {:>9}",
        "scheme",
        "window us",
        "guard us",
        "sent",
        "lost",
        "lost %",
        "port %",
        "Mbit/s",
        "late us",
        "clock us",
        "overlaps"
    ));
    for scheme in &report.schemes {
        let number = |key: &str| scheme[key].as_f64().unwrap_or(0.0);
        let lost = number("sent") - number("received");
        print_line(format_args!(
            "{:<12} {:>9.0} {:>9.1} {:>10} {:>10} {:>8.3} {:>7.2} {:>9.1} {:>10.1} {:>9.3} {:>9}",
            scheme["scheme"].as_str().unwrap_or("?"),
            number("window_ns") / 1e3,
            number("guard_ns") / 1e3,
            number("sent"),
            lost,
            100.0 * lost / number("sent").max(1.0),
            100.0 * number("port_utilisation"),
            number("goodput_bps") / 1e6,
            number("window_lateness_ns_p99") / 1e3,
            number("clock_error_ns_p99") / 1e3,
            number("overlaps"),
        ));
        if let Value::Object(causes) = &scheme["lost"] {
            for (cause, packets) in causes.iter().filter(|(_, packets)| **packets != 0) {
                // The bench's receivers take merged datagrams.
                let least = if cause == "socket_overflow" {
                    "at least "
                } else {
                    ""
                };
                print_line(format_args!("  lost, {cause}: {least}{packets}"));
            }
        }
    }
    print_line(format_args!(
        "late and clock: 99 % are better, medians of sessions; clock against the truth. {}; load before {:.2}",
        report.port["emulated_by"].as_str().unwrap_or_default(),
        report.conditions.load_before
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_that_is_named_twice_is_run_once() {
        let named = [SchemeArg::Slots, SchemeArg::Incast, SchemeArg::Slots];
        let names: Vec<_> = schemes(&named).iter().map(|it| it.name()).collect();
        assert_eq!(names, ["slots", "incast"]);
    }
}
