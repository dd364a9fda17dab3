//! A file that items are written into, and what somebody takes away of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::runs::{Behind, Runs};
use super::{Fate, OUTPUT_REMOVED, fate, moved_to};

/// Names that are tried for one file.
const NAMES_MAX: u32 = 10_000;

/// Makes a file under its own name, or with a number behind it where that is taken: nothing is ever written over.
///
/// # Errors
/// It cannot be made there.
pub fn create_free(first: &Path) -> io::Result<(PathBuf, File)> {
    let mut number = 0;
    loop {
        let path = match number {
            0 => first.to_path_buf(),
            _ => PathBuf::from(format!("{}.{number}", first.display())),
        };
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => {
                number += 1;
            }
            made => return made.map(|file| (path, file)),
        }
    }
}

/// What somebody took away of a file while it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    path: PathBuf,
    /// How long it is now; none where it has no name any more.
    cut_to: Option<u64>,
    /// Items that were in it and are not, or not whole.
    pub items: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Where in the file they lay: begins and lengths.
    pub ranges: Vec<(u64, u64)>,
}

impl Gone {
    /// For the operator; items are, as an example, messages.
    #[must_use]
    pub fn told(&self, items: &str) -> String {
        let path = self.path.display();
        let how = match self.cut_to {
            None => "removed".to_owned(),
            Some(bytes) => format!("cut to {bytes} bytes"),
        };
        let what = match items {
            "" => format!("{} bytes", self.bytes),
            _ => format!("{} {items} ({} bytes)", self.items, self.bytes),
        };
        format!(
            "{OUTPUT_REMOVED} {path} was {how} while it was written: {what} that were in it are gone"
        )
    }
}

#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
    /// It is a file with a name: pipes and devices are no one's to remove.
    is_watched: bool,
    /// It was written up to here.
    end: u64,
    runs: Runs,
    moved_told: bool,
}

/// A file that is looked at while it is written. One that somebody removed or cut is followed by another one, with the next write; one that was renamed is written on.
#[derive(Debug)]
pub struct WatchedFile {
    first: PathBuf,
    open: Option<Open>,
    /// Stands in front of each file.
    front: Vec<u8>,
    /// Bytes have their places: what follows on a cut stays in the same file.
    is_placed: bool,
    /// It has no items: bytes count.
    counts_bytes: bool,
    notes: Vec<String>,
}

impl WatchedFile {
    /// Watches a file that was made as `path`. What is none, as a pipe or a device, is written and never gone.
    #[must_use]
    pub fn of(file: File, path: &Path) -> Self {
        Self {
            first: path.to_path_buf(),
            open: Some(Open::of(file, path.to_path_buf())),
            front: Vec::new(),
            is_placed: false,
            counts_bytes: false,
            notes: Vec::new(),
        }
    }

    /// The same for one in which each byte has its place.
    #[must_use]
    pub fn placed(file: File, path: &Path) -> Self {
        Self {
            is_placed: true,
            ..Self::of(file, path)
        }
    }

    /// The same for one without items: its bytes count.
    #[must_use]
    pub fn of_bytes(file: File, path: &Path) -> Self {
        Self {
            counts_bytes: true,
            ..Self::of(file, path)
        }
    }

    /// Watches nothing: what somebody else has opened, as standard output, is not this process's to open anew.
    #[must_use]
    pub fn unwatched(file: File, path: &Path) -> Self {
        let mut it = Self::of(file, path);
        if let Some(open) = &mut it.open {
            open.is_watched = false;
        }
        it
    }

    /// Writes what stands in front of it, and of each file that follows it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn with_front(mut self, front: &str) -> io::Result<Self> {
        self.front = front.as_bytes().to_vec();
        if let Some(open) = &mut self.open {
            open.begin(&self.front)?;
        }
        Ok(self)
    }

    /// The name of the file that is written, or that follows one that is gone.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.open.as_ref().map_or(&self.first, |open| &open.path)
    }

    /// The open file; a new one where the last one is gone.
    fn open(&mut self) -> io::Result<&mut Open> {
        if self.open.is_none() {
            let mut open = self.follow()?;
            open.begin(&self.front)?;
            self.open = Some(open);
        }
        self.open
            .as_mut()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// In a directory that is made again when somebody removed it: what is written is worth more than its absence.
    fn follow(&mut self) -> io::Result<Open> {
        let mut made = create_free(&self.first);
        if matches!(&made, Err(error) if error.kind() == io::ErrorKind::NotFound)
            && let Some(directory) = self.first.parent()
        {
            fs::create_dir_all(directory)?;
            let note = format!("{} was gone and is made again", directory.display());
            self.notes.push(note);
            made = create_free(&self.first);
        }
        let (path, file) = made?;
        self.notes
            .push(format!("further output goes to {}", path.display()));
        Ok(Open::of(file, path))
    }

    /// Writes some of it at its place.
    ///
    /// # Errors
    /// As of a file, or of making one.
    pub fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let open = self.open()?;
        let written = open.file.write_at(bytes, at)?;
        open.end = open.end.max(at + written as u64);
        Ok(written)
    }

    /// So many items, with so many bytes of payload, lie in these bytes of the file; without items the bytes themselves count.
    pub fn note_at(&mut self, at: u64, length: u64, items: u64, bytes: u64) {
        if let Some(open) = self
            .open
            .as_mut()
            .filter(|open| open.is_watched && length > 0)
        {
            open.runs.add(at, length, (items, bytes));
        }
    }

    /// The same of items behind those that were noted.
    pub fn note(&mut self, length: u64, items: u64, bytes: u64) {
        let front = self.front.len() as u64;
        let end = self.open.as_ref().map_or(0, |open| open.runs.end());
        self.note_at(end.max(front), length, items, bytes);
    }

    /// Makes it so long at least.
    ///
    /// # Errors
    /// As of a file.
    pub fn lengthen(&mut self, bytes: u64) -> io::Result<()> {
        let Some(open) = self.open.as_mut().filter(|open| open.is_watched) else {
            return Ok(());
        };
        if open.file.metadata()?.len() < bytes {
            open.file.set_len(bytes)?;
        }
        open.end = open.end.max(bytes);
        Ok(())
    }

    /// Looks whether the file is as it was left; what is gone is told once.
    pub fn look(&mut self) -> Option<Gone> {
        let open = self.open.as_mut().filter(|open| open.is_watched)?;
        let cut_to = match fate(&open.file, open.end) {
            Ok(Fate::Removed) => None,
            Ok(Fate::Cut { bytes }) => Some(bytes),
            // What cannot be looked at cannot be written either, which is told then.
            Ok(Fate::Whole | Fate::Longer) | Err(_) => return None,
        };
        let path = open.path.clone();
        let Behind {
            items,
            bytes,
            ranges,
        } = open.runs.cut(cut_to.unwrap_or(0));
        let kept = open.runs.end().max(self.front.len() as u64);
        if cut_to.is_some_and(|bytes| kept < bytes) {
            // No part of an item is left.
            let _ = open.file.set_len(kept);
        }
        if self.is_placed && cut_to.is_some() {
            open.end = open.runs.end();
        } else {
            self.open = None;
        }
        Some(Gone {
            path,
            cut_to,
            items,
            bytes,
            ranges,
        })
    }

    /// What the operator should know beside that: where further output goes, and once that the file has another name now.
    pub fn notes(&mut self) -> Vec<String> {
        if let Some(open) = self
            .open
            .as_mut()
            .filter(|it| it.is_watched && !it.moved_told)
            && let Some(now) = moved_to(&open.file, &open.path)
        {
            open.moved_told = true;
            let (path, now) = (open.path.display(), now.display());
            self.notes.push(format!(
                "{path} was renamed while it was written; it is now {now}"
            ));
        }
        std::mem::take(&mut self.notes)
    }
}

impl Open {
    fn of(file: File, path: PathBuf) -> Self {
        let data = file.metadata();
        Self {
            is_watched: data.is_ok_and(|data| data.is_file() && data.nlink() > 0),
            file,
            path,
            end: 0,
            runs: Runs::default(),
            moved_told: false,
        }
    }

    fn begin(&mut self, front: &[u8]) -> io::Result<()> {
        let mut rest = front;
        while !rest.is_empty() {
            match self.append(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => rest = rest.get(bytes..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Behind what was written, wherever the file's end is: one that was cut never has a hole in it.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = if self.is_watched {
            self.file.write_at(bytes, self.end)?
        } else {
            (&self.file).write(bytes)?
        };
        self.end += written as u64;
        Ok(written)
    }
}

impl Write for WatchedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.open()?.append(bytes)?;
        if self.counts_bytes {
            self.note(written as u64, 0, written as u64);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
