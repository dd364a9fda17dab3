//! What follows from one process of the test runner: which tests failed, which have no result and must run again.

use crate::child::{End, Ended};

use super::libtest::{Failure, Report};

/// libtest's exit code when a test failed.
const FAILED_CODE: i32 = 101;

/// What is known after one process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) failures: Vec<Failure>,
    /// Tests that had no turn before the process ended.
    pub(crate) without_turn: Vec<String>,
    /// The process did not end as a test runner does. That is a failure of the run, whatever its tests do alone.
    pub(crate) broken: Option<String>,
}

/// Judges a process that ran `order`, `threads` tests at a time. `order` is asked for only where tests have no result.
pub(crate) fn round(
    ended: &Ended,
    report: &Report,
    threads: usize,
    order: impl FnOnce() -> Vec<String>,
) -> Round {
    let failures = report.failures.clone();
    let Some(why) = unusual(ended, report) else {
        return Round {
            failures,
            ..Round::default()
        };
    };
    let mut without_result = order();
    without_result.retain(|name| !report.results.iter().any(|result| result.name == *name));
    // Tests begin in this order, a next one when one ends: what ran is what comes first.
    let without_turn = without_result.split_off(threads.min(without_result.len()));
    let ran = without_result;
    let timed_out = matches!(ended.end, End::TimedOut(_));
    let broken = (!timed_out || ran.is_empty()).then(|| match &ran[..] {
        [] => why.clone(),
        ran => format!("{why}; what ran then: {}", ran.join(", ")),
    });
    let output = format!("{why}\n{}", ended.text());
    let ran = ran.into_iter().map(|name| Failure {
        name,
        output: output.clone(),
    });
    Round {
        failures: failures_before(report).into_iter().chain(ran).collect(),
        without_turn,
        broken,
    }
}

/// The failures of a process that may not have come to print their outputs.
fn failures_before(report: &Report) -> Vec<Failure> {
    if report.closed {
        return report.failures.clone();
    }
    let failure = |name: &str| Failure {
        name: name.to_owned(),
        output: "(its output went with the process)\n".to_owned(),
    };
    report.failed().map(failure).collect()
}

/// How a process ended that did not end as a test runner does.
fn unusual(ended: &Ended, report: &Report) -> Option<String> {
    if let End::TimedOut(_) = ended.end {
        return Some(ended.end.to_string());
    }
    let failed = report.sums.failed;
    match ended.end.code() {
        Some(0) if report.closed && failed == 0 => None,
        Some(FAILED_CODE) if report.closed && failed > 0 && failed == report.failures.len() => None,
        _ if report.closed => Some(format!(
            "{}, after a closing line with {failed} failed and {} named",
            ended.end,
            report.failures.len()
        )),
        _ => Some(format!("{}, without the runner's closing line", ended.end)),
    }
}

/// How a test did that ran alone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    Passed,
    Ignored,
    Failed,
}

/// Judges a process that had one test to run.
pub(crate) fn alone(ended: &Ended, report: &Report) -> Alone {
    let whole = ended.end.is_success() && report.closed && report.sums.failed == 0;
    match (whole, report.sums.passed, report.sums.ignored) {
        (true, 1, 0) => Alone::Passed,
        (true, 0, 1) => Alone::Ignored,
        _ => Alone::Failed,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    use super::*;
    use crate::child::Line;

    const MIXED: &str = include_str!("recorded/mixed.txt");
    const ABORTED: &str = include_str!("recorded/aborted.txt");
    const PASSED: &str = include_str!("recorded/passed.txt");

    fn exit(code: i32) -> End {
        End::Exited(ExitStatus::from_raw(code << 8))
    }

    fn ended(end: End, text: &str) -> (Ended, Report) {
        let line = |text: &str| Line {
            at: Duration::ZERO,
            text: text.to_owned(),
        };
        let lines: Vec<Line> = text.lines().map(line).collect();
        let report = Report::read(&lines);
        let ended = Ended {
            end,
            lines,
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
        };
        (ended, report)
    }

    fn judged(end: End, text: &str, order: &[&str]) -> Round {
        let (ended, report) = ended(end, text);
        round(&ended, &report, 2, || {
            order.iter().map(|name| (*name).to_owned()).collect()
        })
    }

    fn names(round: &Round) -> Vec<&str> {
        round.failures.iter().map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn a_process_that_ends_as_it_should_names_its_failures() {
        let round = judged(exit(101), MIXED, &[]);
        assert_eq!(names(&round), ["tests::fails", "tests::result"]);
        assert_eq!((round.without_turn.len(), round.broken), (0, None));
        assert_eq!(judged(exit(0), PASSED, &[]), Round::default());
    }

    #[test]
    fn an_exit_code_that_contradicts_the_lines_is_a_failure() {
        for (code, text) in [(0, MIXED), (101, PASSED), (1, PASSED), (0, ""), (101, "")] {
            let broken = judged(exit(code), text, &[]).broken;
            assert!(broken.is_some(), "{code}: {text}");
        }
    }

    #[test]
    fn a_process_that_aborts_names_what_ran_and_what_had_no_turn() {
        let signal = End::Exited(ExitStatus::from_raw(6));
        let round = judged(signal, ABORTED, &["a", "b", "c", "d"]);
        assert_eq!(names(&round), ["b", "c"]);
        assert_eq!(round.without_turn, ["d"]);
        let broken = round.broken.expect("it is broken");
        assert!(broken.contains("signal: 6"), "{broken}");
        assert!(broken.ends_with("what ran then: b, c"), "{broken}");
    }

    #[test]
    fn what_hangs_has_failed_and_the_run_is_not_broken_by_it() {
        let limit = End::TimedOut(Duration::from_secs(600));
        let text = "running 3 tests\ntest a ... ok\ntest c ... FAILED\n";
        let round = judged(limit, text, &["a", "b", "c"]);
        assert_eq!(names(&round), ["c", "b"]);
        assert!(round.failures[1].output.starts_with("no end within 600 s"));
        assert_eq!((round.without_turn.len(), round.broken), (0, None));
    }

    #[test]
    fn a_time_out_that_no_test_explains_breaks_the_run() {
        let limit = End::TimedOut(Duration::from_secs(600));
        assert!(judged(limit, PASSED, &["tests::prints"]).broken.is_some());
    }

    #[test]
    fn alone_a_test_passes_only_if_it_ran() {
        let (whole, report) = ended(exit(0), PASSED);
        assert_eq!(alone(&whole, &report), Alone::Passed);
        let none = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n";
        let (whole, report) = ended(exit(0), none);
        assert_eq!(alone(&whole, &report), Alone::Failed);
        let (whole, report) = ended(exit(101), PASSED);
        assert_eq!(alone(&whole, &report), Alone::Failed);
    }
}
