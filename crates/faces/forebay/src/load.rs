//! `forebay load`: packets for targets that send them back, and the echo at the far end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use forebay_report::text::si;
use forebay_run::record::Record;
use forebay_run_load::{
    EchoPlan, EchoSummary, LoadPlan, LoadSummary, PACKET_BYTES_MAX, Pace, Rate, Sizes,
    TargetSummary, Transport, csv,
};

use crate::output::{Format, parse_bytes, parse_duration, print_line};
use crate::record::{To, carry_out};

/// What is asked for where nothing is said.
const RATE: Rate = Rate::Bits(10_000_000);

/// Sends packets to targets that send them back, and tells what became of each and how long it took.
///
/// In an open loop (--rate) packets are due at fixed times, whatever is answered; in a closed one (--closed) so many are on their way at a time. Targets are called A, B, C … in their
/// order. Answers are matched by number: lost, late, duplicate, reordered and damaged ones are counted by name, and what was sent is what was answered and what was lost, exactly. Ctrl-C
/// ends it and closes the books. docs/LOAD.md tells what the numbers mean.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  forebay load --echo 127.0.0.1:9500 &\n  forebay load 127.0.0.1:9500 --rate 100M --size 1472 --duration 5s\n  forebay load 10.0.0.1:9500 10.0.0.2:9500 --rate 10M --rate B=100M --csv\n  forebay load 127.0.0.1:9500 --tcp --closed 8 --size 64..1472\n\nExit codes: 0 the books close, 1 they do not, 2 a target never answered and why is known, or nothing could be begun."
)]
pub(crate) struct LoadArgs {
    /// Where packets are sent; each sends back what comes, as --echo does.
    #[arg(value_name = "HOST:PORT", value_parser = crate::address::socket, required_unless_present = "echo")]
    targets: Vec<SocketAddr>,
    /// Is the far end instead: sends back what comes at this address, over UDP and TCP. Nobody is asked who he is: use a network of your own.
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::socket, conflicts_with_all = ["targets", "rate", "closed", "size", "tcp", "csv", "timeout"])]
    echo: Option<SocketAddr>,
    /// With --echo: answers controllers of ipbench at this address, as a target of theirs does at port 8037: how busy this host was during a test (`cpu_target_lukem`).
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::socket, requires = "echo")]
    ipbench: Option<SocketAddr>,
    /// Of each target, bits of payload in a second, as 100M, or packets in a second, as 50kpps; B=100M is that of target B alone (default: 10M).
    #[arg(long, value_name = "[NAME=]RATE", value_parser = named_rate)]
    rate: Vec<NamedRate>,
    /// So many packets of each target are on their way at a time, instead of a rate.
    #[arg(long, value_name = "N", conflicts_with = "rate", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    closed: Option<u32>,
    /// Bytes of payload of a packet, 24 to 65507: one size, several in turn as 64,512,1472, or a range as 64..1472.
    #[arg(long, value_name = "SIZES", default_value = "1472", value_parser = sizes)]
    size: Sizes,
    /// Packets one after the other on a connection of TCP to each target, instead of datagrams.
    #[arg(long)]
    tcp: bool,
    /// How long packets are sent (default: until Ctrl-C).
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// How long an answer is waited for: then its packet is lost.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    timeout: Duration,
    /// Prints the columns of ipbench, a line for each target.
    #[arg(long, conflicts_with = "format")]
    csv: bool,
    /// Directory for ledger and record, for `forebay audit`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A rate, of one target or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedRate {
    name: Option<String>,
    rate: Rate,
}

fn named_rate(text: &str) -> Result<NamedRate, String> {
    let (name, rate) = match text.split_once('=') {
        Some((name, rate)) => (Some(name.to_owned()), rate),
        None => (None, text),
    };
    let wrong = || {
        format!(
            "write {rate:?} as 100M (bits of payload in a second) or 50kpps (packets in a second), 1 at least"
        )
    };
    let (number, of) = match rate.strip_suffix("pps") {
        Some(number) => (number, Rate::Packets as fn(u64) -> Rate),
        None => (rate, Rate::Bits as fn(u64) -> Rate),
    };
    // `100MB` is of bytes, and no rate.
    let number = Some(number).filter(|number| !number.ends_with(['B', 'b']));
    let number = number.and_then(|number| parse_bytes(number).ok());
    let number = number.filter(|number| *number > 0);
    let rate = of(number.ok_or_else(wrong)?);
    Ok(NamedRate { name, rate })
}

fn sizes(text: &str) -> Result<Sizes, String> {
    let one = |text: &str| {
        let bytes = parse_bytes(text)?;
        let bytes = usize::try_from(bytes)
            .ok()
            .filter(|bytes| (24..=PACKET_BYTES_MAX).contains(bytes));
        bytes.ok_or_else(|| format!("{text} bytes: a packet has 24 to {PACKET_BYTES_MAX}"))
    };
    match text.split_once("..") {
        Some((least, most)) => {
            let (least, most) = (one(least)?, one(most)?);
            let range = Sizes::Range(least, most);
            (least <= most)
                .then_some(range)
                .ok_or_else(|| format!("{text}: write the smaller size first"))
        }
        None => Ok(Sizes::List(
            text.split(',').map(one).collect::<Result<_, _>>()?,
        )),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    let is_some = (Duration::from_millis(1)..=Duration::from_secs(86_400 * 365)).contains(&time);
    is_some
        .then_some(time)
        .ok_or_else(|| format!("{text:?}: from 1ms to a year"))
}

/// The place of a target, or of a client, by its name: A, B, … Z, AA, AB, …
pub(crate) fn position(name: &str) -> Option<usize> {
    let letters = name.bytes().map(|letter| {
        let is_letter = letter.is_ascii_uppercase();
        is_letter.then(|| usize::from(letter - b'A') + 1)
    });
    let number = letters
        .take(4)
        .try_fold(0, |sum, letter| Some(sum * 26 + letter?))?;
    number.checked_sub(1)
}

/// When packets of each target are sent.
fn paces(args: &LoadArgs) -> Result<Vec<Pace>> {
    let general = args.rate.iter().rev().find(|it| it.name.is_none());
    let pace = match args.closed {
        Some(packets) => Pace::Closed(packets),
        None => Pace::Open(general.map_or(RATE, |it| it.rate)),
    };
    let mut paces = vec![pace; args.targets.len()];
    for NamedRate { name, rate } in &args.rate {
        let Some(name) = name else { continue };
        match position(name).and_then(|at| paces.get_mut(at)) {
            Some(pace) => *pace = Pace::Open(*rate),
            None => bail!(
                "--rate {name}=…: there is no target {name}; the first is A, and there are {}",
                args.targets.len()
            ),
        }
    }
    Ok(paces)
}

pub(crate) fn run(args: &LoadArgs) -> Result<ExitCode> {
    if let Some(listen) = args.echo {
        let plan = EchoPlan {
            listen,
            ipbench: args.ipbench,
            duration: args.duration,
            out: args.out.clone(),
        };
        return carry_out(plan, args.format, To::Stdout, print_echo);
    }
    let paces = paces(args).context("rates")?;
    let plan = LoadPlan {
        targets: args.targets.iter().copied().zip(paces).collect(),
        transport: if args.tcp {
            Transport::Tcp
        } else {
            Transport::Udp
        },
        sizes: args.size.clone(),
        duration: args.duration,
        time_out: args.timeout,
        out: args.out.clone(),
    };
    if args.csv {
        let print_csv = |record: &Record<LoadSummary>| print_line(csv(&record.summary));
        return carry_out(plan, Format::Text, To::Stdout, print_csv);
    }
    carry_out(plan, args.format, To::Stdout, print_load)
}

fn print_load(record: &Record<LoadSummary>) {
    let Record { envelope, summary } = record;
    for target in &summary.targets {
        print_target(target);
    }
    print_line(format_args!(
        "{:.2} s over {}; this program used {:.0} % of a CPU, and the host was idle for {:.0} %",
        summary.sending_s,
        summary.transport,
        summary.sender_cpu_fraction * 100.0,
        summary.idle_fraction * 100.0,
    ));
    if let Some(limit) = &summary.limit {
        print_line(format_args!("this program was the limit: {limit}"));
    }
    for (name, lost) in &envelope.drops {
        print_line(format_args!("{name}: {}", lost.items));
    }
}

fn print_target(target: &TargetSummary) {
    let rate = |bps: f64| si(bps, "bit/s");
    let asked = target.requested_bps.map_or_else(
        || "a closed loop".to_owned(),
        |bps| format!("{} requested", rate(bps)),
    );
    print_line(format_args!(
        "{} {}: {asked}, {} sent, {} achieved",
        target.name,
        target.address,
        rate(target.sent_bps),
        rate(target.achieved_bps),
    ));
    print_line(format_args!(
        "  {} packets sent, {} answered, {} lost; {} late, {} duplicate, {} reordered, {} damaged, {} foreign",
        target.packets_sent,
        target.packets_answered,
        target.packets_lost,
        target.late,
        target.duplicate,
        target.reordered,
        target.corrupt,
        target.foreign,
    ));
    let rtt = &target.rtt_ns;
    let us = |ns: f64| ns / 1e3;
    if rtt.count > 0 {
        print_line(format_args!(
            "  round trip in us, {} by the clock of the {}: least {:.1}, mean {:.1}, p50 {:.1}, p99 {:.1}, p99.9 {:.1}, most {:.1}",
            rtt.count,
            rtt.source,
            us(rtt.min as f64),
            us(rtt.mean),
            us(rtt.p50 as f64),
            us(rtt.p99 as f64),
            us(rtt.p999 as f64),
            us(rtt.max as f64),
        ));
    }
    if let Some(error) = &target.error {
        print_line(format_args!("  {error} ({} times)", target.errors));
    }
}

fn print_echo(record: &Record<EchoSummary>) {
    let summary = &record.summary;
    for (name, echoed) in [("datagrams", summary.udp), ("reads of TCP", summary.tcp)] {
        print_line(format_args!(
            "{} {name} came ({} bytes), {} went back ({} bytes)",
            echoed.came, echoed.came_bytes, echoed.returned, echoed.returned_bytes,
        ));
    }
    if summary.socket_drops > 0 {
        print_line(format_args!(
            "{} datagrams were dropped in front of it by the kernel",
            summary.socket_drops
        ));
    }
    if let Some(tests) = summary.ipbench_tests {
        print_line(format_args!("tests of ipbench that were answered: {tests}"));
    }
    for (name, lost) in &record.envelope.drops {
        print_line(format_args!("{name}: {}", lost.items));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_bits_or_packets_and_of_a_target_or_all() {
        let of = |text: &str| named_rate(text).map(|it| (it.name.unwrap_or_default(), it.rate));
        assert_eq!(of("100M"), Ok((String::new(), Rate::Bits(100_000_000))));
        assert_eq!(of("B=50kpps"), Ok(("B".into(), Rate::Packets(50_000))));
        for wrong in ["", "0", "B=", "pps", "-5", "5 apples"] {
            assert!(named_rate(wrong).unwrap_err().contains("100M"), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_one_or_several_or_a_range() {
        assert_eq!(sizes("1472"), Ok(Sizes::List(vec![1472])));
        assert_eq!(sizes("64,1k"), Ok(Sizes::List(vec![64, 1000])));
        assert_eq!(sizes("64..1472"), Ok(Sizes::Range(64, 1472)));
        for wrong in ["", "23", "65508", "64,", "1472..64", "64..", "x"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn targets_are_found_by_their_letters() {
        let found = ["A", "Z", "AA", "AB", "BA"].map(position);
        assert_eq!(found, [0, 25, 26, 27, 52].map(Some));
        assert_eq!(["", "a", "A1"].map(position), [None; 3]);
    }
}
