//! The test bench of time-division UDP: hosts, a switch with a shallow port, and one session of each scheme.

mod ground;
pub(crate) mod loopback;
pub(crate) mod packets;
mod session;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Map, Value, json};

use forebay_report::conditions::Conditions;
use forebay_report::statistics::quartiles;
use ground::Ground;
pub(crate) use session::Kept;
pub use session::Scheme;

/// Least depth of the port's token bucket, in bytes: a timer that is late by the time of 10 packets at 1 Gb/s.
const PORT_BURST_BYTES_MIN: u64 = 16 << 10;

/// Bytes that a port with such a buffer lets pass at once where nobody says otherwise: a quarter of it, as much as a sender that was held up catches up at once. A real
/// port is held up by nobody; where its timer is, and may make up for less than the senders do that are held up with it, its queue fills more at each time.
#[must_use]
pub fn port_burst_bytes(port_buffer_bytes: u64) -> u64 {
    PORT_BURST_BYTES_MIN.max(port_buffer_bytes / 4)
}

/// What the bench is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// This program.
    pub program: PathBuf,
    /// Senders, each a host of its own.
    pub senders: u16,
    /// Rate of the port, in bit/s.
    pub port_rate_bps: u64,
    /// Bytes that the port's queue holds.
    pub port_buffer_bytes: u64,
    /// Bytes that the port's token bucket lets pass at once: how far its timer may be late, not a buffer.
    pub port_burst_bytes: u64,
    /// Length of a window; none: computed.
    pub window: Option<Duration>,
    /// The guard; none: computed.
    pub dead_time: Option<Duration>,
    /// How long senders send, in each session.
    pub duration: Duration,
    /// What is compared.
    pub schemes: Vec<Scheme>,
    /// Sessions of each scheme; the median is told.
    pub repeat: u32,
    /// Clocks of senders are off by milliseconds and by up to 100 ppm, from this seed; none: they are the host's.
    pub clock_seed: Option<u64>,
    /// Queue of each sender's interface, as for `tc qdisc replace … root`; none: the kernel's choice, which keeps no launch times.
    pub sender_queue: Option<String>,
}

/// What came of all schemes.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// One object for each scheme: medians over its sessions.
    pub schemes: Vec<Value>,
    /// Every session, in the order they were made.
    pub sessions: Vec<Value>,
    /// The port: what stands for the switch.
    pub port: Value,
    /// Machine, load, date.
    pub conditions: Conditions,
}

/// Hosts and a switch, for sessions that are asked for one by one.
pub(crate) struct Bench {
    options: Options,
    ground: Ground,
}

impl Bench {
    /// Makes hosts and switch.
    pub(crate) fn make(options: &Options) -> Result<Self> {
        Ok(Self {
            options: options.clone(),
            ground: Ground::make(options)?,
        })
    }

    /// One session with this guard (none: computed); gives its scheme's object. Clocks are those of `round`.
    pub(crate) fn session(
        &self,
        scheme: Scheme,
        dead_time: Option<Duration>,
        round: u32,
    ) -> Result<Value> {
        let options = Options {
            dead_time,
            ..self.options.clone()
        };
        session::run(&options, &self.ground, (scheme, round), &Kept::Nothing)
    }

    /// The same with a computed guard, of which the receiver keeps something in files.
    pub(crate) fn kept_session(&self, scheme: Scheme, round: u32, kept: &Kept) -> Result<Value> {
        session::run(&self.options, &self.ground, (scheme, round), kept)
    }
}

/// What the books of a program leave over or inside, in items; 1 where it is bytes alone, or not told.
pub(crate) fn left_over(told: &Value) -> u64 {
    let number = |key: &str| told[key].as_u64().unwrap_or(1);
    let items = number("residual_items") + number("left_items");
    let bytes = number("residual_bytes") + number("left_bytes");
    items.max(bytes.min(1))
}

/// Runs each scheme in turn, round after round, so that what else the host does falls upon all of them.
///
/// # Errors
/// Namespaces cannot be made, or a session does not end as it should.
pub fn run(options: &Options, mut tell: impl FnMut(&str)) -> Result<Report> {
    let conditions = Conditions::now();
    let ground = Ground::make(options)?;
    let mut sessions = Vec::new();
    for round in 0..options.repeat {
        for scheme in &options.schemes {
            let session = session::run(options, &ground, (*scheme, round), &Kept::Nothing)?;
            tell(&format!(
                "{} {}/{}: {} of {} packets lost, {:.1} % of the port",
                scheme.name(),
                round + 1,
                options.repeat,
                session["sent"].as_u64().unwrap_or(0) - session["received"].as_u64().unwrap_or(0),
                session["sent"],
                session["port_utilisation"].as_f64().unwrap_or(0.0) * 100.0
            ));
            sessions.push(session);
        }
    }
    let schemes = options.schemes.iter().map(|scheme| {
        let of: Vec<&Value> = sessions
            .iter()
            .filter(|session| session["scheme"] == scheme.name())
            .collect();
        summed_up(&of)
    });
    Ok(Report {
        schemes: schemes.collect(),
        port: json!({
            "rate_bps": options.port_rate_bps,
            "buffer_bytes": options.port_buffer_bytes,
            "token_bucket_bytes": options.port_burst_bytes,
            "emulated_by": "tbf on a bridge port between network namespaces",
        }),
        sessions,
        conditions,
    })
}

/// The median of each number; of packets the sums, so that the account of all sessions closes.
fn summed_up(sessions: &[&Value]) -> Value {
    let mut summed = Map::new();
    let Some(Value::Object(first)) = sessions.first() else {
        return Value::Null;
    };
    for (key, value) in first {
        let told = match value {
            Value::Number(_) if COUNTS.contains(&key.as_str()) => {
                json!(
                    sessions
                        .iter()
                        .filter_map(|session| session[key].as_i64())
                        .sum::<i64>()
                )
            }
            Value::Number(number) => {
                let values = sessions.iter().filter_map(|session| session[key].as_f64());
                let median = quartiles(values).map_or(0.0, |it| it.median);
                if number.is_f64() {
                    json!(median)
                } else {
                    json!(median.round() as i64)
                }
            }
            Value::Object(causes) => {
                let sums = causes.keys().map(|cause| {
                    let sum: u64 = sessions
                        .iter()
                        .filter_map(|session| session[key][cause].as_u64())
                        .sum();
                    (cause.clone(), json!(sum))
                });
                Value::Object(sums.collect())
            }
            other => other.clone(),
        };
        summed.insert(key.clone(), told);
    }
    summed.insert("sessions".to_owned(), json!(sessions.len()));
    Value::Object(summed)
}

/// Numbers that are added up over sessions.
const COUNTS: [&str; 5] = [
    "sent",
    "received",
    "residual_items",
    "overlaps",
    "port_drops",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_that_do_not_close_are_left_over_whatever_of_them_does_not() {
        let books = |numbers: [u64; 4]| {
            let [residual_items, residual_bytes, left_items, left_bytes] = numbers;
            json!({"residual_items": residual_items, "residual_bytes": residual_bytes, "left_items": left_items, "left_bytes": left_bytes})
        };
        for (numbers, left) in [
            ([0; 4], 0),
            ([3, 9, 0, 0], 3),
            ([0, 9, 0, 0], 1),
            ([0, 0, 2, 0], 2),
            ([0, 0, 0, 7], 1),
        ] {
            assert_eq!(left_over(&books(numbers)), left, "{numbers:?}");
        }
        assert!(left_over(&json!({"residual_items": 0})) > 0, "not told");
    }

    #[test]
    fn packets_are_added_up_and_all_else_is_a_median() {
        let session = |sent: u64, used: f64, tail: u64| json!({"scheme": "slots", "senders": 3, "sent": sent, "port_utilisation": used, "lost": {"tail": tail}});
        let sessions = [
            session(10, 0.5, 1),
            session(20, 0.9, 2),
            session(30, 0.6, 4),
        ];
        let summed = summed_up(&sessions.iter().collect::<Vec<_>>());
        assert_eq!(summed["sent"], 60);
        assert_eq!(summed["senders"], 3);
        assert_eq!(summed["port_utilisation"], 0.6);
        assert_eq!(summed["lost"]["tail"], 7);
        assert_eq!(
            (&summed["scheme"], &summed["sessions"]),
            (&json!("slots"), &json!(3))
        );
    }
}
