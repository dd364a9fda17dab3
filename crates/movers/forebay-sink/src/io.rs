//! How the bytes of files go to a disk: what a plan asks for, and what came of it.

use serde::{Deserialize, Serialize};

/// How bytes shall go to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Io {
    /// Past the page cache where the file system does that, else through it.
    #[default]
    Auto,
    /// Through the page cache.
    Buffered,
    /// Past the page cache, or not at all.
    Direct,
}

/// Why files are written through the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// The plan says so.
    Asked,
    /// Their file system does not write past it, or does not say that it does.
    FileSystem,
    /// The queue is too short to fill pieces that are worth a write of their own.
    ShortQueue,
    /// No thread could be started that writes.
    NoThread,
    /// The file could not be opened a second time.
    NotOpened,
}

/// How files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileIo {
    /// Past the page cache.
    Direct,
    /// Through it.
    Buffered(Because),
}

/// Every way with its number in the books; 0 there: no file was begun, and nobody looked.
const NUMBERS: [(u64, FileIo); 6] = [
    (1, FileIo::Direct),
    (2, FileIo::Buffered(Because::Asked)),
    (3, FileIo::Buffered(Because::FileSystem)),
    (4, FileIo::Buffered(Because::ShortQueue)),
    (5, FileIo::Buffered(Because::NoThread)),
    (6, FileIo::Buffered(Because::NotOpened)),
];

impl FileIo {
    /// What this number in the books says.
    #[must_use]
    pub fn of_number(number: u64) -> Option<Self> {
        let found = NUMBERS.iter().find(|(own, _)| *own == number);
        found.map(|(_, io)| *io)
    }

    /// Its number in the books.
    #[must_use]
    pub fn number(self) -> u64 {
        let found = NUMBERS.iter().find(|(_, io)| *io == self);
        found.map_or(0, |(number, _)| *number)
    }

    /// As in settings: `direct` or `buffered`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Buffered(_) => "buffered",
        }
    }

    /// Why so.
    #[must_use]
    pub const fn because(self) -> &'static str {
        match self {
            Self::Direct => "the file system does that",
            Self::Buffered(Because::Asked) => "the settings say so",
            Self::Buffered(Because::FileSystem) => {
                "the file system does not say that it writes past the page cache"
            }
            Self::Buffered(Because::ShortQueue) => "the queue is shorter than 1 MiB",
            Self::Buffered(Because::NoThread) => {
                "no thread that writes, or no memory for it, was to be had"
            }
            Self::Buffered(Because::NotOpened) => "the file could not be opened a second time",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_a_number_and_a_reason_of_its_own() {
        for (at, (number, io)) in NUMBERS.into_iter().enumerate() {
            assert_eq!(number, at as u64 + 1);
            assert_eq!((io.number(), FileIo::of_number(number)), (number, Some(io)));
            let same = NUMBERS
                .iter()
                .filter(|(_, it)| it.because() == io.because());
            assert_eq!(same.count(), 1, "{}", io.because());
        }
        assert_eq!(FileIo::of_number(0), None);
        assert_eq!(FileIo::of_number(7), None);
    }
}
