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
use crate::direct::DirectFile;
use crate::error::SinkError;
use crate::plan::{FilePlan, Io};

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
        is_direct: bool,
    ) -> io::Result<Self> {
        let direct = if is_direct {
            Some(Arc::new(DirectFile::of(&file)?))
        } else {
            None
        };
        Ok(Self {
            identity: identity(&file)?,
            direct,
            file,
            path,
            run,
            offset,
            events,
            moved_told: false,
        })
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

/// Whether files of this plan are written past the page cache.
pub(super) fn is_direct(plan: &FilePlan) -> Result<bool, SinkError> {
    let directory = &plan.directory;
    if plan.io == Io::Buffered {
        return Ok(false);
    }
    let is_taken = direct::is_taken_in(directory);
    if !is_taken.map_err(SinkError::file("making a file in", directory))? {
        let directory = directory.clone();
        return Err(SinkError::NotDirect { directory });
    }
    Ok(true)
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
