//! Receiving merged buffers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use crate::SysError;
use crate::udp_batch::{Ancillary, BatchTag, RecvBatch};

/// Least and most payload bytes of a datagram that the kernel drops.
pub const DATAGRAM_BYTES: (u64, u64) = (0, 65_507);
/// Most datagrams in one merged buffer (`UDP_MAX_SEGMENTS` of Linux 6.12; 64 before).
pub const MERGED_DATAGRAMS_MAX: u64 = 128;

/// `recvmmsg` into buffers of 64 KiB that are allocated once, with source addresses, stamps and segment sizes.
///
/// It serves any number of sockets, one call after another. A socket merges when [`set_gro`](crate::socket::set_gro) is on, and
/// stamps when it is a [`Stamped`](crate::stamped::Stamped) or [`set_stamps`](crate::socket::set_stamps) is on.
#[derive(Debug)]
pub struct GroReceive {
    batch: RecvBatch,
    received: usize,
}

/// One received buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'a> {
    /// Its sender.
    pub from: Option<SocketAddr>,
    /// Its bytes, those of all its datagrams one after another.
    pub bytes: &'a [u8],
    /// Each datagram in it has this length, in bytes; the last may be shorter. None: it is one datagram.
    pub segment_bytes: Option<u16>,
    /// When the kernel took its first datagram, wall clock, ns.
    pub stamp_ns: Option<u64>,
    /// It was longer than 64 KiB and the rest is gone; no UDP datagram over IP without jumbograms is.
    pub truncated: bool,
}

impl<'a> Received<'a> {
    /// Its datagrams in the order they came; an empty buffer is one empty datagram.
    #[must_use]
    pub fn datagrams(&self) -> Datagrams<'a> {
        let whole = self.bytes.len().max(1);
        Datagrams {
            rest: Some(self.bytes),
            segment_bytes: self
                .segment_bytes
                .map_or(whole, |bytes| usize::from(bytes).max(1)),
        }
    }
}

/// The datagrams of a buffer, see [`Received::datagrams`].
#[derive(Debug, Clone)]
pub struct Datagrams<'a> {
    rest: Option<&'a [u8]>,
    segment_bytes: usize,
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let (datagram, rest) = rest.split_at(self.segment_bytes.min(rest.len()));
        self.rest = (!rest.is_empty()).then_some(rest);
        Some(datagram)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self
            .rest
            .map_or(0, |rest| rest.len().div_ceil(self.segment_bytes).max(1));
        (count, Some(count))
    }
}

impl ExactSizeIterator for Datagrams<'_> {}

impl GroReceive {
    /// Room for `buffers` (1 to 1,024) buffers per call; each takes 64 KiB of memory once it is used.
    ///
    /// # Errors
    /// When memory or descriptors run out, or `buffers` is out of its range.
    pub fn new(buffers: usize) -> Result<Self, SysError> {
        let ancillary = Ancillary {
            addresses: true,
            control: true,
        };
        Ok(Self {
            batch: RecvBatch::private(buffers, ancillary)?,
            received: 0,
        })
    }

    /// Receives without waiting; tells how many buffers came, 0 from an empty queue. What the last call received is gone.
    ///
    /// # Errors
    /// The socket's own error, such as `ConnectionRefused` on a connected socket; it is reported once, and nothing is lost by it.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.received = 0;
        let slots = self.batch.slots();
        self.received = self
            .batch
            .receive_scratch(socket, slots, BatchTag::default())?;
        Ok(self.received)
    }

    /// What the last call received.
    pub fn buffers(&self) -> impl ExactSizeIterator<Item = Received<'_>> {
        (0..self.received).map(|index| {
            let datagram = self.batch.datagram(index);
            Received {
                from: datagram.from,
                bytes: self.batch.payload(index),
                segment_bytes: datagram.gro_segment_bytes,
                stamp_ns: datagram.stamp_ns,
                truncated: datagram.truncated,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bytes: &[u8], segment_bytes: Option<u16>) -> Vec<&[u8]> {
        let received = Received {
            from: None,
            bytes,
            segment_bytes,
            stamp_ns: None,
            truncated: false,
        };
        let datagrams = received.datagrams();
        let promised = datagrams.len();
        let datagrams: Vec<_> = datagrams.collect();
        assert_eq!(datagrams.len(), promised);
        datagrams
    }

    #[test]
    fn a_buffer_is_cut_by_its_segment_size() {
        assert_eq!(cut(b"aabbc", Some(2)), [b"aa" as &[u8], b"bb", b"c"]);
        assert_eq!(cut(b"aabb", Some(2)), [b"aa", b"bb"]);
        assert_eq!(cut(b"aabb", None), [b"aabb"]);
        assert_eq!(cut(b"", None), [b""]);
        assert_eq!(cut(b"", Some(2)), [b""]);
        assert_eq!(
            cut(b"ab", Some(0)),
            [b"a", b"b"],
            "no kernel says 0, and it must end"
        );
    }
}
