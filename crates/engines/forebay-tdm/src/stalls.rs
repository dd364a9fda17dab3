//! How long this host did not read its socket, and whether that cost datagrams.

use serde::Serialize;

use crate::receiver::Stall;

/// A shorter time is none: a thread that sleeps and wakes up takes so long, in ns.
const STALL_NS: u64 = 2_000_000;

/// Times in which the socket was not read empty, and the kernel dropped datagrams there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StallSummary {
    /// How many.
    pub times: u64,
    /// The longest, in ns.
    pub longest_ns: u64,
    /// All together, in ns.
    pub total_ns: u64,
    /// Datagrams that the kernel dropped in them, by its count.
    pub socket_drops: u64,
}

/// Watches when the socket was empty.
#[derive(Debug, Default)]
pub struct Stalls {
    emptied_ns: u64,
    /// The last one: since when, and how long so far. What goes on is the same one.
    last: Option<(u64, u64)>,
    summary: StallSummary,
}

impl Stalls {
    /// Whether the socket was not read empty for so long that the kernel's count should be looked at.
    pub const fn is_behind(&self, now_ns: u64) -> bool {
        now_ns >= self.emptied_ns + STALL_NS
    }

    /// All that lay in the socket was taken.
    pub const fn emptied(&mut self, now_ns: u64) {
        self.emptied_ns = now_ns;
    }

    /// The kernel dropped so many since it was asked last: this is the time that they are of, where it was a long one, and by how many stalls and ns there are more than before.
    pub fn dropped(&mut self, drops: u64, now_ns: u64) -> Option<(Stall, (u64, u64))> {
        if drops == 0 || !self.is_behind(now_ns) {
            return None;
        }
        let long_ns = now_ns - self.emptied_ns;
        let (times, more_ns) = match self.last {
            Some((from_ns, so_far_ns)) if from_ns == self.emptied_ns => (0, long_ns - so_far_ns),
            _ => (1, long_ns),
        };
        self.last = Some((self.emptied_ns, long_ns));
        let summary = &mut self.summary;
        summary.times += times;
        summary.total_ns += more_ns;
        summary.longest_ns = summary.longest_ns.max(long_ns);
        summary.socket_drops += drops;
        let stall = Stall {
            from_ns: self.emptied_ns,
            until_ns: now_ns,
            is_exact: false,
        };
        Some((stall, (times, more_ns)))
    }

    /// All of them so far.
    pub const fn summary(&self) -> StallSummary {
        self.summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_a_time_that_cost_datagrams_and_one_that_goes_on_is_one() {
        let mut stalls = Stalls::default();
        stalls.emptied(1_000);
        assert!(stalls.dropped(5, 1_001_000).is_none(), "it is a short time");
        assert!(stalls.dropped(0, 9_001_000).is_none(), "it cost nothing");
        let (first, more) = stalls.dropped(5, 9_001_000).unwrap();
        assert_eq!((first.from_ns, first.until_ns), (1_000, 9_001_000));
        assert_eq!(more, (1, 9_000_000));
        let (_, more) = stalls.dropped(2, 10_001_000).unwrap();
        assert_eq!(more, (0, 1_000_000));
        stalls.emptied(11_000_000);
        let (_, more) = stalls.dropped(1, 14_000_000).unwrap();
        assert_eq!(more, (1, 3_000_000));
        let summary = stalls.summary();
        assert_eq!((summary.times, summary.longest_ns), (2, 10_000_000));
        assert_eq!((summary.total_ns, summary.socket_drops), (13_000_000, 8));
    }
}
