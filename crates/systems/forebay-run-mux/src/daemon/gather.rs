//! Pauses in which frames and packets gather: some together cost one wake-up of the daemon, and one of each client.

/// It is looked at how much comes in so long, in ns.
const LOOK_NS: u64 = 1_000_000;
/// When less comes in that time, each is handled at once: a pause would be longer than the way to the next one.
const LEAST: u64 = 225;
/// A round that moved so much is followed by the next one at once, as more may be there.
const MUCH: usize = 64;

/// Whether what comes shall gather, by how much came lately.
#[derive(Debug)]
pub(super) struct Gather {
    pause_ns: u64,
    since_ns: u64,
    items: u64,
    is_on: bool,
}

impl Gather {
    /// Pauses of so long; 0: none.
    pub(super) const fn new(pause_ns: u64) -> Self {
        Self {
            pause_ns,
            since_ns: 0,
            items: 0,
            is_on: false,
        }
    }

    /// Counts what a round has moved, frames, packets and buffers; for how long the next one can wait, in ns.
    pub(super) fn after(&mut self, now_ns: u64, items: usize) -> u64 {
        self.items += items as u64;
        let elapsed_ns = now_ns.saturating_sub(self.since_ns);
        if elapsed_ns >= LOOK_NS {
            self.is_on = self.items.saturating_mul(LOOK_NS) / elapsed_ns >= LEAST;
            (self.since_ns, self.items) = (now_ns, 0);
        }
        if self.is_on && (1..MUCH).contains(&items) {
            self.pause_ns
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses behind rounds of so many items each, so far apart.
    fn pauses(gather: &mut Gather, from_ns: u64, step_ns: u64, items: &[usize]) -> Vec<u64> {
        let times = (0..).map(|round| from_ns + round * step_ns);
        let rounds = times.zip(items);
        rounds
            .map(|(now_ns, items)| gather.after(now_ns, *items))
            .collect()
    }

    #[test]
    fn what_comes_often_gathers_and_what_comes_seldom_does_not() {
        let mut gather = Gather::new(50_000);
        // 21 in 100 us are too few: 210 in the time that is looked at.
        let found = pauses(&mut gather, 10_000_000, 100_000, &[21; 40]);
        assert!(found.iter().all(|pause| *pause == 0), "{found:?}");
        // 24 in 100 us; when a time that is looked at is over.
        let found = pauses(&mut gather, 14_000_000, 100_000, &[24; 40]);
        let first = found.iter().position(|pause| *pause > 0).unwrap();
        assert!((1..=20).contains(&first), "{found:?}");
        assert!(found[first..].iter().all(|pause| *pause == 50_000));
        // And seldom again.
        let found = pauses(&mut gather, 18_000_000, 100_000, &[1; 40]);
        assert_eq!(found[20..], [0; 20]);
    }

    #[test]
    fn nothing_waits_behind_a_round_without_work_or_with_much_of_it() {
        let mut gather = Gather::new(50_000);
        pauses(&mut gather, 10_000_000, 100_000, &[63; 40]);
        let found = pauses(&mut gather, 14_000_000, 100, &[63, 0, 64, 1_000, 1]);
        assert_eq!(found, [50_000, 0, 0, 0, 50_000]);
    }

    #[test]
    fn without_a_pause_nothing_gathers_and_a_clock_that_jumps_harms_nothing() {
        let mut none = Gather::new(0);
        let found = pauses(&mut none, 10_000_000, 10_000, &[63; 1_000]);
        assert_eq!(found, [0; 1_000]);
        let mut gather = Gather::new(1);
        gather.after(u64::MAX, usize::MAX);
        assert_eq!(gather.after(0, 1), 0);
    }
}
