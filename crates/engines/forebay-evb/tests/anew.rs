//! All senders started again at 0 while the builder still remembers those numbers: nothing of their second life is lost. And what
//! only comes twice is dropped as that and never takes the numbers along.

mod harness;

use std::ops::Range;

use forebay_evb::{Config, SubEventDrop};
use harness::check::Check;
use harness::{MS, Rig, sub};
use proptest::prelude::*;

const TIMEOUT_NS: u64 = 1_000 * MS;
/// The shortest silence of all sources that can be a restart.
const PAUSE_MS_MIN: u64 = 20;

/// A message of a source and when it comes.
#[derive(Debug, Clone)]
struct Due {
    at_ns: u64,
    source: usize,
    triggers: Range<u32>,
}

/// How sources send.
#[derive(Debug, Clone)]
struct Beat {
    /// Triggers in a message, by source.
    per_message: Vec<u32>,
    interval_us: u64,
}

impl Beat {
    fn interval_ns(&self) -> u64 {
        self.interval_us * 1_000
    }

    /// Messages of `source` for `triggers`, the first of which is made at `from_ns`.
    fn messages(&self, source: usize, triggers: Range<u32>, from_ns: u64) -> Vec<Due> {
        let starts = triggers.clone().step_by(self.per_message[source] as usize);
        let message = |first: u32| {
            let end = (first + self.per_message[source]).min(triggers.end);
            let made = u64::from(end - 1 - triggers.start);
            Due {
                at_ns: from_ns + made * self.interval_ns(),
                source,
                triggers: first..end,
            }
        };
        starts.map(message).collect()
    }

    fn all(&self, triggers: Range<u32>, from_ns: u64) -> Vec<Due> {
        let sources = 0..self.per_message.len();
        sources
            .flat_map(|source| self.messages(source, triggers.clone(), from_ns))
            .collect()
    }
}

/// The shortest pause behind messages: twice the longest time for which nothing came, at least what counts at all. The time-out when
/// all came at once.
fn pause_ns(due: &[Due]) -> u64 {
    let mut at_ns: Vec<u64> = due.iter().map(|due| due.at_ns).collect();
    at_ns.sort_unstable();
    let longest_ns = at_ns.windows(2).map(|pair| pair[1] - pair[0]).max();
    match longest_ns.unwrap_or(0) {
        0 => TIMEOUT_NS,
        gap_ns => (2 * gap_ns).max(PAUSE_MS_MIN * MS),
    }
}

/// Sends all of it, each at its time, and kills the builder after some messages.
fn play(sources: usize, mut due: Vec<Due>, deaths: &[usize]) -> Check {
    let mut config = Config::new(sources);
    config.timeout_ns = TIMEOUT_NS;
    let mut rig = Rig::new(config);
    rig.sink.set_room(usize::MAX);
    due.sort_by_key(|due| due.at_ns);
    for (index, due) in due.into_iter().enumerate() {
        rig.pass(due.at_ns + MS - rig.now_ns);
        let subs: Vec<_> = due.triggers.map(sub).collect();
        rig.send(due.source, &subs);
        rig.poll();
        if deaths.contains(&index) {
            rig.commit();
            rig.restart();
            rig.poll();
        }
    }
    rig.pass(10 * TIMEOUT_NS);
    rig.finish()
}

fn beat() -> impl Strategy<Value = Beat> {
    let per_message = proptest::collection::vec(1..60_u32, 3..8);
    (per_message, 50..2_000_u64).prop_map(|(per_message, interval_us)| Beat {
        per_message,
        interval_us,
    })
}

/// What comes twice.
#[derive(Debug, Clone)]
enum Twice {
    /// Messages of all sources, by chance, each soon behind itself.
    ByNetwork { one_in: usize, after_ms: u64 },
    /// The last messages of all sources, soon behind the last one.
    Looped { last: usize, after_ms: u64 },
    /// The last messages of no more than half of the sources, after any pause.
    Replayed {
        first: usize,
        sources: usize,
        last: usize,
    },
    /// Each message of one source.
    Doubled { source: usize, after_ms: u64 },
    /// The last messages of all sources after any pause, but for those of the first quarter.
    LateQuarters { last: usize },
}

/// Triggers before a pause and behind it, and what comes twice.
#[derive(Debug, Clone)]
struct Repeats {
    beat: Beat,
    counts: [u32; 2],
    /// Between the triggers and what comes again, and between that and the triggers behind it.
    rests_ms: [u64; 2],
    twice: Twice,
    deaths: Vec<usize>,
}

fn repeats() -> impl Strategy<Value = Repeats> {
    let soon = 0..PAUSE_MS_MIN - 1;
    let last = 1..50_usize;
    let twice = prop_oneof![
        (1..9_usize, soon.clone())
            .prop_map(|(one_in, after_ms)| Twice::ByNetwork { one_in, after_ms }),
        (last.clone(), soon).prop_map(|(last, after_ms)| Twice::Looped { last, after_ms }),
        (0..8_usize, 1..4_usize, last.clone()).prop_map(|(first, sources, last)| Twice::Replayed {
            first,
            sources,
            last
        }),
        (0..3_usize, 0..800_u64).prop_map(|(source, after_ms)| Twice::Doubled { source, after_ms }),
        last.prop_map(|last| Twice::LateQuarters { last }),
    ];
    let counts = [1..1_500_u32, 0..500];
    let deaths = proptest::collection::vec(0..60_usize, 0..3);
    (beat(), counts, [0..3_000_u64, 0..3_000], twice, deaths).prop_map(
        |(beat, counts, rests_ms, twice, deaths)| Repeats {
            beat,
            counts,
            rests_ms,
            twice,
            deaths,
        },
    )
}

impl Repeats {
    /// What comes once, and what comes again.
    fn due(&self) -> (Vec<Due>, Vec<Due>) {
        let n = self.beat.per_message.len();
        let [count, more] = self.counts;
        let mut once = self.beat.all(0..count, 0);
        let last_ns = once.iter().map(|due| due.at_ns).max().unwrap_or(0);
        let again_ns = last_ns + self.rests_ms[0] * MS;
        let of = |source: usize| once.iter().filter(move |due| due.source == source);
        let last_of = |source: usize, last: usize, at_ns: u64| {
            let skip = of(source).count().saturating_sub(last);
            of(source)
                .skip(skip)
                .cloned()
                .map(move |due| Due { at_ns, ..due })
        };
        let later = |after_ms: u64| {
            move |due: &Due| Due {
                at_ns: due.at_ns + after_ms * MS,
                ..due.clone()
            }
        };
        let again: Vec<Due> = match self.twice {
            Twice::ByNetwork { one_in, after_ms } => {
                once.iter().step_by(one_in).map(later(after_ms)).collect()
            }
            Twice::Looped { last, after_ms } => {
                let at_ns = last_ns + after_ms * MS;
                (0..n)
                    .flat_map(|source| last_of(source, last, at_ns))
                    .collect()
            }
            Twice::Replayed {
                first,
                sources,
                last,
            } => {
                let who = (0..sources.min(n / 2)).map(|index| (first + index) % n);
                who.flat_map(|source| last_of(source, last, again_ns))
                    .collect()
            }
            Twice::Doubled { source, after_ms } => of(source).map(later(after_ms)).collect(),
            Twice::LateQuarters { last } => {
                let all = (0..n).flat_map(|source| last_of(source, last, again_ns));
                all.filter(|due| due.triggers.start > count / 4).collect()
            }
        };
        let again_end_ns = again.iter().map(|due| due.at_ns).fold(last_ns, u64::max);
        let more_ns = again_end_ns + self.rests_ms[1] * MS;
        once.extend(self.beat.all(count..count + more, more_ns));
        (once, again)
    }
}

/// Lives of all sources, one after the other, each from 0 on.
#[derive(Debug, Clone)]
struct Lives {
    beat: Beat,
    /// Triggers of each life.
    counts: Vec<u32>,
    /// Silence before each life but the first, beyond the least that counts.
    rest_ms: u64,
    /// How much later than the first one each source begins, as a share of the time-out.
    delays: Vec<f64>,
    /// A source that stops in its first life, and where, as a share of that.
    dead: Option<(usize, f64)>,
    deaths: Vec<usize>,
}

fn lives() -> impl Strategy<Value = Lives> {
    let counts = proptest::collection::vec(1..1_500_u32, 2..4);
    let delays = proptest::collection::vec(prop_oneof![Just(0.0), 0.0..0.85], 8);
    let dead = proptest::option::weighted(0.3, (0..3_usize, 0.0..1.0));
    let deaths = proptest::collection::vec(0..60_usize, 0..3);
    (beat(), counts, 0..3_000_u64, delays, dead, deaths).prop_map(
        |(beat, counts, rest_ms, delays, dead, deaths)| Lives {
            beat,
            counts,
            rest_ms,
            delays,
            dead,
            deaths,
        },
    )
}

impl Lives {
    /// All that comes, and how much of each source.
    fn due(&self) -> (Vec<Due>, Vec<u64>) {
        let n = self.beat.per_message.len();
        let (mut due, mut sent) = (Vec::new(), vec![0; n]);
        let mut from_ns = 0;
        for (life, count) in self.counts.iter().copied().enumerate() {
            let mut end_ns = from_ns;
            let mut own = Vec::new();
            for (source, sent) in sent.iter_mut().enumerate() {
                let count = match self.dead {
                    Some((dead, share)) if dead == source && life == 0 => {
                        (share * f64::from(count)) as u32
                    }
                    Some((dead, _)) if dead == source => 0,
                    _ => count,
                };
                let delay = if life == 0 { 0.0 } else { self.delays[source] };
                let delay_ns = (delay * TIMEOUT_NS as f64) as u64;
                let messages = self.beat.messages(source, 0..count, from_ns + delay_ns);
                end_ns = messages.iter().map(|due| due.at_ns).fold(end_ns, u64::max);
                *sent += u64::from(count);
                own.extend(messages);
            }
            let dead_gone = |due: &&Due| self.dead.is_none_or(|(dead, _)| dead != due.source);
            let living: Vec<Due> = own.iter().filter(dead_gone).cloned().collect();
            let known_ns = if self.deaths.is_empty() {
                pause_ns(&living)
            } else {
                TIMEOUT_NS
            };
            due.append(&mut own);
            // One life at a time waits for its turn behind one that waits for the dead.
            let waits = life > 0 && self.dead.is_some();
            let turn_ns = if waits { 3 * TIMEOUT_NS } else { 0 };
            from_ns = end_ns + known_ns + self.rest_ms * MS + turn_ns;
        }
        (due, sent)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// After any pause, up to a time-out apart, with a dead source, again and again, beside a builder that dies.
    #[test]
    fn all_sources_that_begin_anew_lose_nothing(lives in lives()) {
        let (due, sent) = lives.due();
        let check = play(sent.len(), due, &lives.deaths);
        for (source, sent) in sent.into_iter().enumerate() {
            let balance = check.sources[source];
            prop_assert_eq!((balance.outgoing.0, balance.all_dropped()), (sent, 0), "source {}: {:?}", source, balance);
        }
        prop_assert_eq!(check.resynchronised, lives.counts.len() as u64 - 1);
        let triggers: u64 = lives.counts.iter().map(|count| u64::from(*count)).sum();
        prop_assert_eq!(check.span, triggers);
    }

    /// Repeated by the network or by senders, soon or late, at any moment: it is dropped by its name, costs nothing else, and no
    /// numbers begin anew.
    #[test]
    fn what_comes_twice_is_a_duplicate_and_no_restart(repeats in repeats()) {
        let (once, again) = repeats.due();
        let items = |due: &[Due], source| -> u64 {
            let own = due.iter().filter(|due| due.source == source);
            own.map(|due| due.triggers.len() as u64).sum()
        };
        let n = repeats.beat.per_message.len();
        let all = [once.clone(), again.clone()].concat();
        let check = play(n, all, &repeats.deaths);
        prop_assert_eq!(check.resynchronised, 0);
        prop_assert_eq!(check.complete, u64::from(repeats.counts.iter().sum::<u32>()));
        for (source, balance) in check.sources.iter().enumerate() {
            let told = (balance.outgoing.0, balance.lost(SubEventDrop::Duplicate), balance.all_dropped());
            let twice = items(&again, source);
            prop_assert_eq!(told, (items(&once, source), twice, twice), "source {}", source);
        }
    }
}
