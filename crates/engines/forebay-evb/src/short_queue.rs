//! Whether the sources' queues last as long as an event may wait: what comes meanwhile must have a place.

use forebay_ledger::{Counter, LedgerReader};

/// Time over which the rate of a source is taken, in ns.
const WINDOW_NS: u64 = 1_000_000_000;
/// Time-outs that a queue has to last: while one event waits, another source may be late by as much.
const TIMEOUTS: f64 = 2.0;
/// Windows one after the other in which a queue must be too short: a backlog that comes at once is no rate.
const WINDOWS: u32 = 2;

/// Looks at the rates until there is something to say.
pub struct QueueWatch {
    timeout_s: f64,
    queues: Vec<Queue>,
    /// When the window at hand began.
    began_ns: Option<u64>,
    told: bool,
}

/// The queue of one source.
struct Queue {
    name: String,
    capacity_bytes: u64,
    /// Up to where the builder has taken it in.
    pulled: Counter,
    position: u64,
    /// Windows in which it was too short.
    windows: u32,
    /// The least rate of them, in bytes per second.
    rate: f64,
}

impl Queue {
    /// How much it should hold for its rate, as a multiple of what it does.
    fn shortage(&self, timeout_s: f64) -> f64 {
        TIMEOUTS * timeout_s * self.rate / self.capacity_bytes.max(1) as f64
    }

    /// A window has ended in which it moved on to `position`.
    fn end_window(&mut self, position: u64, seconds: f64, timeout_s: f64) {
        let before = self.rate;
        self.rate = position.saturating_sub(self.position) as f64 / seconds;
        self.position = position;
        if self.shortage(timeout_s) <= 1.0 {
            self.windows = 0;
            return;
        }
        if self.windows > 0 {
            self.rate = self.rate.min(before);
        }
        self.windows += 1;
    }
}

impl QueueWatch {
    /// Looks at the queues of all sources: the name, the bytes that each holds, and where the builder counts how far it has taken it in. Events are waited for
    /// as long as `timeout_ms`.
    pub fn new(timeout_ms: u64, queues: impl Iterator<Item = (String, u64, Counter)>) -> Self {
        let queues = queues.map(|(name, capacity_bytes, pulled)| Queue {
            name,
            capacity_bytes,
            pulled,
            position: 0,
            windows: 0,
            rate: 0.0,
        });
        Self {
            timeout_s: timeout_ms as f64 / 1e3,
            queues: queues.collect(),
            began_ns: None,
            told: false,
        }
    }

    /// Looks at nothing: where a full queue holds the input back, as that of a replay or of E-links, there is nothing to say.
    #[must_use]
    pub fn of_held_input() -> Self {
        Self {
            told: true,
            ..Self::new(0, std::iter::empty())
        }
    }

    /// What is to be said, once in a run.
    pub fn look(&mut self, now_ns: u64, reader: &LedgerReader) -> Option<String> {
        let ended = self
            .began_ns
            .is_none_or(|began| now_ns - began >= WINDOW_NS);
        if self.told || !ended {
            return None;
        }
        let snapshot = reader.snapshot().ok()?;
        self.end_window(now_ns, |pulled| snapshot.value(pulled))
    }

    fn end_window(&mut self, now_ns: u64, position: impl Fn(Counter) -> u64) -> Option<String> {
        let began_ns = self.began_ns.replace(now_ns);
        for queue in &mut self.queues {
            let position = position(queue.pulled);
            match began_ns {
                Some(began_ns) => {
                    let seconds = (now_ns - began_ns) as f64 / 1e9;
                    queue.end_window(position, seconds, self.timeout_s);
                }
                None => queue.position = position,
            }
        }
        let short: Vec<&Queue> = self
            .queues
            .iter()
            .filter(|queue| queue.windows >= WINDOWS)
            .collect();
        let shortage = |queue: &Queue| queue.shortage(self.timeout_s);
        let worst = short
            .iter()
            .max_by(|a, b| shortage(a).total_cmp(&shortage(b)))?;
        let text = self.warning(worst, short.len() - 1);
        self.told = true;
        Some(text)
    }

    fn warning(&self, worst: &Queue, others: usize) -> String {
        let Queue {
            name,
            capacity_bytes,
            rate,
            ..
        } = worst;
        let held_s = *capacity_bytes as f64 / rate;
        let needed = (TIMEOUTS * self.timeout_s * rate) as u64;
        let others = match others {
            0 => String::new(),
            others => format!("; {others} more queues are too short"),
        };
        format!(
            "{name}: its queue of {} holds {held_s:.1} s at {:.1} MB/s, less than twice the time-out of {:.1} s: while a source is silent, \
             data of others may be lost; set queue_bytes in [receiver] to at least {}, or lower timeout_ms (--timeout){others}",
            binary(*capacity_bytes),
            rate / 1e6,
            self.timeout_s,
            needed.next_power_of_two(),
        )
    }
}

/// A power of two in the largest unit that it has.
fn binary(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

#[cfg(test)]
mod tests {
    use forebay_ledger::SchemaBuilder;

    use super::*;

    /// What is said of 90 sources as a demonstration has them, in the given order of windows of rates, in triggers per second.
    fn said(ring_bytes: Option<u64>, rates: &[u64]) -> Vec<String> {
        let names: Vec<String> = (0..90).map(|index| format!("source{index}")).collect();
        let accounts = crate::declare(&mut SchemaBuilder::new("test"), &names);
        let pulled: Vec<Counter> = accounts.sources.iter().map(|it| it.pulled).collect();
        let bytes = ring_bytes.unwrap_or(16 << 20);
        let queues = names.into_iter().zip(&pulled);
        let queues = queues.map(|(name, pulled)| (name, bytes, *pulled));
        let mut watch = QueueWatch::new(1_000, queues);
        // 60 of 116 bytes, 20 of 338, 10 of 1,170, with what a ring adds.
        let bytes = |source: usize| match source {
            0..60 => 120,
            60..80 => 344,
            _ => 1_176,
        };
        let mut triggers = 0;
        let mut texts = Vec::new();
        for (window, rate) in [0].iter().chain(rates).enumerate() {
            triggers += rate;
            let position = |counter| {
                let at = pulled.iter().position(|word| *word == counter).unwrap();
                at as u64 + triggers * bytes(at)
            };
            texts.extend(watch.end_window(window as u64 * WINDOW_NS, position));
            if watch.told {
                break;
            }
        }
        texts
    }

    #[test]
    fn a_queue_that_is_too_short_is_said_once_with_its_remedy() {
        let texts = said(Some(4 << 20), &[4_000; 9]);
        assert_eq!(
            texts,
            [
                "source89: its queue of 4 MiB holds 0.9 s at 4.7 MB/s, less than twice the time-out of 1.0 s: while a source is silent, \
              data of others may be lost; set queue_bytes in [receiver] to at least 16777216, or lower timeout_ms (--timeout); \
              9 more queues are too short"
            ]
        );
    }

    #[test]
    fn the_default_is_long_enough_and_a_backlog_is_no_rate() {
        assert_eq!(said(None, &[4_000; 9]), [""; 0]);
        assert_eq!(said(Some(4 << 20), &[4_000, 400, 4_000, 400]), [""; 0]);
        assert_eq!(said(Some(16 << 20), &[8_000; 3]).len(), 1);
    }
}
