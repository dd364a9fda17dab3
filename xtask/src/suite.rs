//! The step `test`: each test binary in a process with a time limit, and each test that fails once more, alone.
//!
//! A test that fails and then passes alone is flaky: it is told with both outputs, and the run may pass.

mod binary;
mod expected;
mod flakes;
mod judge;
mod libtest;
#[cfg(test)]
mod project_tests;
pub(crate) mod pytest;
mod tally;
mod times;

use std::path::Path;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::cargo;
use crate::child::{Ended, captured};

use binary::Binary;
pub(crate) use binary::Built;
pub(crate) use expected::Expected;
use judge::{Alone, Round};
use libtest::{Outcome, Report};
pub(crate) use tally::{Tally, Twice};

/// For one test binary; what hangs is meant, not what is slow.
const BINARY_LIMIT: Duration = Duration::from_secs(10 * 60);
/// For all doctests, which are compiled in it.
const DOCTESTS_LIMIT: Duration = Duration::from_secs(20 * 60);
/// How often a binary is started again for tests that had no turn before it broke.
const ROUNDS_MAX: usize = 5;
/// How many tests run once more; where more have failed it is not chance.
const RERUNS_MAX: usize = 20;
const DOCTESTS: &str = "doctests";

/// The tests of the workspace at `root`.
pub(crate) struct Suite<'a> {
    pub(crate) root: &'a Path,
    pub(crate) binary_limit: Duration,
    /// How many tests of one binary run at a time.
    threads: usize,
}

/// A test that failed, and where it runs again.
pub(crate) struct Failed<'a> {
    /// None: a doctest.
    binary: Option<&'a Binary>,
    name: String,
    output: String,
    /// Its process broke, which is counted already.
    in_broken: bool,
}

/// The names of all tests of the workspace at `root`, sorted: the binary in front, as the other lists have it.
///
/// # Errors
/// They cannot be built, or one of their programs does not list them.
pub(crate) fn names(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for binary in binary::build(root)?.binaries {
        let listed = binary.list()?;
        names.extend(listed.iter().map(|name| format!("{}::{name}", binary.name)));
    }
    let ended = Suite::new(root).doctests(&["--list"])?;
    if !ended.end.is_success() {
        bail!("the tests in documentation cannot be listed: {}", ended.end);
    }
    let listed = libtest::listed(&ended.lines);
    let doctests = listed.iter().map(|name| libtest::without_line(name));
    names.extend(doctests.map(|name| format!("{DOCTESTS}::{name}")));
    names.sort();
    Ok(names)
}

impl<'a> Suite<'a> {
    pub(crate) fn new(root: &'a Path) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            root,
            binary_limit: BINARY_LIMIT,
            // With one thread the runner writes no whole lines.
            threads: cores.max(2),
        }
    }

    /// Builds all tests.
    ///
    /// # Errors
    /// They cannot be built, or the lists of known flakes and of expected skips are not in form or not true.
    pub(crate) fn build(&self, tally: &mut Tally) -> Result<Built> {
        tally.known = flakes::read(self.root)?;
        tally.expected = Expected::read(self.root)?;
        let built = binary::build(self.root)?;
        flakes::check(&tally.known, &built.binaries)?;
        Ok(built)
    }

    /// Runs all tests into the tally, but for those that fail, which are given back.
    ///
    /// # Errors
    /// A process cannot be started.
    pub(crate) fn first<'b>(&self, built: &'b Built, tally: &mut Tally) -> Result<Vec<Failed<'b>>> {
        let mut failed = Vec::new();
        for binary in &built.binaries {
            failed.extend(self.run_binary(binary, tally)?);
        }
        failed.extend(self.run_doctests(tally)?);
        Ok(failed)
    }

    /// Runs what failed once more, each test alone: nothing else may run beside it.
    ///
    /// # Errors
    /// A process cannot be started.
    pub(crate) fn again(&self, failed: Vec<Failed<'_>>, tally: &mut Tally) -> Result<()> {
        for (at, failed) in failed.into_iter().enumerate() {
            self.settle(failed, at < RERUNS_MAX, tally)?;
        }
        Ok(())
    }

    /// Runs a binary until each of its tests had its turn.
    fn run_binary<'b>(&self, binary: &'b Binary, tally: &mut Tally) -> Result<Vec<Failed<'b>>> {
        let mut failed = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let round = self.run_once(binary, &names, tally)?;
            let in_broken = round.broken.is_some();
            if let Some(broken) = round.broken {
                tally.broken.push(format!("{}: {broken}", binary.name));
            }
            failed.extend(round.failures.into_iter().map(|failure| Failed {
                binary: Some(binary),
                name: failure.name,
                output: failure.output,
                in_broken,
            }));
            names = round.without_turn;
            if names.is_empty() {
                return Ok(failed);
            }
        }
        let names = names.join(", ");
        let broken = format!(
            "{}: broke {ROUNDS_MAX} times; without a result: {names}",
            binary.name
        );
        tally.broken.push(broken);
        Ok(failed)
    }

    /// Runs the named tests of a binary, or all of them where none is named.
    fn run_once(&self, binary: &Binary, names: &[String], tally: &mut Tally) -> Result<Round> {
        println!("ci: running {}", binary.name);
        let threads = format!("--test-threads={}", self.threads);
        let mut words = vec!["--show-output", threads.as_str()];
        if !names.is_empty() {
            words.push("--exact");
            words.extend(names.iter().map(String::as_str));
        }
        let ended = binary.run(&words, self.binary_limit)?;
        let report = take(&ended, &binary.name, tally, self.threads);
        let order = || {
            let all = binary.list().unwrap_or_default();
            let asked = |name: &String| names.is_empty() || names.contains(name);
            all.into_iter().filter(asked).collect()
        };
        Ok(judge::round(&ended, &report, self.threads, order))
    }

    fn run_doctests(&self, tally: &mut Tally) -> Result<Vec<Failed<'static>>> {
        println!("ci: running {DOCTESTS}");
        let ended = self.doctests(&["--show-output"])?;
        let report = take(&ended, DOCTESTS, tally, self.threads);
        let round = judge::round(&ended, &report, self.threads, Vec::new);
        tally
            .broken
            .extend(round.broken.map(|why| format!("{DOCTESTS}: {why}")));
        let failed = round.failures.into_iter().map(|failure| Failed {
            binary: None,
            name: failure.name,
            output: failure.output,
            in_broken: false,
        });
        Ok(failed.collect())
    }

    fn doctests(&self, words: &[&str]) -> Result<Ended> {
        let mut command = cargo();
        command
            .args(["test", "--workspace", "--locked", "--doc", "--no-fail-fast"])
            .arg("--")
            .args(words)
            .current_dir(self.root);
        captured(&mut command, DOCTESTS_LIMIT)
    }

    /// Runs a test that failed once more, alone, and says what it is.
    fn settle(&self, failed: Failed<'_>, again: bool, tally: &mut Tally) -> Result<()> {
        let place = failed
            .binary
            .map_or(DOCTESTS, |binary| binary.name.as_str());
        let mut twice = Twice {
            test: format!("{place} {}", failed.name),
            first: failed.output,
            second: format!("not run again: more than {RERUNS_MAX} tests failed\n"),
        };
        if !again {
            tally.failed.push(twice);
            return Ok(());
        }
        println!("ci: once more, alone: {}", twice.test);
        let (ended, alone) = self.alone(failed.binary, &failed.name)?;
        ended
            .lines
            .iter()
            .for_each(|line| println!("{}", line.text));
        twice.second = ended.text();
        match alone {
            Alone::Failed => {
                twice.second.insert_str(0, &format!("{}\n", ended.end));
                tally.failed.push(twice);
            }
            Alone::Ignored => tally.ignored += 1,
            Alone::Passed => {
                tally.passed += 1;
                if !failed.in_broken {
                    tally.flaky.push(twice);
                }
            }
        }
        Ok(())
    }

    fn alone(&self, binary: Option<&Binary>, name: &str) -> Result<(Ended, Alone)> {
        const ONE: &str = "--test-threads=1";
        if let Some(binary) = binary {
            let words = ["--exact", name, ONE, "--show-output"];
            let ended = binary.run(&words, self.binary_limit)?;
            let report = Report::read(&ended.lines);
            let alone = judge::alone(&ended, &report);
            return Ok((ended, alone));
        }
        // rustdoc splits its words at spaces: the last of the name, `12)` of `… (line 12)`, finds few others.
        let last = name.rsplit(' ').next().unwrap_or(name);
        let ended = self.doctests(&[last, ONE, "--show-output"])?;
        let results = Report::read(&ended.lines).results;
        let passed = |one: &libtest::TestResult| one.name == name && one.outcome == Outcome::Ok;
        let alone = match results.iter().any(passed) {
            true => Alone::Passed,
            false => Alone::Failed,
        };
        Ok((ended, alone))
    }
}

/// Shows what a process of the test runner wrote, and adds it up.
fn take(ended: &Ended, place: &str, tally: &mut Tally, threads: usize) -> Report {
    let report = Report::read(&ended.lines);
    report.shown.iter().for_each(|line| println!("{line}"));
    tally.add(report.sums());
    tally.times.add(place, ended, &report.results, threads);
    let skips = report.skips.iter();
    let skips = skips.map(|skip| (format!("{place} {}", skip.name), skip.reason.clone()));
    tally.skips.extend(skips);
    report
}
