//! How long datagrams may gather in the sockets' buffers between two rounds: one wake-up for many of them, where the buffers have room and the budget of latency allows it.
//!
//! With a budget the receiver sleeps behind each round that emptied its sockets. What comes meanwhile waits for as long as the budget says at most, less what the
//! kernel may wake later and what the last round took. The fullest socket says whether that was too long: beyond an eighth of its buffer the sleep is halved, and
//! below it grows again.

use std::time::Duration;

/// The kernel may end a sleep later by so much (timer slack, prctl(2)).
const SLACK_NS: u64 = 60_000;
/// Less than this is not worth a sleep.
const LEAST_NS: u64 = 20_000;
/// Part of a buffer that may fill in a sleep: one in so many.
const PART: u64 = 8;
/// What is charged to a buffer in a second of a burst, in bytes: a link of 10 Gb/s of datagrams of 1 kB, for each of which the kernel charges about twice as much. It must not
/// fill a quarter of the smallest buffer in one sleep.
const BURST_BYTES_S: u64 = 2_500_000_000;
/// A round that found fewer ready sockets than this was not worth its wake-up, where no budget is set.
const FEW_PORTS: usize = 16;

/// What a round came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Sockets that were ready.
    pub ready: usize,
    /// One has more than a turn takes.
    pub has_more: bool,
    /// Part of its buffer that the fullest socket had taken since the last sleep, in 1/1024.
    pub fullest: u64,
    /// How long it took, ns.
    pub took_ns: u64,
}

/// Says how long to sleep behind a round.
#[derive(Debug)]
pub struct Gather {
    /// What holds where no budget is set.
    few: Duration,
    /// The longest sleep, ns; none: no budget.
    most_ns: Option<u64>,
    /// The sleep that the buffers have room for, ns.
    now_ns: u64,
}

impl Gather {
    /// For sockets whose smallest buffer has so many bytes. Without a budget, or with buffers that leave less time than that, `few` is the sleep behind a round that found few
    /// ready sockets; zero for none.
    #[must_use]
    pub fn new(budget: Option<Duration>, few: Duration, buffer_bytes: u64) -> Self {
        let sleep_ns = |all_ns: u64| all_ns.saturating_sub(SLACK_NS);
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let burst_ns = (buffer_bytes / 4).saturating_mul(1_000_000_000) / BURST_BYTES_S;
        let has_room = |most: &u64| sleep_ns(burst_ns) >= ns(few).min(*most);
        let most_ns = budget.map(ns).map(sleep_ns).filter(has_room);
        let most_ns = most_ns.map(|most| most.min(sleep_ns(burst_ns)));
        Self {
            few,
            most_ns,
            now_ns: most_ns.unwrap_or(0),
        }
    }

    /// How long a datagram may wait at most, if the buffers leave less time than this budget; zero: none is left.
    #[must_use]
    pub fn shortened(&self, budget: Duration) -> Option<Duration> {
        let most = self.most_ns.map_or(0, |most| most + SLACK_NS);
        let most = Duration::from_nanos(most);
        (most < budget).then_some(most)
    }

    /// How long to sleep; nothing: not at all.
    pub fn pause(&mut self, round: Round) -> Option<Duration> {
        if round.ready == 0 {
            return None;
        }
        let Some(most_ns) = self.most_ns else {
            let is_few = round.ready < FEW_PORTS && !round.has_more && !self.few.is_zero();
            return is_few.then_some(self.few);
        };
        if round.fullest > 1024 / PART {
            self.now_ns /= 2;
        } else if !round.has_more {
            self.now_ns = (self.now_ns + most_ns / 16 + 1).min(most_ns);
        }
        if round.has_more {
            return None;
        }
        let sleep_ns = self.now_ns.saturating_sub(round.took_ns);
        (sleep_ns >= LEAST_NS).then(|| Duration::from_nanos(sleep_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: u64 = 16 << 20;

    fn gather(budget_us: u64, few_us: u64, buffer_bytes: u64) -> Gather {
        let budget = (budget_us > 0).then(|| Duration::from_micros(budget_us));
        Gather::new(budget, Duration::from_micros(few_us), buffer_bytes)
    }

    const QUIET: Round = Round {
        ready: 90,
        has_more: false,
        fullest: 1,
        took_ns: 40_000,
    };

    #[test]
    fn a_sleep_and_the_round_behind_it_keep_within_the_budget() {
        let mut gather = gather(1_000, 0, BUFFER);
        for _ in 0..100 {
            let sleep = gather.pause(QUIET).unwrap();
            let all_ns = sleep.as_nanos() as u64 + SLACK_NS + QUIET.took_ns;
            assert_eq!(all_ns, 1_000_000);
        }
    }

    #[test]
    fn a_budget_for_which_buffers_leave_no_time_is_shortened() {
        let budget = Duration::from_millis(100);
        // A quarter of 16 MiB at 20 Gb/s.
        let most = gather(100_000, 0, BUFFER).shortened(budget).unwrap();
        assert_eq!(most.as_micros(), 1_677);
        assert_eq!(
            gather(1_000, 0, BUFFER).shortened(Duration::from_millis(1)),
            None
        );
        // Too small for any: `gather_us` decides.
        let none = gather(1_000, 200, 1 << 16).shortened(Duration::from_millis(1));
        assert_eq!(none, Some(Duration::ZERO));
    }

    #[test]
    fn a_round_that_took_the_budget_is_followed_by_the_next() {
        let mut gather = gather(1_000, 0, BUFFER);
        let slow = Round {
            took_ns: 930_000,
            ..QUIET
        };
        assert_eq!(gather.pause(slow), None);
    }

    #[test]
    fn full_buffers_shorten_the_sleep_until_there_is_none_and_empty_ones_bring_it_back() {
        let mut gather = gather(1_000, 0, BUFFER);
        let whole = gather.pause(QUIET).unwrap();
        let full = Round {
            fullest: 200,
            ..QUIET
        };
        let half = gather.pause(full).unwrap();
        assert!(half < whole / 2 + Duration::from_micros(1), "{half:?}");
        let last = (0..20).map(|_| gather.pause(full)).last().unwrap();
        assert_eq!(last, None);
        let last = (0..20).map(|_| gather.pause(QUIET)).last().unwrap();
        assert_eq!(last, Some(whole));
    }

    #[test]
    fn a_socket_with_more_is_looked_at_again_at_once() {
        let mut gather = gather(1_000, 500, BUFFER);
        let more = Round {
            has_more: true,
            ..QUIET
        };
        assert_eq!(gather.pause(more), None);
        assert!(gather.pause(QUIET).is_some());
    }

    #[test]
    fn a_burst_at_the_rate_of_the_link_fills_a_quarter_of_a_small_buffer_at_most() {
        let bytes = 2 << 20;
        let idle = Round {
            took_ns: 0,
            ..QUIET
        };
        let sleep = gather(1_000_000, 0, bytes).pause(idle).unwrap();
        let longest = sleep + Duration::from_nanos(SLACK_NS);
        let burst = longest.as_secs_f64() * BURST_BYTES_S as f64;
        assert!(burst <= bytes as f64 / 4.0 + 1.0, "{burst}");
        assert!(burst > bytes as f64 / 5.0, "{burst}");
        // One that has no room for the sleep without a budget has that one.
        let mut small = gather(1_000, 200, 425_984);
        assert_eq!(small.pause(idle), None);
        let few = Round { ready: 1, ..idle };
        assert_eq!(small.pause(few), Some(Duration::from_micros(200)));
    }

    #[test]
    fn without_a_budget_only_rounds_that_found_little_are_followed_by_a_sleep() {
        let mut gather = gather(0, 200, BUFFER);
        let few = Round { ready: 15, ..QUIET };
        assert_eq!(gather.pause(few), Some(Duration::from_micros(200)));
        assert_eq!(gather.pause(Round { ready: 16, ..QUIET }), None);
        assert_eq!(gather.pause(Round { ready: 0, ..QUIET }), None);
        let more = Round {
            has_more: true,
            ..few
        };
        assert_eq!(gather.pause(more), None);
    }

    #[test]
    fn a_budget_below_the_slack_of_the_clock_is_no_sleep() {
        let mut gather = gather(50, 200, BUFFER);
        assert_eq!(gather.pause(QUIET), None);
    }
}
