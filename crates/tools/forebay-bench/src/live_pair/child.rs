//! A program of a run, which ends by itself or is told to.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use forebay_sys::process;

use crate::running::Running;

/// One look at whether it has ended.
const LOOK: Duration = Duration::from_millis(2);
/// After it was told to end it takes no longer.
const END_MOST: Duration = Duration::from_secs(60);

/// A program at work. It is in a process group of its own: Ctrl-C is not for it, but for this process, which ends one after the other.
pub(crate) struct Child {
    running: Running,
    what: &'static str,
}

/// How it ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Child {
    pub(crate) fn start(command: &mut Command, what: &'static str) -> Result<Self> {
        let running = Running::start(command.process_group(0), Stdio::piped())?;
        Ok(Self { running, what })
    }

    pub(super) fn pid(&self) -> u32 {
        self.running.id()
    }

    pub(super) fn is_over(&mut self) -> Result<bool> {
        let ended = self.running.try_wait();
        Ok(ended
            .with_context(|| format!("waiting for {}", self.what))?
            .is_some())
    }

    /// Tells it to end.
    pub(super) fn terminate(&mut self) {
        // One that is over needs not to be told.
        let _ = process::terminate(self.pid());
    }

    /// Waits for its end. What it says fits into a pipe.
    pub(super) fn end(mut self) -> Result<Ended> {
        let begun = Instant::now();
        while !self.is_over()? {
            if begun.elapsed() > END_MOST {
                bail!("{} did not end within {END_MOST:?}", self.what);
            }
            std::thread::sleep(LOOK);
        }
        let status = self.running.wait()?;
        Ok(Ended {
            status,
            stdout: said(self.running.stdout.take())?,
            stderr: said(self.running.stderr.take())?,
        })
    }

    /// Its JSON object; what it ends with, and what it complains about, is in the error where there is none.
    pub(super) fn record(self) -> Result<serde_json::Value> {
        let what = self.what;
        let ended = self.end()?;
        serde_json::from_str(&ended.stdout).with_context(|| {
            format!(
                "{what} ended with {}: {}",
                ended.status,
                ended.stderr.trim()
            )
        })
    }
}

fn said(pipe: Option<impl Read>) -> Result<String> {
    let mut text = String::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_string(&mut text)?;
    }
    Ok(text)
}
