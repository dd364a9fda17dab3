//! What a sink is told: where it writes, and when a new file begins.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::SinkError;
use crate::file::Asked;
use crate::io::{FileIo, Io};

/// A remote mover, and when it shall begin a new file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpPlan {
    /// Where it listens.
    pub peer: SocketAddr,
    /// A new file before one grows beyond so many bytes; 0: never.
    pub bytes_max: u64,
    /// A new file after so many events; 0: never.
    pub events_max: u64,
    /// A new file after so many seconds; 0: never.
    pub seconds_max: u64,
    /// How long a silent mover is waited for: then the connection is made anew, and at the end of a run what it has not
    /// acknowledged is dropped, in ms.
    pub patience_ms: u64,
}

impl From<SocketAddr> for TcpPlan {
    fn from(peer: SocketAddr) -> Self {
        Self {
            peer,
            bytes_max: 2_000_000_000,
            events_max: 0,
            seconds_max: 0,
            patience_ms: 10_000,
        }
    }
}

/// How files are named and when a new one begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePlan {
    /// The directory.
    pub directory: PathBuf,
    /// First letters of the name, two by custom.
    pub prefix: String,
    /// Number of this event builder, 0 to 99.
    pub builder_number: u8,
    /// A new file before this one grows beyond so many bytes; 0: never.
    pub bytes_max: u64,
    /// A new file after so many events; 0: never.
    pub events_max: u64,
    /// A new file after so many seconds; 0: never.
    pub seconds_max: u64,
    /// Whether each block is flushed to the device before it counts as written (against power loss).
    pub sync: bool,
    /// How they are written.
    pub io: Io,
}

impl FilePlan {
    /// Memory that a sink of such files can take beside a queue of so many bytes, in bytes: of pieces on their way past the page cache.
    #[must_use]
    pub fn pieces_bytes(&self, queue_bytes: u64) -> u64 {
        Asked::new(self.io, queue_bytes).pieces_bytes()
    }

    /// How files will be written, as far as that can be told before there is one: by their directory, or the nearest one above that is there.
    ///
    /// # Errors
    /// Past the page cache is asked for, and cannot be had there.
    pub fn look(&self, queue_bytes: u64) -> Result<Option<FileIo>, SinkError> {
        let above = self.directory.ancestors().map(|it| match it.as_os_str() {
            name if name.is_empty() => Path::new("."),
            _ => it,
        });
        let there = above.into_iter().find(|it| it.is_dir());
        Asked::new(self.io, queue_bytes).look(there.unwrap_or(&self.directory))
    }

    /// In this directory, with names by custom, through the page cache; when a new file begins is somebody else's business.
    #[must_use]
    pub fn of_streams(directory: PathBuf) -> Self {
        Self {
            directory,
            prefix: "be".into(),
            builder_number: 1,
            bytes_max: 0,
            events_max: 0,
            seconds_max: 0,
            sync: false,
            io: Io::Buffered,
        }
    }
}

/// What holds a sink or a stage up for a test: a file that is there.
#[derive(Debug, Default)]
pub struct Stall(Option<PathBuf>);

impl Stall {
    /// As long as `file` is there.
    #[must_use]
    pub fn of(file: Option<PathBuf>) -> Self {
        Self(file)
    }

    /// Waits, once, until the file is gone.
    pub fn wait(&mut self) {
        while self.0.as_ref().is_some_and(|file| file.exists()) {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.0 = None;
    }
}
