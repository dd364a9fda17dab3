//! A program of a measurement, which ends by itself or is told to; and one whose books are read meanwhile.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use forebay_ledger::{AccountLine, LedgerReader, Snapshot};
use forebay_run::run_dir::open_ledger;
use forebay_sys::process;

use crate::running::Running;

/// One look at whether it has ended.
const LOOK: Duration = Duration::from_millis(2);
/// After it was told to end it takes no longer.
const END_MOST: Duration = Duration::from_secs(60);
/// A program has its books after so long at most.
const BEGIN_MOST: Duration = Duration::from_secs(30);
const BEGIN_LOOK: Duration = Duration::from_millis(10);

/// A program at work. It is in a process group of its own: Ctrl-C is not for it, but for this process, which ends one after the other.
pub(crate) struct Child {
    running: Running,
    what: &'static str,
}

/// How it ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Child {
    pub(crate) fn start(command: &mut Command, what: &'static str) -> Result<Self> {
        let running = Running::start(command.process_group(0), Stdio::piped())?;
        Ok(Self { running, what })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.id()
    }

    /// What it is.
    pub(crate) const fn what(&self) -> &'static str {
        self.what
    }

    /// How it ended, if it has.
    pub(crate) fn status(&mut self) -> Result<Option<ExitStatus>> {
        let ended = self.running.try_wait();
        ended.with_context(|| format!("waiting for {}", self.what))
    }

    pub(crate) fn is_over(&mut self) -> Result<bool> {
        Ok(self.status()?.is_some())
    }

    /// What one that is over complained about.
    pub(crate) fn complaint(&mut self) -> Result<String> {
        let text = said(self.running.stderr.take())?;
        Ok(text.trim().to_owned())
    }

    /// Tells it to end.
    pub(crate) fn terminate(&self) {
        // One that is over needs not to be told.
        let _ = process::terminate(self.pid());
    }

    /// Waits for its end. What it says fits into a pipe.
    pub(crate) fn end(mut self) -> Result<Ended> {
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
    pub(crate) fn record(self) -> Result<serde_json::Value> {
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

/// A program with books.
pub(crate) struct Booked {
    pub(crate) child: Child,
    ledger: LedgerReader,
}

impl Booked {
    /// Waits until a program has its books: those of an earlier run in the same place are not its own.
    pub(crate) fn begin(mut child: Child, directory: PathBuf) -> Result<Self> {
        let since = Instant::now();
        let own = format!("-{}", child.pid());
        loop {
            let ledger = open_ledger(&directory).ok();
            if let Some(ledger) = ledger.filter(|ledger| ledger.run_id().ends_with(&own)) {
                return Ok(Self { child, ledger });
            }
            if child.is_over()? {
                let ended = child.end()?;
                let text = ended.stderr.trim();
                bail!("{}", text.strip_prefix("forebay: ").unwrap_or(text));
            }
            ensure!(
                since.elapsed() < BEGIN_MOST,
                "there are no books in {}",
                directory.display()
            );
            std::thread::sleep(BEGIN_LOOK);
        }
    }

    /// Tells it to end, and gives its record.
    pub(crate) fn end(self) -> Result<serde_json::Value> {
        self.child.terminate();
        self.child.record()
    }

    /// What its books say now.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let read = self.ledger.snapshot();
        read.with_context(|| format!("reading the books of {}", self.child.what()))
    }

    /// Sum of something over the accounts of a place.
    pub(crate) fn sum(&self, places: &[&str], of: fn(&AccountLine) -> u64) -> u64 {
        let Ok(snapshot) = self.ledger.snapshot() else {
            return 0;
        };
        let lines = snapshot.balance().accounts;
        let of_places = lines
            .iter()
            .filter(|line| places.contains(&line.place.as_str()));
        of_places.map(of).sum()
    }
}

fn said(pipe: Option<impl Read>) -> Result<String> {
    let mut text = String::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_string(&mut text)?;
    }
    Ok(text)
}
