//! One measurement of messaging: two processes of the real program.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::child::{Ended, Says};
use super::ground::{Ground, Side};
use super::{Interrupted, Skipped};
use forebay_report::rows::Row;

/// The cell that is not 0 when a side says that its books do not close.
pub(crate) const BOOKS_OPEN: &str = "books_open";
/// How long a side may take beyond the time that is measured.
const SLACK: Duration = Duration::from_secs(25);
/// How long a trial of a backend sends.
const TRIAL: Duration = Duration::from_millis(20);

/// Which end point sends what to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// As many messages as go, from one sender to one receiver.
    Stream,
    /// The same, from memory of the sender's.
    Unbuffered {
        /// The receiver reads every byte.
        read_all: bool,
    },
    /// Each message comes back before the next one goes.
    RoundTrip,
    /// A publisher, and a process with all subscribers.
    PubSub {
        /// Tags, used in turn.
        tags: u64,
        /// Subscribers, each with a connection of its own.
        subscribers: u32,
        /// The tags are dealt out among them.
        deal_tags: bool,
    },
}

impl Pattern {
    /// How it is named in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Unbuffered { .. } => "unbuffered",
            Self::RoundTrip => "rtt",
            Self::PubSub { .. } => "pub_sub",
        }
    }

    fn role(self, side: Side) -> &'static str {
        match (self, side) {
            (Self::PubSub { .. }, Side::Listener) => "pub",
            (Self::PubSub { .. }, Side::Sender) => "sub",
            (Self::RoundTrip, Side::Listener) => "echo",
            (_, Side::Listener) => "recv",
            (_, Side::Sender) => "send",
        }
    }

    fn arguments(self, side: Side) -> Vec<String> {
        let with = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        match (self, side) {
            (
                Self::PubSub {
                    tags,
                    subscribers,
                    deal_tags,
                },
                _,
            ) => {
                let numbers = [
                    format!("--tags={tags}"),
                    format!("--subscribers={subscribers}"),
                ];
                let dealt = deal_tags.then(|| "--deal-tags".to_owned());
                numbers.into_iter().chain(dealt).collect()
            }
            (Self::Unbuffered { .. }, Side::Sender) => with(&["--mode", "unbuffered"]),
            (Self::Unbuffered { read_all: true }, Side::Listener) => with(&["--read-all"]),
            _ => Vec::new(),
        }
    }
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Perf {
    /// Scheme of the address.
    pub backend: String,
    /// Payload that a buffer takes, in bytes.
    pub buffer_bytes: u32,
    /// Buffers of a connection.
    pub buffer_count: u32,
    /// Payload of a message, in bytes.
    pub message_bytes: u32,
    /// Which end point sends what to which.
    pub pattern: Pattern,
    /// How long the sender sends.
    pub duration: Duration,
}

impl Perf {
    /// Carries it out once: message rate and goodput as the receiver saw them, round-trip times as the sender did, processor time of
    /// both, and what their books say.
    ///
    /// # Errors
    /// A side fails, or does not get on, or the user wants it to end.
    pub fn measure(&self, ground: &Ground<'_>) -> Result<Row> {
        ground.unless_stopped(self.carry_out(ground))
    }

    fn carry_out(&self, ground: &Ground<'_>) -> Result<Row> {
        let listener = self.command(ground, Side::Listener, &self.place(ground));
        let mut listener = ground.start(
            "the listening side",
            listener,
            Side::Listener,
            Says::OnStderr,
        )?;
        let stop = ground.stop();
        let address = listener.line(SLACK, stop, |line| {
            let found = line.strip_prefix("forebay: listening on ")?;
            Some(found.trim().to_owned())
        })?;
        let sender = self.command(ground, Side::Sender, &address);
        let sender = ground.start("the connecting side", sender, Side::Sender, Says::OnStderr)?;
        let connected = sender.end(self.duration + SLACK, stop)?;
        let (connected, one_closed) = result(connected, "the connecting side")?;
        let listened = listener.end(SLACK, stop)?;
        let (listened, other_closed) = result(listened, "the listening side")?;
        let mut row = match self.pattern {
            Pattern::PubSub { .. } => self.row(&listened, &connected),
            _ => self.row(&connected, &listened),
        };
        row.add(
            BOOKS_OPEN,
            f64::from(u8::from(!(one_closed && other_closed))),
        );
        Ok(row)
    }

    /// Whether messages come back.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.pattern == Pattern::RoundTrip
    }

    /// Its settings as cells.
    #[must_use]
    pub fn labels(&self) -> Row {
        let mut row = Row::default();
        row.add("pattern", self.pattern.name());
        row.add("backend", self.backend.as_str());
        row.add("buffer_bytes", f64::from(self.buffer_bytes));
        row.add("buffer_count", f64::from(self.buffer_count));
        row.add("message_bytes", f64::from(self.message_bytes));
        row.add("duration_s", self.duration.as_secs_f64());
        row
    }

    /// Why this backend cannot be used here, if it cannot.
    ///
    /// # Errors
    /// The user wants it to end.
    pub fn trial(backend: &str, ground: &Ground<'_>) -> Result<Option<Skipped>> {
        if let Some(excluded) = ground.excludes(backend) {
            return Ok(Some(excluded));
        }
        let perf = Self {
            backend: backend.to_owned(),
            buffer_bytes: 1024,
            buffer_count: 4,
            message_bytes: 64,
            pattern: Pattern::Stream,
            duration: TRIAL,
        };
        match perf.measure(ground) {
            Ok(_) => Ok(None),
            Err(error) if error.is::<Interrupted>() => Err(error),
            Err(error) => Ok(Some(Skipped {
                what: backend.to_owned(),
                reason: format!("{error:#}"),
            })),
        }
    }

    /// An address to listen on: the system chooses the port, a name is one of this process's own.
    fn place(&self, ground: &Ground<'_>) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let backend = &self.backend;
        if backend == "shm" {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            return format!("{backend}://sweep-{}-{number}", std::process::id());
        }
        format!("{backend}://{}", ground.listening())
    }

    fn command(&self, ground: &Ground<'_>, side: Side, address: &str) -> std::process::Command {
        let mut command = ground.forebay(side);
        let role = self.pattern.role(side);
        let duration = match role {
            "send" | "pub" => self.duration,
            // How long it waits for one that sends.
            _ => SLACK,
        };
        command
            .args(["net", "perf", address, "--role", role, "--format", "json"])
            .args(["--message-bytes", &self.message_bytes.to_string()])
            .args(["--buffer-bytes", &self.buffer_bytes.to_string()])
            .args(["--buffer-count", &self.buffer_count.to_string()])
            .args(["--duration", &format!("{}ms", duration.as_millis())])
            .args(self.pattern.arguments(side))
            .args(ground.security());
        command
    }

    fn row(&self, sent: &Value, received: &Value) -> Row {
        let mut row = Row::default();
        let number = |of: &Value, name: &str| of[name].as_f64().unwrap_or_default();
        let both = |name: &str| number(sent, name) + number(received, name);
        let rates = if self.is_answered() { sent } else { received };
        for name in [
            "messages",
            "bytes",
            "elapsed_s",
            "message_rate_hz",
            "goodput_bps",
        ] {
            row.add(name, number(rates, name));
        }
        if let (true, Value::Object(rtt)) = (self.is_answered(), &sent["rtt_ns"]) {
            for (name, value) in rtt {
                let name = if name == "samples" {
                    "rtt_samples".to_owned()
                } else {
                    format!("rtt_ns_{}", name.replace('.', ""))
                };
                row.add(&name, value.as_f64().unwrap_or_default());
            }
        }
        row.add("cpu_sender_s", number(sent, "cpu_s"));
        row.add("cpu_receiver_s", number(received, "cpu_s"));
        for name in ["dropped", "unconfirmed", "residual_items", "residual_bytes"] {
            row.add(name, both(name));
        }
        if matches!(self.pattern, Pattern::PubSub { .. }) {
            add_memory(&mut row, "publisher", &sent["memory"]);
            add_memory(&mut row, "subscriber", &received["memory"]);
        }
        row
    }
}

/// A side's memory as cells: `publisher_connected_resident_bytes` and so on.
fn add_memory(row: &mut Row, side: &str, memory: &Value) {
    let moments = memory.as_object().into_iter().flatten();
    for (moment, occupied) in moments {
        for (what, bytes) in occupied.as_object().into_iter().flatten() {
            let bytes = bytes.as_f64().unwrap_or_default();
            row.add(&format!("{side}_{moment}_{what}"), bytes);
        }
    }
}

/// The JSON of a side, and whether it says that its books close: else it exits with 1, whatever it is that does not fit.
fn result(ended: Ended, name: &str) -> Result<(Value, bool)> {
    if !matches!(ended.code, Some(0 | 1)) || ended.stdout.trim().is_empty() {
        bail!("{}", ended.complaint(name));
    }
    let told = serde_json::from_str(&ended.stdout);
    let told = told.with_context(|| format!("reading the result of {name}"))?;
    Ok((told, ended.code == Some(0)))
}
