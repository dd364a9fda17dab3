//! `forebay probe`: records of the flows of a capture or an interface.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use forebay_report::text::{bytes, si};
use forebay_run::record::Record;
use forebay_run_probe::config::{OF_INTERFACES, ProbeSettings};
use forebay_run_probe::{Export, FilterRule, PluginChoice, ProbePlan, ProbeSummary};

use crate::flags::Flags;
use crate::output::{Format, print_line};
use crate::record::{To, carry_out as run_system, print_closing};

/// Reads packets of a capture or of a live interface, and writes a record of each flow: addresses, ports, protocol, packets and octets both ways, times, TCP flags, and why it ended.
///
/// A flow is both directions of a connection, the sender of its first packet being the source. Octets are those of IP packets, headers included. A flow ends by its time-outs, which
/// go by the clock of the capture, or of the host where an interface is read, by FIN of both sides or RST, when its room is needed, or with the run. Packets that are of no flow (not IP, on a link that is not read, cut within their headers, malformed)
/// are counted by reason. Of an interface, the kernel's own counts of packets and of those that it had no room for are in the books (`ring.kernel_ring_full`); nothing holds capture back: records that exporters cannot take in time
/// wait in a bounded queue, and are lost by name (`queue_full`) when that is full. A collector over TCP or TLS that is lost, or does not come through its hand-shake, is looked for again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  forebay probe --read packets.pcap --export flows.jsonl\n  forebay probe --read packets.pcap --export ipfix+udp://127.0.0.1:4739\n  forebay probe --interface eth0 --queues 2 --export ipfix+tcp://collector.example:4739 --out /tmp/probe\n  forebay probe --interface eth0 --export ipfix+tls://collector.example:4740 --export-ca authority.pem\n  ssh far tcpdump -w - | forebay probe --read - --export none --format json\n  forebay probe --read traffic:geant-like-morning:100000 --export flows.csv\n\nExit codes: 0 the books close; a capture that breaks off, an interface that goes away, and records that a collector did not take, are told and taint the run. 1 the books do not close, or somebody removed what was written. 2 it could not be done: no capture, no interface or no right to read it (CAP_NET_RAW), a file that cannot be written, a collector that is not there, does not come through the TLS hand-shake, or was lost."
)]
pub(crate) struct ProbeArgs {
    /// A capture, pcap or pcapng, compressed by gzip or Zstandard or not, with Ethernet, Linux cooked, loopback or raw IP frames; - is standard input; traffic:PROFILE, or traffic:PROFILE:PACKETS:SEED, is traffic that is made here, as `forebay emulate traffic --list` names it.
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "interface",
        conflicts_with = "interface"
    )]
    read: Option<PathBuf>,
    /// Where records go; may be given several times. A file that ends in .ipfix (RFC 5655), in .parquet or .csv for a table, or, with a JSON object in each line, in .jsonl; a collector as ipfix+udp://HOST:PORT
    /// (20,000 flows/s, since nothing holds a sender of UDP back; faster where records of an interface would wait for more than half a second), ipfix+tcp://HOST:PORT, or ipfix+tls://HOST:PORT (TLS 1.2
    /// or 1.3, port 4740 by convention), whose certificate has to name HOST; `none` forms and counts them.
    #[arg(long, value_name = "WHERE", default_value = "none")]
    export: Vec<Export>,
    /// What is read of flows beside their counts, with commas between: basic, pstats, bursts, rtt, entropy, dns, mdns, tls, quic, http, ssdp, ntp, dhcp.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    plugins: Vec<PluginChoice>,
    /// What becomes of packets before they are counted; may be given several times, and the first rule that matches counts: "drop src 10.0.0.0/8 port 53 udp". It begins with pass, drop, sample 1/N, trim BYTES or export;
    /// behind that may stand src, dst or net with an address or prefix, src-port, dst-port or port with a port or a range, and tcp, udp, sctp, icmp, icmp6 or proto NUMBER. What is dropped or left out is counted as filtered.
    #[arg(long, value_name = "RULE")]
    filter: Vec<FilterRule>,
    /// A capture file (pcapng) of the packets that pass the filter, as long as `trim` leaves them, with flow and rule in the comment of each. Where a rule of the filter begins with export, its packets alone, or with
    /// export BYTES so many bytes of each.
    #[arg(long, value_name = "FILE")]
    export_packets: Option<PathBuf>,
    /// Directory for ledger and record, for `forebay audit`; those of an earlier run in it are kept, with that run in their names.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    settings: Flags<ProbeSettings>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &ProbeArgs) -> Result<ExitCode> {
    let mut settings = ProbeSettings::default();
    args.settings.apply(&mut settings);
    if settings.interface.is_none()
        && let Some(flag) = OF_INTERFACES.iter().find_map(|key| args.settings.said(key))
    {
        bail!(
            "--{flag} is for an interface; give --interface in place of --read, or leave --{flag} out"
        );
    }
    settings.export.clone_from(&args.export);
    settings.plugins.clone_from(&args.plugins);
    settings.filter.clone_from(&args.filter);
    settings.export_packets.clone_from(&args.export_packets);
    let plan = ProbePlan {
        read: args.read.clone().unwrap_or_default(),
        out: args.out.clone(),
        settings,
    };
    carry_out(plan, args.format)
}

/// Runs a probe, and tells how it ended.
pub(crate) fn carry_out(plan: ProbePlan, format: Format) -> Result<ExitCode> {
    run_system(plan, format, To::Stdout, print_text)
}

fn print_text(record: &Record<ProbeSummary>) {
    let Record { envelope, summary } = record;
    print_line(format_args!(
        "{} packets ({}) in {:.2} s, {} a second",
        summary.packets_in,
        bytes(summary.octets_in as f64),
        envelope.duration_s,
        si(summary.packet_rate_hz, "packets"),
    ));
    for rule in &summary.filter {
        print_line(format_args!(
            "rule {:?}: {} packets, {} of them discarded",
            rule.rule, rule.packets, rule.packets_discarded,
        ));
    }
    for export in &summary.exports {
        print_line(format_args!(
            "{} flows with {} packets ({}) to {}",
            export.flows,
            export.packets,
            bytes(export.octets as f64),
            export.to,
        ));
    }
    if let Some(packets) = &summary.export_packets {
        print_line(format_args!(
            "{} packets ({}) to {}",
            packets.packets,
            bytes(packets.bytes as f64),
            packets.to,
        ));
    }
    print_closing(record);
}
