//! The open file, and what is on its way to it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_sys::watched::{Identity, find, identity};
use forebay_sys::{clock, direct};
use forebay_wire::hld::{EVENT_HEADER_BYTES, EventHeader, EventId};

use crate::begun::{claim, options};
use crate::direct::{DirectFile, pieces_bytes};
use crate::error::SinkError;
use crate::io::{Because, FileIo, Io};

/// The open file.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    pub(super) run: u32,
    /// What is written and decided, in bytes and events.
    pub(super) offset: u64,
    pub(super) events: u64,
    /// The same file past the page cache.
    pub(super) direct: Option<Arc<DirectFile>>,
    /// How it is written.
    pub(super) io: FileIo,
    /// There may be room behind its end that was asked for ahead, by this sink or a predecessor.
    pub(super) has_room: bool,
    /// It was told that it lies elsewhere now.
    pub(super) moved_told: bool,
}

impl Open {
    /// One that stands at this offset, with so many events.
    pub(super) fn new(
        file: File,
        path: PathBuf,
        run: u32,
        (offset, events): (u64, u64),
        asked: Asked,
    ) -> io::Result<Self> {
        let (io, direct) = asked.open(&file)?;
        Ok(Self {
            identity: identity(&file)?,
            has_room: direct.is_some(),
            direct,
            io,
            file,
            path,
            run,
            offset,
            events,
            moved_told: false,
        })
    }

    /// It is written through the page cache after all.
    pub(super) fn give_direct_up(&mut self, because: Because) {
        (self.direct, self.io) = (None, FileIo::Buffered(because));
    }

    /// Cuts off what is behind what was decided, and makes it no longer.
    pub(super) fn cut_back(&self) {
        let is_longer = self
            .file
            .metadata()
            .is_ok_and(|data| data.len() > self.offset);
        if is_longer {
            let _ = self.file.set_len(self.offset);
            if let Some(direct) = &self.direct {
                direct.forget_reserved();
            }
        }
    }
}

/// A block that was taken, and is not decided.
#[derive(Debug)]
pub(super) struct Staged {
    /// Where it ends in the file.
    pub(super) end: u64,
    pub(super) events: u64,
    pub(super) bytes: u64,
}

/// A shorter queue does not fill pieces that are worth a write of their own.
const QUEUE_BYTES_MIN: u64 = 1 << 20;

/// What is asked of files, seen together with their queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    io: Io,
    /// What the queue can hold; 0: nobody knows.
    queue_bytes: u64,
}

impl Asked {
    pub(crate) const fn new(io: Io, queue_bytes: u64) -> Self {
        Self { io, queue_bytes }
    }

    /// What is known without a file.
    const fn at_once(self) -> Option<FileIo> {
        match self.io {
            Io::Buffered => Some(FileIo::Buffered(Because::Asked)),
            Io::Auto if self.queue_bytes > 0 && self.queue_bytes < QUEUE_BYTES_MIN => {
                Some(FileIo::Buffered(Because::ShortQueue))
            }
            Io::Auto | Io::Direct => None,
        }
    }

    /// Memory that it can take beside the queue, in bytes: of pieces on their way to the disk.
    pub(crate) fn pieces_bytes(self) -> u64 {
        match self.at_once() {
            Some(_) => 0,
            None => pieces_bytes(self.queue_bytes),
        }
    }

    /// How files in `directory` will be written; none when that cannot be told before there is one.
    pub(crate) fn look(self, directory: &Path) -> Result<Option<FileIo>, SinkError> {
        let known = self.at_once();
        if known.is_some() {
            return Ok(known);
        }
        match (direct::is_taken_in(directory), self.io) {
            (Ok(true), _) => Ok(Some(FileIo::Direct)),
            (Ok(false), Io::Direct) => {
                let directory = directory.into();
                Err(SinkError::NotDirect { directory })
            }
            (Ok(false), _) => Ok(Some(FileIo::Buffered(Because::FileSystem))),
            (Err(error), Io::Direct) => Err(SinkError::file("making a file in", directory)(error)),
            // Its first file tells.
            (Err(_), _) => Ok(None),
        }
    }

    /// How this file is written, and the file for it.
    fn open(self, file: &File) -> io::Result<(FileIo, Option<Arc<DirectFile>>)> {
        if let Some(io) = self.at_once() {
            return Ok((io, None));
        }
        match (DirectFile::of(file), self.io) {
            (Ok(direct), _) => Ok((FileIo::Direct, Some(Arc::new(direct)))),
            (Err(error), Io::Direct) => Err(error),
            (Err(error), _) => {
                let because = match error.kind() {
                    io::ErrorKind::Unsupported => Because::FileSystem,
                    _ => Because::NotOpened,
                };
                Ok((FileIo::Buffered(because), None))
            }
        }
    }
}

/// Opens the file that a predecessor wrote at `path`, also when somebody has renamed it since; none when it is not found any more.
pub(super) fn open_again(of: Identity, run: u32, path: &Path) -> io::Result<Option<File>> {
    let now = find(of, path);
    let file = match options().open(now.as_deref().unwrap_or(path)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A file system may number its files anew, or give the number of one that is gone to another one and not say when that was made.
    let mut head = [0; EVENT_HEADER_BYTES];
    let begins = file.read_exact_at(&mut head, 0).is_ok();
    let begun = EventHeader::parse(&head).is_ok_and(|it| (it.id, it.run) == (EventId::START, run));
    let is_certain = now.is_some() && identity(&file)?[1] != 0;
    let _ = claim(&file);
    Ok((is_certain || begins && begun).then_some(file))
}

/// Start or stop event, stamped now.
pub(super) fn frame(id: EventId, run: u32) -> [u8; EVENT_HEADER_BYTES] {
    let unix_s = (clock::realtime_ns() / 1_000_000_000).cast_signed();
    EventHeader::new(id, unix_s, run).to_bytes()
}
