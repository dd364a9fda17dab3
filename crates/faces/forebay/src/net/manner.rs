//! What the commands of messaging share: settings, tags, the summary.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use forebay_ledger::NO_SUBSCRIBER;
use forebay_run::Host;
use forebay_run_net::section::BUFFER_BYTES_MOST;
use forebay_run_net::{Config, NetRecord, NetSummary, Settings, Slow};

use crate::output::{Format, counted, note_line, parse_bytes, parse_duration};
use crate::remedy::told;
use crate::session::gone;
use forebay_report::text::{bytes, si};

use super::security::SecurityArgs;

/// How long an end in order may take.
pub(super) const END_LIMIT: Duration = Duration::from_secs(10);
/// Shortest time that a peer is waited for.
const BLOCK_MIN: Duration = Duration::from_millis(1);

/// Buffers and books.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CommonArgs {
    /// Payload that a buffer takes: a message of that size fits. Small messages are gathered in it.
    #[arg(long, value_name = "SIZE", default_value = "64Ki", value_parser = buffer_bytes)]
    buffer_bytes: u32,
    /// Buffers of a connection: those being filled, waiting and on their way.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    buffer_count: u32,
    /// A buffer goes out when so much is in it, full or not.
    #[arg(long, value_name = "SIZE", value_parser = buffer_bytes)]
    water_mark: Option<u32>,
    /// A buffer goes out at the latest so long after its first message.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = parse_duration)]
    flush: Duration,
    /// How long a peer that takes nothing, or is not there, is waited for; from 1ms.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = block)]
    block: Duration,
    /// How long a wait looks again and again before it sleeps.
    #[arg(long, value_name = "TIME", default_value = "50us", value_parser = parse_duration)]
    spin: Duration,
    /// Most connections at a time; further ones are told that it is busy.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: u16,
    /// Counts by tag, too.
    #[arg(long)]
    per_tag: bool,
    /// Directory for the ledger and the record of this end, for `forebay top` and `forebay audit`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Serves Prometheus' text at GET /metrics there, as 127.0.0.1:9403.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    #[command(flatten)]
    security: SecurityArgs,
    /// Text for people on standard error, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// What becomes of messages for which this subscriber is too slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SlowArg {
    /// The publisher waits, as long as its own --block says; then the connection is ended, and what waited is lost by name.
    #[default]
    Block,
    /// What is new is dropped.
    DropNewest,
    /// What has waited longest is dropped.
    DropOldest,
    /// The connection is ended at once, and what waited is lost by name.
    Disconnect,
}

impl From<SlowArg> for Slow {
    fn from(slow: SlowArg) -> Self {
        match slow {
            SlowArg::Block => Self::Block,
            SlowArg::DropNewest => Self::DropNewest,
            SlowArg::DropOldest => Self::DropOldest,
            SlowArg::Disconnect => Self::Disconnect,
        }
    }
}

fn buffer_bytes(text: &str) -> Result<u32, String> {
    size(text, BUFFER_BYTES_MOST)
}

/// Without any time to wait nobody could be connected to.
fn block(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        time if time < BLOCK_MIN => Err(
            "it is too short for a connection to be made, or room for a message to be found; write 1ms or more".into(),
        ),
        time => Ok(time),
    }
}

/// Reads the size of a message.
pub(super) fn message_bytes(text: &str) -> Result<u32, String> {
    size(text, BUFFER_BYTES_MOST)
}

fn size(text: &str, most: u64) -> Result<u32, String> {
    match parse_bytes(text)? {
        0 => Err("it is too small; write a size from 1 byte on".into()),
        bytes if bytes > most => Err(format!("it is too large; write a size up to {most} bytes")),
        bytes => Ok(bytes as u32),
    }
}

/// Reads a tag: decimal, or hexadecimal after `0x`.
pub(crate) fn tag(text: &str) -> Result<u64, String> {
    let read = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|error| format!("it is no tag: {error}; write it as 42 or 0x1000000000000a42"))
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl CommonArgs {
    /// What the end point of a process is told.
    pub(crate) fn hosted(&self, host: &Host) -> Result<Settings> {
        Ok(self.settings()?.hosted(host, self.metrics)?)
    }

    /// What the end point is told.
    pub(crate) fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            messages: Config {
                buffer_bytes: self.buffer_bytes,
                buffer_count: self.buffer_count,
                water_mark_bytes: self.water_mark.unwrap_or(u32::MAX),
                flush_ns: ns(self.flush),
                block_ns: ns(self.block),
                slow: Slow::Block,
            },
            connections_max: self.connections.into(),
            spin_ns: ns(self.spin),
            per_tag: self.per_tag,
            out: self.out.clone(),
            security: self.security.read()?,
            ..Settings::default()
        })
    }
}

/// The exit code of an end that sends: where messages are unconfirmed that is what its caller has to know, also when the receiver wanted no more.
pub(super) fn sent(summary: &NetSummary, carried: Result<()>, code: ExitCode) -> Result<ExitCode> {
    match carried {
        Err(error) if summary.unconfirmed > 0 => {
            note_line(format_args!("forebay: {}", told(&error)));
            Ok(code)
        }
        carried => carried.map(|()| code),
    }
}

/// What the books leave over, for people: messages alone, unless there is more to say.
pub(super) fn residual(record: &NetRecord) -> String {
    let books = &record.envelope.books;
    let mut text = books.residual_items.to_string();
    if books.residual_bytes > 0 {
        text += &format!(" and {}", counted(books.residual_bytes, "byte"));
    }
    if books.left_items > 0 || books.left_bytes > 0 {
        let left = counted(books.left_items, "message");
        text += &format!(
            ", {left} of {} left inside",
            counted(books.left_bytes, "byte")
        );
    }
    if !record.is_closed() {
        text += ": THE BOOKS DO NOT CLOSE";
    }
    text
}

/// What became of the messages: how many there were, how many were lost, and how many nobody had subscribed to, which is no loss.
fn fates(summary: &NetRecord) -> Vec<String> {
    let by_reason = summary.envelope.drops_by_reason();
    let (unwanted, lost): (Vec<_>, Vec<_>) = by_reason
        .into_iter()
        .partition(|(reason, _)| reason.ends_with(NO_SUBSCRIBER));
    let not_subscribed: u64 = unwanted.iter().map(|(_, items)| *items).sum();
    let mut lines = vec![format!(
        "forebay: {} ({}), {} lost by name, residual {}",
        counted(summary.messages, "message"),
        bytes(summary.bytes as f64),
        summary.dropped.saturating_sub(not_subscribed),
        residual(summary),
    )];
    if summary.messages + summary.dropped == 0 {
        lines.push("forebay: nothing came: there was no message".to_owned());
    }
    if not_subscribed > 0 {
        let messages = counted(not_subscribed, "message");
        lines.push(format!(
            "forebay: {messages} not subscribed: nobody had asked for their tags"
        ));
    }
    for (reason, items) in lost {
        let messages = counted(items, "message");
        let reason = reason.split('.').next_back().unwrap_or(reason);
        lines.push(format!("forebay: {messages} lost: {reason}"));
    }
    lines
}

/// Tells how it went, on standard error.
pub(super) fn tell_people(summary: &NetRecord) {
    fates(summary).iter().for_each(note_line);
    if summary.dropped_at_peers > 0 {
        note_line(format_args!(
            "forebay: dropped by the senders, as this side was too slow (--slow) or they were too long for it (--buffer-bytes): {}",
            counted(summary.dropped_at_peers, "message")
        ));
    }
    let missing_bytes = summary.missing_bytes_at_peers;
    if summary.missing_at_peers > 0 || missing_bytes > 0 {
        note_line(format_args!(
            "forebay: sent and, as the receivers say, not taken by them: {}, {}",
            counted(summary.missing_at_peers, "message"),
            counted(missing_bytes, "byte"),
        ));
    }
    if summary.unconfirmed > 0 {
        note_line(format_args!(
            "forebay: unconfirmed: {} ({}) went out, and the receiver ended the connection before it confirmed them: each was written there, or not",
            counted(summary.unconfirmed, "message"),
            counted(summary.unconfirmed_bytes, "byte"),
        ));
    }
    for (reason, count) in &summary.turned_away {
        note_line(format_args!(
            "forebay: {count} who came were not let in: {reason}"
        ));
    }
    if summary.accept_errors > 0 {
        note_line(format_args!(
            "forebay: the system refused {} to take a connection in",
            counted(summary.accept_errors, "time")
        ));
    }
    if summary.not_followed > 0 {
        note_line(format_args!(
            "forebay: on the bus, and too many to be followed: {}",
            counted(summary.not_followed, "publisher")
        ));
    }
    for (reason, count) in &summary.parted {
        let connections = counted(*count, "connection");
        note_line(format_args!("forebay: {connections} ended: {reason}"));
    }
    if let Some(gone) = gone(&summary.output_removed) {
        note_line(format_args!("forebay: {gone}"));
    }
}

/// A rate for people.
pub(super) fn rate(hz: f64, bps: f64) -> String {
    format!("{}, {}", si(hz, "messages/s"), si(bps, "bit/s"))
}

#[cfg(test)]
mod tests {
    use forebay_ledger::Lost;
    use forebay_run::record::Envelope;

    use super::*;

    #[test]
    fn what_nobody_subscribed_to_is_not_lost() {
        let mut envelope = Envelope::of_process("net", "net-1", 1.0);
        for (name, items) in [("publish.no_subscriber.all", 500), ("send.slow.peer0", 3)] {
            let lost = Lost {
                items,
                ..Lost::default()
            };
            envelope.drops.insert(name.to_owned(), lost);
        }
        let summary = NetSummary {
            messages: 7,
            dropped: 503,
            ..NetSummary::default()
        };
        let lines = fates(&NetRecord { envelope, summary });
        assert!(
            lines[0].contains("7 messages") && lines[0].contains(" 3 lost by name"),
            "{lines:?}"
        );
        assert!(
            lines[1].contains("500 messages not subscribed"),
            "{lines:?}"
        );
        assert_eq!(lines[2..], ["forebay: 3 messages lost: slow"]);
    }
}
