//! What is left of an HLD file that somebody has cut.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use forebay_wire::hld::{EVENT_HEADER_BYTES, EventHeader, EventId};
use forebay_wire::unit::round_up_8;

/// Whole events at the front of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) events: u64,
    /// Up to where they reach, the start event included; 0 when that is gone, too.
    pub(super) end: u64,
}

/// So much of a file is read at once: heads of events lie close together.
const READ_BYTES: usize = 1 << 20;

/// Heads of events in a file, read in large blocks.
struct Heads<R> {
    /// Reads at an offset, as [`FileExt::read_at`].
    read: R,
    block: Vec<u8>,
    begin: u64,
}

impl<R: FnMut(&mut [u8], u64) -> io::Result<usize>> Heads<R> {
    fn new(read: R) -> Self {
        let (block, begin) = (Vec::new(), 0);
        Self { read, block, begin }
    }

    /// The bytes of a head; none where the file ends or cannot be read.
    fn at(&mut self, offset: u64) -> Option<&[u8; EVENT_HEADER_BYTES]> {
        if self.inside(offset).is_none() {
            self.fill(offset);
        }
        let inside = self.inside(offset)?;
        self.block[inside..].first_chunk()
    }

    /// Where a whole head is in the block.
    fn inside(&self, offset: u64) -> Option<usize> {
        let inside = usize::try_from(offset.checked_sub(self.begin)?).ok()?;
        (inside.checked_add(EVENT_HEADER_BYTES)? <= self.block.len()).then_some(inside)
    }

    fn fill(&mut self, offset: u64) {
        self.begin = offset;
        self.block.resize(READ_BYTES, 0);
        let mut length = 0;
        while length < READ_BYTES
            && let Ok(count @ 1..) = (self.read)(&mut self.block[length..], offset + length as u64)
        {
            length += count;
        }
        self.block.truncate(length);
    }
}

impl Kept {
    /// Counts what is left in a file of `run` that was cut to `bytes`.
    pub(super) fn count(file: &File, run: u32, bytes: u64) -> Self {
        Self::count_in(|into, offset| file.read_at(into, offset), run, bytes)
    }

    fn count_in(
        read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
        run: u32,
        bytes: u64,
    ) -> Self {
        let frame = EVENT_HEADER_BYTES as u64;
        let mut heads = Heads::new(read);
        let mut at = |offset: u64| {
            let header = EventHeader::parse(heads.at(offset)?).ok()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u32 = 3;

    /// A file of events of these lengths.
    fn events(lengths: &[u32]) -> Vec<u8> {
        let mut bytes = EventHeader::new(EventId::START, 0, RUN).to_bytes().to_vec();
        for length in lengths {
            let mut header = EventHeader::new(EventId::data(1), 0, RUN);
            header.size = *length;
            bytes.extend_from_slice(&header.to_bytes());
            let end = bytes.len() + round_up_8(u64::from(*length)) as usize - EVENT_HEADER_BYTES;
            bytes.resize(end, 0xab);
        }
        bytes
    }

    /// What is kept of the first `bytes` of it, and in how many reads that was found.
    fn count(file: &[u8], bytes: usize) -> (Kept, usize) {
        let mut reads = 0;
        let read = |into: &mut [u8], offset: u64| {
            reads += 1;
            // As a system call may: less than was asked for.
            let from = file.get(offset as usize..bytes).unwrap_or_default();
            let count = into.len().min(from.len()).min(READ_BYTES / 2 + 7);
            into[..count].copy_from_slice(&from[..count]);
            Ok(count)
        };
        let kept = Kept::count_in(read, RUN, bytes as u64);
        (kept, reads)
    }

    #[test]
    fn what_is_left_of_a_cut_file_is_counted_in_few_reads() {
        let lengths: Vec<u32> = (0..100_000).map(|n| 32 + n % 90).collect();
        let file = events(&lengths);
        let mut ends: Vec<u64> = vec![32];
        for length in &lengths {
            ends.push(ends.last().unwrap() + round_up_8(u64::from(*length)));
        }
        for cut in [
            file.len(),
            file.len() - 1,
            file.len() / 2,
            READ_BYTES + 5,
            64,
            33,
            32,
        ] {
            let (kept, reads) = count(&file, cut);
            let events = ends.iter().filter(|end| **end <= cut as u64).count() - 1;
            let expected = Kept {
                events: events as u64,
                end: ends[events],
            };
            assert_eq!(kept, expected, "cut to {cut}");
            assert!(
                reads <= 4 * (cut / (1 << 20) + 1),
                "{reads} reads of {cut} bytes"
            );
        }
        assert_eq!(count(&file, 31).0, Kept::default());
    }

    #[test]
    fn events_longer_than_a_read_are_counted_too() {
        let long = 2 * READ_BYTES as u32 + 40;
        let file = events(&[long, 40, long, 48]);
        let (kept, reads) = count(&file, file.len() - 1);
        assert_eq!(kept.events, 3);
        assert_eq!(kept.end, file.len() as u64 - 48);
        assert!(reads <= 15, "{reads}");
    }
}
