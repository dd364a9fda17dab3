//! The directory of a run: where the ledger and the record lie.
//!
//! The live ledger lies in `/dev/shm`: a mapped file on a disk makes a data path wait for the disk whenever the
//! kernel writes its pages back. The run's directory holds a link to it while the run lives (a `kill -9`
//! leaves both, for the post-mortem) and the ledger itself afterwards. `ledger` and `run.json` are those of the last
//! run in that directory; older ones are kept as `ledger-RUN` and `run-RUN.json`.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use forebay_ledger::{LedgerReader, Words};
use forebay_sys::mapping::{Access, Mapping};

use crate::error::RunError;

const LEDGER: &str = "ledger";
const RECORD: &str = "run.json";
const MEMORY: &str = "/dev/shm";

/// The directory of a run that is being made.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    run_id: String,
    memory: PathBuf,
}

impl RunDir {
    /// Prepares `path` for the run `run_id`: what lies there of an older run is renamed.
    ///
    /// # Errors
    /// The directory cannot be made or written, or a live run uses it.
    pub fn prepare(path: &Path, run_id: &str) -> Result<Self, RunError> {
        fs::create_dir_all(path).map_err(RunError::file("creating directory", path))?;
        let path = path
            .canonicalize()
            .map_err(RunError::file("finding", path))?;
        keep_older(&path)?;
        let memory = memory_path(&path, run_id);
        Ok(Self {
            path,
            run_id: run_id.to_owned(),
            memory,
        })
    }

    /// The directory, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the ledger of `bytes` and maps it.
    ///
    /// # Errors
    /// There is no room, or the file exists.
    pub fn create_ledger(&self, bytes: u64) -> Result<(Words, OwnedFd), RunError> {
        let (mapping, file) = Mapping::create_file(&self.memory, bytes)?;
        let link = self.path.join(LEDGER);
        if link != self.memory {
            std::os::unix::fs::symlink(&self.memory, &link)
                .map_err(RunError::file("linking", &link))?;
        }
        Ok((Words::new(mapping), file.into()))
    }

    /// Puts the finished ledger into the directory and takes the live one away.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn keep_ledger(&self) -> Result<(), RunError> {
        let link = self.path.join(LEDGER);
        if link == self.memory {
            return Ok(());
        }
        let new = self.path.join(format!("{LEDGER}.new"));
        fs::copy(&self.memory, &new).map_err(RunError::file("copying the ledger to", &new))?;
        fs::rename(&new, &link).map_err(RunError::file("renaming", &new))?;
        fs::remove_file(&self.memory).map_err(RunError::file("removing", &self.memory))
    }

    /// Writes the run's record.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn write_record(&self, json: &str) -> Result<PathBuf, RunError> {
        let path = self.path.join(RECORD);
        fs::write(&path, json).map_err(RunError::file("writing", &path))?;
        Ok(path)
    }

    /// Name of the run.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run_id
    }
}

/// Opens the ledger of a run, live or ended; `path` is the run's directory or the ledger itself.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn open_ledger(path: &Path) -> Result<LedgerReader, RunError> {
    let file = if path.is_dir() {
        path.join(LEDGER)
    } else {
        path.to_path_buf()
    };
    if fs::symlink_metadata(&file).is_ok_and(|data| data.is_symlink()) && !file.exists() {
        let gone = io::Error::new(
            io::ErrorKind::NotFound,
            "the run was killed and its memory is gone (the host was restarted)",
        );
        return Err(RunError::File {
            what: "opening the ledger",
            path: file,
            source: gone,
        });
    }
    let mapping = Mapping::open_file(&file, Access::ReadOnly)?;
    Ok(LedgerReader::open(&Words::new(mapping))?)
}

/// A name in memory that no other directory has at the same time.
fn memory_path(directory: &Path, run_id: &str) -> PathBuf {
    let memory = Path::new(MEMORY);
    if memory.is_dir() {
        memory.join(format!("forebay-{run_id}-{}.ledger", std::process::id()))
    } else {
        directory.join(LEDGER)
    }
}

/// Renames the ledger and the record of the last run in this directory.
fn keep_older(directory: &Path) -> Result<(), RunError> {
    let ledger = directory.join(LEDGER);
    let Ok(data) = fs::symlink_metadata(&ledger) else {
        return Ok(());
    };
    let reader = open_ledger(directory).ok();
    if let Some(reader) = &reader
        && let Ok(status) = reader.run_status()
        && status.end_ns == 0
        && crate::supervisor::is_alive(status.supervisor_pid)
    {
        let busy = io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("a run is going on there (pid {})", status.supervisor_pid),
        );
        return Err(RunError::File {
            what: "using",
            path: directory.to_path_buf(),
            source: busy,
        });
    }
    let Some(run_id) = reader.map(|reader| reader.run_id().to_owned()) else {
        return fs::remove_file(&ledger).map_err(RunError::file("removing", &ledger));
    };
    let kept = directory.join(format!("{LEDGER}-{run_id}"));
    if data.is_symlink() {
        // The run was killed: its ledger comes out of memory now.
        let memory = fs::canonicalize(&ledger).map_err(RunError::file("finding", &ledger))?;
        fs::copy(&memory, &kept).map_err(RunError::file("copying the ledger to", &kept))?;
        fs::remove_file(&ledger).map_err(RunError::file("removing", &ledger))?;
        fs::remove_file(&memory).map_err(RunError::file("removing", &memory))?;
    } else {
        fs::rename(&ledger, &kept).map_err(RunError::file("renaming", &ledger))?;
    }
    let record = directory.join(RECORD);
    if record.exists() {
        let kept = directory.join(format!("run-{run_id}.json"));
        fs::rename(&record, &kept).map_err(RunError::file("renaming", &record))?;
    }
    Ok(())
}
