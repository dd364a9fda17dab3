//! A file in which each byte of a stream has its place, and the list of what is missing.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use forebay_sys::watched::WatchedFile;

use super::super::super::TdmError;
use super::super::found::{Found, Kind};
use super::super::lines::Lines;
use super::{Sum, Written};
use super::{create_free, create_new, file_name};

/// Bytes that are gathered before they are written.
const GATHER_BYTES: usize = 1 << 20;

/// Why a range is in the list: it did not come, or the file did not take it.
const LOST: &str = "lost";
const NOT_WRITTEN: &str = "not_written";
/// It came, and the writer's queue had no room for it.
const QUEUE_FULL: &str = "queue_full";
/// It was written, and somebody removed or cut the file.
const OUTPUT_REMOVED: &str = "output_removed";

/// A file and what is not in it yet.
pub(super) struct Gathered {
    pub(super) path: PathBuf,
    file: WatchedFile,
    bytes: Vec<u8>,
    packets: u64,
    at: u64,
    /// Where the last range that is lost ends: the file is so long at least.
    lost_until: u64,
    list: Lines,
    /// The list has lines that its file has not.
    is_behind: bool,
    /// Where the last range that was not written began and ended: the next one may go on there, and is one with it.
    unwritten: Option<(u64, u64)>,
    pub(super) failed: Option<io::Error>,
}

impl Gathered {
    /// The sender's file and its list.
    pub(super) fn create(directory: &Path, name: &str) -> Result<Self, TdmError> {
        let (path, file) = create_free(directory, &file_name(name))?;
        Self::with_file(path, file)
    }

    fn with_file(path: PathBuf, file: File) -> Result<Self, TdmError> {
        let of_list = PathBuf::from(format!("{}.lost.csv", path.display()));
        let list = create_new(&of_list, "--output")?;
        let list = Lines::new(list, &of_list, "offset_bytes,length_bytes,why\n");
        let list = list.map_err(TdmError::file("writing", of_list))?;
        Ok(Self {
            file: WatchedFile::placed(file, &path),
            path,
            bytes: Vec::with_capacity(GATHER_BYTES),
            packets: 0,
            at: 0,
            lost_until: 0,
            list,
            is_behind: false,
            unwritten: None,
            failed: None,
        })
    }

    pub(super) fn write(&mut self, offset: u64, payload: &[u8]) -> Written {
        let end = self.at.saturating_add(self.bytes.len() as u64);
        let full = self.bytes.len() + payload.len() > GATHER_BYTES;
        let mut written = Written::default();
        if offset != end || full {
            written = self.flush();
            self.at = offset;
        }
        // The one copy of the payload here: out of the receive buffer, which is used again.
        self.bytes.extend_from_slice(payload);
        self.packets += 1;
        written
    }

    /// What lies here and is not written.
    pub(super) fn held(&self) -> Sum {
        Sum {
            packets: self.packets,
            bytes: self.bytes.len() as u64,
        }
    }

    /// These bytes will not come.
    pub(super) fn lost(&mut self, offset: u64, bytes: u64) {
        self.lost_until = self.lost_until.max(offset.saturating_add(bytes));
        self.list(offset, bytes, LOST);
    }

    /// These bytes came and found no room in the writer's queue.
    pub(super) fn missed(&mut self, offset: u64, bytes: u64) {
        self.lost_until = self.lost_until.max(offset.saturating_add(bytes));
        self.list(offset, bytes, QUEUE_FULL);
    }

    fn list(&mut self, offset: u64, bytes: u64, why: &str) {
        self.is_behind = true;
        let written = write!(self.list, "{offset},{bytes},{why}");
        if let Err(error) = written.and_then(|()| self.list.end_line()) {
            self.failed.get_or_insert(error);
        }
    }

    fn list_unwritten(&mut self) {
        if let Some((begin, end)) = self.unwritten.take() {
            self.list(begin, end - begin, NOT_WRITTEN);
        }
    }

    /// What is known to be missing stands in the list, also when this process is killed.
    pub(super) fn flush_list(&mut self) {
        self.list_unwritten();
        if self.is_behind {
            match self.list.flush() {
                Ok(()) => self.is_behind = false,
                Err(error) => {
                    self.failed.get_or_insert(error);
                }
            }
        }
    }

    /// The file did not take this range. True when it is no part of the one before.
    fn not_written(&mut self, begin: u64, end: u64) -> bool {
        if let Some((_, last)) = &mut self.unwritten
            && *last == begin
        {
            *last = end;
            return false;
        }
        self.list_unwritten();
        self.unwritten = Some((begin, end));
        true
    }

    pub(super) fn flush(&mut self) -> Written {
        let (packets, bytes) = (std::mem::take(&mut self.packets), self.bytes.len() as u64);
        let (taken, done) = self.write_out();
        let begin = self.at;
        let whole = if done.is_ok() { packets } else { 0 };
        self.file.note_at(begin, taken, whole, taken);
        self.at = begin.saturating_add(bytes);
        self.bytes.clear();
        let mut written = Written::of(done, packets, (bytes, taken), &mut self.failed);
        if written.ranges > 0 && !self.not_written(begin + taken, self.at) {
            written.ranges = 0;
        }
        written
    }

    /// Writes what is gathered; so many bytes of it are where they should be, also when it fails.
    fn write_out(&mut self) -> (u64, io::Result<()>) {
        let mut taken = 0;
        while let Some(rest) = self.bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            match self.file.write_at(rest, self.at + taken as u64) {
                Ok(0) => return (taken as u64, Err(io::ErrorKind::WriteZero.into())),
                Ok(bytes) => taken += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (taken as u64, Err(error)),
            }
        }
        (taken as u64, Ok(()))
    }

    /// Nothing more comes. What is lost of its end is zeroes, as what is lost between is.
    pub(super) fn finish(&mut self) -> Written {
        let written = self.flush();
        if self.failed.is_none() {
            self.failed = self.lengthen().err();
        }
        self.flush_list();
        written
    }

    fn lengthen(&mut self) -> io::Result<()> {
        self.file.lengthen(self.lost_until)
    }

    /// What somebody did to file and list; what is gone of the stream is listed.
    pub(super) fn look(&mut self, found: &mut Found) {
        let list = self.list.look();
        let gone = self.file.look();
        if let Some(gone) = &gone {
            match gone.ranges.last() {
                // What the list said of it is gone, too.
                Some((begin, length)) if list.is_some() => {
                    self.list(0, begin + length, OUTPUT_REMOVED)
                }
                _ => {
                    for (begin, length) in &gone.ranges {
                        self.list(*begin, *length, OUTPUT_REMOVED);
                    }
                }
            }
            self.flush_list();
        }
        found.add(Kind::Packets, gone, self.file.notes());
        found.add(Kind::Lines, list, self.list.notes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_full_disk_does_not_take_is_listed_with_its_cause() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("one");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut file = Gathered::with_file(path, full).unwrap();
        let mut all = Written::default();
        all.add(&file.write(0, b"abc"));
        file.lost(3, 4);
        // It is where the first one ended in the file, and goes on in one range; what lies elsewhere is another one.
        for (offset, payload) in [(7, "def"), (10, "ghi"), (20, "jkl")] {
            all.add(&file.write(offset, payload.as_bytes()));
            assert_eq!((file.held().packets, file.held().bytes), (1, 3));
            all.add(&file.flush());
            assert_eq!(file.held(), Sum::default());
        }
        all.add(&file.finish());
        assert_eq!(all.missing(), (12, 3));
        assert_eq!(all.settled().packets, 4);
        let list = std::fs::read_to_string(directory.path().join("one.lost.csv")).unwrap();
        let mut lines: Vec<&str> = list.lines().skip(1).collect();
        lines.sort_unstable();
        let expected = [
            "0,3,not_written",
            "20,3,not_written",
            "3,4,lost",
            "7,6,not_written",
        ];
        assert_eq!(lines, expected);
    }
}
