//! A file in which each byte of a stream has its place, and the list of what is missing.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::super::super::TdmError;
use super::written::Written;
use super::{create_free, file_name};

/// Bytes that are gathered before they are written.
const GATHER_BYTES: usize = 1 << 20;

/// A file and what is not in it yet.
pub(super) struct Gathered {
    pub(super) path: PathBuf,
    file: File,
    bytes: Vec<u8>,
    packets: u64,
    at: u64,
    lost: BufWriter<File>,
    pub(super) failed: Option<io::Error>,
}

impl Gathered {
    /// The sender's file and its list.
    pub(super) fn create(directory: &Path, name: &str) -> Result<Self, TdmError> {
        let (path, file) = create_free(directory, &file_name(name))?;
        let list = PathBuf::from(format!("{}.lost.csv", path.display()));
        let lost = File::create_new(&list).map_err(TdmError::file("creating", &list))?;
        let mut lost = BufWriter::new(lost);
        writeln!(lost, "offset_bytes,length_bytes").map_err(TdmError::file("writing", list))?;
        Ok(Self {
            path,
            file,
            bytes: Vec::with_capacity(GATHER_BYTES),
            packets: 0,
            at: 0,
            lost,
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

    /// These bytes will not come.
    pub(super) fn lost(&mut self, offset: u64, bytes: u64) {
        if let Err(error) = writeln!(self.lost, "{offset},{bytes}") {
            self.failed.get_or_insert(error);
        }
    }

    pub(super) fn flush(&mut self) -> Written {
        let (packets, bytes) = (std::mem::take(&mut self.packets), self.bytes.len() as u64);
        // Packets without a byte are where they should be.
        let done = if bytes == 0 {
            Ok(())
        } else {
            self.file.write_all_at(&self.bytes, self.at)
        };
        self.at = self.at.saturating_add(bytes);
        self.bytes.clear();
        Written::of(done, packets, bytes, &mut self.failed)
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) -> Written {
        if let Err(error) = self.lost.flush() {
            self.failed.get_or_insert(error);
        }
        self.flush()
    }
}
