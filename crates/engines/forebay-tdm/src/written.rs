//! What became of payloads, for the books.

use std::io;
use std::ops::AddAssign;

use forebay_ledger::{DropReason, PerReason, reasons};

reasons! {
    /// Why a packet's payload that came is not written.
    pub enum WriteDrop {
        /// The disk, or the program that takes it, did not take it.
        WriteFailed = "write_failed",
        /// Its bytes were there already, or cannot be.
        NoPlace = "no_place",
        /// Too much waited for bytes before it.
        NoRoom = "no_room",
        /// Nothing was written any more, and nobody waited for it.
        WriterStalled = "writer_stalled",
    }
}

/// Packets, and bytes of payload in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Packets.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// What was written, and what will not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Where it should be.
    pub written: Sum,
    /// Not there, by reason.
    pub dropped: PerReason<WriteDrop, Sum, { WriteDrop::COUNT }>,
    /// In so many ranges of the stream the bytes of those that are dropped lie, as far as they are missing.
    pub ranges: u64,
}

impl Written {
    /// One packet that is where it should be.
    pub fn whole(payload: &[u8]) -> Self {
        Self {
            written: Sum {
                packets: 1,
                bytes: payload.len() as u64,
            },
            ..Self::default()
        }
    }

    /// One packet that nobody wants to have.
    pub fn nowhere(bytes: u64) -> Self {
        Self {
            written: Sum { packets: 1, bytes },
            ..Self::default()
        }
    }

    /// One packet that will not be written.
    pub fn dropped(why: WriteDrop, payload: &[u8]) -> Self {
        Self::of_reason(why, 1, payload.len() as u64)
    }

    /// One packet whose file is not there.
    pub fn failed(payload: &[u8]) -> Self {
        Self::dropped(WriteDrop::WriteFailed, payload)
    }

    fn of_reason(why: WriteDrop, packets: u64, bytes: u64) -> Self {
        let mut it = Self::default();
        it.dropped[why] = Sum { packets, bytes };
        // What has no place is no part of the stream, or there.
        it.ranges = u64::from(why != WriteDrop::NoPlace && bytes > 0);
        it
    }

    /// So many packets were written, with all of their bytes, or could not be, with so many of their bytes written; the first error is kept.
    pub fn of(
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
                let mut it =
                    Self::of_reason(WriteDrop::WriteFailed, packets, bytes.saturating_sub(taken));
                it.written.bytes = taken;
                it
            }
        }
    }

    /// More became of payloads.
    pub fn add(&mut self, more: &Self) {
        self.written += more.written;
        self.ranges += more.ranges;
        self.dropped.add(&more.dropped);
    }

    /// What came and is missing in the stream nevertheless.
    pub fn unwritten(&self) -> Sum {
        let mut all = Sum::default();
        for (why, sum) in self.dropped.iter() {
            match why {
                WriteDrop::WriteFailed | WriteDrop::NoRoom | WriteDrop::WriterStalled => all += sum,
                WriteDrop::NoPlace => {}
            }
        }
        all
    }

    /// Bytes of the stream that came and are missing nevertheless, and in how many ranges.
    pub fn missing(&self) -> (u64, u64) {
        (self.unwritten().bytes, self.ranges)
    }

    /// All that is not held any more: written, or dropped.
    pub fn settled(&self) -> Sum {
        let mut all = self.written;
        all += self.dropped.total();
        all
    }
}
