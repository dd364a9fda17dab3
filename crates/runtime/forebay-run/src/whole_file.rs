//! A file that has its name only when it is whole.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use forebay_sys::watched::{Fate, OUTPUT_REMOVED, fate};

/// Why a file cannot be begun.
#[derive(Debug, Error)]
pub enum BeginError {
    /// Configuration: a file that is never written over.
    #[error("{} is there already and is not written over: give {option} another name, or remove it", .path.display())]
    Taken {
        /// Path of the file.
        path: PathBuf,
        /// What asked for it.
        option: &'static str,
    },
    /// Configuration: a file that another output or another process writes just now.
    #[error("{} is being written already; give {option} another name", .path.display())]
    Busy {
        /// Path of the file.
        path: PathBuf,
        /// What asked for it.
        option: &'static str,
    },
    /// Configuration: a file that has no place.
    #[error("creating {}: {source}; give {option} a file in a directory that is there and can be written to", .path.display())]
    Place {
        /// Path of the file.
        path: PathBuf,
        /// What asked for it.
        option: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// A file that is written as NAME.part beside its place, and takes its name at the end: so nobody reads half of it, and no file is written over.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    part: PathBuf,
    path: PathBuf,
}

/// A part of which nothing was written is of no use.
impl Drop for WholeFile {
    fn drop(&mut self) {
        if self
            .file
            .metadata()
            .is_ok_and(|data| data.is_file() && data.len() == 0)
        {
            let _ = fs::remove_file(&self.part);
        }
    }
}

impl WholeFile {
    /// Begins `path`, which `option` of the command line names. A part that a killed run has left is written over.
    ///
    /// # Errors
    /// There is such a file, or one is being written, or its directory cannot be written to.
    pub fn create(path: &Path, option: &'static str) -> Result<Self, BeginError> {
        if path.symlink_metadata().is_ok() {
            return Err(BeginError::Taken {
                path: path.to_path_buf(),
                option,
            });
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = open(&part).map_err(|source| BeginError::Place {
            path: part.clone(),
            option,
            source,
        })?;
        // Of a pipe or a device there is no lock, and nothing is written over.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            let path = path.to_path_buf();
            return Err(BeginError::Busy { path, option });
        }
        let emptied = match file.metadata() {
            Ok(data) if data.is_file() => file.set_len(0),
            _ => Ok(()),
        };
        emptied.map_err(|source| BeginError::Place {
            path: part.clone(),
            option,
            source,
        })?;
        Ok(Self {
            file,
            part,
            path: path.to_path_buf(),
        })
    }

    /// Where what was written stays when it is not finished.
    #[must_use]
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// A second handle of the file, for a writer of its own.
    ///
    /// # Errors
    /// The process has too many files.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Where it will be.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All is written: it takes its name. Where somebody has removed the part, it is written again.
    ///
    /// # Errors
    /// It cannot be flushed or renamed, or somebody has cut it.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        // Nothing can be taken away of a pipe or a device.
        let is_file = self.file.metadata()?.is_file();
        let written = if is_file {
            self.file.stream_position()?
        } else {
            0
        };
        match fate(&self.file, written)? {
            Fate::Removed if is_file => self.write_again(written)?,
            Fate::Cut { bytes } => {
                let path = self.part.display();
                return Err(io::Error::other(format!(
                    "{OUTPUT_REMOVED} {path} was cut to {bytes} bytes while it was written"
                )));
            }
            Fate::Whole | Fate::Longer | Fate::Removed => {}
        }
        fs::rename(&self.part, &self.path)
    }

    fn write_again(&mut self, bytes: u64) -> io::Result<()> {
        if let Some(directory) = self.part.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut again = open(&self.part)?;
        self.file.rewind()?;
        let copied = io::copy(&mut (&self.file).take(bytes), &mut again)?;
        if copied < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

fn open(part: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_whole_and_is_never_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("it");
        let whole = WholeFile::create(&path, "--rows").unwrap();
        whole.handle().unwrap().write_all(b"abc").unwrap();
        assert!(!path.exists());
        whole.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        let told = WholeFile::create(&path, "--rows").unwrap_err().to_string();
        assert!(told.contains("it is there already"), "{told}");
        assert!(told.contains("--rows"), "{told}");
        let other = directory.path().join("other");
        fs::write(other.with_extension("part"), b"of a run that was killed").unwrap();
        let first = WholeFile::create(&other, "--rows").unwrap();
        let same = directory.path().join("./other");
        let told = WholeFile::create(&same, "--rows").unwrap_err().to_string();
        assert!(told.contains("is being written already"), "{told}");
        assert_eq!(first.handle().unwrap().metadata().unwrap().len(), 0);
        drop(first);
        assert!(
            !other.with_extension("part").exists(),
            "an empty part stayed"
        );
        let nowhere = directory.path().join("none/it");
        let told = WholeFile::create(&nowhere, "--rows").unwrap_err();
        assert!(told.to_string().contains("none/it.part"), "{told}");
    }
}
