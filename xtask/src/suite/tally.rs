//! What all tests of a run came to, and whether the run passes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, bail};

use super::expected::Expected;
use super::flakes::Known;
use super::libtest::Sums;
use super::times::Times;

/// A run with more flaky tests than this fails: then it is not chance.
pub(crate) const FLAKY_MAX: usize = 3;

/// A test that failed, ran once more alone, and what it wrote both times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Twice {
    pub(crate) test: String,
    pub(crate) first: String,
    pub(crate) second: String,
}

/// Sums over all tests of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) ignored: usize,
    pub(crate) failed: Vec<Twice>,
    pub(crate) flaky: Vec<Twice>,
    /// Processes of the test runner that did not end as they should.
    pub(crate) broken: Vec<String>,
    /// What was left out, as test and reason.
    pub(crate) skips: Vec<(String, String)>,
    pub(crate) known: Vec<Known>,
    pub(crate) expected: Expected,
    pub(crate) times: Times,
}

impl Tally {
    /// The sums of a closing line; what failed is counted when it has run again.
    pub(crate) fn add(&mut self, sums: Sums) {
        self.passed += sums.passed;
        self.ignored += sums.ignored;
    }

    /// Whether the run may go on.
    ///
    /// # Errors
    /// A test failed twice, a process broke, or too many tests were flaky.
    pub(crate) fn verdict(&self) -> Result<()> {
        let named = |tests: &[Twice]| {
            let names: Vec<&str> = tests.iter().map(|twice| twice.test.as_str()).collect();
            names.join(", ")
        };
        if !self.failed.is_empty() {
            bail!("failed, and failed again alone: {}", named(&self.failed));
        }
        if !self.broken.is_empty() {
            bail!("{}", self.broken.join("; "));
        }
        if self.flaky.len() > FLAKY_MAX {
            let flaky = self.flaky.len();
            bail!(
                "{flaky} flaky tests, at most {FLAKY_MAX}: {}",
                named(&self.flaky)
            );
        }
        Ok(())
    }

    /// Whether a whole run had all tests, and left out what may be left out.
    ///
    /// # Errors
    /// It had fewer tests than are listed, or one left something out for a reason that is not.
    pub(crate) fn verdict_of_all(&self) -> Result<()> {
        self.expected.check_skips(&self.skips)?;
        self.expected.check_tests(self.tests())
    }

    fn tests(&self) -> usize {
        self.passed + self.failed.len()
    }

    /// What is said at the end of a run.
    pub(crate) fn text(&self) -> String {
        let mut text = self.times.text();
        for twice in &self.failed {
            let _ = write!(text, "FAILED twice: {}\n{}", twice.test, both(twice));
        }
        for twice in &self.flaky {
            let known = self.known.iter().find(|known| known.test == twice.test);
            let note = known.map_or("not seen before".to_owned(), |known| {
                format!("known since {}: {}", known.date, known.reason)
            });
            let _ = write!(text, "FLAKY: {} ({note})\n{}", twice.test, both(twice));
        }
        for broken in &self.broken {
            let _ = writeln!(text, "BROKEN: {broken}");
        }
        text.push_str(&self.left_out());
        let _ = writeln!(text, "{}", self.sum());
        text
    }

    fn sum(&self) -> String {
        format!(
            "tests: {} passed ({} of them at the second attempt: flaky; {} left something out: skipped), {} failed, {} broke, {} ignored; expected: at least {}",
            self.passed,
            self.flaky.len(),
            self.skipped_tests(),
            self.failed.len(),
            self.broken.len(),
            self.ignored,
            self.expected.tests_min()
        )
    }

    fn skipped_tests(&self) -> usize {
        let mut tests: Vec<&str> = self.skips.iter().map(|(test, _)| test.as_str()).collect();
        tests.sort_unstable();
        tests.dedup();
        tests.len()
    }

    /// The reasons, the most frequent first, each with its tests.
    fn left_out(&self) -> String {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (test, reason) in &self.skips {
            reasons.entry(reason).or_default().push(test);
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, tests)| std::cmp::Reverse(tests.len()));
        let mut text = String::new();
        for (reason, tests) in reasons {
            let _ = writeln!(
                text,
                "skipped, {} ×: {reason}: {}",
                tests.len(),
                first_of(&tests)
            );
        }
        text
    }
}

/// One reason can have very many tests.
fn first_of(tests: &[&str]) -> String {
    const NAMED_MAX: usize = 3;
    let named = tests.iter().take(NAMED_MAX).copied().collect::<Vec<_>>();
    match tests.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        more => format!("{}, and {more} more", named.join(", ")),
    }
}

fn both(twice: &Twice) -> String {
    format!(
        "  first, beside others:\n{}  then, alone:\n{}",
        quoted(&twice.first),
        quoted(&twice.second)
    )
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("  | {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twice(test: &str) -> Twice {
        Twice {
            test: test.into(),
            first: "left: 1\n".into(),
            second: "test a ... ok\n".into(),
        }
    }

    fn with_flaky(count: usize) -> Tally {
        Tally {
            flaky: (0..count).map(|n| twice(&format!("p::net t{n}"))).collect(),
            ..Tally::default()
        }
    }

    #[test]
    fn three_flaky_tests_pass_and_four_do_not() {
        assert!(with_flaky(0).verdict().is_ok());
        assert!(with_flaky(3).verdict().is_ok());
        let error = with_flaky(4).verdict().expect_err("too many").to_string();
        assert!(
            error.starts_with("4 flaky tests, at most 3: p::net t0"),
            "{error}"
        );
    }

    #[test]
    fn a_test_that_fails_twice_fails_the_run_listed_or_not() {
        let tally = Tally {
            failed: vec![twice("p::net a")],
            known: vec![Known::of("p::net a")],
            ..Tally::default()
        };
        let error = tally.verdict().expect_err("it failed").to_string();
        assert_eq!(error, "failed, and failed again alone: p::net a");
    }

    #[test]
    fn a_broken_process_fails_the_run() {
        let tally = Tally {
            broken: vec!["p::net: signal: 6".into()],
            ..Tally::default()
        };
        assert!(tally.verdict().is_err());
    }

    #[test]
    fn a_flaky_test_is_told_with_both_outputs() {
        let mut tally = with_flaky(1);
        let text = tally.text();
        assert!(text.contains("FLAKY: p::net t0 (not seen before)\n  first, beside others:\n  | left: 1\n  then, alone:\n  | test a ... ok\n"), "{text}");
        tally.known = vec![Known::of("p::net t0")];
        assert!(tally.text().contains("(known since 2026-11-23: r)"));
    }

    #[test]
    fn what_is_left_out_is_told_by_reason_and_number() {
        let skip = |test: &str, reason: &str| (test.to_owned(), reason.to_owned());
        let mut tally = Tally {
            skips: vec![skip("a", "no sshd"), skip("b", "no fq"), skip("c", "no fq")],
            ..Tally::default()
        };
        tally.add(Sums {
            passed: 7,
            failed: 0,
            ignored: 1,
        });
        let text = tally.text();
        let expected = "skipped, 2 ×: no fq: b, c\nskipped, 1 ×: no sshd: a\n\
            tests: 7 passed (0 of them at the second attempt: flaky; 3 left something out: skipped), 0 failed, 0 broke, 1 ignored; expected: at least 0\n";
        assert_eq!(text, expected);
    }
}
