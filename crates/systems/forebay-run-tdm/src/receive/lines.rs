//! Lines on their way into a file that is looked at.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use forebay_sys::watched::{Gone, WatchedFile};

/// A file of lines: whole ones are written, so that one that follows a file that somebody removed does not begin in the middle of a line.
pub(super) struct Lines {
    file: WatchedFile,
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Lines {
    /// Into a file that was made as `path`, with `heading` in front, which is on the disk before anything else takes its room.
    pub(super) fn new(file: File, path: &Path, heading: &str) -> io::Result<Self> {
        Ok(Self {
            file: WatchedFile::of_bytes(file, path).with_front(heading)?,
            bytes: Vec::new(),
            bytes_max: 8 << 10,
        })
    }

    /// So many bytes are gathered.
    pub(super) fn gathering(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// A line is complete.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
        self.bytes.push(b'\n');
        if self.bytes.len() >= self.bytes_max {
            self.flush()?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.bytes);
        self.bytes.clear();
        written
    }

    pub(super) fn look(&mut self) -> Option<Gone> {
        self.file.look()
    }

    pub(super) fn notes(&mut self) -> Vec<String> {
        self.file.notes()
    }
}

/// Parts of a line.
impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
