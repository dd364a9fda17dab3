//! What a sender says while it waits for the start of a session: a receiver begins when all of its senders are ready, and one of them may never be.

use super::Phase;

/// The first line comes after so long, in ns.
const FIRST_NS: u64 = 10_000_000_000;
/// From line to line, in ns.
const AGAIN_NS: u64 = 60_000_000_000;

/// Since when it waits.
#[derive(Default)]
pub struct Patience {
    since_ns: Option<u64>,
    due_ns: u64,
}

impl Patience {
    /// The line that is due, if one is.
    pub fn look(&mut self, phase: Phase, now_ns: u64) -> Option<String> {
        if phase != Phase::Ready {
            self.since_ns = None;
            return None;
        }
        let Some(since_ns) = self.since_ns else {
            (self.since_ns, self.due_ns) = (Some(now_ns), now_ns + FIRST_NS);
            return None;
        };
        if now_ns < self.due_ns {
            return None;
        }
        self.due_ns = now_ns + AGAIN_NS;
        Some(format!(
            "still waiting for the start, for {} s: the receiver begins when all of its senders are ready; its own lines say which are here and which are dead",
            now_ns.saturating_sub(since_ns) / 1_000_000_000
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_does_not_come_is_told_after_ten_seconds_and_each_minute() {
        let mut patience = Patience::default();
        let mut told = Vec::new();
        for second in 0..200 {
            // It starts once in between.
            let phase = if second == 150 {
                Phase::Running
            } else {
                Phase::Ready
            };
            if let Some(line) = patience.look(phase, second * 1_000_000_000) {
                told.push((second, line.contains(" for 10 s:")));
            }
        }
        let lines = [(10, true), (70, false), (130, false), (161, true)];
        assert_eq!(told, lines);
    }
}
