//! One line a second while a run goes on.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use forebay_ledger::{Balance, LedgerReader};

use crate::output::{bytes, si};

/// How often the line is written.
const PERIOD: Duration = Duration::from_secs(1);

/// Writes to standard error what a run does; overwrites its line on a terminal.
pub(crate) struct Live {
    quiet: bool,
    terminal: bool,
    next: Instant,
    started: Instant,
    last: Option<(Instant, u64, u64)>,
}

impl Live {
    /// A line each second, or nothing at all.
    pub(crate) fn new(quiet: bool) -> Self {
        let now = Instant::now();
        Self {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            next: now + PERIOD,
            started: now,
            last: None,
        }
    }

    /// To be called often.
    pub(crate) fn tick(&mut self, reader: &LedgerReader) {
        let now = Instant::now();
        if self.quiet || now < self.next {
            return;
        }
        self.next = now + PERIOD;
        let Ok(snapshot) = reader.snapshot() else {
            return;
        };
        let line = self.line(now, &snapshot.balance());
        let mut out = std::io::stderr().lock();
        // Nobody is harmed when the terminal is gone.
        let _ = if self.terminal {
            write!(out, "\r\x1b[K{line}")
        } else {
            writeln!(out, "{line}")
        };
        let _ = out.flush();
    }

    /// Ends the line on a terminal.
    pub(crate) fn end(&self) {
        if !self.quiet && self.terminal {
            eprintln!();
        }
    }

    fn line(&mut self, now: Instant, balance: &Balance) -> String {
        let sum = |place: &str| {
            let lines = balance.accounts.iter().filter(|line| line.place == place);
            lines.fold((0, 0), |sum, line| {
                (sum.0 + line.outgoing.items, sum.1 + line.outgoing.bytes)
            })
        };
        let (events, event_bytes) = sum("events");
        let (then, before, bytes_before) = self
            .last
            .replace((now, events, event_bytes))
            .unwrap_or((self.started, 0, 0));
        let seconds = (now - then).as_secs_f64().max(1e-3);
        let rate = (events - before) as f64 / seconds;
        let data_rate = (event_bytes - bytes_before) as f64 / seconds;
        let held: i64 = balance
            .accounts
            .iter()
            .filter(|line| line.place == "builder")
            .map(|line| line.held.bytes)
            .sum();
        let in_flight: i64 = balance
            .links
            .iter()
            .filter(|line| line.place == "sink_queue")
            .map(|line| line.in_flight.bytes)
            .sum();
        let dropped: u64 = balance
            .accounts
            .iter()
            .flat_map(|line| &line.dropped)
            .map(|drop| drop.items)
            .sum::<u64>()
            + balance
                .links
                .iter()
                .flat_map(|line| &line.dropped)
                .map(|drop| drop.items)
                .sum::<u64>();
        format!(
            "{:5.1} s  {events} events  {}  {}/s  in builder {}  in sinks' queues {}  dropped {dropped}",
            (now - self.started).as_secs_f64(),
            si(rate, "Hz"),
            bytes(data_rate),
            bytes(held as f64),
            bytes(in_flight as f64),
        )
    }
}
