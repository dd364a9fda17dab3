//! Memory of one process that others may read: a sealed memory file, mapped for writing by its owner alone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::fstat;

use crate::error::RingError;
use crate::memory::{self, Access, Mapping};
use crate::view::View;

const REGION: &str = "region";
/// Most bytes of a region, 64 GiB.
pub const REGION_BYTES_MAX: u64 = 1 << 36;

/// Memory that others may read.
#[derive(Debug)]
pub struct Region {
    id: u64,
    fd: OwnedFd,
    /// Its bytes.
    len: usize,
    /// None: somebody else writes it, and nobody here looks at it.
    own: Option<Mapping>,
    /// A card writes it as well, so that no part of it may be looked at but what the card does not have.
    is_card_written: bool,
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Region {
    /// Makes a region of `bytes`, rounded up to whole pages, all of it zero and in place. `name` shows up in `/proc/PID/maps`.
    ///
    /// # Errors
    /// No bytes or more than [`REGION_BYTES_MAX`], or the system has not so much memory.
    pub fn create(name: &str, bytes: u64) -> Result<Self, RingError> {
        let (mut region, ()) = Self::create_with(name, bytes, |_| Ok::<_, RingError>(()))?;
        region.is_card_written = false;
        Ok(region)
    }

    /// The same, of memory that a card writes as well: `also` maps the file for the card, which nobody can do afterwards, and what it gives comes with the region. Such memory is
    /// reached by [`part_mut`](Self::part_mut) alone, for what the card does not write then.
    ///
    /// # Errors
    /// As [`create`](Self::create), or what `also` says.
    pub fn create_with<T, E: From<RingError>>(
        name: &str,
        bytes: u64,
        also: impl FnOnce(BorrowedFd<'_>) -> Result<T, E>,
    ) -> Result<(Self, T), E> {
        let bytes = checked(bytes)?;
        let name = format!("forebay:{name}:region");
        let (fd, mapping, made) = memory::create_own(REGION, &name, bytes, also)?;
        let region = Self {
            id: next_id(),
            fd,
            len: mapping.len(),
            own: Some(mapping),
            is_card_written: true,
        };
        Ok((region, made))
    }

    /// A region that something else writes, as a card writes its DMA buffer: ranges of it can be shown to others, which see what is there when they look. `fd` can read it, and
    /// no more is needed.
    pub(crate) fn foreign(fd: OwnedFd, bytes: u64) -> Result<Self, RingError> {
        memory::verify(REGION, fd.as_fd(), bytes)?;
        Ok(Self {
            id: next_id(),
            fd,
            len: usize::try_from(bytes).map_err(|_| size(bytes))?,
            own: None,
            is_card_written: true,
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none: never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its number: no other region of this process has it, also none before.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What lets a peer read it, and not write: see [`PeerRegion::map`].
    ///
    /// # Errors
    /// Descriptors run out.
    pub fn reader_fd(&self) -> Result<OwnedFd, RingError> {
        memory::read_only(REGION, &self.fd)
    }

    /// All of it; nothing of one that somebody else writes, or a card as well.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let Some(mapping) = self.own.as_ref().filter(|_| !self.is_card_written) else {
            return &[];
        };
        // SAFETY: the mapping is so long and lives as long as `self`; only this object's owner writes it, through `bytes_mut`, which needs `self` alone.
        unsafe { slice::from_raw_parts(mapping.base().as_ptr(), mapping.len()) }
    }

    /// So many bytes from this one on, for writing; none outside of the region, or of one that something else writes. Of one that a card writes as well they are not to be a card's now.
    pub fn part_mut(&mut self, start: usize, len: usize) -> Option<&mut [u8]> {
        let mapping = self.own.as_mut()?;
        if start.checked_add(len)? > mapping.len() {
            return None;
        }
        // SAFETY: within the mapping, checked above; `self` is borrowed uniquely, so there is no other slice of it in this process. A card that writes the memory as well has not
        // been lent these bytes, as the caller sees to: what it does all the same is to be taken as what other hardware does to memory.
        Some(unsafe { slice::from_raw_parts_mut(mapping.base().add(start).as_ptr(), len) })
    }

    /// All of it, for writing; nothing of one that something else writes. A reader meanwhile finds what it finds.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let Some(mapping) = self.own.as_mut().filter(|_| !self.is_card_written) else {
            return &mut [];
        };
        // SAFETY: as above; `self` is borrowed uniquely, so there is no other slice of it in this process, and no other process can write: the file is sealed
        // against all writing but through this mapping.
        unsafe { slice::from_raw_parts_mut(mapping.base().as_ptr(), mapping.len()) }
    }
}

/// A region of another process, for reading.
#[derive(Debug)]
pub struct PeerRegion {
    mapping: Mapping,
}

impl PeerRegion {
    /// Maps what [`Region::reader_fd`] gave.
    ///
    /// # Errors
    /// It is too large or empty, or can still be cut, so that reading it could end this process.
    pub fn map(fd: &OwnedFd) -> Result<Self, RingError> {
        let found = fstat(fd).map_err(|errno| RingError::System {
            call: "fstat",
            what: REGION,
            errno,
        })?;
        let bytes = u64::try_from(found.st_size).unwrap_or(0);
        if checked(bytes)? != bytes {
            return Err(size(bytes));
        }
        memory::verify(REGION, fd.as_fd(), bytes)?;
        // Pages are not touched: what the peer has not written shall cost nothing.
        let mapping = Mapping::lazy(REGION, fd, bytes, Access::Read)?;
        Ok(Self { mapping })
    }

    /// The bytes from `offset` on; none outside of the region.
    #[must_use]
    pub fn view(&self, offset: u64, len: usize) -> Option<View<'_>> {
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(len)? > self.mapping.len() {
            return None;
        }
        // SAFETY: the range lies inside the mapping, checked above, which the view borrows.
        Some(unsafe { View::new(self.mapping.base().add(offset), len) })
    }
}

fn size(found: u64) -> RingError {
    RingError::Size {
        what: REGION,
        expected: REGION_BYTES_MAX,
        found,
    }
}

/// In whole pages.
fn checked(bytes: u64) -> Result<u64, RingError> {
    if (1..=REGION_BYTES_MAX).contains(&bytes) {
        Ok(bytes.next_multiple_of(memory::PAGE_BYTES))
    } else {
        Err(size(bytes))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::memory::Access;

    #[test]
    fn nobody_else_can_write_it_however_he_opens_it() {
        let mut region = Region::create("own", 4096).unwrap();
        region.bytes_mut()[..4].copy_from_slice(b"mine");
        let reader = region.reader_fd().unwrap();
        // The same user may open it for writing, which gives him nothing.
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let mut opened = std::fs::File::options()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        assert!(opened.write(b"theirs").is_err());
        let fd = OwnedFd::from(opened);
        assert!(Mapping::whole(REGION, &fd, 4096, Access::ReadWrite).is_err());
        let peer = PeerRegion::map(&fd).unwrap();
        assert_eq!(peer.view(0, 4).unwrap().to_vec(), b"mine");
        region.bytes_mut()[..4].copy_from_slice(b"next");
        assert_eq!(peer.view(0, 4).unwrap().to_vec(), b"next");
    }
}
