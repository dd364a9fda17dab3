//! `forebay tdm plan`: the schedule, without running it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use forebay_run_tdm::{Plan, PlanInput, PlanReason, wall_clock_is_disciplined};
use serde_json::json;

use super::port::PortArgs;
use crate::output::{Format, note_line, parse_duration, print_line};
use forebay_report::text::si;

/// Shows windows, guard and pace for a port, each with its reason, and the schedule as a picture; nothing is sent.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay tdm plan --link-rate 1G --port-buffer 128K --senders 3 --packet-bytes 1472 --svg plan.svg\n\nExit codes: 0 there is a plan, 2 there is none; the error says what would be right."
)]
pub(crate) struct PlanArgs {
    /// Senders that take part, 1 to 1024; else as many as there are shares, or 2.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    senders: Option<u16>,
    /// Parts of the port, one for each sender, as 1,2,1; else all alike.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',')]
    shares: Vec<u16>,
    #[command(flatten)]
    port: PortArgs,
    /// How late senders wake up (99 %); a session measures it.
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = parse_duration)]
    lateness: Duration,
    /// Bound of the error of senders' clocks; a session measures it.
    #[arg(long, value_name = "TIME", default_value = "5us", value_parser = parse_duration)]
    clock_error: Duration,
    /// Write the schedule of two cycles as a picture.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &PlanArgs) -> Result<ExitCode> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let shares = if args.shares.is_empty() {
        vec![1; usize::from(args.senders.unwrap_or(2))]
    } else {
        args.shares.clone()
    };
    if let Some(senders) = args.senders
        && usize::from(senders) != shares.len()
    {
        bail!(
            "--senders is {senders} and --shares has {} parts; write a part for each sender, or leave one of them out",
            shares.len()
        );
    }
    let input = PlanInput {
        shares,
        lateness_ns: nanos(args.lateness),
        clock_error_ns: nanos(args.clock_error),
        ..args.port.input()
    };
    let mut plan = Plan::compute(&input)?;
    plan.reasons.push(clock_reason(&input));
    match args.format {
        Format::Json => print_line(as_json(&plan, &input)),
        Format::Text => print(&plan),
    }
    for warning in &plan.warnings {
        note_line(format_args!("forebay: warning: {warning}"));
    }
    if let Some(path) = &args.svg {
        std::fs::write(path, picture(&plan)).map_err(|error| {
            anyhow!(
                "--svg {}: {error}; give a file in a directory that is there, has room and can be written to",
                path.display()
            )
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What all times of a plan are by, and how well senders are taken to know it.
fn clock_reason(input: &PlanInput) -> PlanReason {
    let wall = if wall_clock_is_disciplined() {
        "this host's is"
    } else {
        "this host's is not"
    };
    PlanReason {
        what: "clock",
        value: format!("{} us", input.clock_error_ns as f64 / 1e3),
        why: format!(
            "taken for the bound of the error of senders' clocks (--clock-error); all times are by the receiver's monotonic clock, which senders learn by exchanges of readings, and by wall clocks where those of both hosts are disciplined: {wall}"
        ),
    }
}

fn as_json(plan: &Plan, input: &PlanInput) -> serde_json::Value {
    let slots = plan.slots.iter().zip(&input.shares).enumerate();
    let slots: Vec<_> = slots
        .map(|(sender, (slot, share))| {
            json!({"sender": sender, "share": share, "offset_ns": slot.offset_ns, "window_ns": slot.window_ns, "packets": slot.packets})
        })
        .collect();
    let reasons: serde_json::Map<_, _> = plan
        .reasons
        .iter()
        .map(|reason| {
            (
                reason.what.replace(' ', "_"),
                json!({"value": reason.value, "why": reason.why}),
            )
        })
        .collect();
    json!({
        "mode": plan.mode.name(),
        "senders": plan.slots.len(),
        "window_ns": plan.slots.iter().map(|slot| slot.window_ns).max(),
        "guard_ns": plan.guard_ns,
        "cycle_ns": plan.cycle_ns,
        "pacing_ns": plan.pace_ps as f64 / 1e3,
        "packet_bytes": plan.packet_bytes,
        "packet_ns": plan.packet_ps as f64 / 1e3,
        "burst_packets": plan.burst_packets,
        "catch_up_packets": plan.catch_up_packets,
        "port_utilisation": plan.utilisation,
        "goodput_bps": plan.goodput_bps,
        "slots": slots,
        "reasons": reasons,
        "warnings": plan.warnings,
    })
}

fn print(plan: &Plan) {
    for reason in &plan.reasons {
        print_line(format_args!(
            "{:<9}{:<18} {}",
            reason.what, reason.value, reason.why
        ));
    }
    print_line(format_args!(
        "cycle    {} us: {:.2} % of the port is used, {} of payload",
        plan.cycle_ns as f64 / 1e3,
        plan.utilisation * 100.0,
        si(plan.goodput_bps as f64, "bit/s"),
    ));
    for (sender, slot) in plan.slots.iter().enumerate().take(ROWS_MAX) {
        print_line(format_args!(
            "sender {sender:<4} |{}| {} packets from {} us",
            bar(plan, sender),
            slot.packets,
            slot.offset_ns as f64 / 1e3
        ));
    }
    if plan.slots.len() > ROWS_MAX {
        print_line(format_args!("… and {} more", plan.slots.len() - ROWS_MAX));
    }
}

/// Lines of the schedule in the terminal.
const ROWS_MAX: usize = 32;
/// Characters of a cycle.
const BAR: usize = 60;

/// One sender's window in the cycle.
fn bar(plan: &Plan, sender: usize) -> String {
    let cycle = plan.cycle_ns.max(1) as f64;
    let Some(slot) = plan.slots.get(sender) else {
        return String::new();
    };
    let at = |ns: u64| (ns as f64 / cycle * BAR as f64).round() as usize;
    let (begin, end) = (
        at(slot.offset_ns),
        at(slot.offset_ns + slot.window_ns).max(at(slot.offset_ns) + 1),
    );
    (0..BAR)
        .map(|x| if (begin..end).contains(&x) { '#' } else { '.' })
        .collect()
}

/// Two cycles: a row for each sender, a box for each window.
fn picture(plan: &Plan) -> String {
    let (left, width, row) = (90.0, 900.0, 22.0);
    let height = 60.0 + row * plan.slots.len() as f64;
    let span = 2.0 * plan.cycle_ns.max(1) as f64;
    let x = |ns: f64| left + ns / span * width;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{left}\" y=\"18\">{} senders, {}: cycle {} us, guard {} us, {:.1} % of the port</text>\n",
        left + width + 20.0,
        plan.slots.len(),
        plan.mode,
        plan.cycle_ns as f64 / 1e3,
        plan.guard_ns as f64 / 1e3,
        plan.utilisation * 100.0
    );
    for (sender, slot) in plan.slots.iter().enumerate() {
        let y = 30.0 + row * sender as f64;
        let hue = sender * 47 % 360;
        let _ = writeln!(
            svg,
            "<text x=\"4\" y=\"{}\">sender {sender}</text>",
            y + 14.0
        );
        for cycle in 0..2 {
            let begin = x(slot.offset_ns as f64 + f64::from(cycle) * plan.cycle_ns as f64);
            let long = slot.window_ns as f64 / span * width;
            let _ = writeln!(
                svg,
                "<rect x=\"{begin:.2}\" y=\"{y}\" width=\"{long:.2}\" height=\"16\" fill=\"hsl({hue},60%,55%)\"><title>sender {sender}, {} packets in {} us</title></rect>",
                slot.packets,
                slot.window_ns as f64 / 1e3
            );
        }
    }
    let y = height - 12.0;
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"{y}\">0</text><text x=\"{}\" y=\"{y}\" text-anchor=\"end\">{} us</text>",
        left + width,
        span / 1e3
    );
    svg.push_str("</svg>\n");
    svg
}
