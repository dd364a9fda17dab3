//! How far a measurement is, and the time that it will still take, on standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A line that is overwritten on a terminal.
#[derive(Debug)]
pub struct Progress {
    done: usize,
    total: usize,
    expected: Duration,
    started: Instant,
    terminal: bool,
}

impl Progress {
    /// `total` steps that should take `expected` each.
    #[must_use]
    pub fn new(total: usize, expected: Duration) -> Self {
        Self {
            done: 0,
            total,
            expected,
            started: Instant::now(),
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Says what comes next.
    pub fn next(&mut self, what: &str) {
        let left = self.left().as_secs();
        let line = format!(
            "[{}/{}] {}:{:02} left  {what}",
            self.done + 1,
            self.total,
            left / 60,
            left % 60
        );
        let mut out = std::io::stderr().lock();
        // Nobody is harmed when the terminal is gone.
        let _ = if self.terminal {
            write!(out, "\r\x1b[K{line}")
        } else {
            writeln!(out, "{line}")
        };
        let _ = out.flush();
        self.done += 1;
    }

    /// Ends the line.
    pub fn end(&self) {
        if self.terminal {
            eprintln!();
        }
    }

    fn left(&self) -> Duration {
        let each = match self.done {
            0 => self.expected,
            done => self.started.elapsed() / done as u32,
        };
        each * self.total.saturating_sub(self.done) as u32
    }
}
