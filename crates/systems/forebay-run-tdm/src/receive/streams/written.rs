//! What became of payloads, for the books.

use std::io;

/// Why a packet's payload that came is not written.
pub(in super::super) const REASONS: [&str; 4] =
    ["write_failed", "no_place", "no_room", "writer_stalled"];
/// Its bytes were there already, or cannot be.
pub(super) const NO_PLACE: usize = 1;
/// Too much waited for bytes before it.
pub(super) const NO_ROOM: usize = 2;
const WRITE_FAILED: usize = 0;
/// Nothing was written any more, and nobody waited for it.
pub(in super::super) const WRITER_STALLED: usize = 3;

/// Packets, and bytes of payload in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Sum {
    pub(in super::super) packets: u64,
    pub(in super::super) bytes: u64,
}

impl Sum {
    fn add(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// What was written, and what will not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Written {
    pub(in super::super) written: Sum,
    /// As [`REASONS`] has them.
    pub(in super::super) dropped: [Sum; REASONS.len()],
    /// In so many ranges of the stream the bytes of those that are dropped lie, as far as they are missing.
    pub(in super::super) ranges: u64,
}

impl Written {
    /// One packet that is where it should be.
    pub(in super::super) fn whole(payload: &[u8]) -> Self {
        Self {
            written: Sum {
                packets: 1,
                bytes: payload.len() as u64,
            },
            ..Self::default()
        }
    }

    /// One packet that nobody wants to have.
    pub(in super::super) fn nowhere(bytes: u64) -> Self {
        Self {
            written: Sum { packets: 1, bytes },
            ..Self::default()
        }
    }

    /// One packet that will not be written.
    pub(super) fn dropped(reason: usize, payload: &[u8]) -> Self {
        Self::of_reason(reason, 1, payload.len() as u64)
    }

    /// One packet whose file is not there.
    pub(super) fn failed(payload: &[u8]) -> Self {
        Self::dropped(WRITE_FAILED, payload)
    }

    fn of_reason(reason: usize, packets: u64, bytes: u64) -> Self {
        let mut it = Self::default();
        if let Some(sum) = it.dropped.get_mut(reason) {
            *sum = Sum { packets, bytes };
        }
        // What has no place is no part of the stream, or there.
        it.ranges = u64::from(reason != NO_PLACE && bytes > 0);
        it
    }

    /// So many packets were written, with all of their bytes, or could not be, with so many of their bytes written; the first error is kept.
    pub(super) fn of(
        done: io::Result<()>,
        packets: u64,
        (bytes, taken): (u64, u64),
        failed: &mut Option<io::Error>,
    ) -> Self {
        match done {
            Ok(()) => Self {
                written: Sum { packets, bytes },
                ..Self::default()
            },
            Err(error) => {
                failed.get_or_insert(error);
                let mut it = Self::of_reason(WRITE_FAILED, packets, bytes.saturating_sub(taken));
                it.written.bytes = taken;
                it
            }
        }
    }

    pub(in super::super) fn add(&mut self, more: &Self) {
        self.written.add(more.written);
        self.ranges += more.ranges;
        for (sum, more) in self.dropped.iter_mut().zip(&more.dropped) {
            sum.add(*more);
        }
    }

    /// What came and is missing in the stream nevertheless.
    pub(in super::super) fn unwritten(&self) -> Sum {
        let mut all = Sum::default();
        [WRITE_FAILED, NO_ROOM, WRITER_STALLED]
            .into_iter()
            .for_each(|reason| all.add(self.dropped[reason]));
        all
    }

    /// Bytes of the stream that came and are missing nevertheless, and in how many ranges.
    pub(in super::super) fn missing(&self) -> (u64, u64) {
        (self.unwritten().bytes, self.ranges)
    }

    /// All that is not held any more.
    #[cfg(test)]
    pub(in super::super) fn settled(&self) -> Sum {
        let mut all = self.written;
        self.dropped.iter().for_each(|sum| all.add(*sum));
        all
    }
}
