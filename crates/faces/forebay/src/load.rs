//! `forebay load`: packets for targets that send them back, and the echo at the far end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use forebay_report::text::si;
use forebay_run::record::Record;
use forebay_run_load::{
    Address, EchoPlan, EchoSummary, LoadPlan, LoadSummary, PACKET_BYTES_MAX, Pace, Rate, RawPlan,
    Sizes, Station, TargetSummary, Transport, csv,
};
use forebay_wire::load::ETHERTYPE;

use crate::output::{Format, parse_bytes, parse_duration, print_line};
use crate::record::{To, carry_out};

/// What is asked for where nothing is said.
const RATE: Rate = Rate::Bits(10_000_000);
const PACKET_BYTES: usize = 1_472;
const FRAME_BYTES: usize = 1_514;
/// Types of frames that the kernel reads itself, or takes apart: IPv4, ARP, IPv6, and VLAN tags.
const KERNELS_TYPES: [u16; 5] = [0x0800, 0x0806, 0x86dd, 0x8100, 0x88a8];

/// Sends packets to targets that send them back, and tells what became of each and how long it took.
///
/// In an open loop (--rate) packets are due at fixed times, whatever is answered; in a closed one (--closed) so many are on their way at a time. Targets are called A, B, C … in their
/// order. Answers are matched by number: lost, late, duplicate, reordered and damaged ones are counted by name, and what was sent is what was answered and what was lost, exactly. Ctrl-C
/// ends it and closes the books. docs/LOAD.md tells what the numbers mean.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  forebay load --echo 127.0.0.1:9500 &\n  forebay load 127.0.0.1:9500 --rate 100M --size 1472 --duration 5s\n  forebay load 10.0.0.1:9500 10.0.0.2:9500 --rate 10M --rate B=100M --csv\n  forebay load 127.0.0.1:9500 --tcp --closed 8 --size 64..1472\n  forebay load --raw eth1 02:00:00:00:00:02 --rate 100M --size 60..1514\n\nExit codes: 0 the books close, 1 they do not, 2 a target never answered and why is known, an interface went down, or nothing could be begun."
)]
pub(crate) struct LoadArgs {
    /// Where packets are sent; each sends back what comes, as --echo does. With --raw, addresses of Ethernet, as 02:00:00:00:00:02.
    #[arg(value_name = "HOST:PORT|MAC", value_parser = target, required_unless_present = "echo")]
    targets: Vec<Address>,
    /// Is the far end instead: sends back what comes at this address, over UDP and TCP, and with --raw frames that come for the interface. Nobody is asked who he is: use a network of your own.
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::socket, conflicts_with_all = ["targets", "rate", "closed", "size", "tcp", "csv", "timeout"])]
    #[allow(clippy::option_option, reason = "an option without its value")]
    echo: Option<Option<SocketAddr>>,
    /// With --echo: answers controllers of ipbench at this address, as a target of theirs does at port 8037: how busy this host was during a test (`cpu_target_lukem`).
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::socket, requires = "echo", conflicts_with_all = ["targets", "rate", "closed", "size", "tcp", "csv", "timeout"])]
    ipbench: Option<SocketAddr>,
    /// Of each target, bits of payload (with --raw, of frames) in a second, as 100M, or packets in a second, as 50kpps; B=100M is that of target B alone (default: 10M).
    #[arg(long, value_name = "[NAME=]RATE", value_parser = named_rate)]
    rate: Vec<NamedRate>,
    /// So many packets of each target are on their way at a time, instead of a rate.
    #[arg(long, value_name = "N", conflicts_with = "rate", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    closed: Option<u32>,
    /// Bytes of payload of a packet, 24 to 65507, or with --raw of a frame without its check sum, 60 at least: one size, several in turn as 64,512,1472, or a range as 64..1472
    /// (default: 1472, and 1514 with --raw).
    #[arg(long, value_name = "SIZES", value_parser = sizes)]
    size: Option<Sizes>,
    /// Packets one after the other on a connection of TCP to each target, instead of datagrams.
    #[arg(long)]
    tcp: bool,
    /// Frames of Ethernet on this interface, instead of datagrams; needs CAP_NET_RAW.
    #[arg(long, value_name = "INTERFACE", conflicts_with = "tcp")]
    raw: Option<String>,
    /// With --raw: the type of the frames, none that the kernel reads. Two generators on one interface need different ones (default: 0x88b5, for local experiments).
    #[arg(long, value_name = "TYPE", value_parser = ethertype, requires = "raw", conflicts_with = "tcp")]
    ethertype: Option<u16>,
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

/// Reads `HOST:PORT`, or six bytes of an address of Ethernet.
fn target(text: &str) -> Result<Address, String> {
    let has_six = text.split(':').count() == 6 && !text.contains('[');
    if has_six {
        return text.parse::<Station>().map(Address::Station);
    }
    crate::address::socket(text).map(Address::Socket)
}

fn ethertype(text: &str) -> Result<u16, String> {
    let hexadecimal = text.strip_prefix("0x");
    let number = hexadecimal.map_or_else(|| text.parse(), |it| u16::from_str_radix(it, 16));
    // `0x+88b5` is none.
    let number = number.ok().filter(|_| !text.contains('+'));
    let number = number.filter(|number| *number >= 0x0600);
    let number = number.ok_or_else(|| format!("{text:?}: write it as 0x88b5, 0x0600 to 0xffff"))?;
    let is_kernels = KERNELS_TYPES.contains(&number);
    (!is_kernels).then_some(number).ok_or_else(|| {
        format!("{text}: the kernel reads such frames itself; for local experiments are 0x88b5 and 0x88b6")
    })
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
    let raw = args.raw.clone().map(|interface| RawPlan {
        interface,
        ethertype: args.ethertype.unwrap_or(ETHERTYPE),
    });
    if let Some(listen) = args.echo {
        if listen.is_none() && raw.is_none() {
            bail!("--echo: write --echo ADDR:PORT, or --echo --raw INTERFACE, or both");
        }
        let plan = EchoPlan {
            listen,
            raw,
            ipbench: args.ipbench,
            duration: args.duration,
            out: args.out.clone(),
        };
        return carry_out(plan, args.format, To::Stdout, print_echo);
    }
    let paces = paces(args).context("rates")?;
    let bytes = if raw.is_some() {
        FRAME_BYTES
    } else {
        PACKET_BYTES
    };
    let plan = LoadPlan {
        targets: args.targets.iter().copied().zip(paces).collect(),
        transport: match raw {
            Some(raw) => Transport::Raw(raw),
            None if args.tcp => Transport::Tcp,
            None => Transport::Udp,
        },
        sizes: args
            .size
            .clone()
            .unwrap_or_else(|| Sizes::List(vec![bytes])),
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
        match summary.transport {
            "raw" => "raw frames",
            other => other,
        },
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
    let us = |ns: Option<u64>| ns.unwrap_or(0) as f64 / 1e3;
    if rtt.count > 0 {
        print_line(format_args!(
            "  round trip in us, {} by the clock of the {}: least {:.1}, mean {:.1}, p50 {:.1}, p99 {:.1}, p99.9 {:.1}, most {:.1}",
            rtt.count,
            rtt.source,
            us(rtt.min),
            rtt.mean.unwrap_or(0.0) / 1e3,
            us(rtt.p50),
            us(rtt.p99),
            us(rtt.p999),
            us(rtt.max),
        ));
    }
    if let Some(error) = &target.error {
        print_line(format_args!("  {error} ({} times)", target.errors));
    }
}

fn print_echo(record: &Record<EchoSummary>) {
    let summary = &record.summary;
    let sockets = [("datagrams", summary.udp), ("reads of TCP", summary.tcp)];
    let sockets = sockets.into_iter().filter(|_| summary.address.is_some());
    let frames = summary.raw.as_ref().map(|raw| ("frames", raw.echoed));
    for (name, echoed) in sockets.chain(frames) {
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
    if let Some(raw) = summary.raw.as_ref().filter(|raw| raw.ring_drops > 0) {
        print_line(format_args!(
            "{} frames were dropped in front of it by the kernel",
            raw.ring_drops
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
    fn targets_are_ports_of_hosts_or_stations() {
        assert!(matches!(target("127.0.0.1:9500"), Ok(Address::Socket(_))));
        assert!(matches!(target("[::1]:9500"), Ok(Address::Socket(_))));
        assert!(matches!(
            target("02:00:00:00:00:02"),
            Ok(Address::Station(_))
        ));
        let group = target("ff:ff:ff:ff:ff:ff").unwrap_err();
        assert!(group.contains("one station"), "{group}");
        assert!(target("127.0.0.1").unwrap_err().contains("127.0.0.1:9400"));
    }

    #[test]
    fn types_of_frames_are_none_of_the_kernels() {
        assert_eq!(ethertype("0x88B5"), Ok(0x88b5));
        assert_eq!(ethertype("34998"), Ok(0x88b6));
        for wrong in ["", "0x", "88b5", "0x5ff", "0x10000", "0x+88b5", "-1"] {
            assert!(ethertype(wrong).unwrap_err().contains("0x0600"), "{wrong}");
        }
        for kernels in ["0x0800", "0x86dd", "0x8100"] {
            assert!(ethertype(kernels).unwrap_err().contains("experiments"));
        }
    }

    #[test]
    fn targets_are_found_by_their_letters() {
        let found = ["A", "Z", "AA", "AB", "BA"].map(position);
        assert_eq!(found, [0, 25, 26, 27, 52].map(Some));
        assert_eq!(["", "a", "A1"].map(position), [None; 3]);
    }
}
