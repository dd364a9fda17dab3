//! pytest's tests: counted, and each that fails once more, alone.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::child::{Ended, captured};

use super::RERUNS_MAX;
use super::libtest::Sums;
use super::tally::{Tally, Twice};

const PLACE: &str = "pytest";
const LIMIT: Duration = Duration::from_secs(10 * 60);
/// pytest's exit code when a test failed.
const FAILED_CODE: i32 = 1;

/// What pytest wrote with `-rfEs`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    sums: Sums,
    skipped: usize,
    failed: Vec<String>,
    skips: Vec<String>,
}

/// Runs all tests; `pytest` makes the command.
///
/// # Errors
/// It cannot be started. A test that fails is in the tally.
pub(crate) fn run(pytest: impl Fn() -> Command, tally: &mut Tally) -> Result<()> {
    let ended = shown(pytest().args(["--quiet", "-rfEs"]))?;
    let summary = Summary::read(&ended);
    tally.add(summary.sums);
    tally.passed += summary.skipped;
    let skips = summary.skips.iter();
    tally
        .skips
        .extend(skips.map(|line| (PLACE.to_owned(), line.clone())));
    if let Some(why) = summary.unusual(&ended) {
        tally.broken.push(format!("{PLACE}: {why}"));
    }
    for (at, name) in summary.failed.into_iter().enumerate() {
        let mut twice = Twice {
            test: format!("{PLACE} {name}"),
            first: ended.text(),
            second: "not run again: too many tests failed\n".to_owned(),
        };
        let passed = at < RERUNS_MAX && {
            println!("ci: once more, alone: {}", twice.test);
            let again = shown(pytest().args(["--quiet", "-rfEs", &name]))?;
            twice.second = again.text();
            again.end.is_success() && Summary::read(&again).sums.passed == 1
        };
        if passed {
            tally.passed += 1;
            tally.flaky.push(twice);
        } else {
            tally.failed.push(twice);
        }
    }
    Ok(())
}

fn shown(command: &mut Command) -> Result<Ended> {
    let ended = captured(command, LIMIT)?;
    print!("{}", ended.text());
    Ok(ended)
}

impl Summary {
    fn read(ended: &Ended) -> Self {
        let mut summary = Self::default();
        for line in ended.lines.iter().map(|line| line.text.as_str()) {
            let failed = line.strip_prefix("FAILED ").or(line.strip_prefix("ERROR "));
            if let Some(failed) = failed {
                let name = failed.split_once(" - ").map_or(failed, |(name, _)| name);
                summary.failed.push(name.to_owned());
            } else if let Some(skip) = line.strip_prefix("SKIPPED [") {
                let reason = skip.split_once("] ").map_or(skip, |(_, reason)| reason);
                summary.skips.push(reason.to_owned());
            } else {
                summary.read_sums(line);
            }
        }
        summary
    }

    /// `1 failed, 22 passed, 1 skipped in 4.52s`
    fn read_sums(&mut self, line: &str) {
        let Some((counts, _)) = line.rsplit_once(" in ") else {
            return;
        };
        let count = |word: &str| {
            let mut parts = counts.split(", ").filter_map(|part| part.split_once(' '));
            parts
                .find(|(_, noun)| noun.starts_with(word))?
                .0
                .parse()
                .ok()
        };
        let (passed, failed) = (count("passed"), count("failed"));
        if passed.is_some() || failed.is_some() {
            self.sums = Sums {
                passed: passed.unwrap_or(0),
                failed: failed.unwrap_or(0) + count("error").unwrap_or(0),
                ignored: 0,
            };
            self.skipped = count("skipped").unwrap_or(0);
        }
    }

    fn unusual(&self, ended: &Ended) -> Option<String> {
        let failed = self.sums.failed;
        let failures =
            ended.end.code() == Some(FAILED_CODE) && failed > 0 && failed == self.failed.len();
        let whole = ended.end.is_success() && failed == 0 && self.sums.passed > 0;
        let named = self.failed.len();
        (!failures && !whole).then(|| {
            format!(
                "{}, with {failed} failed and {named} of them named",
                ended.end
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::End;

    /// A `pytest` that writes what pytest 8 writes; its first run has a failure, and the one of a name does as `again` says.
    fn tally_of(first: &str, again: &str) -> Tally {
        let script = format!(
            "case $# in 2) {first} ;; *) test \"$3\" = 'tests/test_a.py::test_b[x]' && {again} ;; esac"
        );
        let mut tally = Tally::default();
        let pytest = || {
            let mut command = Command::new("sh");
            command.args(["-c", &script, "sh"]);
            command
        };
        run(pytest, &mut tally).expect("sh");
        tally
    }

    const FAILS: &str = "printf '%s\\n' '.F.s' 'E   assert 1 == 2' 'SKIPPED [1] tests/test_a.py:3: no numpy' 'FAILED tests/test_a.py::test_b[x] - assert 1 == 2' '1 failed, 2 passed, 1 skipped in 0.10s'; exit 1";
    const PASSES: &str = "echo '1 passed in 0.01s'";

    #[test]
    fn what_fails_once_is_flaky_and_what_fails_twice_has_failed() {
        let flaky = tally_of(FAILS, PASSES);
        assert_eq!(flaky.flaky[0].test, "pytest tests/test_a.py::test_b[x]");
        assert_eq!(
            (flaky.passed, flaky.failed.len(), flaky.broken.len()),
            (4, 0, 0)
        );
        assert_eq!(flaky.skips[0].1, "tests/test_a.py:3: no numpy");
        assert!(flaky.verdict().is_ok());
        let failed = tally_of(FAILS, "exit 1");
        assert_eq!((failed.flaky.len(), failed.failed.len()), (0, 1));
        let none = tally_of(FAILS, "true");
        assert_eq!(none.failed.len(), 1, "none ran, so none passed");
    }

    #[test]
    fn an_end_that_the_lines_do_not_explain_is_broken() {
        for script in [
            "exit 2",
            "true",
            "echo '2 passed in 0.1s'; exit 1",
            "kill -9 $$",
        ] {
            assert_eq!(tally_of(script, PASSES).broken.len(), 1, "{script}");
        }
        assert!(
            tally_of("echo '2 passed in 0.1s'", PASSES)
                .broken
                .is_empty()
        );
        assert_eq!(End::TimedOut(LIMIT).code(), None);
    }
}
