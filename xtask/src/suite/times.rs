//! Where the time of the tests goes: by process, with the CPU time beside it, and by test.

use std::fmt::Write as _;
use std::time::Duration;

use crate::child::Ended;

use super::libtest::TestResult;

/// How many rows each table has.
const ROWS_MAX: usize = 25;

/// A process of the test runner.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    name: String,
    wall: Duration,
    cpu: Duration,
    tests: usize,
}

/// The times of a run.
#[derive(Debug, Default)]
pub(crate) struct Times {
    processes: Vec<Process>,
    tests: Vec<(String, Duration)>,
}

impl Times {
    pub(crate) fn add(
        &mut self,
        name: &str,
        ended: &Ended,
        results: &[TestResult],
        threads: usize,
    ) {
        self.processes.push(Process {
            name: name.to_owned(),
            wall: ended.wall,
            cpu: ended.cpu,
            tests: results.len(),
        });
        let tests = durations(results, threads).into_iter();
        self.tests
            .extend(tests.map(|(test, time)| (format!("{name} {test}"), time)));
    }

    /// The slowest first; nothing where nothing ran.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if self.processes.is_empty() {
            return text;
        }
        let mut processes: Vec<&Process> = self.processes.iter().collect();
        processes.sort_by_key(|process| std::cmp::Reverse(process.wall));
        let sum = |time: fn(&Process) -> Duration| -> f64 {
            self.processes
                .iter()
                .map(time)
                .sum::<Duration>()
                .as_secs_f64()
        };
        let (wall, cpu) = (sum(|process| process.wall), sum(|process| process.cpu));
        let _ = writeln!(
            text,
            "{:>8} {:>8} {:>6}  slowest test binaries",
            "time s", "CPU s", "tests"
        );
        for process in processes.iter().take(ROWS_MAX) {
            let (wall, cpu) = (process.wall.as_secs_f64(), process.cpu.as_secs_f64());
            let _ = writeln!(
                text,
                "{wall:>8.1} {cpu:>8.1} {:>6}  {}",
                process.tests, process.name
            );
        }
        let _ = writeln!(
            text,
            "{wall:>8.1} {cpu:>8.1} {:>6}  all {}",
            self.tests.len(),
            processes.len()
        );
        let mut tests: Vec<&(String, Duration)> = self.tests.iter().collect();
        tests.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let _ = writeln!(text, "{:>8}  slowest tests", "time s");
        for (name, time) in tests.into_iter().take(ROWS_MAX) {
            let _ = writeln!(text, "{:>8.1}  {name}", time.as_secs_f64());
        }
        text
    }
}

/// How long each test took. The runner says when one ends; as it begins them in the order of their names, `threads` at a time, the
/// first ones began with the process, and each further one when one of those before it ended.
fn durations(results: &[TestResult], threads: usize) -> Vec<(&str, Duration)> {
    let mut ends: Vec<Duration> = results.iter().map(|result| result.at).collect();
    ends.sort_unstable();
    let mut by_name: Vec<&TestResult> = results.iter().collect();
    by_name.sort_by(|a, b| a.name.cmp(&b.name));
    let began = |at: usize| match at.checked_sub(threads) {
        None => Duration::ZERO,
        Some(before) => ends[before],
    };
    let tests = by_name.iter().enumerate();
    tests
        .map(|(at, test)| (test.name.as_str(), test.at.saturating_sub(began(at))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::libtest::Outcome;

    fn result(name: &str, at: u64) -> TestResult {
        TestResult {
            name: name.to_owned(),
            outcome: Outcome::Ok,
            at: Duration::from_secs(at),
        }
    }

    /// Two threads: `a` from 0 to 5, `b` from 0 to 1, then `c` from 1 to 2, `d` from 2 to 4, `e` from 4 to 9.
    #[test]
    fn a_test_begins_when_one_before_it_ends() {
        let results = [("b", 1), ("c", 2), ("d", 4), ("a", 5), ("e", 9)];
        let results = results.map(|(name, at)| result(name, at));
        let seconds: Vec<(&str, u64)> = durations(&results, 2)
            .into_iter()
            .map(|(name, time)| (name, time.as_secs()))
            .collect();
        assert_eq!(seconds, [("a", 5), ("b", 1), ("c", 1), ("d", 2), ("e", 5)]);
    }

    #[test]
    fn the_tables_begin_with_what_is_slow() {
        let mut times = Times::default();
        assert_eq!(times.text(), "");
        for (name, wall) in [("p::quick", 1), ("p::slow", 30)] {
            let ended = Ended {
                end: crate::child::End::TimedOut(Duration::ZERO),
                lines: Vec::new(),
                wall: Duration::from_secs(wall),
                cpu: Duration::from_millis(wall * 100),
            };
            times.add(name, &ended, &[result("a", wall)], 2);
        }
        let text = times.text();
        let rows: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(rows[1], "30.0      3.0      1  p::slow");
        assert_eq!(rows[3], "31.0      3.1      2  all 2");
        assert_eq!(rows[5], "30.0  p::slow a");
    }
}
