//! T1 to T6: time-division UDP over a switch port that is made for it, and one sender flat out.

pub(super) mod dead_time;
pub(super) mod path;
pub(crate) mod search;
pub(super) mod windows;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::scan::ScanPoint;
use crate::net::{Interrupted, Skipped};
use crate::tdm::{Bench, Options, Scheme, port_burst_bytes};
use forebay_report::rows::Row;

/// Senders, each a host of its own.
const SENDERS: u16 = 3;
/// Length of a window.
const WINDOW: Duration = Duration::from_micros(2500);
/// Rate of the port, in bit/s.
const PORT_RATE_BPS: u64 = 1_000_000_000;
/// Bytes that the port holds where nothing else is said.
const PORT_BUFFER_BYTES: u64 = 128 << 10;
/// From what the clocks of senders are drawn.
const CLOCK_SEED: u64 = 1;
/// What cannot be measured where there are no namespaces.
const PORT: &str = "a switch port";

/// What is done at one point.
#[derive(Debug, Clone, Copy)]
pub(super) enum TdmTask {
    /// One session over the port.
    Session(dead_time::Point),
    /// Many of them, for the smallest dead time that does.
    Search(search::Search),
    /// One sender over loopback.
    Path(path::Path),
    /// One session over the port, of which windows or packets are kept.
    Recorded(windows::Recorded),
}

impl TdmTask {
    /// Why it cannot be measured here, if so.
    pub(super) fn trial(self) -> Option<Skipped> {
        let Self::Path(_) = self else {
            let made = options(Duration::ZERO, PORT_BUFFER_BYTES).and_then(|options| {
                Bench::make(&Options {
                    senders: 1,
                    ..options
                })
            });
            return made.err().map(|error| Skipped {
                what: PORT.to_owned(),
                reason: format!("{error:#}"),
            });
        };
        None
    }

    /// About how long it takes, in seconds.
    pub(super) fn seconds(self) -> f64 {
        match self {
            Self::Session(point) => point.seconds(),
            Self::Search(search) => search.seconds(),
            Self::Path(path) => path.seconds + 1.0,
            Self::Recorded(recorded) => recorded.seconds(),
        }
    }

    /// Its rows.
    pub(super) fn measure(self, run: usize, stop: &dyn Fn() -> bool) -> Result<Vec<Row>> {
        let one = |row: Result<Row>| Ok(vec![row?]);
        let rows = match self {
            Self::Session(point) => one(point.measure(run as u32)),
            Self::Search(search) => one(search.measure(run as u32, stop)),
            Self::Path(path) => one(path.measure()),
            Self::Recorded(recorded) => recorded.measure(run as u32),
        };
        // Ctrl-C ends both sides of a session too, and what they then say is no result.
        if stop() {
            return Err(Interrupted.into());
        }
        rows
    }
}

/// Points that cannot be measured here are left out; the reason is told once.
pub(super) fn is_skipped(point: &ScanPoint, skipped: &[Skipped]) -> bool {
    let needs_port = matches!(
        point.task,
        super::scan::Task::Tdm(TdmTask::Session(_) | TdmTask::Search(_) | TdmTask::Recorded(_))
    );
    needs_port && skipped.iter().any(|skipped| skipped.what == PORT)
}

fn options(duration: Duration, port_buffer_bytes: u64) -> Result<Options> {
    let program: PathBuf = std::env::current_exe().context("finding this program")?;
    Ok(Options {
        program,
        senders: SENDERS,
        port_rate_bps: PORT_RATE_BPS,
        port_buffer_bytes,
        port_burst_bytes: port_burst_bytes(port_buffer_bytes),
        window: Some(WINDOW),
        dead_time: None,
        duration,
        schemes: Vec::new(),
        repeat: 1,
        clock_seed: Some(CLOCK_SEED),
        sender_queue: None,
    })
}

/// What is told of one session, as cells.
fn cells(scheme: Scheme, session: &Value) -> Row {
    let number = |key: &str| session[key].as_f64().unwrap_or(f64::NAN);
    let lost = number("sent") - number("received");
    let mut row = Row::default();
    row.add("scheme", scheme.name());
    row.add("senders", number("senders"));
    row.add("window_us", number("window_ns") / 1e3);
    row.add("guard_us", number("guard_ns") / 1e3);
    row.add("sent", number("sent"));
    row.add("received", number("received"));
    row.add("lost", lost);
    row.add("lost_percent", 100.0 * lost / number("sent").max(1.0));
    for (cause, packets) in session["lost"].as_object().into_iter().flatten() {
        row.add(
            &format!("lost_{cause}"),
            packets.as_f64().unwrap_or(f64::NAN),
        );
    }
    row.add("port_drops", number("port_drops"));
    row.add("overlaps", number("overlaps"));
    row.add("port_used_percent", 100.0 * number("port_utilisation"));
    row.add("goodput_bps", number("goodput_bps"));
    row.add("lateness_us_p99", number("window_lateness_ns_p99") / 1e3);
    row.add("clock_error_us_p99", number("clock_error_ns_p99") / 1e3);
    row.add("clock_bound_us_p99", number("clock_bound_ns_p99") / 1e3);
    for key in ["late", "preempted", "cut", "carried", "residual_items"] {
        row.add(key, number(key));
    }
    row
}
