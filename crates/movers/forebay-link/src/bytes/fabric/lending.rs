//! Pieces that go out from where they lie, with ranges of a user's region behind them.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use forebay_fabric::SharedMemory;
use forebay_ring::Region;
use forebay_sys::SysError;

use super::FabricLink;
use crate::bytes::{ByteLink, ByteLinkError, Lending, PARTS_MAX, Piece, in_region};

/// Regions of a connection. What lies in a further one is copied.
const REGIONS_MAX: usize = 16;
/// Pieces begin at multiples of this, a page of the host, when they are longer than half of one.
const ALIGN: usize = 4096;
const LINE: usize = 64;

/// A user's region, as the provider knows it; none where it does not take memory that may only be read: for RDMA, Linux 6.1 wants to be able to write it.
#[derive(Debug)]
pub(super) struct Shared {
    id: u64,
    memory: Option<Arc<SharedMemory>>,
}

impl FabricLink {
    /// The provider's view of a region; none when there are too many, or it takes none.
    fn share(&mut self, region: &Region) -> Result<Option<Arc<SharedMemory>>, ByteLinkError> {
        let known = self.shared.iter().find(|shared| shared.id == region.id());
        if let Some(known) = known {
            return Ok(known.memory.clone());
        }
        if self.shared.len() >= REGIONS_MAX {
            return Ok(None);
        }
        let file = region.reader_fd();
        let file =
            file.map_err(|error| SysError::new("open", "region", std::io::Error::other(error)))?;
        let memory = self.endpoint.domain().share(file.as_fd());
        // What is not taken is copied, as what lies in one region too many.
        let memory = memory.ok().map(Arc::new);
        self.shared.push(Shared {
            id: region.id(),
            memory: memory.clone(),
        });
        Ok(memory)
    }

    /// Where the provider cannot send from: a copy goes out, and the piece comes back at once.
    fn send_copied(
        &mut self,
        piece: &mut Option<Piece>,
        len: usize,
        behind: Option<(&Region, &[Range<usize>])>,
        number: u64,
    ) -> Result<usize, ByteLinkError> {
        let Some(own) = piece else { return Ok(0) };
        let mut parts = [&[][..]; 1 + PARTS_MAX];
        parts[0] = own.as_ref().get(..len).unwrap_or_default();
        if let Some((region, ranges)) = behind {
            for (part, range) in parts[1..].iter_mut().zip(ranges) {
                *part = in_region(region, range)?;
            }
        }
        let taken = self.send(&parts)?;
        if taken > 0 {
            self.copied
                .extend(piece.take().map(|piece| (number, piece)));
        }
        Ok(taken)
    }
}

impl Lending for FabricLink {
    fn pieces(&mut self, count: usize, bytes: usize) -> Result<Vec<Piece>, ByteLinkError> {
        let align = if bytes > ALIGN / 2 { ALIGN } else { LINE };
        let stride = bytes.next_multiple_of(align);
        let memory = vec![0; count * stride].into_boxed_slice();
        let mut rest = self.endpoint.domain().register(memory)?;
        let pieces = (0..count).map(|_| {
            let behind = rest.split_off(stride);
            Piece::of_region(std::mem::replace(&mut rest, behind))
        });
        Ok(pieces.collect())
    }

    fn send_piece(
        &mut self,
        piece: &mut Option<Piece>,
        len: usize,
        behind: Option<(&Region, &[Range<usize>])>,
        number: u64,
    ) -> Result<usize, ByteLinkError> {
        let mut memory = None;
        if let Some((region, ranges)) = behind {
            memory = self.share(region)?;
            for range in ranges {
                in_region(region, range)?;
            }
            if memory.is_none() || ranges.len() > self.endpoint.ranges_max() {
                return self.send_copied(piece, len, behind, number);
            }
        }
        let mut registered = match piece.take().map(Piece::into_region) {
            None => return Ok(0),
            Some(Ok(region)) => Some(region),
            Some(Err(plain)) => {
                *piece = Some(plain);
                return self.send_copied(piece, len, behind, number);
            }
        };
        let ranges = behind.map_or(&[][..], |(_, ranges)| ranges);
        let behind = memory.as_ref().map(|memory| (memory, ranges));
        let taken = self
            .endpoint
            .send_piece(&mut registered, len, behind, number);
        *piece = registered.map(Piece::of_region);
        taken.map_err(|error| self.unsent(error))
    }

    fn returned(&mut self) -> Option<(u64, Piece)> {
        if let Some(copied) = self.copied.pop_front() {
            return Some(copied);
        }
        let done = self.endpoint.returned()?;
        Some((done.user, Piece::of_region(done.piece)))
    }
}
