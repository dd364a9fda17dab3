//! `forebay demo mux`: a card shared by two clients that behave and one that floods, and a policy that is changed half-way.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use forebay_bench::mux::demo::{self, DemoOptions, MuxDemoRecord, Span, SpanClient};
use forebay_report::text::si;
use forebay_run::Stop;
use forebay_run_mux::control::Changed;
use serde::Deserialize as _;

use crate::output::{Format, note_line, note_text, parse_bytes, print_line, settle_notes};
use crate::range;
use crate::record::{To, conclude, print_closing};

/// Nothing can be seen in less.
const DURATION_MIN: Duration = Duration::from_secs(2);

/// Runs the multiplexer on this machine: two clients that behave and one that floods share a card whose line out is narrow. Half-way the one that floods is held to a rate, as `forebay mux set` does it.
///
/// Generator, switch (a bridge of Linux) and card are network namespaces, joined by virtual cables; clients are processes of a user without rights, called A, B and C, which send back what
/// comes. C is asked for more than the line takes, so that the switch drops what A and B answer as well, and what is left waits long; after the change the multiplexer drops what is too much, under C's
/// own name. Every packet is counted on its whole way by the parties on both sides of each hop, and the kernels: who lost what, and where. Nothing of it touches the host's own network, and
/// nothing is left when it ends or is killed; Ctrl-C closes the books and tells what there is. Needs root, and unshare, setpriv and nsenter (Debian package util-linux), ip and tc (iproute2).
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudo forebay demo mux --duration 20s --flood 50M --limit 2M\n\nExit codes: 0 all books close and all parties agree to the packet, 1 they do not, 2 it could not be done."
)]
pub(crate) struct MuxArgs {
    /// Bits of UDP payload in a second that are asked of A and of B, as 2M.
    #[arg(long, default_value = "2M", value_name = "BITS", value_parser = bits)]
    rate: u64,
    /// The same of C.
    #[arg(long, default_value = "30M", value_name = "BITS", value_parser = bits)]
    flood: u64,
    /// What C may send after the change.
    #[arg(long, default_value = "5M", value_name = "BITS", value_parser = bits)]
    limit: u64,
    /// What the line out takes in a second, with all headers.
    #[arg(long, default_value = "15M", value_name = "BITS", value_parser = bits)]
    wire_rate: u64,
    /// How long packets are sent; the change is made half-way.
    #[arg(long, default_value = "16s", value_parser = range::duration)]
    duration: Duration,
    /// Directory for ledgers and records.
    #[arg(long, default_value = "forebay-demo-mux", value_name = "DIR")]
    out: PathBuf,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn bits(text: &str) -> Result<u64, String> {
    // `100MB` is of bytes, and none of these.
    let number = Some(text).filter(|text| !text.ends_with(['B', 'b']));
    let number = number.and_then(|text| parse_bytes(text).ok());
    let number = number.filter(|bits| (100_000..=1_000_000_000).contains(bits));
    number.ok_or_else(|| format!("write {text:?} as 4M, from 100k to 1G bits in a second"))
}

pub(crate) fn run(args: &MuxArgs) -> Result<ExitCode> {
    if args.duration < DURATION_MIN {
        bail!(
            "--duration {:?}: {DURATION_MIN:?} at least, as each half needs some time to settle",
            args.duration
        );
    }
    let options = DemoOptions {
        program: std::env::current_exe().context("finding this program")?,
        rate_bps: args.rate,
        flood_bps: args.flood,
        wire_bps: args.wire_rate,
        limit_bps: args.limit,
        duration: args.duration,
        out: args.out.clone(),
    };
    let is_text = args.format == Format::Text;
    if is_text {
        note_line(format_args!(
            "A and B are asked for {} each and C for {}, over a line of {}; after {:?} C is held to {}; records in {}",
            si(args.rate as f64, "bit/s"),
            si(args.flood as f64, "bit/s"),
            si(args.wire_rate as f64, "bit/s"),
            args.duration / 2,
            si(args.limit as f64, "bit/s"),
            args.out.display(),
        ));
    }
    let stop = Stop::of_process()?;
    let mut live = Live {
        is_on: is_text && std::io::stderr().is_terminal(),
        lines: 0,
    };
    let record = demo::run(&options, &stop, &mut |span| live.show(span));
    live.end();
    let record = record?;
    for warning in &record.envelope.warnings {
        note_line(format_args!("forebay: warning: {warning}"));
    }
    conclude(&record, args.format, To::Stdout, print)
}

/// A table that is written over, on a terminal.
struct Live {
    is_on: bool,
    /// Lines of it that stand there.
    lines: usize,
}

impl Live {
    fn show(&mut self, span: &Span) {
        if !self.is_on {
            return;
        }
        let mut text = self.back();
        let table = table(span);
        self.lines = table.len();
        for line in table {
            text += &format!("{line}\x1b[K\n");
        }
        note_text(&text);
    }

    /// To the begin of what stands there.
    fn back(&self) -> String {
        match self.lines {
            0 => String::new(),
            lines => format!("\r\x1b[{lines}A"),
        }
    }

    /// Takes it away, before what else is said.
    fn end(&mut self) {
        if self.lines > 0 {
            note_text(&format!("{}\x1b[J", self.back()));
            self.lines = 0;
        }
        settle_notes();
    }
}

/// What was counted in a time, client by client.
fn table(span: &Span) -> Vec<String> {
    let head = format!(
        "{:.1} s to {:.1} s, {}: {} packets dropped by the line",
        span.from_s, span.to_s, span.policy, span.line_dropped_packets
    );
    let columns = format!(
        "{:10}{:>14}{:>14}{:>7}{:>12}{:>12}  dropped by the multiplexer",
        "client", "asked", "got", "", "median", "99 %"
    );
    let clients = span.clients.iter().map(row);
    [head, columns].into_iter().chain(clients).collect()
}

fn row(client: &SpanClient) -> String {
    let drops = client.drops.iter();
    let drops: Vec<_> = drops
        .map(|(why, packets)| format!("{why} {packets}"))
        .collect();
    let name = match client.is_flood {
        true => format!("{} floods", client.name),
        false => client.name.clone(),
    };
    let share = 100.0 * client.got_bps / client.asked_bps.max(1.0);
    let time = |ns: u64| match client.rtt_ns.count {
        0 => "-".to_owned(),
        _ => format!("{:.2} ms", ns as f64 / 1e6),
    };
    format!(
        "{name:10}{:>14}{:>14}{share:>5.0} %{:>12}{:>12}  {}",
        si(client.asked_bps, "bit/s"),
        si(client.got_bps, "bit/s"),
        time(client.rtt_ns.p50),
        time(client.rtt_ns.p99),
        match drops.is_empty() {
            true => "nothing".to_owned(),
            false => drops.join(", "),
        }
    )
}

fn print(record: &MuxDemoRecord) {
    let summary = &record.summary;
    for span in summary.before.iter().chain(&summary.after) {
        table(span).iter().for_each(print_line);
    }
    for change in summary.changes.as_array().into_iter().flatten() {
        let at_s = change["at_s"].as_f64().unwrap_or_default();
        if let Ok(changed) = Changed::deserialize(change) {
            print_line(format_args!("after {at_s:.1} s of the daemon: {changed}"));
        }
    }
    print_line(format_args!(
        "all of it, {:.1} s: who lost what, and where",
        summary.sending_s
    ));
    for client in &summary.clients {
        let (sent, back) = (client.counts.generator_sent, client.counts.generator_came);
        print_line(format_args!(
            "{}: {sent} packets there, {back} back",
            client.name
        ));
        for (place, packets) in &client.drops {
            print_line(format_args!("{}: lost at {place}: {packets}", client.name));
        }
    }
    for (place, packets) in &summary.wire_drops {
        print_line(format_args!("of all clients: lost at {place}: {packets}"));
    }
    for check in &summary.disagreements {
        print_line(format_args!(
            "NOT THE SAME: {}: {} and {}",
            check.what, check.one, check.other
        ));
    }
    if summary.interrupted {
        print_line("Ended early.");
    }
    print_closing(record);
    print_line(&summary.seen);
}

#[cfg(test)]
mod tests {
    use forebay_bench::mux::demo::Rtt;

    use super::*;

    #[test]
    fn the_table_has_what_each_client_asked_got_waited_and_lost() {
        let client = |name: &str, is_flood| SpanClient {
            name: name.to_owned(),
            is_flood,
            asked_bps: 4e6,
            got_bps: 1e6,
            ..SpanClient::default()
        };
        let mut flood = client("C", true);
        flood.rtt_ns = Rtt {
            count: 9,
            p50: 139_000_000,
            p99: 141_250_000,
        };
        flood.drops = [("mux_transmit.sojourn".to_owned(), 12)].into();
        let span = Span {
            policy: "round-robin".to_owned(),
            from_s: 1.0,
            to_s: 2.04,
            clients: vec![client("A", false), flood],
            line_dropped_packets: 7,
        };
        let table = table(&span);
        for (at, parts) in [
            (
                0,
                &["1.0 s to 2.0 s, round-robin: 7 packets dropped by the line"][..],
            ),
            (2, &["A  ", " 25 %", "  -  ", "nothing"]),
            (
                3,
                &[
                    "C floods",
                    "139.00 ms",
                    "141.25 ms",
                    "mux_transmit.sojourn 12",
                ],
            ),
        ] {
            for part in parts {
                assert!(table[at].contains(part), "{part}: {table:#?}");
            }
        }
    }

    #[test]
    fn rates_are_of_bits() {
        assert_eq!(bits("4M"), Ok(4_000_000));
        for wrong in ["4MB", "99k", "2G", "x"] {
            assert!(bits(wrong).is_err(), "{wrong}");
        }
    }
}
