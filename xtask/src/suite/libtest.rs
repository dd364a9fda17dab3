//! What Rust's test runner (libtest, with `--show-output`) writes, read line by line.
//!
//! A test may print anything, lines of the runner's own form, too: what counts is checked against the runner's own sums.

use std::time::Duration;

use crate::child::Line;

/// A test that leaves something out prints a line that begins so, and the reason behind it.
pub(crate) const SKIPPED: &str = "skipped: ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    Failed,
    Ignored,
}

/// The result of one test and when its line came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestResult {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    pub(crate) at: Duration,
}

/// The sums of the runner's closing lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
}

impl Sums {
    fn all(self) -> usize {
        self.passed + self.failed + self.ignored
    }

    /// `test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.12s`
    fn parse(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |word: &str| {
            let mut parts = counts.split("; ");
            parts.find_map(|part| part.strip_suffix(word)?.trim().parse().ok())
        };
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")?,
            ignored: count("ignored")?,
        })
    }
}

/// A test and what it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) name: String,
    pub(crate) output: String,
}

/// What a test left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skip {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// All that a process of the test runner wrote.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) sums: Sums,
    /// Whether each list of tests that was begun has its closing line.
    pub(crate) closed: bool,
    pub(crate) results: Vec<TestResult>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) skips: Vec<Skip>,
    /// The runner's lines without what tests that passed wrote.
    pub(crate) shown: Vec<String>,
}

impl Report {
    pub(crate) fn read(lines: &[Line]) -> Self {
        let mut report = Self::default();
        let mut rest = lines;
        while let Some(start) = rest.iter().position(|line| announced(&line.text).is_some()) {
            let tests = announced(&rest[start].text).unwrap_or_default();
            let closing = |line: &Line| Sums::parse(&line.text).is_some_and(|s| s.all() == tests);
            let Some(length) = rest[start..].iter().position(closing) else {
                report.closed = false;
                report.results.extend(results(&rest[start..]));
                report.shown.extend(texts(rest));
                return report;
            };
            let (before, after) = (&rest[..start], &rest[start + length + 1..]);
            report.shown.extend(texts(before));
            report.read_list(&rest[start..=start + length]);
            report.closed = true;
            rest = after;
        }
        report.shown.extend(texts(rest));
        report
    }

    /// As the closing lines say, or, where one is missing, as the lines of the tests that had ended.
    pub(crate) fn sums(&self) -> Sums {
        if self.closed {
            return self.sums;
        }
        let count = |outcome| {
            self.results
                .iter()
                .filter(|one| one.outcome == outcome)
                .count()
        };
        Sums {
            passed: count(Outcome::Ok),
            failed: count(Outcome::Failed),
            ignored: count(Outcome::Ignored),
        }
    }

    /// The tests whose lines say so.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &str> {
        let failed = self
            .results
            .iter()
            .filter(|one| one.outcome == Outcome::Failed);
        failed.map(|result| result.name.as_str())
    }

    /// From `running 5 tests` to `test result: …`.
    fn read_list(&mut self, lines: &[Line]) {
        let results_end = lines.iter().position(|line| is_heading(&line.text));
        let results_end = results_end.unwrap_or(lines.len() - 1);
        let results = results(&lines[..results_end]);
        let sums = Sums::parse(&lines[lines.len() - 1].text).unwrap_or_default();
        let list = lines.iter().rposition(|line| line.text == "failures:");
        let list = list.filter(|_| sums.failed > 0).unwrap_or(lines.len() - 1);
        let failed: Vec<&str> = lines[list..]
            .iter()
            .filter_map(|line| line.text.strip_prefix("    "))
            .collect();
        self.shown.extend(texts(&lines[..results_end]));
        self.read_outputs(
            &lines[results_end..list.max(results_end)],
            &results,
            &failed,
        );
        self.shown.extend(texts(&lines[list..]));
        self.results.extend(results);
        self.sums.passed += sums.passed;
        self.sums.failed += sums.failed;
        self.sums.ignored += sums.ignored;
    }

    /// The blocks `---- NAME stdout ----` of the tests that passed and of those that failed.
    fn read_outputs(&mut self, lines: &[Line], results: &[TestResult], failed: &[&str]) {
        let first = self.failures.len();
        self.failures.extend(failed.iter().map(|name| Failure {
            name: (*name).to_owned(),
            output: String::new(),
        }));
        let known =
            |name: &str| failed.contains(&name) || results.iter().any(|result| result.name == name);
        let mut current = "";
        for line in lines {
            match block(&line.text).filter(|name| known(name)) {
                Some(name) => current = name,
                None if current.is_empty() => continue,
                None => {}
            }
            let failures = &mut self.failures[first..];
            if let Some(failure) = failures.iter_mut().find(|failure| failure.name == current) {
                failure.output.push_str(&line.text);
                failure.output.push('\n');
                self.shown.push(line.text.clone());
            } else if let Some(reason) = line.text.strip_prefix(SKIPPED) {
                self.skips.push(Skip {
                    name: current.to_owned(),
                    reason: reason.to_owned(),
                });
            }
        }
    }
}

fn texts(lines: &[Line]) -> impl Iterator<Item = String> {
    lines.iter().map(|line| line.text.clone())
}

/// `running 5 tests`
fn announced(line: &str) -> Option<usize> {
    let (count, noun) = line.strip_prefix("running ")?.split_once(' ')?;
    let count = count.parse().ok()?;
    matches!(noun, "test" | "tests").then_some(count)
}

fn is_heading(line: &str) -> bool {
    matches!(line, "successes:" | "failures:")
}

/// `---- NAME stdout ----`; that of a test which must panic is named without a word of it.
fn block(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

fn results(lines: &[Line]) -> Vec<TestResult> {
    lines.iter().filter_map(result).collect()
}

/// `test NAME ... ok`
fn result(line: &Line) -> Option<TestResult> {
    let (name, outcome) = line.text.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let outcome = match outcome {
        "ok" => Outcome::Ok,
        "FAILED" => Outcome::Failed,
        "ignored" => Outcome::Ignored,
        _ if outcome.starts_with("ignored, ") => Outcome::Ignored,
        _ => return None,
    };
    let marks = [" - should panic", " - compile fail", " - compile"];
    let name = marks
        .iter()
        .find_map(|mark| name.strip_suffix(mark))
        .unwrap_or(name);
    Some(TestResult {
        name: name.to_owned(),
        outcome,
        at: line.at,
    })
}

/// The tests that `--list` names, in the order in which they are run.
pub(crate) fn listed(lines: &[Line]) -> Vec<String> {
    let names = lines
        .iter()
        .filter_map(|line| line.text.strip_suffix(": test"));
    names.map(str::to_owned).collect()
}

/// The name of a doctest, `src/lib.rs - item (line 7)`, without the line, which changes with every line above it.
pub(crate) fn without_line(name: &str) -> String {
    let parts = name.split_once(" (line ");
    match parts.and_then(|(front, rest)| Some((front, rest.split_once(')')?))) {
        Some((front, (_, behind))) => format!("{front}{behind}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by libtest of Rust 1.96, with `--show-output --test-threads=2`; backtraces are cut.
    const MIXED: &str = include_str!("recorded/mixed.txt");
    const ABORTED: &str = include_str!("recorded/aborted.txt");
    const DOCTESTS: &str = include_str!("recorded/doctests.txt");
    const PASSED: &str = include_str!("recorded/passed.txt");

    fn lines(text: &str) -> Vec<Line> {
        let line = |(at, text): (usize, &str)| Line {
            at: Duration::from_millis(at as u64),
            text: text.to_owned(),
        };
        text.lines().enumerate().map(line).collect()
    }

    fn read(text: &str) -> Report {
        Report::read(&lines(text))
    }

    fn names(failures: &[Failure]) -> Vec<&str> {
        failures.iter().map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn failures_are_named_with_their_output_whatever_tests_print() {
        let report = read(MIXED);
        assert!(report.closed);
        let Sums {
            passed,
            failed,
            ignored,
        } = report.sums;
        assert_eq!((passed, failed, ignored), (2, 2, 1));
        assert_eq!(names(&report.failures), ["tests::fails", "tests::result"]);
        assert!(report.failures[0].output.contains("    nothing\n"));
        assert!(report.failures[0].output.contains("left: 1"));
        assert!(report.failures[1].output.ends_with("Error: \"x\"\n\n\n"));
    }

    #[test]
    fn each_test_has_its_result_and_time() {
        let results = read(MIXED).results;
        let of = |name: &str| {
            let result = results.iter().find(|result| result.name == name);
            result.map(|result| (result.outcome, result.at.as_millis()))
        };
        assert_eq!(of("tests::ignored"), Some((Outcome::Ignored, 2)));
        assert_eq!(of("tests::fails"), Some((Outcome::Failed, 3)));
        assert_eq!(of("tests::panics"), Some((Outcome::Ok, 4)));
        assert_eq!(results.len(), 5);
    }

    #[test]
    fn a_test_that_passes_and_leaves_something_out_is_a_skip() {
        let skip = Skip {
            name: "tests::prints".into(),
            reason: "no luck".into(),
        };
        assert_eq!(read(MIXED).skips, [skip]);
    }

    #[test]
    fn what_tests_that_passed_wrote_is_not_shown() {
        let shown = read(MIXED).shown.join("\n");
        assert!(shown.contains("test tests::prints ... ok"));
        assert!(!shown.contains("---- tests::prints stdout ----"));
        assert!(!shown.contains("tests::panics stdout"));
        assert!(shown.contains("---- tests::result stdout ----\nskipped: no luck"));
        assert!(shown.contains(
            "failures:\n    tests::fails\n    tests::result\n\ntest result: FAILED. 2 passed;"
        ));
        let passed = read(PASSED).shown.join("\n");
        assert!(passed.ends_with("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.00s\n"), "{passed}");
    }

    #[test]
    fn a_process_that_aborts_has_no_closing_line() {
        let report = read(ABORTED);
        assert!(!report.closed);
        assert_eq!(report.results.len(), 1);
        assert!(report.shown.contains(&"from outside".to_owned()));
    }

    #[test]
    fn the_sums_of_several_lists_are_added() {
        let report = read(DOCTESTS);
        assert!(report.closed);
        assert_eq!((report.sums.passed, report.sums.failed), (3, 1));
        assert_eq!(names(&report.failures), ["src/lib.rs - f (line 5)"]);
        assert!(report.failures[0].output.contains("left: 1"));
    }

    #[test]
    fn a_closing_line_that_a_test_prints_does_not_count() {
        let text = "running 1 test\ntest a ... ok\n\nsuccesses:\n\n---- a stdout ----\ntest result: ok. 7 passed; 0 failed; 0 ignored; 0 measured\n\n";
        assert!(!read(text).closed);
        let closed = format!("{text}test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n");
        assert_eq!(read(&closed).sums.passed, 1);
    }

    #[test]
    fn nothing_at_all_is_not_closed() {
        assert!(!read("").closed);
        assert!(!read("Segmentation fault\n").closed);
    }

    #[test]
    fn a_list_is_read_in_its_order() {
        let text = "b::two: test\na::one: test\na::bench: benchmark\n\n2 tests, 1 benchmark\n";
        assert_eq!(listed(&lines(text)), ["b::two", "a::one"]);
    }

    #[test]
    fn the_name_of_a_doctest_stays_when_its_line_changes() {
        for (name, stays) in [
            ("src/lib.rs - item (line 7)", "src/lib.rs - item"),
            (
                "src/lib.rs - (line 7) - compile fail",
                "src/lib.rs - - compile fail",
            ),
            ("module::a_test", "module::a_test"),
        ] {
            assert_eq!(without_line(name), stays);
        }
    }
}
