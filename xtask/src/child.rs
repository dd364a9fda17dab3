//! A child with a time limit: how it ended, its output line by line with the time at which each came, and the CPU time that it took.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often a child is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the output is waited for when the child has ended: what it left behind may hold the pipe for ever.
const OUTPUT_AFTER_END: Duration = Duration::from_secs(2);
/// More output than this is counted and thrown away.
const OUTPUT_MAX_BYTES: usize = 64 << 20;
/// The unit of CPU time in `/proc` (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;
/// For a command that compiles everything on a busy machine; what hangs is meant, not what is slow.
pub(crate) const COMMAND_LIMIT: Duration = Duration::from_secs(60 * 60);

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Exited(ExitStatus),
    TimedOut(Duration),
}

impl End {
    /// None where a signal ended it.
    pub(crate) fn code(self) -> Option<i32> {
        match self {
            Self::Exited(status) => status.code(),
            Self::TimedOut(_) => None,
        }
    }

    pub(crate) fn is_success(self) -> bool {
        matches!(self, Self::Exited(status) if status.success())
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(status) => status.fmt(f),
            Self::TimedOut(limit) => {
                write!(f, "no end within {} s: killed", limit.as_secs_f64())
            }
        }
    }
}

/// A line of output and when it came, from the start of the child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) at: Duration,
    pub(crate) text: String,
}

/// What is known of a child that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) end: End,
    pub(crate) lines: Vec<Line>,
    pub(crate) wall: Duration,
    /// Of the child and of its own children that it waited for.
    pub(crate) cpu: Duration,
}

impl Ended {
    pub(crate) fn text(&self) -> String {
        self.lines
            .iter()
            .map(|line| format!("{}\n", line.text))
            .collect()
    }
}

/// Runs a command whose output goes to ours; its exit code decides.
///
/// # Errors
/// It cannot be started, fails, or has not ended after an hour.
pub(crate) fn checked(command: &mut Command) -> Result<()> {
    let start = Instant::now();
    let mut child = spawn(command)?;
    let (end, _) = wait(&mut child, start, COMMAND_LIMIT)?;
    if !end.is_success() {
        bail!("{end}: {command:?}");
    }
    Ok(())
}

/// As `checked`, beside what is measured or waits: with a low claim to the CPUs, and its output in one piece at its end.
///
/// # Errors
/// As `checked`.
pub(crate) fn checked_beside(command: &Command) -> Result<()> {
    let ended = captured(&mut modest(command), COMMAND_LIMIT)?;
    print!("{}", ended.text());
    if !ended.end.is_success() {
        bail!("{}: {command:?}", ended.end);
    }
    Ok(())
}

/// The same command behind `nice` (coreutils): a tenth of a CPU that a test wants, too, and all of one that tests leave.
/// Less than that (`nice` 19, `SCHED_IDLE`) would never end on a machine that others keep busy.
fn modest(command: &Command) -> Command {
    let mut modest = Command::new("nice");
    modest
        .args(["-n", "10"])
        .arg(command.get_program())
        .args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => modest.env(key, value),
            None => modest.env_remove(key),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        modest.current_dir(directory);
    }
    modest
}

/// Runs a command and keeps what it writes to standard output and standard error, in order.
///
/// # Errors
/// It cannot be started or looked at.
pub(crate) fn captured(command: &mut Command, limit: Duration) -> Result<Ended> {
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    let both = writer.try_clone().context("cannot make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer).stderr(both);
    let start = Instant::now();
    let child = spawn(command);
    // The command holds the writing end; without this the output would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    collect(child?, reader, start, limit)
}

/// As `captured`, for standard output alone; standard error goes to ours.
///
/// # Errors
/// It cannot be started or looked at.
pub(crate) fn captured_stdout(command: &mut Command, limit: Duration) -> Result<Ended> {
    let start = Instant::now();
    let mut child = spawn(command.stdout(Stdio::piped()))?;
    let reader = child.stdout.take().context("no standard output")?;
    collect(child, reader, start, limit)
}

fn collect(
    mut child: Child,
    reader: impl Read + Send + 'static,
    start: Instant,
    limit: Duration,
) -> Result<Ended> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&lines);
    let reading = thread::spawn(move || read_lines(reader, start, &into));
    let (end, cpu) = wait(&mut child, start, limit)?;
    let wall = start.elapsed();
    let ended = Instant::now();
    while !reading.is_finished() && ended.elapsed() < OUTPUT_AFTER_END {
        thread::sleep(LOOK_EVERY);
    }
    let lines = std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Ended {
        end,
        lines,
        wall,
        cpu,
    })
}

fn spawn(command: &mut Command) -> Result<Child> {
    command
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))
}

fn read_lines(reader: impl Read, start: Instant, into: &Mutex<Vec<Line>>) {
    let mut reader = BufReader::new(reader);
    let (mut kept, mut left_out) = (0, 0);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches(['\n', '\r']).to_owned();
        if kept + bytes.len() <= OUTPUT_MAX_BYTES {
            kept += bytes.len();
            push(into, start, text);
        } else {
            left_out += bytes.len();
        }
        bytes.clear();
    }
    if left_out > 0 {
        push(into, start, format!("({left_out} bytes more are left out)"));
    }
}

fn push(into: &Mutex<Vec<Line>>, start: Instant, text: String) {
    let at = start.elapsed();
    let mut lines = into.lock().unwrap_or_else(PoisonError::into_inner);
    lines.push(Line { at, text });
}

/// Waits until the child has ended, or kills it and all below it. Its CPU time is read before it is taken off the table.
fn wait(child: &mut Child, start: Instant, limit: Duration) -> Result<(End, Duration)> {
    loop {
        let row = Row::of(child.id()).context("a child is gone from /proc")?;
        // The first thread of a process may end before the others do: then there is no status yet.
        if row.has_ended()
            && let Some(status) = child.try_wait()?
        {
            return Ok((End::Exited(status), row.cpu()));
        }
        if start.elapsed() >= limit {
            kill(child)?;
            child.wait()?;
            return Ok((End::TimedOut(limit), row.cpu()));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Kills the child and all below it, as far as they still hang together.
fn kill(child: &mut Child) -> Result<()> {
    let below = descendants_of(child.id());
    child.kill().context("cannot kill a child")?;
    // `kill` is a word of the shell's own: the program would be one more package.
    let mut command = Command::new("sh");
    command
        .args(["-c", "kill -KILL \"$@\" 2>/dev/null", "sh"])
        .args(below.iter().map(u32::to_string));
    if !below.is_empty() {
        command.status().context("cannot start sh")?;
    }
    Ok(())
}

/// All below a process, from `/proc`.
fn descendants_of(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let rows = all_rows();
    let mut at = 0;
    while at < found.len() {
        let children = rows.iter().filter(|(_, row)| row.parent == found[at]);
        let children: Vec<u32> = children.map(|&(pid, _)| pid).collect();
        found.extend(children);
        at += 1;
    }
    found.split_off(1)
}

fn all_rows() -> Vec<(u32, Row)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, Row::of(pid)?))).collect()
}

/// A process in `/proc/PID/stat` (proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct Row {
    state: String,
    parent: u32,
    cpu_ticks: u64,
}

impl Row {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name, in parentheses, may hold anything; the fields are counted from behind it.
    fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // utime, stime, cutime, cstime
        let ticks = fields.get(11..15)?.iter().map(|ticks| ticks.parse::<u64>());
        Some(Self {
            state: (*fields.first()?).to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            cpu_ticks: ticks.sum::<Result<u64, _>>().ok()?,
        })
    }

    fn has_ended(&self) -> bool {
        matches!(self.state.as_str(), "Z" | "X")
    }

    fn cpu(&self) -> Duration {
        Duration::from_millis(self.cpu_ticks * 1000 / TICKS_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_outputs_come_in_order_and_the_end_is_told() {
        let ended = captured(&mut sh("echo one; echo two >&2; exit 3"), LIMIT).expect("sh");
        assert_eq!(ended.text(), "one\ntwo\n");
        assert!(matches!(ended.end, End::Exited(status) if status.code() == Some(3)));
        assert!(!ended.end.is_success());
    }

    #[test]
    fn what_does_not_end_is_killed_with_all_below_it() {
        let limit = Duration::from_millis(300);
        let script = "sleep 1000 & echo $!; wait";
        let ended = captured(&mut sh(script), limit).expect("sh");
        assert_eq!(ended.end, End::TimedOut(limit));
        let below: u32 = ended.text().trim().parse().expect("a number");
        let gone = || Row::of(below).is_none_or(|row| row.has_ended());
        while !gone() {
            thread::sleep(LOOK_EVERY);
        }
    }

    #[test]
    fn a_process_left_behind_does_not_hold_the_run_up() {
        let ended = captured(&mut sh("sleep 60 & echo $!"), LIMIT).expect("sh");
        assert!(ended.end.is_success());
        checked(&mut sh(&format!("kill {}", ended.text().trim()))).expect("it still ran");
    }

    #[test]
    fn what_runs_beside_is_the_same_command_with_a_low_claim() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = sh("echo $(nice) $WORD > here");
        command.env("WORD", "a word").current_dir(directory.path());
        checked_beside(&command).expect("sh");
        let text = fs::read_to_string(directory.path().join("here")).expect("written there");
        let ours = captured(&mut Command::new("nice"), LIMIT).expect("nice");
        let ours: i32 = ours.text().trim().parse().expect("a number");
        assert_eq!(text, format!("{} a word\n", (ours + 10).min(19)));
        assert!(checked_beside(&sh("exit 3")).is_err());
    }

    #[test]
    fn cpu_time_counts_what_the_child_waited_for() {
        let script = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; true";
        let ended = captured(&mut sh(script), LIMIT).expect("sh");
        assert!(ended.cpu > Duration::ZERO, "{ended:?}");
    }

    #[test]
    fn a_row_is_read_whatever_the_name_is() {
        let row =
            Row::parse("7 (a ) b) S 3 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0").expect("row");
        assert_eq!(
            (row.state.as_str(), row.parent, row.cpu_ticks),
            ("S", 3, 100)
        );
        assert_eq!(row.cpu(), Duration::from_secs(1));
        assert_eq!(Row::parse("7 (a)"), None);
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = checked(&mut Command::new("false")).expect_err("false fails");
        assert!(error.to_string().contains("\"false\""), "{error}");
    }

    #[test]
    fn a_command_that_cannot_start_is_an_error() {
        assert!(checked(&mut Command::new("forebay-no-such-command")).is_err());
    }
}
