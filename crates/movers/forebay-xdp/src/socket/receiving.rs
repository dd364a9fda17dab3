//! Frames that come, from their descriptors.

use super::account::PortCounts;
use super::rings::Taking;
use crate::sys::umem::{Buffer, Place, Umem};
use crate::sys::xsk::{CONTINUED, Descriptor};

/// The end of a port that frames come to.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) ring: Taking<Descriptor>,
    /// Buffers that have no place in the fill ring yet.
    pub(super) free: Vec<Buffer>,
    /// The pieces of a frame whose last one did not come yet, one behind the other.
    pieces: Vec<u8>,
    /// The frame that is being read has a piece that cannot be true.
    is_disbelieved: bool,
    is_continued: bool,
}

impl Receiving {
    pub(super) const fn new(ring: Taking<Descriptor>, free: Vec<Buffer>) -> Self {
        Self {
            ring,
            free,
            pieces: Vec::new(),
            is_disbelieved: false,
            is_continued: false,
        }
    }

    /// Takes one piece, and visits the frame if it is its last.
    pub(super) fn take(
        &mut self,
        umem: &mut Umem,
        counts: &mut PortCounts,
        descriptor: &Descriptor,
        taken: &mut impl FnMut(&[u8]),
    ) {
        let is_last = descriptor.options & CONTINUED == 0;
        let found = umem.take_back(descriptor.address, Place::Receiving);
        let bytes = found
            .as_ref()
            .and_then(|(buffer, start)| umem.bytes(buffer, *start, descriptor.length as usize));
        self.is_disbelieved |= bytes.is_none();
        let bytes = bytes.unwrap_or_default();
        let is_whole = is_last && !self.is_continued;
        if !is_whole {
            self.pieces.extend_from_slice(bytes);
        }
        if is_last {
            let frame = if is_whole { bytes } else { &self.pieces };
            if self.is_disbelieved {
                counts.disbelieved += 1;
            } else {
                counts.received += 1;
                counts.received_octets += frame.len() as u64;
                taken(frame);
            }
            self.pieces.clear();
            self.is_disbelieved = false;
        }
        self.is_continued = !is_last;
        self.free.extend(found.map(|(buffer, _)| buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(address: u64, length: u32, options: u32) -> Descriptor {
        Descriptor {
            address,
            length,
            options,
        }
    }

    /// What a kernel that lies says is counted, and takes no buffer.
    #[test]
    fn descriptors_that_cannot_be_true_are_counted_and_no_buffer_is_lost() {
        let (mut umem, mut buffers) = Umem::new(4, 2_048).unwrap();
        let sent = umem.lend(buffers.pop().unwrap(), Place::Sending);
        for buffer in buffers.drain(..) {
            umem.lend(buffer, Place::Receiving);
        }
        let ring = Taking::new(crate::sys::xsk::RingMemory::alone(8, 0, 16));
        let mut receiving = Receiving::new(ring, Vec::new());
        let mut counts = PortCounts::default();
        let mut lengths = Vec::new();
        for wrong in [
            descriptor(sent, 100, 0),
            descriptor(4 * 2_048, 100, 0),
            descriptor(u64::MAX, u32::MAX, 0),
            // Two pieces, the second one of which is longer than what is left of its buffer.
            descriptor(256, 1_792, CONTINUED),
            descriptor(2_048 + 256, 1_793, 0),
            // Two true ones; the first one then has been given back already.
            descriptor(2 * 2_048 + 256, 60, 0),
            descriptor(2 * 2_048 + 256, 60, 0),
        ] {
            receiving.take(&mut umem, &mut counts, &wrong, &mut |bytes| {
                lengths.push(bytes.len())
            });
        }
        assert_eq!(lengths, [60]);
        assert_eq!(
            (counts.received, counts.received_octets, counts.disbelieved),
            (1, 60, 5)
        );
        assert_eq!((receiving.free.len(), umem.count(Place::Here)), (3, 3));
        assert_eq!(
            (umem.count(Place::Sending), umem.count(Place::Receiving)),
            (1, 0)
        );
    }
}
