//! Launch times: bursts are given to the kernel ahead, and a queue on the way lets them go at their instants.
//!
//! That a socket takes such times says nothing: most queues ignore them. So it is tried on the way itself. Each control datagram behind the hello carries a launch time ahead, and
//! the kernel's stamp tells when it left. When enough of them have left at their times, bursts get launch times, too; the first datagram that leaves before its
//! time ends that, and so does a queue that becomes late. It is tried anew for each session, without hellos: one that says hello lets its CPUs sleep, and may have
//! no neighbour yet. Times here are of the host's monotonic clock, which the queue `fq` knows.

use std::fmt::Display;

use hdrhistogram::Histogram;
use serde::Serialize;

/// So far ahead is the launch time of a datagram that tries it, in ns.
const AHEAD_NS: u64 = 1_000_000;
/// Datagrams that have left at their time before it is relied on.
const KEPT_MIN: u64 = 24;
/// Once it is relied on, so many datagrams are looked at together.
const LOOKED_AT: u64 = 100;
/// Datagrams that were sent before it is given up, when fewer were stamped.
const TRIED_MAX: u64 = 4 * KEPT_MIN;
/// A stamp so long before the launch time is early: what two readings of clocks may be apart, in ns.
const EARLY_NS: u64 = 20_000;
/// A queue that is later than this, and than the thread that would wait for the instant, is of no use, in ns.
const LATE_NS: u64 = 50_000;
/// Besides what a sleep may be late, bursts are given ahead by this, in ns: for the calls.
const MARGIN_NS: u64 = 100_000;

/// Times up to here are told apart, in ns; others are as long.
const LATEST_NS: u64 = 1_000_000_000;

/// When launch times are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchTimes {
    /// Where they are kept no worse than the thread itself would keep them.
    Auto,
    /// Where they are kept, however late: the thread need not spin.
    Kept,
    /// Nowhere.
    Off,
}

/// How late a thread of the host wakes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// 99 % of trials were better, in ns.
    pub late_ns: u64,
    /// The last part of each wait, that is spun through, in ns.
    pub spin_ns: u64,
}

/// What is known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Trying,
    Kept,
    Off(String),
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Bursts may be given so long ahead; the queue is late by so much (99 % of what was tried), in ns.
    Kept {
        /// So long ahead.
        lead_ns: u64,
        /// So late is the queue.
        late_ns: u64,
    },
    /// They may no longer.
    Off,
}

/// Launch times of one sender.
#[derive(Debug)]
pub struct Launches {
    state: State,
    /// The last launch time of a burst.
    burst_ns: u64,
    lead_ns: u64,
    wanted: LaunchTimes,
    /// How late the thread itself wakes up, in ns: 99 % of trials were better.
    thread_late_ns: u64,
    tried: u64,
    /// How late datagrams left, in ns.
    late: Option<Histogram<u64>>,
    /// The same since it was last looked at.
    recent: Option<Histogram<u64>>,
}

/// What a sender's summary says of them.
#[derive(Clone, Debug, Serialize)]
pub struct LaunchSummary {
    /// Bursts were given to the kernel ahead of their time at the end of the run.
    pub kept: bool,
    /// Why not.
    pub why_not: Option<String>,
    /// Control datagrams that left at their launch times.
    pub datagrams: u64,
    /// How late: 99 % left sooner after their launch times, in ns.
    pub late_ns_p99: u64,
    /// The latest, in ns.
    pub late_ns_max: u64,
    /// So long ahead bursts were given, in ns.
    pub lead_ns: u64,
}

impl Launches {
    /// On a host that is so late. `enable` asks the socket to take launch times, where they are wanted.
    pub fn new<E: Display>(
        wanted: LaunchTimes,
        lateness: Lateness,
        enable: impl FnOnce() -> Result<(), E>,
    ) -> Self {
        let state = match wanted {
            LaunchTimes::Off => State::Off("they were not asked for".to_owned()),
            LaunchTimes::Auto | LaunchTimes::Kept => match enable() {
                Ok(()) => State::Trying,
                Err(error) => State::Off(error.to_string()),
            },
        };
        Self {
            state,
            burst_ns: 0,
            lead_ns: lateness.spin_ns + MARGIN_NS,
            wanted,
            thread_late_ns: lateness.late_ns,
            tried: 0,
            late: Histogram::new_with_bounds(1, LATEST_NS, 3).ok(),
            recent: Histogram::new_with_bounds(1, LATEST_NS, 3).ok(),
        }
    }

    /// How late the thread itself wakes up, in ns: 99 % of trials were better.
    pub const fn thread_late_ns(&self) -> u64 {
        self.thread_late_ns
    }

    /// Another session begins, perhaps on another way.
    pub fn begin(&mut self) {
        let may_try = match &self.state {
            State::Off(_) => self.tried > 0,
            State::Trying | State::Kept => true,
        };
        if may_try {
            (self.state, self.tried) = (State::Trying, 0);
            for late in [&mut self.late, &mut self.recent].into_iter().flatten() {
                late.reset();
            }
        }
    }

    /// Bursts are given ahead.
    pub fn are_kept(&self) -> bool {
        self.state == State::Kept
    }

    /// The launch time of a control datagram: one that tries it, where it `may_try`, or not before the bursts that it tells of.
    pub fn of_control(&self, now_ns: u64, may_try: bool) -> Option<u64> {
        if self.state == State::Trying {
            return may_try.then_some(now_ns + AHEAD_NS);
        }
        // Also when it is over: what was given ahead lies there until its time.
        (self.burst_ns > now_ns).then_some(self.burst_ns)
    }

    /// The kernel has taken a control datagram with a launch time.
    pub const fn sent(&mut self) {
        self.tried += 1;
    }

    /// The launch time of a burst that shall leave at `leaves_ns`.
    pub fn of_burst(&mut self, leaves_ns: u64) -> Option<u64> {
        self.are_kept().then(|| {
            self.burst_ns = leaves_ns;
            leaves_ns
        })
    }

    /// A control datagram with a launch time has left.
    pub fn left(&mut self, launch_ns: u64, left_ns: u64) -> Option<Change> {
        if matches!(self.state, State::Off(_)) {
            return None;
        }
        if left_ns.saturating_add(EARLY_NS) < launch_ns {
            return self.off(format!(
                "a datagram left {} us before its launch time: no queue on the way keeps them (`tc qdisc replace dev INTERFACE root fq` does)",
                (launch_ns - left_ns) / 1_000
            ));
        }
        let (late, recent) = (self.late.as_mut()?, self.recent.as_mut()?);
        late.saturating_record(left_ns.saturating_sub(launch_ns));
        recent.saturating_record(left_ns.saturating_sub(launch_ns));
        let enough = match self.state {
            State::Kept => LOOKED_AT,
            _ => KEPT_MIN,
        };
        if recent.len() < enough {
            return None;
        }
        let late_ns = recent.value_at_quantile(0.95);
        recent.reset();
        if self.wanted == LaunchTimes::Auto && late_ns > LATE_NS.max(self.thread_late_ns) {
            return self.off(format!(
                "datagrams left up to {} us behind their launch times, and a thread that waits is late by {} us",
                late_ns / 1_000,
                self.thread_late_ns / 1_000
            ));
        }
        self.state = State::Kept;
        let late_ns = self.late.as_ref()?.value_at_quantile(0.99);
        Some(Change::Kept {
            lead_ns: self.lead_ns,
            late_ns,
        })
    }

    /// Whether enough were stamped of those that tried it.
    pub fn look(&mut self) -> Option<Change> {
        let is_over = self.state == State::Trying && self.tried >= TRIED_MAX;
        let told = || "datagrams with a launch time were not stamped".to_owned();
        is_over.then(told).and_then(|why| self.off(why))
    }

    fn off(&mut self, why: String) -> Option<Change> {
        self.state = State::Off(why);
        Some(Change::Off)
    }

    /// What there is to say at the end.
    pub fn summary(&self) -> LaunchSummary {
        let late = |value: fn(&Histogram<u64>) -> u64| self.late.as_ref().map_or(0, value);
        LaunchSummary {
            kept: self.are_kept(),
            why_not: match &self.state {
                State::Kept => None,
                State::Trying => Some(format!(
                    "{} of {KEPT_MIN} control datagrams have left at their times",
                    late(Histogram::len)
                )),
                State::Off(why) => Some(why.clone()),
            },
            datagrams: late(Histogram::len),
            late_ns_p99: late(|late| late.value_at_quantile(0.99)),
            late_ns_max: late(Histogram::max),
            lead_ns: if self.are_kept() { self.lead_ns } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    const NOW: u64 = 1_000_000_000;

    fn launches(wanted: LaunchTimes) -> Launches {
        let lateness = Lateness {
            late_ns: 100_000,
            spin_ns: 200_000,
        };
        let launches = Launches::new(wanted, lateness, || Ok::<_, &str>(()));
        assert_eq!(launches.state, State::Trying, "the socket takes the option");
        launches
    }

    /// One control datagram, that leaves so many ns after its launch time.
    fn one(launches: &mut Launches, late_ns: i64) -> Option<Change> {
        let launch_ns = launches.of_control(NOW, true).unwrap();
        launches.sent();
        launches.left(launch_ns, launch_ns.checked_add_signed(late_ns).unwrap())
    }

    #[test]
    fn enough_of_them_have_left_at_their_times_before_it_is_relied_on() {
        let mut launches = launches(LaunchTimes::Auto);
        for number in 1..KEPT_MIN {
            assert_eq!(one(&mut launches, 5_000), None, "{number}");
            assert_eq!(launches.of_burst(NOW + 7), None);
        }
        let change = one(&mut launches, 90_000);
        let Some(Change::Kept { lead_ns, late_ns }) = change else {
            panic!("{change:?}");
        };
        assert_eq!(lead_ns, 300_000);
        assert!(
            late_ns.abs_diff(90_000) < 100,
            "the worst of few: {late_ns}"
        );
        assert_eq!(launches.of_burst(NOW + 7), Some(NOW + 7));
        // What it tells of leaves first.
        assert_eq!(launches.of_control(NOW, true), Some(NOW + 7));
        assert_eq!(launches.of_control(NOW + 8, true), None);
        assert!(launches.summary().kept);
    }

    #[test]
    fn the_first_that_leaves_before_its_time_ends_it_for_this_session() {
        let mut launches = launches(LaunchTimes::Auto);
        assert_eq!(one(&mut launches, -1_000_000), Some(Change::Off));
        assert_eq!(launches.of_control(NOW, true), None);
        let told = launches.summary().why_not.unwrap();
        assert!(
            told.contains("1000 us before") && told.contains("fq"),
            "{told}"
        );

        launches.begin();
        for _ in 0..KEPT_MIN {
            one(&mut launches, 5_000);
        }
        assert!(launches.are_kept());
        launches.of_burst(NOW + 500_000);
        // The queue was exchanged under way.
        assert_eq!(
            launches.left(NOW + 500_000, NOW + 100_000),
            Some(Change::Off)
        );
        assert_eq!(launches.of_burst(NOW), None);
        // What tells of bursts that still lie in the queue leaves behind them.
        assert_eq!(launches.of_control(NOW, true), Some(NOW + 500_000));
        assert_eq!(launches.of_control(NOW + 500_000, true), None);
    }

    #[test]
    fn a_queue_that_is_late_or_does_not_tell_is_of_no_use() {
        let mut late = launches(LaunchTimes::Auto);
        let changes: Vec<_> = (0..KEPT_MIN)
            .filter_map(|_| one(&mut late, 110_000))
            .collect();
        assert_eq!(changes, [Change::Off]);
        let mut spares = launches(LaunchTimes::Kept);
        for _ in 0..KEPT_MIN {
            one(&mut spares, 110_000);
        }
        assert!(spares.are_kept(), "it was asked for");

        // One that becomes late under way is given up as well.
        let mut tired = launches(LaunchTimes::Auto);
        for _ in 0..KEPT_MIN {
            one(&mut tired, 5_000);
        }
        tired.burst_ns = NOW + 1;
        let changes = (0..3 * LOOKED_AT).filter_map(|_| tired.left(NOW + 1, NOW + 200_000));
        assert_eq!(changes.collect::<Vec<_>>(), [Change::Off]);

        let mut silent = launches(LaunchTimes::Auto);
        for _ in 0..TRIED_MAX {
            assert_eq!(silent.look(), None);
            assert_eq!(silent.of_control(NOW, false), None, "a hello tries nothing");
            silent.of_control(NOW, true);
            silent.sent();
        }
        assert_eq!(silent.look(), Some(Change::Off));
    }

    #[test]
    fn what_is_not_wanted_is_not_tried() {
        let never = || -> Result<(), &str> { panic!("the socket is not asked") };
        let mut launches = Launches::new(LaunchTimes::Off, Lateness::default(), never);
        launches.begin();
        assert_eq!(launches.of_control(NOW, true), None);
        assert_eq!(launches.of_burst(NOW), None);
    }

    #[test]
    fn a_socket_that_does_not_take_them_is_never_tried() {
        let refuse = || Err("it has no such option");
        let mut launches = Launches::new(LaunchTimes::Kept, Lateness::default(), refuse);
        launches.begin();
        assert_eq!(launches.of_control(NOW, true), None);
        let told = launches.summary().why_not;
        assert_eq!(told.as_deref(), Some("it has no such option"));
    }
}
