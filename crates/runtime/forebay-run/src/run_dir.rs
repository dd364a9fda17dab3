//! The directory of a run: where the ledger and the record lie.
//!
//! The live ledger lies in `/dev/shm`: a mapped file on a disk makes a data path wait for the disk whenever the
//! kernel writes its pages back. The run's directory holds a link to it while the run lives (a `kill -9`
//! leaves both, for the post-mortem; the next run anywhere brings the ledger home into its directory, and removes one that no directory waits for
//! from memory when it is a day old) and the ledger itself afterwards. `ledger` and `run.json` are those of the last
//! run in that directory; older ones are kept as `ledger-RUN` and `run-RUN.json`, and files of those names that are no
//! run's at all as `ledger-old` and `run-old.json`. A run that does not begin leaves the directory as it was.
//!
//! A run holds a lock (`flock`) on its directory while its supervisor lives: the kernel takes it back at any death, so it
//! tells better than a process number whether a run is going on there. Room for ledger and record is taken at the start,
//! so that a run that fills its disk can still say so.

mod forgotten;
mod home;
mod kept;
mod older;
mod one_group;

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_ledger::{LedgerReader, RunWriter, Schema, Words};
use forebay_sys::clock;
use forebay_sys::mapping::{Access, Mapping};
use forebay_sys::process::is_alive;
use serde::Serialize;

use crate::error::RunError;
use crate::record::Record;
pub use forgotten::{Cleaned, clean_memory};
pub use kept::{KeptLedger, RunEnd};
use older::Older;
pub use one_group::OneGroup;

const LEDGER: &str = "ledger";
const RECORD: &str = "run.json";
const NEW: &str = "new";
/// A ledger that is being made in the directory itself, where there is no shared memory.
const MAKING: &str = "ledger-making";
const MEMORY: &str = "/dev/shm";
const LEDGER_SUFFIX: &str = ".ledger";
/// Names that are tried in memory for one ledger.
const NAMES_MAX: u32 = 1000;
/// Front of the names in memory.
const MEMORY_PREFIX: &str = "forebay-";
/// Room taken for the record at the start, and more for each source, in bytes.
const RECORD_BYTES: (u64, u64) = (64 << 10, 6 << 10);
/// A process that only looks whether a run is going on may hold the lock for a moment: how often and how long to wait for it.
const LOCK_TRIES: u32 = 20;
const LOCK_WAIT: Duration = Duration::from_millis(5);

/// Leaves the record of a process that keeps no ledger of its own in `directory`, as `run-RUN_ID.json`: the directory may be another run's, too, and nothing is written over.
///
/// Where it cannot be written, the record says that it is [`unkept`](crate::record::Envelope::unkept), and warns of that.
///
/// # Errors
/// The record cannot be written down.
pub fn leave_record<S: Serialize>(
    directory: &Path,
    record: &mut Record<S>,
) -> Result<(), RunError> {
    let json = serde_json::to_vec_pretty(record).map_err(RunError::not_sayable("record"))?;
    let front = format!("run-{}", record.envelope.run_id);
    let left = older::free_name(directory, &front, ".json")
        .and_then(|path| replace(&path, &json).map_err(RunError::file("writing", &path)));
    if let Err(why) = left {
        record.envelope.leave(&why);
    }
    Ok(())
}

/// Writes a small file, which has its name only when it is whole.
///
/// # Errors
/// The directory cannot be written.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{NEW}"));
    let written = fs::write(&new, bytes).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// The directory of a run that is being made.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    run_id: String,
    memory: PathBuf,
    /// The live ledger is in memory and nobody has said where it shall stay.
    live: bool,
    /// The run has begun and ended, and its ledger is to stay.
    ended: bool,
    /// The directory was not there before.
    made: bool,
    older: Older,
    _lock: Option<File>,
    /// Says to others that the ledger in memory is in use.
    ledger: Option<File>,
}

impl RunDir {
    /// Prepares `path` for the run `run_id`: what lies there of an older run is renamed, and what is no run's with a warning.
    ///
    /// # Errors
    /// The directory cannot be made or written, or a live run uses it.
    pub fn prepare(
        path: &Path,
        run_id: &str,
        warnings: &mut Vec<String>,
    ) -> Result<Self, RunError> {
        forgotten::tidy();
        let made = !path.exists();
        fs::create_dir_all(path).map_err(RunError::file("creating directory", path))?;
        let path = path
            .canonicalize()
            .map_err(RunError::file("finding", path))?;
        let lock = lock(&path)?;
        let older = Older::set_aside(&path, lock.is_some(), warnings)?;
        let memory = memory_path(&path, run_id);
        Ok(Self {
            path,
            run_id: run_id.to_owned(),
            memory,
            live: false,
            ended: false,
            made,
            older,
            _lock: lock,
            ledger: None,
        })
    }

    /// Takes room for the ledger of `ledger_bytes` and the record of a run with so many sources.
    ///
    /// # Errors
    /// There is not enough, or the directory cannot be written.
    pub fn reserve(&self, ledger_bytes: u64, sources: usize) -> Result<(), RunError> {
        let record_bytes = RECORD_BYTES.0 + RECORD_BYTES.1 * sources as u64;
        for (name, bytes) in [(LEDGER, ledger_bytes), (RECORD, record_bytes)] {
            let new = self.new_path(name);
            // Of a run that was killed.
            let _ = fs::remove_file(&new);
            Mapping::create_file(&new, bytes)?;
        }
        Ok(())
    }

    fn new_path(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.{NEW}"))
    }

    /// The directory, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the ledger of `schema` and maps it. It gets its name in the directory when it is whole: a process that finds it can read it.
    ///
    /// # Errors
    /// There is no room, or the file exists.
    pub fn create_ledger(
        &mut self,
        schema: &Schema,
    ) -> Result<(Words, OwnedFd, RunWriter), RunError> {
        let link = self.path.join(LEDGER);
        let without_memory = link == self.memory;
        if without_memory {
            self.memory = self.new_path(MAKING);
            // Of a run that was killed.
            let _ = fs::remove_file(&self.memory);
        }
        let ledger_bytes = schema.bytes_needed() as u64;
        let home = if without_memory {
            Vec::new()
        } else {
            home::trailer(&self.path)
        };
        let (mapping, file) = self.create_memory(ledger_bytes + home.len() as u64)?;
        self.live = true;
        self.ledger = file.try_clone().ok();
        if let Some(ledger) = &self.ledger {
            // Where there are no locks, its age has to do.
            let _ = ledger.try_lock();
        }
        let words = Words::new(mapping);
        let run = RunWriter::format(schema, &words, std::process::id(), clock::realtime_ns())?;
        // After the lock: a reader of where it belongs sees whether its process lives.
        file.write_all_at(&home, ledger_bytes)
            .map_err(RunError::file("writing", &self.memory))?;
        if without_memory {
            fs::rename(&self.memory, &link).map_err(RunError::file("renaming", &self.memory))?;
            self.memory = link;
        } else {
            std::os::unix::fs::symlink(&self.memory, &link)
                .map_err(RunError::file("linking", &link))?;
        }
        Ok((words, file.into(), run))
    }

    /// The file in memory. One of a run that was killed may have the name, where process numbers are given again: it stays, for a process that looks at that run.
    fn create_memory(&mut self, bytes: u64) -> Result<(Mapping, File), RunError> {
        let first = self.memory.clone();
        let mut again = 0;
        loop {
            match Mapping::create_private_file(&self.memory, bytes) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && again < NAMES_MAX => {
                    again += 1;
                    self.memory = first.with_extension(format!("{again}{LEDGER_SUFFIX}"));
                }
                made => return Ok(made?),
            }
        }
    }

    /// Whether somebody removed or renamed the directory: what has its name now is not this run's to write.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let own = self._lock.as_ref().and_then(|file| file.metadata().ok());
        let own = own.map(|data| (data.dev(), data.ino()));
        let there = fs::metadata(&self.path).map(|data| (data.dev(), data.ino()));
        there.map_or(true, |there| own.is_some_and(|own| own != there))
    }

    fn refuse_when_gone(&self) -> Result<(), RunError> {
        if !self.is_gone() {
            return Ok(());
        }
        let text = "somebody removed or renamed it during the run";
        Err(RunError::File {
            what: "writing into",
            path: self.path.clone(),
            source: io::Error::new(io::ErrorKind::NotFound, text),
        })
    }

    /// Puts the finished ledger into the directory and takes the live one away.
    ///
    /// # Errors
    /// The directory cannot be written; the ledger then stays in memory.
    pub fn keep_ledger(&mut self) -> Result<(), RunError> {
        self.live = false;
        self.ended = true;
        let link = self.path.join(LEDGER);
        if link == self.memory {
            return Ok(());
        }
        self.refuse_when_gone()?;
        let bytes = fs::read(&self.memory).map_err(RunError::file("reading", &self.memory))?;
        // The room that was taken is for the words alone.
        let ledger = bytes.strip_suffix(&*home::trailer(&self.path));
        self.replace(LEDGER, ledger.unwrap_or(&bytes))?;
        fs::remove_file(&self.memory).map_err(RunError::file("removing", &self.memory))
    }

    /// The directory is not this run's any more: the ledger stays in memory. For the operator: why, and where.
    pub(crate) fn leave_ledger(&mut self) -> Option<String> {
        let error = self.refuse_when_gone().err()?;
        self.live = false;
        self.ended = true;
        Some(self.stays(&error))
    }

    /// What is said of a ledger that stays in memory.
    pub fn stays(&self, error: &RunError) -> String {
        let memory = self.memory.display();
        format!(
            "{error}; the ledger stays in memory, where `forebay audit {memory}` reads it, until the next run of any program can bring it home, or `forebay doctor --clean` takes it away"
        )
    }

    /// Writes the run's record.
    ///
    /// # Errors
    /// The directory cannot be written, or is not this run's any more; or the record cannot be written down.
    pub fn write_record<S: Serialize>(&self, record: &Record<S>) -> Result<(), RunError> {
        let json = serde_json::to_vec_pretty(record);
        let json = json.map_err(RunError::not_sayable("record"))?;
        self.refuse_when_gone()?;
        self.replace(RECORD, &json)
    }

    /// Writes a file into the room that was taken for it, and gives it its name when it is whole.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        let (new, path) = (self.new_path(name), self.path.join(name));
        let open = || {
            File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&new)
        };
        let written = open().and_then(|mut file| {
            file.write_all(bytes)?;
            file.set_len(bytes.len() as u64)
        });
        if let Err(error) = written {
            let _ = fs::remove_file(&new);
            return Err(RunError::file("writing", &path)(error));
        }
        fs::rename(&new, &path).map_err(RunError::file("renaming", &new))
    }

    /// The ledger that a run of this directory has in memory.
    #[must_use]
    pub fn memory(&self) -> &Path {
        &self.memory
    }

    /// Name of the run.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run_id
    }
}

impl Drop for RunDir {
    /// A run that never began leaves nothing, neither in memory nor here; one that ended without a record no empty file.
    fn drop(&mut self) {
        if self.live {
            let _ = fs::remove_file(&self.memory);
            let link = self.path.join(LEDGER);
            if fs::read_link(&link).is_ok_and(|target| target == self.memory) {
                let _ = fs::remove_file(&link);
            }
        }
        for name in [LEDGER, RECORD] {
            let _ = fs::remove_file(self.new_path(name));
        }
        if !self.ended {
            self.older.put_back();
            if self.made {
                // Whatever is in it meanwhile is not this run's, and keeps it.
                let _ = fs::remove_dir(&self.path);
            }
        }
    }
}

/// Takes the lock on the directory of a run.
fn lock(directory: &Path) -> Result<Option<File>, RunError> {
    lock_or(directory, || {
        let status = open_ledger(directory).and_then(|reader| Ok(reader.run_status()?));
        busy(directory, status.map_or(0, |status| status.supervisor_pid))
    })
}

fn busy(directory: &Path, pid: u32) -> RunError {
    let text = format!(
        "a run is going on there (pid {pid}); give this one another directory, or end that one first"
    );
    in_use(directory, text)
}

/// Another run or chain uses a directory: `text` says which, and what to do.
pub fn in_use(directory: &Path, text: String) -> RunError {
    RunError::File {
        what: "using",
        path: directory.to_path_buf(),
        source: io::Error::new(io::ErrorKind::ResourceBusy, text),
    }
}

/// Takes the lock on a directory; none where the file system has no locks. `busy` says that somebody else has it.
pub fn lock_or(
    directory: &Path,
    busy: impl FnOnce() -> RunError,
) -> Result<Option<File>, RunError> {
    let Ok(file) = File::open(directory) else {
        return Ok(None);
    };
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_WAIT),
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
    Err(busy())
}

/// Whether the supervisor `pid` of the run in `directory` lives: it holds the lock. Where there are no locks, its number decides.
#[must_use]
pub fn is_live(directory: &Path, pid: u32) -> bool {
    let alive = is_alive(pid);
    let locked = || {
        File::open(directory)
            .ok()
            .map(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    };
    alive && locked().unwrap_or(true)
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
            "the run was killed and its memory is gone (the host was restarted, `forebay doctor --clean` was run, or a day has passed and another run tidied up)",
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
    let name = format!(
        "{MEMORY_PREFIX}{run_id}-{}{LEDGER_SUFFIX}",
        std::process::id()
    );
    if memory.is_dir() {
        memory.join(name)
    } else {
        directory.join(LEDGER)
    }
}
