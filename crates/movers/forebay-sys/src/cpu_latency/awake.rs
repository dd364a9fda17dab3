//! Whether the host's CPUs are kept from sleeping deeply, and why not: one that does begins its work late, and stamps a datagram late.

use super::CpuLatency;

/// The longest that an idle CPU may take to wake up, in us: the lightest sleep of usual processors (C1), and none deeper. With 0 it would not sleep but turn in a
/// loop, which takes from the other thread of its core, and here made the copies of a sender half as fast.
const MOST_US: u32 = 5;

/// Whether they are.
#[derive(Debug)]
pub struct Awake {
    held: Option<CpuLatency>,
    why_not: Option<String>,
}

impl Awake {
    /// Not yet; where it is not `wanted`, never.
    pub fn new(wanted: bool) -> Self {
        Self {
            held: None,
            why_not: (!wanted).then(|| "it was not asked for".to_owned()),
        }
    }

    /// Keeps them awake, or lets them sleep. What stands against it is told once.
    pub fn keep(&mut self, awake: bool, tell: &mut impl FnMut(&str)) {
        if !awake {
            self.held = None;
        } else if self.held.is_none() && self.why_not.is_none() {
            match CpuLatency::hold(MOST_US) {
                Ok(held) => self.held = Some(held),
                Err(error) => {
                    tell(&format!("idle CPUs may wake up late: {error}"));
                    self.why_not = Some(error.to_string());
                }
            }
        }
    }

    /// Why they were not kept awake; none: they were, when it was wanted.
    pub fn why_not(&self) -> Option<&str> {
        self.why_not.as_deref()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    #[test]
    fn cpus_are_awake_as_long_as_they_are_kept_and_not_where_nobody_wants_it() {
        let mut told = Vec::new();
        let mut never = Awake::new(false);
        never.keep(true, &mut |line| told.push(line.to_owned()));
        assert_eq!(never.why_not(), Some("it was not asked for"));
        assert!(told.is_empty());

        let mut awake = Awake::new(true);
        awake.keep(true, &mut |line| told.push(line.to_owned()));
        awake.keep(true, &mut |line| told.push(line.to_owned()));
        match awake.why_not() {
            Some(why) => {
                assert!(why.contains("/dev/cpu_dma_latency"), "{why}");
                assert_eq!(told.len(), 1, "once: {told:?}");
            }
            None => {
                assert!(super::super::bound_us().unwrap() <= MOST_US);
                awake.keep(false, &mut |line| told.push(line.to_owned()));
                assert!(awake.held.is_none());
                assert!(told.is_empty(), "{told:?}");
            }
        }
    }
}
