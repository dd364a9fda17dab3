//! When each source of a run that builds events spoke last, and what its silence cost.

use std::cmp::Reverse;
use std::collections::HashMap;

use forebay_ledger::{Snapshot, grouped};
use serde::Serialize;

/// Silent sources that are told of one by one.
pub const SILENT_SHOWN: usize = 3;

/// What the builder knows of the silence of one source. Times of silence go from its last message (of one that has sent nothing: from
/// the run's first) to the last event that was built.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Heard {
    /// Name of the source.
    pub source: String,
    /// Whether it was waited for in vain and nothing came since.
    pub silent: bool,
    /// Unix time of its last message, in s; none before the first.
    pub last_seen_unix_s: Option<f64>,
    /// Trigger number of its last sub-event that is in an event.
    pub last_trigger: Option<u64>,
    /// How long it has been silent, in s; 0 of one that is not.
    pub silent_s: f64,
    /// Events that were closed without it meanwhile.
    pub silent_events: u64,
    /// How often it came back.
    pub silences_ended: u64,
    /// How long it had been silent before, all those silences together, in s.
    pub silences_ended_s: f64,
    /// Events that were closed without it in them.
    pub silences_ended_events: u64,
    /// Events that were closed without it over the whole run, for whatever cause.
    pub events_without: u64,
}

impl Heard {
    /// All sources of the ledger of a run that builds events, in order of declaration; none of others, or of those of versions
    /// that did not count this.
    #[must_use]
    pub fn all(snapshot: &Snapshot) -> Vec<Self> {
        let builder = || snapshot.metrics().filter(|line| line.group == "builder");
        let words: HashMap<(&str, &str), u64> = builder()
            .map(|line| ((line.name, line.owner), line.value))
            .collect();
        let sources = builder().filter(|line| line.name == "events_without");
        let heard = sources.map(|line| Self::of(&words, line.owner, line.value));
        heard.collect()
    }

    fn of(words: &HashMap<(&str, &str), u64>, source: &str, events_without: u64) -> Self {
        let word = |name: &str, owner: &str| words.get(&(name, owner)).copied().unwrap_or(0);
        let own = |name: &str| word(&format!("{source}.{name}"), "");
        let silent = own("silent") != 0;
        let since_ns = match own("heard_ns") {
            0 => word("first_message_ns", ""),
            heard_ns => heard_ns,
        };
        let silent_ns = word("last_event_ns", "").saturating_sub(since_ns);
        let seen_ns = word("source_last_seen_ns", source);
        Self {
            source: source.to_owned(),
            silent,
            last_seen_unix_s: (seen_ns > 0).then(|| seconds(seen_ns)),
            last_trigger: own("last_trigger").checked_sub(1),
            silent_s: if silent { seconds(silent_ns) } else { 0.0 },
            silent_events: if silent { own("unheard_events") } else { 0 },
            silences_ended: own("silences_ended"),
            silences_ended_s: seconds(own("silences_ended_ns")),
            silences_ended_events: own("silences_ended_events"),
            events_without,
        }
    }

    /// Those of `all` that are silent, the one that costs most first, and behind them those that were, too.
    #[must_use]
    pub fn by_trouble(mut all: Vec<Self>) -> Vec<Self> {
        all.retain(|heard| heard.silent || heard.silences_ended > 0);
        all.sort_by_key(|heard| {
            let events = heard.silent_events + heard.silences_ended_events;
            Reverse((heard.silent, events))
        });
        all
    }

    /// Of one that is silent: since when, and what that cost.
    #[must_use]
    pub fn silence(&self) -> String {
        let since = match (self.last_trigger, self.last_seen_unix_s) {
            (Some(trigger), _) => format!(" (since trigger {})", grouped(trigger.into())),
            (None, Some(_)) => " (in no event so far)".to_owned(),
            (None, None) => " (since the beginning)".to_owned(),
        };
        self.words(&since)
    }

    /// The same in fewer words.
    #[must_use]
    pub fn silence_in_short(&self) -> String {
        self.words("")
    }

    fn words(&self, since: &str) -> String {
        let events = grouped(self.silent_events.into());
        let Self {
            source, silent_s, ..
        } = self;
        format!("{source} silent for {silent_s:.1} s{since}: {events} events without it")
    }

    /// Of one that came back since it was `before`: what its silence cost.
    #[must_use]
    pub fn return_since(&self, before: &Self) -> Option<String> {
        let times = self.silences_ended.checked_sub(before.silences_ended)?;
        let seconds = self.silences_ended_s - before.silences_ended_s;
        let events = self.silences_ended_events - before.silences_ended_events;
        let how_often = match times {
            0 => return None,
            1 => String::new(),
            times => format!(", {times} times"),
        };
        let events = grouped(events.into());
        let source = &self.source;
        Some(format!(
            "{source} sends again after {seconds:.1} s{how_often}: {events} events without it"
        ))
    }

    /// A line for each of `troubled`, as far as there is room, and one for the others.
    #[must_use]
    pub fn lines(troubled: &[Self]) -> Vec<String> {
        let mut lines = Vec::new();
        for heard in troubled.iter().take(SILENT_SHOWN) {
            lines.extend(heard.silent.then(|| heard.silence()));
            lines.extend(heard.return_since(&Self::default()));
        }
        lines.extend(Self::others(troubled));
        lines
    }

    /// What is said of those for which there is no room.
    #[must_use]
    pub fn others(troubled: &[Self]) -> Option<String> {
        let others = troubled.get(SILENT_SHOWN..)?;
        let silent = others.iter().filter(|heard| heard.silent).count();
        match (silent, others.len() - silent) {
            (0, 0) => None,
            (silent, 0) => Some(format!("and {silent} more silent")),
            (0, back) => Some(format!("and {back} more that send again")),
            (silent, back) => Some(format!("and {silent} more silent, {back} that send again")),
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent(source: &str, silent_events: u64) -> Heard {
        Heard {
            source: source.to_owned(),
            silent: true,
            last_seen_unix_s: Some(1.7e9),
            last_trigger: Some(11_999),
            silent_s: 6.64,
            silent_events,
            ..Heard::default()
        }
    }

    fn back(source: &str, silences_ended: u64, events: u64) -> Heard {
        Heard {
            source: source.to_owned(),
            silences_ended,
            silences_ended_s: 2.0,
            silences_ended_events: events,
            ..Heard::default()
        }
    }

    #[test]
    fn a_silence_is_told_with_its_numbers() {
        let heard = silent("source17", 27_585);
        assert_eq!(
            heard.silence(),
            "source17 silent for 6.6 s (since trigger 11,999): 27,585 events without it"
        );
        assert_eq!(
            heard.silence_in_short(),
            "source17 silent for 6.6 s: 27,585 events without it"
        );
        let never = Heard {
            last_seen_unix_s: None,
            last_trigger: None,
            ..heard
        };
        assert!(never.silence().contains("(since the beginning)"));
    }

    #[test]
    fn a_return_is_told_once_for_all_silences_since() {
        let before = back("source3", 1, 8_000);
        let mut now = back("source3", 2, 9_500);
        now.silences_ended_s = 3.25;
        assert_eq!(before.return_since(&before), None);
        assert_eq!(
            now.return_since(&before).unwrap(),
            "source3 sends again after 1.2 s: 1,500 events without it"
        );
        assert_eq!(
            now.return_since(&Heard::default()).unwrap(),
            "source3 sends again after 3.2 s, 2 times: 9,500 events without it"
        );
    }

    #[test]
    fn the_most_costly_silence_comes_first_and_the_rest_are_counted() {
        let sound = Heard::default();
        let mut all = vec![sound, back("b", 1, 90), silent("s0", 5)];
        all.extend((1..6).map(|index| silent(&format!("s{index}"), 10 * index)));
        let sorted = Heard::by_trouble(all);
        let names: Vec<&str> = sorted.iter().map(|heard| heard.source.as_str()).collect();
        assert_eq!(names, ["s5", "s4", "s3", "s2", "s1", "s0", "b"]);
        let lines = Heard::lines(&sorted);
        assert_eq!(lines.len(), SILENT_SHOWN + 1);
        assert!(lines[0].starts_with("s5 silent for"), "{lines:?}");
        assert_eq!(lines[SILENT_SHOWN], "and 3 more silent, 1 that send again");
        assert_eq!(Heard::others(&sorted[..SILENT_SHOWN]), None);
        assert_eq!(
            Heard::lines(&sorted[6..]),
            ["b sends again after 2.0 s: 90 events without it"]
        );
    }
}
