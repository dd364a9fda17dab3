//! `forebay emulate`: sources that send what real ones would.

mod card;
mod traffic;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Subcommand;
use forebay_run_evb::presets::{EMULATED_SOURCES_MAX, SUBEVENT_BYTES};
use forebay_run_hades::{FaultRule, GeneratorPlan, HadesSender};

pub(crate) use self::card::{CardArgs, run as run_card};
pub(crate) use self::traffic::{packets, rate};
use crate::evb::parse_trigger_bits;
use crate::output::{Format, print_line};
use crate::range;
use crate::record::{To, carry_out};
use forebay_report::text::bytes;

/// Sends what real sources would.
#[derive(Debug, clap::Args)]
pub(crate) struct EmulateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Hades(HadesArgs),
    Card(card::CardArgs),
    Traffic(traffic::TrafficArgs),
}

/// Soft readouts of HADES: each source a socket of its own, source n to port BASE+n.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay emulate hades --group 60:116 20:338 10:1170 --rate 4000 --duration 10s"
)]
struct HadesArgs {
    /// Where to send to.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDR", value_parser = crate::address::host)]
    dest: IpAddr,
    /// First UDP port.
    #[arg(long, default_value_t = 50000, value_parser = clap::value_parser!(u16).range(1..))]
    base_port: u16,
    /// Groups of sources, as COUNT:BYTES or COUNT:BYTES:SIGMA (bytes of a sub-event with its 16-byte header).
    #[arg(long, num_args = 1.., required = true, value_name = "COUNT:BYTES", value_parser = parse_group)]
    group: Vec<(usize, u32, f64)>,
    /// Water mark in bytes; 0: one sub-event per datagram.
    #[arg(long, default_value = "32Ki", value_name = "SIZE", value_parser = range::water_mark)]
    water_mark: u32,
    /// Triggers per second.
    #[arg(long, default_value_t = 4000.0, value_parser = range::rate, allow_hyphen_values = true)]
    rate: f64,
    /// Random distances between triggers.
    #[arg(long)]
    poisson: bool,
    /// Beam in spills: PERIOD:LENGTH, as 4s:2s; the rate is that inside a spill.
    #[arg(long, value_name = "PERIOD:LENGTH", value_parser = parse_spill)]
    spill: Option<(u64, u64)>,
    /// What goes wrong, and when: SOURCE:FAULT, then from=N, to=N, every=N or chance=P with commas, N counted in triggers; as 3:drop,every=100
    /// or 5:late=20ms or 7:silent,from=1000,to=2000. Faults: silent, wrong-tag, data-error, header-only, bad-size, drop,
    /// duplicate, corrupt-trailer, corrupt-byte, reorder, late=TIME, ahead=TRIGGERS, restart, restart-from-zero.
    #[arg(long, value_name = "SOURCE:FAULT")]
    fault: Vec<FaultRule>,
    /// Every N-th sub-event of each source is huge; 0: none.
    #[arg(long, default_value_t = 0, value_name = "N")]
    huge_every: u32,
    /// Size of a huge sub-event in bytes.
    #[arg(long, default_value = "100000", value_name = "SIZE", value_parser = range::sub_event)]
    huge_size: u32,
    /// Longest time a partly filled queue is held back.
    #[arg(long = "flush", default_value = "200ms", value_name = "TIME", value_parser = range::hour_ms)]
    flush_ms: u64,
    /// Width of the trigger number, 16 or 24.
    #[arg(long, default_value_t = 24, value_parser = parse_trigger_bits)]
    trigger_bits: u32,
    /// First trigger number.
    #[arg(long, default_value_t = 0)]
    first_trigger: u32,
    /// How long to send.
    #[arg(long, default_value = "10s", value_parser = range::duration)]
    duration: Duration,
    /// Number of triggers, if that ends the run.
    #[arg(long)]
    events: Option<u64>,
    /// Everything random follows from it.
    #[arg(long, default_value_t = 2)]
    seed: u64,
    /// Keep the sender's books and record in this directory: `forebay audit DIR RUNDIR` then holds them against those of the receiver.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Least mean size of a group's sub-events: header and two status words.
const GROUP_BYTES_MIN: u32 = 24;

fn parse_group(text: &str) -> Result<(usize, u32, f64), String> {
    let wrong = || format!("{text:?} is no group; write it as 60:116 or 20:338:34");
    let mut parts = text.split(':');
    let mut part = || parts.next();
    let count = part().and_then(|p| p.parse().ok()).ok_or_else(wrong)?;
    let size = part().and_then(|p| p.parse().ok()).ok_or_else(wrong)?;
    let sigma = part().map_or(Ok(0.0), |p| p.parse().map_err(|_| wrong()))?;
    if part().is_some() {
        return Err(wrong());
    }
    if !(1..=EMULATED_SOURCES_MAX).contains(&count) {
        return Err(format!(
            "{count} sources; write a number from 1 to {EMULATED_SOURCES_MAX}"
        ));
    }
    if !(GROUP_BYTES_MIN..=SUBEVENT_BYTES.1).contains(&size) {
        return Err(format!(
            "{size} bytes; write a size from {GROUP_BYTES_MIN} to {}",
            SUBEVENT_BYTES.1
        ));
    }
    let sigma_max = f64::from(SUBEVENT_BYTES.1);
    if !(0.0..=sigma_max).contains(&sigma) {
        return Err(format!(
            "a deviation of {sigma} bytes; write a number from 0 to {sigma_max}"
        ));
    }
    Ok((count, size, sigma))
}

/// Period and length of a spill, in ms.
fn parse_spill(text: &str) -> Result<(u64, u64), String> {
    let wrong =
        || format!("{text:?} is no spill; write it as 4s:2s, the length at most the period");
    let (period, length) = text.split_once(':').ok_or_else(wrong)?;
    let (period, length) = (range::hour_ms(period)?, range::hour_ms(length)?);
    if length == 0 || length > period {
        return Err(wrong());
    }
    Ok((period, length))
}

pub(crate) fn run(args: &EmulateArgs) -> Result<ExitCode> {
    let args = match &args.what {
        What::Hades(args) => args,
        What::Card(args) => return card::run(args),
        What::Traffic(args) => return traffic::run(args),
    };
    let sources: usize = args.group.iter().map(|group| group.0).sum();
    ensure!(
        sources <= EMULATED_SOURCES_MAX,
        "--group: {sources} sources in all; there may be {EMULATED_SOURCES_MAX}"
    );
    ensure!(
        args.first_trigger >> args.trigger_bits == 0,
        "--first-trigger {} has more than the {} bits of --trigger-bits",
        args.first_trigger,
        args.trigger_bits
    );
    let mut plan = GeneratorPlan::test2(SocketAddr::new(args.dest, args.base_port), args.rate);
    plan.groups.clone_from(&args.group);
    plan.poisson = args.poisson;
    plan.water_mark_bytes = Some(args.water_mark).filter(|bytes| *bytes > 0);
    plan.flush_ms = args.flush_ms;
    plan.huge_every = args.huge_every;
    plan.huge_bytes = args.huge_size;
    plan.trigger_bits = args.trigger_bits;
    plan.first_trigger = args.first_trigger;
    plan.duration_ms = u64::try_from(args.duration.as_millis()).ok();
    plan.events = args.events;
    plan.spill_ms = args.spill;
    plan.faults.clone_from(&args.fault);
    plan.seed = args.seed;
    let out = args.out.clone();
    let sender = HadesSender { plan, out };
    carry_out(sender, args.format, To::Stdout, |record| {
        let report = &record.report;
        print_line(format_args!(
            "{} events, {} sub-events, {} datagrams ({} refused), {} in {:.2} s{}",
            report.events_sent,
            report.subevents_sent,
            report.datagrams_sent,
            report.datagrams_refused,
            bytes(report.bytes_sent as f64),
            record.envelope.duration_s,
            if report.behind {
                "; the emulator could not keep up"
            } else {
                ""
            },
        ));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_of_the_sizes_that_can_be_sent() {
        assert_eq!(parse_group("20:338"), Ok((20, 338, 0.0)));
        assert_eq!(parse_group("1:24:3.5"), Ok((1, 24, 3.5)));
        for wrong in [
            "0:116",
            "5000:116",
            "1:23",
            "1:16777217",
            "1:116:nan",
            "1",
            "1:2:3:4",
        ] {
            assert!(parse_group(wrong).is_err(), "{wrong}");
        }
    }
}
