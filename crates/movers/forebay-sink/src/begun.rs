//! Files under names that nobody has.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use forebay_wire::hld::{EVENT_HEADER_BYTES, EventHeader, EventId};

use crate::name;
use crate::plan::FilePlan;

/// How many names are tried when files of that name exist.
const SUFFIX_MAX: u32 = 10_000;

/// Writes go to the end of a file.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    options
}

/// A file of `run` under a name that nobody has, and the suffix of that name.
pub(super) fn create_new(plan: &FilePlan, run: u32) -> io::Result<(File, PathBuf, u32)> {
    for suffix in 0..SUFFIX_MAX {
        let path = name::path(plan, run, suffix);
        let existing = || options().open(&path);
        match options().create_new(true).open(&path) {
            Ok(file) if claim(&file) && file.metadata()?.len() == 0 => {
                return Ok((file, path, suffix));
            }
            Ok(_) => {}
            // Made and not written by a predecessor, or by a full disk. One with a start event and no more is
            // what a predecessor left that was killed before its books said so.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if let Ok(file) = existing()
                    && claim(&file)
                    && is_unused(&file, run)?
                {
                    return Ok((file, path, suffix));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Makes a file this writer's while it is open: another sink may look for a name in the same second. The kernel takes the
/// claim back when its process dies.
pub(super) fn claim(file: &File) -> bool {
    // A file system without locks has no claims; its names still differ as soon as one is written.
    !matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock))
}

/// Whether a regular file holds nothing but (at most) the start event of this same run.
fn is_unused(file: &File, run: u32) -> io::Result<bool> {
    let data = file.metadata()?;
    if !data.is_file() || data.len() > EVENT_HEADER_BYTES as u64 {
        return Ok(false);
    }
    let mut head = [0; EVENT_HEADER_BYTES];
    let count = file.read_at(&mut head, 0)?;
    let ours = || {
        EventHeader::parse(&head)
            .is_ok_and(|header| header.id == EventId::START && header.run == run)
    };
    Ok(count == 0 || (count == EVENT_HEADER_BYTES && ours()))
}
