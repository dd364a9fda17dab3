//! A program that is started, listened to, and never left behind.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::Interrupted;

/// Between two looks at a child and at the user's wish.
const LOOK: Duration = Duration::from_millis(2);
/// What a child that is told to end may take.
const END_LIMIT: Duration = Duration::from_secs(3);
/// Lines of standard error that are kept for a complaint.
const LINES_MAX: usize = 200;

/// A running program; ended when dropped.
#[derive(Debug)]
pub(super) struct Running {
    name: String,
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    stdout: Option<JoinHandle<String>>,
}

/// A program that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: Vec<String>,
}

/// Which of its outputs tells that a program is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    OnStderr,
    OnStdout,
}

impl Running {
    /// Starts `command`; `says` is the output that [`line`](Self::line) reads, the other one is kept until the end.
    pub(super) fn start(name: &str, command: &mut Command, says: Says) -> Result<Self> {
        let mut child = command
            // Held open, and closed when this process ends, however it does: what runs on another host watches it.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {:?}", command.get_program()))?;
        let stdout: Box<dyn Read + Send> = Box::new(child.stdout.take().context("no output")?);
        let stderr: Box<dyn Read + Send> = Box::new(child.stderr.take().context("no output")?);
        let (live, kept) = match says {
            Says::OnStderr => (stderr, stdout),
            Says::OnStdout => (stdout, stderr),
        };
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(live).lines().map_while(Result::ok) {
                // Nobody listens any more: the child may still write.
                let _ = tell.send(line);
            }
        });
        let kept = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = BufReader::new(kept).read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ok(Self {
            name: name.to_owned(),
            child,
            lines,
            said: Vec::new(),
            stdout: Some(kept),
        })
    }

    /// Waits for the line from which `take` takes something.
    pub(super) fn line<T>(
        &mut self,
        limit: Duration,
        stop: &dyn Fn() -> bool,
        take: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let until = Instant::now() + limit;
        loop {
            self.go_on(until, stop)?;
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => {
                    if let Some(found) = take(&line) {
                        return Ok(found);
                    }
                    self.keep(line);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let kept = self.kept();
                    let said: Vec<&str> = self
                        .said
                        .iter()
                        .map(String::as_str)
                        .chain(kept.lines())
                        .collect();
                    bail!("{}", complaint(&self.name, &said));
                }
            }
        }
    }

    /// Waits for the end.
    pub(super) fn end(mut self, limit: Duration, stop: &dyn Fn() -> bool) -> Result<Ended> {
        let until = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            self.go_on(until, stop)?;
            std::thread::sleep(LOOK);
        };
        let stdout = self.kept();
        while let Ok(line) = self.lines.recv() {
            self.keep(line);
        }
        Ok(Ended {
            code: status.code(),
            stdout,
            stderr: std::mem::take(&mut self.said),
        })
    }

    fn kept(&mut self) -> String {
        self.stdout
            .take()
            .and_then(|kept| kept.join().ok())
            .unwrap_or_default()
    }

    fn keep(&mut self, line: String) {
        if self.said.len() < LINES_MAX {
            self.said.push(line);
        }
    }

    fn go_on(&self, until: Instant, stop: &dyn Fn() -> bool) -> Result<()> {
        if stop() {
            return Err(Interrupted.into());
        }
        if Instant::now() > until {
            return Err(anyhow!("{} did not get on", self.name));
        }
        Ok(())
    }
}

impl Ended {
    /// What a program complained about.
    pub(super) fn complaint(&self, name: &str) -> String {
        let lines: Vec<&str> = self
            .stderr
            .iter()
            .map(String::as_str)
            .chain(self.stdout.lines())
            .collect();
        complaint(name, &lines)
    }
}

fn complaint(name: &str, lines: &[&str]) -> String {
    let told = lines.iter().map(|line| line.trim()).find(|line| {
        let start = line.split(':').next().unwrap_or_default();
        matches!(start, "error" | "forebay") && !line.contains("warning:")
    });
    let told = told.or_else(|| {
        lines
            .iter()
            .map(|line| line.trim())
            .find(|line| !line.is_empty())
    });
    match told {
        Some(line) => {
            let line = line.strip_prefix("forebay: ").unwrap_or(line);
            line.strip_prefix("error: ").unwrap_or(line).to_owned()
        }
        None => format!("{name} ended and said nothing"),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // It has ended meanwhile, or is ended now.
        let _ = forebay_sys::process::terminate(self.child.id());
        let until = Instant::now() + END_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_quoted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo; echo 'error: no such thing' >&2; exit 2"]);
        let mut running = Running::start("sh", &mut command, Says::OnStderr).unwrap();
        let error = running
            .line(Duration::from_secs(20), &|| false, |_| None::<()>)
            .unwrap_err();
        assert_eq!(error.to_string(), "no such thing");
    }

    #[test]
    fn an_interrupted_program_is_ended() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let running = Running::start("sleep", &mut command, Says::OnStderr).unwrap();
        let pid = running.child.id();
        let error = running.end(Duration::from_secs(20), &|| true).unwrap_err();
        assert!(error.is::<Interrupted>());
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
