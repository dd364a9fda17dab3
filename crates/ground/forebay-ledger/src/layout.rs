//! Where things lie in the file. Everything is counted in 64-bit words.
//!
//! ```text
//! 0        header: magic, version, sizes, fingerprint            HEADER_WORDS = 32
//! 16         the run: condition, supervisor, start, heartbeat    (second half of the header)
//! 32       directory: JSON, padded with zeros
//! g(0)     group 0: line of seq | copy 0 | copy 1                each part from a 128-byte boundary
//! ...      group n
//! h(0)     histogram 0: sum, max, complement of min | buckets
//! ...
//! t(0)     loss table 0: rows of ROW_WORDS
//! ```
//!
//! No offset is stored: all follow from the declarations in the directory, so a damaged file
//! cannot point anywhere.

use crate::directory::Directory;
use crate::histogram;
use crate::loss;

/// First word of a finished ledger: a file of a little-endian machine starts with these letters.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FOREBAYL");
/// Version of the layout described here. In version 2 the directory names the program and its headline accounts.
pub const VERSION: u64 = 2;
/// The oldest version that is read, too: its directory names neither.
pub const VERSION_OLDEST: u64 = 1;
/// Words of the header.
pub const HEADER_WORDS: usize = 32;
/// Words of 128 bytes: two cache lines, which the prefetcher of x86 takes in pairs.
pub const LINE_WORDS: usize = 16;
/// Most words a ledger may have (1 GiB).
pub const MAX_WORDS: usize = 1 << 27;

pub(crate) const AT_MAGIC: usize = 0;
pub(crate) const AT_VERSION: usize = 1;
pub(crate) const AT_HEADER_WORDS: usize = 2;
pub(crate) const AT_TOTAL_WORDS: usize = 3;
pub(crate) const AT_FINGERPRINT: usize = 4;
pub(crate) const AT_DIRECTORY_BYTES: usize = 5;

pub(crate) const AT_CONDITION: usize = 16;
pub(crate) const AT_SUPERVISOR_PID: usize = 17;
pub(crate) const AT_START_NS: usize = 18;
pub(crate) const AT_END_NS: usize = 19;
pub(crate) const AT_HEARTBEAT_NS: usize = 20;
pub(crate) const AT_ELAPSED_NS: usize = 21;

/// Rounds up to whole lines of 128 bytes.
pub(crate) const fn whole_lines(words: usize) -> usize {
    words.div_ceil(LINE_WORDS) * LINE_WORDS
}

/// Where one group lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupPlace {
    /// The word `seq`.
    pub(crate) seq: usize,
    /// First word of each copy.
    pub(crate) copies: [usize; 2],
    /// Words of one copy.
    pub(crate) words: usize,
}

/// Where everything lies.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Layout {
    pub(crate) groups: Vec<GroupPlace>,
    pub(crate) histograms: Vec<usize>,
    pub(crate) loss_tables: Vec<usize>,
    pub(crate) total_words: usize,
}

impl Layout {
    /// Lays out what `directory` declares; `directory_bytes` is its length as JSON.
    ///
    /// The directory's own limits keep every sum far below overflow.
    pub(crate) fn of(directory: &Directory, directory_bytes: usize) -> Self {
        let mut next = HEADER_WORDS + whole_lines(directory_bytes.div_ceil(8));
        let groups = directory
            .groups
            .iter()
            .map(|group| {
                let words = group.words as usize;
                let first = next + LINE_WORDS;
                let second = first + whole_lines(words);
                let place = GroupPlace {
                    seq: next,
                    copies: [first, second],
                    words,
                };
                next = second + whole_lines(words);
                place
            })
            .collect();
        let mut claim = |words: usize| {
            let start = next;
            next += whole_lines(words);
            start
        };
        let histograms = directory
            .histograms
            .iter()
            .map(|_| claim(histogram::WORDS))
            .collect();
        let loss_tables = directory
            .loss_tables
            .iter()
            .map(|t| claim(t.rows as usize * loss::ROW_WORDS))
            .collect();
        Self {
            groups,
            histograms,
            loss_tables,
            total_words: next,
        }
    }
}
