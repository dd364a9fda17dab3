//! What goes on sending loses nothing because something else stops: over water marks, rates, sizes and moments of death.
//!
//! The stage around the engine is played in virtual time: looks at the queues, a queue that is full holds its source back, and
//! one that is nearly full is told of when nothing moves.

mod harness;

use forebay_evb::{Completion, Config, SubEventDrop};
use harness::check::Check;
use harness::{MS, Rig, Sub, sub};
use proptest::prelude::*;

/// What becomes of a source; shares are of the time-out.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    GoesOn,
    /// Nothing comes from then on, and what had not been sent by then comes at once, or never.
    Stops {
        after: f64,
        flushes: bool,
    },
    /// Nothing is made between these times.
    ComesBack {
        after: f64,
        pause: f64,
    },
    /// What is due in this time comes at its end.
    IsLate {
        after: f64,
        by: f64,
    },
}

#[derive(Debug, Clone)]
struct Source {
    bytes: u32,
    /// How long it takes to fill its water mark, as a share of the time-out.
    gap: f64,
    fate: Fate,
}

#[derive(Debug, Clone)]
struct Case {
    sources: Vec<Source>,
    timeout_ms: u64,
    triggers_per_timeout: u32,
    look_us: u64,
    queue: Queue,
    timeout_events: u32,
    completion: Completion,
}

/// What a queue holds.
#[derive(Debug, Clone, Copy)]
enum Queue {
    /// So many time-outs of its source.
    Timeouts(f64),
    Bytes(u64),
}

/// A message of a source and when it comes.
struct Due {
    at_ns: u64,
    subs: Vec<Sub>,
}

/// Time-outs that a case goes on for.
const LENGTH: u32 = 4;

impl Case {
    fn timeout_ns(&self) -> u64 {
        self.timeout_ms * MS
    }

    fn interval_ns(&self) -> u64 {
        self.timeout_ns() / u64::from(self.triggers_per_timeout)
    }

    fn config(&self) -> Config {
        let mut config = Config::new(self.sources.len());
        config.timeout_ns = self.timeout_ns();
        config.timeout_events = self.timeout_events;
        config.completion = self.completion;
        config
    }

    fn per_message(&self, source: &Source) -> usize {
        ((source.gap * f64::from(self.triggers_per_timeout)) as usize).max(1)
    }

    /// All that `source` sends, message by message.
    fn messages(&self, source: &Source) -> Vec<Due> {
        let share = |share: f64| (share * self.timeout_ns() as f64) as u64;
        let (silent, flushes) = match source.fate {
            Fate::Stops { after, flushes } => (share(after)..u64::MAX, flushes),
            Fate::ComesBack { after, pause } => (share(after)..share(after + pause), true),
            _ => (u64::MAX..u64::MAX, true),
        };
        let per_message = self.per_message(source);
        let mut all = Vec::new();
        let mut subs = Vec::new();
        let triggers = LENGTH * self.triggers_per_timeout;
        for trigger in 0..triggers {
            let made_ns = u64::from(trigger) * self.interval_ns();
            if !silent.contains(&made_ns) {
                let bytes = source.bytes;
                subs.push(Sub {
                    bytes,
                    ..sub(trigger)
                });
            }
            let ends = made_ns + self.interval_ns() >= silent.start && made_ns < silent.start;
            let last = trigger + 1 == triggers || ends && flushes;
            if ends && !flushes {
                break;
            }
            if subs.len() == per_message || last && !subs.is_empty() {
                let at_ns = match source.fate {
                    Fate::IsLate { after, by }
                        if (share(after)..share(after + by)).contains(&made_ns) =>
                    {
                        share(after + by)
                    }
                    _ => made_ns,
                };
                let subs = std::mem::take(&mut subs);
                all.push(Due { at_ns, subs });
            }
        }
        all
    }

    fn queue_bytes(&self, source: &Source) -> u64 {
        let per_timeout = u64::from(source.bytes + 8) * u64::from(self.triggers_per_timeout);
        let bytes = match self.queue {
            Queue::Timeouts(timeouts) => (per_timeout as f64 * timeouts) as u64,
            Queue::Bytes(bytes) => bytes,
        };
        bytes.max(2 * self.message_bytes(source))
    }

    fn message_bytes(&self, source: &Source) -> u64 {
        self.per_message(source) as u64 * u64::from(source.bytes + 8) + 80
    }

    /// The stage's loop, until everything has come and nothing is waited for; what was sent of each source, too.
    fn play(&self) -> (Check, Vec<u64>) {
        let mut rig = Rig::new(self.config());
        rig.sink.set_room(usize::MAX);
        let queue_bytes: Vec<u64> = self
            .sources
            .iter()
            .map(|source| self.queue_bytes(source))
            .collect();
        let mut due: Vec<_> = self
            .sources
            .iter()
            .map(|source| self.messages(source).into_iter().peekable())
            .collect();
        let mut sent = vec![0; self.sources.len()];
        let (mut quiet, end_ns) = (false, u64::from(LENGTH + 2) * self.timeout_ns());
        while rig.now_ns < end_ns || due.iter_mut().any(|due| due.peek().is_some()) {
            assert!(rig.now_ns < 10 * end_ns, "held back for ever");
            let (mut pulled, built) = (false, rig.sink.events.len());
            for source in 0..self.sources.len() {
                let fill = |rig: &Rig| rig.arena.end(source) - rig.builder.released(source);
                let message = self.message_bytes(&self.sources[source]);
                let fill_bytes = fill(&rig);
                let pressed = fill_bytes * 4 >= queue_bytes[source] * 3
                    || fill_bytes > 0 && queue_bytes[source] < fill_bytes + message;
                rig.builder.handle_pressure(source, quiet && pressed);
                let room = |rig: &Rig, due: &Due| {
                    let bytes: u64 = due.subs.iter().map(|sub| u64::from(sub.bytes) + 8).sum();
                    fill(rig) + bytes + 80 <= queue_bytes[source]
                };
                while let Some(message) =
                    due[source].next_if(|due| due.at_ns <= rig.now_ns && room(&rig, due))
                {
                    sent[source] += message.subs.len() as u64;
                    rig.send(source, &message.subs);
                    pulled = true;
                }
            }
            rig.poll();
            rig.commit();
            quiet = !pulled && rig.sink.events.len() == built;
            rig.now_ns += self.look_us * 1_000;
        }
        (rig.finish(), sent)
    }

    /// Plays the case. All that was sent is in an event, but for the first message of a source that comes back.
    fn assert_nothing_healthy_is_lost(&self) {
        let (check, sent) = self.play();
        let triggers = u64::from(LENGTH * self.triggers_per_timeout);
        for (index, source) in self.sources.iter().enumerate() {
            let balance = &check.sources[index];
            let late = balance.lost(SubEventDrop::Late);
            assert_eq!(balance.all_dropped(), late, "source {index}: {balance:?}");
            match source.fate {
                Fate::GoesOn | Fate::IsLate { .. } => {
                    let all = (triggers, triggers, 0);
                    assert_eq!(
                        (sent[index], balance.outgoing.0, balance.missing),
                        all,
                        "source {index}"
                    );
                }
                Fate::Stops { .. } => assert_eq!(balance.outgoing.0, sent[index], "source {index}"),
                Fate::ComesBack { .. } => {
                    let first = self.per_message(source) as u64;
                    assert!(late <= first, "source {index}: {late} late of {first}");
                    assert_eq!(balance.outgoing.0 + late, sent[index], "source {index}");
                }
            }
        }
    }
}

fn goes_on(gap: f64) -> impl Strategy<Value = Source> {
    (24..400_u32, 0.0..gap).prop_map(|(bytes, gap)| Source {
        bytes: bytes.next_multiple_of(4),
        gap,
        fate: Fate::GoesOn,
    })
}

fn stops() -> impl Strategy<Value = Fate> {
    (0.0..2.5_f64, any::<bool>()).prop_map(|(after, flushes)| Fate::Stops { after, flushes })
}

fn with_fate(gap: f64, fate: impl Strategy<Value = Fate>) -> impl Strategy<Value = Source> {
    (goes_on(gap), fate).prop_map(|(source, fate)| Source { fate, ..source })
}

fn dead(gap: f64) -> impl Strategy<Value = Vec<Source>> {
    prop_oneof![
        3 => proptest::collection::vec(with_fate(gap, stops()), 1),
        1 => proptest::collection::vec(with_fate(gap, stops()), 30),
    ]
}

fn case(
    gap: f64,
    others: impl Strategy<Value = Vec<Source>>,
    queue: std::ops::Range<f64>,
    timeout_events: impl Strategy<Value = u32>,
    completion: impl Strategy<Value = Completion>,
) -> impl Strategy<Value = Case> {
    let healthy = proptest::collection::vec(goes_on(gap), 2..6);
    let times = (200..1_000_u64, 20..200_u32, 300..5_000_u64);
    (
        healthy,
        dead(gap),
        others,
        times,
        queue,
        timeout_events,
        completion,
    )
        .prop_map(
            |(healthy, dead, others, times, queue, timeout_events, completion)| Case {
                sources: [healthy, dead, others].concat(),
                timeout_ms: times.0,
                triggers_per_timeout: times.1,
                look_us: times.2,
                queue: Queue::Timeouts(queue),
                timeout_events,
                completion,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    /// Queues of twice the time-out: late ones, too, and ones that come back.
    #[test]
    fn queues_of_twice_the_time_out_lose_nothing_to_a_dead_source(
        case in case(
            0.5,
            proptest::collection::vec(
                prop_oneof![
                    with_fate(0.3, (0.0..2.5_f64, 0.0..0.6_f64).prop_map(|(after, by)| Fate::IsLate { after, by })),
                    with_fate(0.3, (0.0..1.5_f64, 0.0..2.0_f64).prop_map(|(after, pause)| Fate::ComesBack { after, pause })),
                ],
                0..4,
            ),
            2.0..4.0,
            Just(20_000),
            prop_oneof![3 => Just(Completion::Partial), 1 => Just(Completion::Wait)],
        )
    ) {
        case.assert_nothing_healthy_is_lost();
    }

    /// Queues and numbers of events that are too short for the time-out: there is a reason to hurry, and a source
    /// that is no more silent than usual is not left behind. A queue must hold what one message of another source brings.
    #[test]
    fn short_queues_and_few_events_leave_no_source_behind_that_keeps_its_rhythm(
        case in case(0.3, Just(Vec::new()), 0.6..2.0, prop_oneof![5..500_u32, Just(20_000)], Just(Completion::Partial))
    ) {
        case.assert_nothing_healthy_is_lost();
    }
}

/// Ninety sources or more in small: some of each size, and a dead one, with 4 MiB for each, a water mark of 32 KiB, 4,000 triggers in a
/// second, and moments of death that stand differently to the water marks.
fn dead_at_four_moments(small: u32, large: u32) {
    let source = |bytes: u32, fate| Source {
        bytes,
        gap: f64::from(32_768 / bytes) / 4_000.0,
        fate,
    };
    for from in [8_100, 8_200, 10_133, 12_000] {
        let dead = Fate::Stops {
            after: f64::from(from) / 4_000.0,
            flushes: false,
        };
        let mut sources = vec![source(small, Fate::GoesOn); 3];
        sources.extend(vec![source(large, Fate::GoesOn); 2]);
        sources.push(source(116, dead));
        let case = Case {
            sources,
            timeout_ms: 1_000,
            triggers_per_timeout: 4_000,
            look_us: 1_000,
            queue: Queue::Bytes(4 << 20),
            timeout_events: 20_000,
            completion: Completion::Partial,
        };
        case.assert_nothing_healthy_is_lost();
    }
}

/// What a demonstration's sources do: a queue of 1,170-byte sub-events is full before the time-out, while others lie between two
/// water marks.
#[test]
fn one_dead_source_of_ninety_costs_the_others_nothing() {
    dead_at_four_moments(116, 1_172);
}

/// Here a queue is nearly full before the small ones have filled a water mark: they have nothing to show of the event that the dead one
/// lacks, and only what is known of their gaps keeps them from being given up as well.
#[test]
fn sources_with_long_gaps_are_not_given_up_with_a_dead_one() {
    dead_at_four_moments(24, 2_800);
}
