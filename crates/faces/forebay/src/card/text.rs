//! Reports of cards for people.

use std::fmt::Write;

use forebay_run_emu::validate::{
    BatchReport, Bound, CardReport, Judged, Measurement, Outcome, Round, Truth, ValidatedCard,
};

use crate::output::counted;

/// Writing to a text cannot fail.
macro_rules! line {
    ($text:expr, $($words:tt)*) => {{ let _ = writeln!($text, $($words)*); }};
}

fn value(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e7 {
        format!("{value:.0}")
    } else {
        format!("{value:.3e}")
    }
}

fn measured(one: &Measurement) -> String {
    let unit = if one.unit.is_empty() { "" } else { " " };
    let limit = match one.limit {
        Bound::Is(is) => format!(", must be {}", value(is)),
        Bound::Least(least) => format!(", at least {}", value(least)),
        Bound::Most(most) => format!(", at most {}", value(most)),
        Bound::None => String::new(),
    };
    let mark = if one.good { " " } else { "!" };
    format!(
        "{mark} {}: {}{unit}{}{limit}",
        one.name,
        value(one.value),
        one.unit
    )
}

fn round(text: &mut String, number: usize, round: &Round) {
    let passed = if round.passed() { "passed" } else { "failed" };
    line!(text, "round {}: {passed}", number + 1);
    for test in &round.tests {
        let outcome = match &test.outcome {
            Outcome::Pass => "pass".to_owned(),
            Outcome::Fail => "FAIL".to_owned(),
            Outcome::Skipped(why) => format!("not carried out: {why}"),
        };
        line!(text, "  {}: {outcome}", test.test.name());
        for one in &test.measurements {
            line!(text, "   {}", measured(one));
        }
        for left_out in &test.left_out {
            line!(text, "    left out: {left_out}");
        }
        for symptom in &test.symptoms {
            line!(text, "    symptom: {}", symptom.says);
        }
    }
    for (rank, one) in round.diagnosis.iter().enumerate() {
        let rank = if rank == 0 { "likeliest" } else { "or" };
        line!(text, "  {rank}: {} ({})", one.suspect.name(), one.place);
    }
    if let Some(repair) = round.repair {
        line!(text, "  repair: {}", repair.name());
    }
}

/// The rounds of a card, and what became of it.
pub(super) fn report(name: &str, report: &CardReport) -> String {
    let mut text = String::new();
    line!(text, "{name}: {}", report.verdict.name());
    for (number, one) in report.rounds.iter().enumerate() {
        round(&mut text, number, one);
    }
    text
}

fn judged(truth: &Truth) -> &'static str {
    match truth.judged {
        Judged::Good => "good, and passed",
        Judged::FalseAlarm => "FALSE ALARM: nothing was wrong",
        Judged::Missed => "MISSED: it passed",
        Judged::Named if truth.placed => "named, at its place",
        Judged::Named => "named, at another place",
        Judged::Misnamed => "CALLED SOMETHING ELSE",
    }
}

/// Everything of a card.
pub(super) fn card(card: &ValidatedCard) -> String {
    let mut text = report(&card.name, &card.report);
    line!(
        text,
        "emulated, seed {}, {:.1} s of its time",
        card.seed,
        card.card_seconds
    );
    for fault in &card.truth.faults {
        let cure = fault.cure.unwrap_or("nothing");
        line!(
            text,
            "truth: {}: {}; cured by {cure}",
            fault.kind,
            fault.says
        );
    }
    line!(text, "judged: {}", judged(&card.truth));
    if card.truth.escaped {
        line!(text, "ESCAPED: it was let go with a fault");
    }
    text
}

/// The batch in numbers, with a line for each card that is not simply good.
pub(super) fn batch(report: &BatchReport) -> String {
    let mut text = String::new();
    for card in &report.cards {
        if card.report.rounds.len() == 1 && card.truth.judged == Judged::Good {
            continue;
        }
        let likeliest = card
            .report
            .rounds
            .first()
            .and_then(|one| one.diagnosis.first());
        let named = likeliest.map_or_else(
            || "no fault seen".to_owned(),
            |one| format!("{} ({})", one.suspect.name(), one.place),
        );
        let repairs: Vec<&str> = card
            .report
            .rounds
            .iter()
            .filter_map(|round| round.repair.map(|repair| repair.name()))
            .collect();
        line!(
            text,
            "{}: {named}; repairs: {}; {}; {}{}",
            card.name,
            if repairs.is_empty() {
                "none".to_owned()
            } else {
                repairs.join(", ")
            },
            card.report.verdict.name(),
            judged(&card.truth),
            if card.truth.escaped {
                "; ESCAPED with a fault"
            } else {
                ""
            },
        );
    }
    let all = &report.summary;
    if report.interrupted {
        line!(text, "INTERRUPTED: not all cards were tested.");
    }
    line!(
        text,
        "{} (emulated, seed {}), of them faulty: {}",
        counted(all.cards, "card"),
        report.seed,
        all.faulty
    );
    line!(
        text,
        "passed at once: {} ({:.1} %), recovered: {}, rejected: {}, {}; good in the end: {:.1} %",
        all.passed,
        100.0 * all.yield_first,
        all.recovered,
        all.rejected,
        counted(all.repairs, "repair"),
        100.0 * all.yield_final
    );
    let _ = write!(
        text,
        "against the truth: {} named ({} at the right place), {} called something else, {} missed, {}, {} let go with a fault",
        all.named,
        all.placed,
        all.misnamed,
        all.missed,
        counted(all.false_alarms, "false alarm"),
        all.escaped
    );
    text
}
