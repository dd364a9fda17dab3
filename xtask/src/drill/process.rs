//! Processes of the program: started, killed, waited for, and gone with the drill.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Round;

/// Longest time for anything that is waited for.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);

/// A process in progress; its output lies in files of the round.
pub(crate) struct Running {
    child: Child,
    name: String,
    directory: PathBuf,
}

/// A process that has ended.
pub(crate) struct Ended {
    /// None of one that was killed.
    pub(crate) code: Option<i32>,
    pub(crate) json: Value,
    pub(crate) stderr: String,
}

impl Round {
    /// Starts the program with these words; `name` is that of its output.
    pub(crate) fn start(&self, name: &str, words: &[&str]) -> Result<Running> {
        let output = |end: &str| {
            let path = self.path(&format!("{name}.{end}"));
            File::create(&path).with_context(|| format!("making {}", path.display()))
        };
        let child = Command::new(&self.binary)
            .args(words)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(output("stdout")?)
            .stderr(output("stderr")?)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Running {
            child,
            name: name.to_owned(),
            directory: self.directory.clone(),
        })
    }

    /// Kills a process of ours.
    pub(crate) fn kill(&mut self, running: &mut Running) -> Result<()> {
        running.child.kill().context("killing")?;
        running.child.wait().context("waiting for a killed one")?;
        self.kills += 1;
        Ok(())
    }

    /// Kills a stage, which is not our child.
    pub(crate) fn kill_stage(&mut self, pid: u32) -> bool {
        let killed = signal("KILL", pid);
        self.kills += u64::from(killed);
        killed
    }
}

pub(crate) fn signal(name: &str, pid: u32) -> bool {
    let mut command = Command::new("kill");
    let command = command.args([&format!("-{name}"), &pid.to_string()]);
    let status = command.stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_over(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Whether it ends by itself within that time.
    pub(crate) fn ends_within(&mut self, time: Duration) -> bool {
        let limit = Instant::now() + time;
        while !self.is_over() && Instant::now() < limit {
            std::thread::sleep(LOOK);
        }
        self.is_over()
    }

    pub(crate) fn interrupt(&self) {
        signal("INT", self.pid());
    }

    /// Its stages by name, as a run of the event builder has them.
    pub(crate) fn stages(&self) -> BTreeMap<String, u32> {
        let of = |pid: u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
            let stage = words.nth(1)? == "stage";
            stage.then(|| Some((words.next()?.into_owned(), pid)))?
        };
        children_of(self.pid()).into_iter().filter_map(of).collect()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Result<Ended> {
        let limit = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().context("waiting")? {
                break status;
            }
            if Instant::now() > limit {
                bail!("{} did not end within {} s", self.name, LIMIT.as_secs());
            }
            std::thread::sleep(LOOK);
        };
        let read = |end: &str| {
            let path = self.directory.join(format!("{}.{end}", self.name));
            fs::read_to_string(path).unwrap_or_default()
        };
        let stdout = read("stdout");
        let last = stdout.lines().last().unwrap_or_default();
        Ok(Ended {
            code: status.code(),
            json: serde_json::from_str(last).unwrap_or(Value::Null),
            stderr: read("stderr"),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn children_of(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may have blanks and brackets in it; what follows it has not.
    let behind = text.rsplit_once(')')?.1;
    behind.split_whitespace().nth(1)?.parse().ok()
}

pub(crate) fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Looks until there is something to see.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let limit = Instant::now() + LIMIT;
    loop {
        if let Some(seen) = look() {
            return Ok(seen);
        }
        if Instant::now() > limit {
            bail!("waited {} s for {what}", LIMIT.as_secs());
        }
        std::thread::sleep(LOOK);
    }
}
