//! `forebay net perf`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use forebay_bench::messaging::{PerfMode, PerfPlan, PerfResult, PerfRole, measure};
use forebay_run::Host;
use forebay_run_net::hops::NET;
use forebay_run_net::{Address, ConnectionSummary};

use super::manner::{CommonArgs, message_bytes, rate, residual};
use crate::output::{Format, Notes, note_line, print_line};
use crate::session::BROKEN;

/// Measures messaging between end points: one side listens (recv or echo), the other one sends; or one side publishes (pub) to subscribers of the
/// other (sub).
///
/// To a side that echoes, one message goes at a time, and round-trip times are measured; else as many as go. Rates run from the first byte to
/// the last.
#[derive(Debug, clap::Args)]
#[command(after_help = with_exit_codes!("Example:
  forebay net perf tcp://127.0.0.1:7100 --role recv &
  forebay net perf tcp://127.0.0.1:7100 --role send --message-bytes 64 --duration 5s"))]
pub(crate) struct PerfArgs {
    /// Where the listening side listens.
    address: Address,
    /// What this side does.
    #[arg(long, value_enum)]
    role: RoleArg,
    /// Payload of a message.
    #[arg(long, value_name = "SIZE", default_value = "1Ki", value_parser = message_bytes)]
    message_bytes: u32,
    /// How a sender's payloads get into buffers; the default copies messages that share a buffer with others, and leaves those in place that fill one.
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// Tags, used in turn; both sides of publish and subscribe are told the same number.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    tags: u64,
    /// Subscribers that the publisher waits for, or that a side of subscribers is; each has a connection of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    subscribers: u32,
    /// The subscribers deal the tags out among them; else each of them has all.
    #[arg(long)]
    deal_tags: bool,
    /// How long the sender sends or the publisher publishes; how long a side that takes waits for one, at its begin and after one was lost. It is a
    /// failure (exit code 2) when none came at all.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = crate::range::duration)]
    duration: Duration,
    /// Who receives reads every byte.
    #[arg(long)]
    read_all: bool,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleArg {
    /// Connects and sends.
    Send,
    /// Listens and discards.
    Recv,
    /// Listens and sends back.
    Echo,
    /// Listens and publishes.
    Pub,
    /// Connects as subscribers and discards.
    Sub,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// Each payload is copied into a buffer.
    Buffered,
    /// Payloads lie in the buffers already.
    InPlace,
    /// Payloads stay in memory of the sender's; over shared memory the receiver reads them there.
    Unbuffered,
}

pub(crate) fn run(args: &PerfArgs) -> Result<ExitCode> {
    let host = Host::of_process(NET, Notes)?;
    let settings = args.common.hosted(&host)?;
    let mode = match args.mode {
        Some(ModeArg::Buffered) => PerfMode::Buffered,
        Some(ModeArg::InPlace) => PerfMode::InPlace,
        Some(ModeArg::Unbuffered) => PerfMode::Unbuffered,
        None if args.message_bytes > settings.messages.buffer_bytes / 2 => PerfMode::InPlace,
        None => PerfMode::Buffered,
    };
    let plan = PerfPlan {
        address: args.address.clone(),
        role: match args.role {
            RoleArg::Send => PerfRole::Send,
            RoleArg::Recv => PerfRole::Recv,
            RoleArg::Echo => PerfRole::Echo,
            RoleArg::Pub => PerfRole::Pub,
            RoleArg::Sub => PerfRole::Sub,
        },
        message_bytes: args.message_bytes,
        mode,
        tags: args.tags,
        subscribers: args.subscribers,
        deal_tags: args.deal_tags,
        duration: args.duration,
        read_all: args.read_all,
        settings,
    };
    let result = measure(&plan, |address| {
        note_line(format_args!("forebay: listening on {address}"));
    })?;
    match args.common.format {
        Format::Json => print_line(serde_json::to_string(&result)?),
        Format::Text if result.nobody_came.is_some() => {}
        Format::Text => tell(&result),
    }
    if let Some(why) = result.nobody_came {
        bail!(why);
    }
    if let Some(cut) = cut_off(&result) {
        bail!(
            "the measurement was cut off: the connection with {} ended by {}, and what was measured until then is no result",
            cut.peer,
            cut.end
        );
    }
    Ok(if result.end_point.is_closed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(BROKEN)
    })
}

/// A connection that carried what is measured, and did not end in order. Strangers that came by are none.
fn cut_off(result: &PerfResult) -> Option<&ConnectionSummary> {
    let carried = |one: &&ConnectionSummary| one.messages_sent + one.messages_received > 0;
    let mut connections = result.end_point.connections.iter().filter(carried);
    connections.find(|one| one.end != ConnectionSummary::IN_ORDER)
}

fn tell(result: &PerfResult) {
    print_line(format_args!(
        "{} messages of {} bytes in {:.3} s: {}; {:.2} s of CPU",
        result.messages,
        result.message_bytes,
        result.elapsed_s,
        rate(result.message_rate_hz, result.goodput_bps),
        result.cpu_s,
    ));
    if let Some(rtt) = &result.rtt_ns {
        print_line(format_args!(
            "round trip: p50 {} ns, p90 {} ns, p99 {} ns, p99.9 {} ns, max {} ns over {}",
            rtt.p50, rtt.p90, rtt.p99, rtt.p999, rtt.max, rtt.samples
        ));
    }
    print_line(format_args!(
        "lost by name {}, unconfirmed {}, residual {}",
        result.dropped,
        result.unconfirmed,
        residual(&result.end_point)
    ));
    let end_point = &result.end_point;
    let [missing, missing_bytes] = [end_point.missing_at_peers, end_point.missing_bytes_at_peers];
    if missing > 0 || missing_bytes > 0 {
        print_line(format_args!(
            "sent and, as the receivers say, not taken by them: {missing}, bytes {missing_bytes}"
        ));
    }
}
