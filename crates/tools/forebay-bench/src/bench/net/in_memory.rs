//! Over shared memory.

use anyhow::{Context, Result};

use super::{Bench, GOODPUT, Goal, KIB, Line, Pattern, Peer, RATE, RTT, Turn, ours};

const SHM_HZ: f64 = 20e6;
const SHM_RTT_US: f64 = 1.0;
/// Times what memory gives to a program that copies, for messages that stay where they are.
const OF_MEMCPY: f64 = 5.0;

impl Bench<'_> {
    pub(super) fn in_memory(&self) -> Result<Line> {
        let rate = self.alternate(&[self.perf("shm", 64, Pattern::Stream)], RATE, 1.0)?;
        let line = Line::new("shm, messages of 64 B", "1/s", ours(&rate)?);
        Ok(line.goal(Goal::AtLeast(SHM_HZ)))
    }

    pub(super) fn round_trip_in_memory(&self) -> Result<Line> {
        let rtt = self.alternate(&[self.perf("shm", 64, Pattern::RoundTrip)], RTT, 1e-3)?;
        let line = Line::new("shm, median round trip of 64 B", "µs", ours(&rtt)?);
        Ok(line.goal(Goal::AtMost(SHM_RTT_US)))
    }

    /// Messages that are not copied, beside a loop that copies as large blocks.
    pub(super) fn unbuffered(&self) -> Result<[Line; 2]> {
        let bytes = 64 * KIB;
        let turns = [
            self.perf("shm", bytes, Pattern::Unbuffered { read_all: false }),
            self.perf("shm", bytes, Pattern::Unbuffered { read_all: true }),
            Turn::Theirs(Peer::Memcpy, bytes),
        ];
        let found = self.alternate(&turns, GOODPUT, 1e-9)?;
        let read = found[1].context("nothing was measured")?;
        let memcpy = found[2].context("memcpy was not measured")?;
        let beside = |what: &str, value| {
            Line::new(what, "Gb/s", value).beside("memcpy of blocks of 64 KiB", memcpy)
        };
        Ok([
            beside("shm, 64 KiB unbuffered, not read", ours(&found)?)
                .ratio_goal(Goal::AtLeast(OF_MEMCPY)),
            beside("shm, 64 KiB unbuffered, every byte read", read),
        ])
    }
}
