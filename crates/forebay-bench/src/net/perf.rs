//! One measurement of messaging: two processes of the real program.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::child::{Ended, Running, Says};
use super::ground::{Ground, Side};
use super::{Interrupted, Skipped};
use crate::rows::Row;

/// How long a side may take beyond the time that is measured.
const SLACK: Duration = Duration::from_secs(25);
/// How long a trial of a backend sends.
const TRIAL: Duration = Duration::from_millis(20);

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
    /// Each message comes back before the next one goes.
    pub answered: bool,
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
        let role = if self.answered { "echo" } else { "recv" };
        let listener = &mut self.command(ground, Side::Listener, &self.place(ground), role);
        let mut listener = Running::start("the listening side", listener, Says::OnStderr)?;
        let stop = ground.stop();
        let address = listener.line(SLACK, stop, |line| {
            let found = line.strip_prefix("forebay: listening on ")?;
            Some(found.trim().to_owned())
        })?;
        let sender = &mut self.command(ground, Side::Sender, &address, "send");
        let sender = Running::start("the sending side", sender, Says::OnStderr)?;
        let sent = result(sender.end(self.duration + SLACK, stop)?, "the sending side")?;
        let received = result(listener.end(SLACK, stop)?, "the listening side")?;
        Ok(self.row(&sent, &received))
    }

    /// Its settings as cells.
    #[must_use]
    pub fn labels(&self) -> Row {
        let mut row = Row::default();
        row.add("pattern", if self.answered { "rtt" } else { "stream" });
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
        let perf = Self {
            backend: backend.to_owned(),
            buffer_bytes: 1024,
            buffer_count: 4,
            message_bytes: 64,
            answered: false,
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
        if backend.ends_with("shm") {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            return format!("{backend}://sweep-{}-{number}", std::process::id());
        }
        format!("{backend}://{}:0", ground.listener())
    }

    fn command(
        &self,
        ground: &Ground<'_>,
        side: Side,
        address: &str,
        role: &str,
    ) -> std::process::Command {
        let mut command = ground.forebay(side);
        let duration = match side {
            // How long it waits for a sender.
            Side::Listener => SLACK,
            Side::Sender => self.duration,
        };
        command
            .args(["net", "perf", address, "--role", role, "--format", "json"])
            .args(["--message-bytes", &self.message_bytes.to_string()])
            .args(["--buffer-bytes", &self.buffer_bytes.to_string()])
            .args(["--buffer-count", &self.buffer_count.to_string()])
            .args(["--duration", &format!("{}ms", duration.as_millis())])
            .args(ground.security());
        command
    }

    fn row(&self, sent: &Value, received: &Value) -> Row {
        let mut row = Row::default();
        let number = |of: &Value, name: &str| of[name].as_f64().unwrap_or_default();
        let both = |name: &str| number(sent, name) + number(received, name);
        let rates = if self.answered { sent } else { received };
        for name in [
            "messages",
            "bytes",
            "elapsed_s",
            "message_rate_hz",
            "goodput_bps",
        ] {
            row.add(name, number(rates, name));
        }
        if let (true, Value::Object(rtt)) = (self.answered, &sent["rtt_ns"]) {
            for (name, value) in rtt {
                let name = if name == "samples" {
                    "rtt_samples".to_owned()
                } else {
                    format!("rtt_ns_{}", name.replace('.', ""))
                };
                row.add(&name, value.as_f64().unwrap_or_default());
            }
        }
        row.add("cpu_sender_s", number(sent, "cpu_seconds"));
        row.add("cpu_receiver_s", number(received, "cpu_seconds"));
        for name in ["dropped", "unconfirmed", "residual_items", "residual_bytes"] {
            row.add(name, both(name));
        }
        row
    }
}

/// The JSON of a side; one whose books do not close exits with 1 and tells it there.
fn result(ended: Ended, name: &str) -> Result<Value> {
    if !matches!(ended.code, Some(0 | 1)) || ended.stdout.trim().is_empty() {
        bail!("{}", ended.complaint(name));
    }
    serde_json::from_str(&ended.stdout).with_context(|| format!("reading the result of {name}"))
}
