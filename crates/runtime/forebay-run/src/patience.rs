//! How long a process is waited for that was told to stop.

/// How often it is looked at whether it gets on.
const LOOK_NS: u64 = 1_000_000_000;

/// Patience with one process: its limit counts from the last time that it got on.
#[derive(Debug)]
pub struct Patience {
    limit_ns: u64,
    since_ns: u64,
    look_ns: u64,
    done: u64,
}

impl Patience {
    /// With one that may get on with nothing for `limit_ns`.
    #[must_use]
    pub const fn new(limit_ns: u64, now_ns: u64) -> Self {
        Self {
            limit_ns,
            since_ns: now_ns,
            look_ns: now_ns,
            done: 0,
        }
    }

    /// Whether the limit is over; `done` tells what the stage has done so far, and is asked now and then.
    pub fn is_over(&mut self, now_ns: u64, done: impl FnOnce() -> u64) -> bool {
        if now_ns >= self.look_ns {
            self.look_ns = now_ns + LOOK_NS;
            let done = done();
            if done != self.done {
                (self.done, self.since_ns) = (done, now_ns);
            }
        }
        now_ns.saturating_sub(self.since_ns) > self.limit_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn one_that_does_nothing_is_given_up_behind_its_limit() {
        let mut patience = Patience::new(60 * S, 5 * S);
        assert!(!patience.is_over(65 * S, || 0));
        assert!(patience.is_over(65 * S + 1, || 0));
        assert!(!Patience::new(u64::MAX, 0).is_over(1 << 62, || 0));
    }

    #[test]
    fn one_that_gets_on_is_not_given_up() {
        let mut patience = Patience::new(60 * S, 0);
        for second in 0..600 {
            assert!(!patience.is_over(second * S, || second));
        }
        assert!(!patience.is_over(659 * S, || 599));
        assert!(patience.is_over(660 * S, || 599));
    }
}
