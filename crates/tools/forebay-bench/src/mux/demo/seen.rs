//! What was seen, in one line: from what was counted, and nothing else.

use serde::Serialize;

use super::span::{Span, SpanClient};

/// A side that has so much of what was asked has what was asked; the rest was on its way.
const ENOUGH: f64 = 0.99;
/// A round trip that is so much longer is a longer one.
const LONGER: u64 = 2;

/// What the change did for the clients that behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// They had less than they asked for, or had it late, and after the change they had all of it sooner.
    Helped,
    /// They had what they asked for before it as well as after it.
    NotNeeded,
    /// They did not have what they asked for after it, or not sooner.
    DidNotHelp,
    /// It was not made, or too late to be measured.
    NotMeasured,
}

/// What those that behave, and those that flood, came to.
struct Side {
    names: String,
    /// Part of what was asked that was answered, 0 to 1.
    share: f64,
    /// The longest median of a round trip; none: no answer.
    rtt_ns: Option<u64>,
    /// Packets that the daemon dropped.
    dropped: u64,
}

impl Side {
    fn of(span: &Span, is_flood: bool) -> Self {
        let all = || span.clients.iter().filter(|it| it.is_flood == is_flood);
        let sum = |of: fn(&SpanClient) -> u64| all().map(of).sum::<u64>();
        let asked = sum(|it| it.asked_packets).max(1);
        let names: Vec<_> = all().map(|it| it.name.as_str()).collect();
        let medians = all().filter(|it| it.rtt_ns.count > 0);
        Self {
            names: names.join(" and "),
            share: (sum(|it| it.answered_packets) as f64 / asked as f64).min(1.0),
            rtt_ns: medians.map(|it| it.rtt_ns.p50).max(),
            dropped: sum(|it| it.drops.values().sum()),
        }
    }

    fn got(&self) -> String {
        let share = 100.0 * self.share;
        match self.rtt_ns {
            Some(ns) => format!(
                "{share:.0} % of what they asked for, after {} (median)",
                time(ns)
            ),
            None => format!("{share:.0} % of what they asked for"),
        }
    }
}

fn time(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    match ms {
        10.0.. => format!("{ms:.0} ms"),
        1.0.. => format!("{ms:.1} ms"),
        _ => format!("{ms:.2} ms"),
    }
}

fn verdict(before: &Side, after: &Side) -> Verdict {
    let was_late = match (before.rtt_ns, after.rtt_ns) {
        (Some(then), Some(now)) => then >= LONGER * now.max(1),
        (then, now) => then.is_none() && now.is_some(),
    };
    match (before.share >= ENOUGH && !was_late, after.share >= ENOUGH) {
        (true, true) => Verdict::NotNeeded,
        (false, true) => Verdict::Helped,
        (_, false) => Verdict::DidNotHelp,
    }
}

/// What was seen, for programs and for people.
pub(super) fn say(before: Option<&Span>, after: Option<&Span>) -> (Verdict, String) {
    let Some(before) = before else {
        let text = "It ended before anything was measured.".to_owned();
        return (Verdict::NotMeasured, text);
    };
    let (others, flood) = (Side::of(before, false), Side::of(before, true));
    let first = format!(
        "Under {} {} got {}, and {}, which floods, {:.0} %",
        before.policy,
        others.names,
        others.got(),
        flood.names,
        100.0 * flood.share,
    );
    let Some(after) = after else {
        let text = format!("{first}. It ended before a change was measured.");
        return (Verdict::NotMeasured, text);
    };
    let (others_now, flood_now) = (Side::of(after, false), Side::of(after, true));
    let verdict = verdict(&others, &others_now);
    let why = match verdict {
        Verdict::Helped => "the change gave them what was theirs",
        Verdict::NotNeeded => "they lacked nothing before it",
        Verdict::DidNotHelp | Verdict::NotMeasured => "the change did not give them all of it",
    };
    let text = format!(
        "{first}; under {} they got {}, and {} {:.0} %, with {} of its packets and {} of theirs dropped by the multiplexer: {why}.",
        after.policy,
        others_now.got(),
        flood.names,
        100.0 * flood_now.share,
        flood_now.dropped,
        others_now.dropped,
    );
    (verdict, text)
}

#[cfg(test)]
mod tests {
    use super::super::span::Rtt;
    use super::*;

    /// Two that behave and ask for 100 packets each, and one that asks for 1,000.
    fn span(policy: &str, answered: [u64; 3], p50: u64) -> Span {
        let client = |at: usize| SpanClient {
            name: ["A", "B", "C"][at].to_owned(),
            is_flood: at == 2,
            asked_packets: [100, 100, 1_000][at],
            answered_packets: answered[at],
            rtt_ns: Rtt {
                count: answered[at],
                p50: p50 + at as u64,
                p99: 0,
            },
            drops: [("mux_transmit.sojourn".to_owned(), [0, 0, 7][at])].into(),
            ..SpanClient::default()
        };
        Span {
            policy: policy.to_owned(),
            from_s: 0.0,
            to_s: 1.0,
            clients: (0..3).map(client).collect(),
            line_dropped_packets: 0,
        }
    }

    #[test]
    fn the_line_has_the_numbers_that_were_counted() {
        let before = span("round-robin", [40, 60, 500], 139_000_000);
        let after = span("token-bucket", [100, 99, 170], 310_000);
        let (verdict, text) = say(Some(&before), Some(&after));
        assert_eq!(verdict, Verdict::Helped);
        assert_eq!(
            text,
            "Under round-robin A and B got 50 % of what they asked for, after 139 ms (median), and C, which floods, 50 %; under token-bucket they got 100 % of what they asked for, after 0.31 ms (median), and C 17 %, with 7 of its packets and 0 of theirs dropped by the multiplexer: the change gave them what was theirs."
        );
    }

    #[test]
    fn the_verdict_follows_from_shares_and_round_trips() {
        let (late, soon) = (100_000, 1_000);
        let all = [100, 100, 1];
        for (before, after, expected) in [
            ((all, late), (all, soon), Verdict::Helped),
            ((all, soon), (all, soon), Verdict::NotNeeded),
            (([90, 100, 1], soon), (all, soon), Verdict::Helped),
            (
                ([90, 100, 1], late),
                ([95, 100, 1], soon),
                Verdict::DidNotHelp,
            ),
            (([0, 0, 1], late), (all, soon), Verdict::Helped),
        ] {
            let [before, after] = [before, after].map(|(got, p50)| span("p", got, p50));
            let (verdict, text) = say(Some(&before), Some(&after));
            assert_eq!(verdict, expected, "{text}");
        }
        let before = span("p", all, late);
        for (before, after) in [(None, None), (Some(&before), None)] {
            let (verdict, text) = say(before, after);
            assert_eq!(verdict, Verdict::NotMeasured);
            assert!(text.contains("It ended before"), "{text}");
        }
        assert!(say(Some(&before), None).1.contains("A and B got 100 %"));
    }
}
