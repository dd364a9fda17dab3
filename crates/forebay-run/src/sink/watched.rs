//! What somebody else does to a file while it is written: it may be removed, renamed or cut, and no write fails for that.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use forebay_wire::hld::{EVENT_HEADER_BYTES, EventHeader, EventId};
use forebay_wire::unit::round_up_8;

/// How an open file is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// As it was left.
    Whole,
    /// It has no name any more: what is in it is gone when it is closed.
    Removed,
    /// Shorter than it was left.
    Cut {
        /// How long it is now.
        bytes: u64,
    },
    /// Longer than it was left: a block that was written in part, or somebody else's bytes.
    Longer,
}

/// Looks at an open file that was left with `bytes`.
pub(super) fn fate(file: &File, bytes: u64) -> io::Result<Fate> {
    let data = file.metadata()?;
    Ok(match data.len() {
        _ if data.nlink() == 0 => Fate::Removed,
        now if now < bytes => Fate::Cut { bytes: now },
        now if now > bytes => Fate::Longer,
        _ => Fate::Whole,
    })
}

/// Where an open file lies now, when it is no longer found at `path`.
pub(super) fn moved_to(file: &File, path: &Path) -> Option<PathBuf> {
    let own = file.metadata().ok()?;
    let same = |found: fs::Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
    let is_there = fs::metadata(path).is_ok_and(same);
    if is_there || own.nlink() == 0 {
        return None;
    }
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

/// Whole events at the front of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) events: u64,
    /// Up to where they reach, the start event included; 0 when that is gone, too.
    pub(super) end: u64,
}

impl Kept {
    /// Counts what is left in a file of `run` that was cut to `bytes`.
    pub(super) fn count(file: &File, run: u32, bytes: u64) -> Self {
        let frame = EVENT_HEADER_BYTES as u64;
        let at = |offset: u64| {
            let mut head = [0; EVENT_HEADER_BYTES];
            file.read_exact_at(&mut head, offset).ok()?;
            let header = EventHeader::parse(&head).ok()?;
            let length = round_up_8(u64::from(header.size));
            let whole = length >= frame && length <= bytes - offset && header.run == run;
            whole.then_some((header.id, length))
        };
        let mut kept = Self::default();
        if bytes < frame || !at(0).is_some_and(|(id, _)| id == EventId::START) {
            return kept;
        }
        kept.end = frame;
        while kept.end < bytes
            && let Some((id, length)) = at(kept.end)
            && id != EventId::STOP
        {
            kept.events += 1;
            kept.end += length;
        }
        kept
    }
}
