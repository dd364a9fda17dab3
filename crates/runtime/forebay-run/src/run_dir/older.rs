//! What lies in a directory from before: it is renamed, never deleted, and put back when the new run does not begin.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::{LEDGER, MEMORY, MEMORY_PREFIX, RECORD, busy, open_ledger};
use crate::error::RunError;
use crate::record::RecordView;

/// How many names are tried for one file.
const NAMES_MAX: u32 = 10_000;
/// Longest name of a run that becomes part of a file's name.
const ID_CHARS_MAX: usize = 128;
/// Longest record that is read for its run's name, in bytes.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// What was renamed.
#[derive(Debug, Default)]
pub(super) struct Older {
    /// From, to.
    moved: Vec<(PathBuf, PathBuf)>,
}

impl Older {
    /// Renames ledger and record of the last run in this directory, and whatever else has their names.
    ///
    /// # Errors
    /// A run is going on there, something that is no file has one of the names, or a file cannot be renamed.
    pub(super) fn set_aside(
        directory: &Path,
        locked: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Self, RunError> {
        for name in [LEDGER, RECORD] {
            refuse_special(&directory.join(name))?;
        }
        let reader = open_ledger(directory).ok();
        if !locked
            && let Some(reader) = &reader
            && let Ok(status) = reader.run_status()
            && status.end_ns == 0
            && forebay_sys::process::is_alive(status.supervisor_pid)
        {
            return Err(busy(directory, status.supervisor_pid));
        }
        let ledger_id = reader
            .map(|reader| reader.run_id().to_owned())
            .filter(|id| is_plain(id));
        let mut older = Self::default();
        let done = older.rename_both(directory, ledger_id.as_deref(), warnings);
        if done.is_err() {
            older.put_back();
        }
        done.map(|()| older)
    }

    fn rename_both(
        &mut self,
        directory: &Path,
        ledger_id: Option<&str>,
        warnings: &mut Vec<String>,
    ) -> Result<(), RunError> {
        let (ledger, record) = (directory.join(LEDGER), directory.join(RECORD));
        let record_id = run_of(&record);
        if is_there(&ledger) {
            let id = ledger_id.or(record_id.as_deref()).unwrap_or("old");
            let kept = free_name(directory, &format!("{LEDGER}-{id}"), "")?;
            let held = self.rename_ledger(&ledger, &kept)?;
            if held && ledger_id.is_none() {
                warnings.push(warning(&ledger, "is no ledger that can be read", &kept));
            }
        }
        if is_there(&record) {
            let id = record_id.as_deref().unwrap_or("old");
            let kept = free_name(directory, &format!("run-{id}"), ".json")?;
            self.rename(&record, &kept)?;
            if ledger_id.is_none() || ledger_id != record_id.as_deref() {
                warnings.push(warning(
                    &record,
                    "has no readable ledger of its run beside it",
                    &kept,
                ));
            }
        }
        Ok(())
    }

    /// Renames a ledger; that of a run that was killed comes out of memory now. False when nothing was left of it.
    fn rename_ledger(&mut self, ledger: &Path, kept: &Path) -> Result<bool, RunError> {
        let Some(memory) = in_memory(ledger) else {
            return self.rename(ledger, kept).map(|()| true);
        };
        let held = memory.exists();
        if held {
            fs::copy(&memory, kept).map_err(RunError::file("copying the ledger to", kept))?;
            self.moved.push((ledger.to_path_buf(), kept.to_path_buf()));
        }
        fs::remove_file(ledger).map_err(RunError::file("removing", ledger))?;
        if held {
            fs::remove_file(&memory).map_err(RunError::file("removing", &memory))?;
        }
        Ok(held)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), RunError> {
        fs::rename(from, to).map_err(RunError::file("renaming", from))?;
        self.moved.push((from.to_path_buf(), to.to_path_buf()));
        Ok(())
    }

    /// Gives everything its old name again, for a run that did not begin.
    pub(super) fn put_back(&mut self) {
        for (from, to) in self.moved.drain(..).rev() {
            if !is_there(&from) {
                let _ = fs::rename(&to, &from);
            }
        }
    }
}

/// What an operator should know of a file that was renamed.
fn warning(path: &Path, what: &str, kept: &Path) -> String {
    let (path, kept) = (path.display(), kept.display());
    format!("{path} {what}; it is kept as {kept}")
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Whether a name of a run can stand in a file's name.
fn is_plain(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=ID_CHARS_MAX).contains(&id.len()) && id.chars().all(plain)
}

/// A pipe would be waited for without end, and a directory is not ours to rename.
fn refuse_special(path: &Path) -> Result<(), RunError> {
    let Ok(data) = fs::metadata(path) else {
        return Ok(());
    };
    let kind = data.file_type();
    let is = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let text = format!(
        "it is {is}, where a run keeps a file; give this run another directory, or rename it"
    );
    Err(RunError::File {
        what: "using",
        path: path.to_path_buf(),
        source: io::Error::new(io::ErrorKind::InvalidInput, text),
    })
}

/// Where in memory the ledger of a run that was killed lies, if this is the link to it.
fn in_memory(ledger: &Path) -> Option<PathBuf> {
    let target = fs::read_link(ledger).ok()?;
    let name = target.file_name()?.to_string_lossy();
    let own = target.parent() == Some(Path::new(MEMORY)) && name.starts_with(MEMORY_PREFIX);
    own.then_some(target)
}

/// Name of the run that a record is of.
fn run_of(record: &Path) -> Option<String> {
    if fs::metadata(record).ok()?.len() > RECORD_BYTES_MAX {
        return None;
    }
    let record = RecordView::parse(&fs::read(record).ok()?)?;
    let id = record.run_id()?;
    is_plain(id).then(|| id.to_owned())
}

/// A name that nothing has.
pub(super) fn free_name(directory: &Path, front: &str, back: &str) -> Result<PathBuf, RunError> {
    let names = (1..=NAMES_MAX).map(|number| match number {
        1 => directory.join(format!("{front}{back}")),
        _ => directory.join(format!("{front}-{number}{back}")),
    });
    let mut free = names.filter(|path| !is_there(path));
    free.next().ok_or_else(|| RunError::File {
        what: "finding a name beside",
        path: directory.join(format!("{front}{back}")),
        source: io::Error::new(io::ErrorKind::AlreadyExists, "all are taken; tidy up there"),
    })
}
