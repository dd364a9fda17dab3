//! Sends from where the bytes lie.

use std::ops::Range;
use std::sync::Arc;

use super::Endpoint;
use crate::error::FabricError;
use crate::sys::{Region, SharedMemory};

impl Endpoint {
    /// Sends the first `len` bytes of a piece of registered memory, and behind them ranges of memory that others write, as one page of the peer's, and
    /// copies nothing. Says how many bytes it took: all, or 0 when there is no room. What is taken is the provider's, and `piece` is empty, until it comes
    /// back in [`returned`](Self::returned) with the number `user`; the ranges must not change so long. Without a piece nothing is sent.
    ///
    /// # Errors
    /// As [`send`](Self::send); or a range is not in its memory, or memory is not of this end point's domain, or there are more than
    /// [`ranges_max`](Self::ranges_max).
    pub fn send_piece(
        &mut self,
        piece: &mut Option<Region>,
        len: usize,
        behind: Option<(&Arc<SharedMemory>, &[Range<usize>])>,
        user: u64,
    ) -> Result<usize, FabricError> {
        let Some(own) = piece else { return Ok(0) };
        let bytes = self.measure(&[], self.bytes_of(own, len, behind)?)?;
        if bytes == 0 || !self.is_ready()? {
            return Ok(0);
        }
        let Some(own) = piece.take() else {
            return Ok(0);
        };
        match self.channel.post_piece(own, len, behind, user) {
            Ok(()) => {
                self.totals.pages_sent += 1;
                self.totals.bytes_sent += bytes as u64;
                Ok(bytes)
            }
            Err(refused) => {
                *piece = Some(refused.back);
                self.wants_piece = true;
                self.no_room(refused.code)
            }
        }
    }

    /// Ranges of [`SharedMemory`] that go behind a piece at most.
    #[must_use]
    pub fn ranges_max(&self) -> usize {
        self.channel.parts_max() - 1
    }

    /// Bytes of a piece's beginning and of the ranges behind it, if there are such.
    fn bytes_of(
        &self,
        piece: &Region,
        len: usize,
        behind: Option<(&Arc<SharedMemory>, &[Range<usize>])>,
    ) -> Result<usize, FabricError> {
        let has = |range: &Range<usize>, len: usize| {
            let (from, to) = (range.start, range.end);
            let inside = from <= to && to <= len;
            inside
                .then_some(to - from)
                .ok_or(FabricError::OutOfRegion { from, to, len })
        };
        let mut bytes = has(&(0..len), piece.bytes().len())?;
        let (memory, ranges) = behind.unzip();
        let ranges = ranges.unwrap_or_default();
        for range in ranges {
            bytes += has(range, memory.map_or(0, |memory| memory.len()))?;
        }
        if ranges.len() > self.ranges_max() {
            let (ranges, most) = (ranges.len(), self.ranges_max());
            return Err(FabricError::TooManyRanges { ranges, most });
        }
        if self.channel.is_foreign(piece, memory) {
            return Err(FabricError::ForeignRegion);
        }
        Ok(bytes)
    }
}
