//! What a receiver stage asks of a link, be it a socket or its emulated twin.

use forebay_sys::udp_batch::{BatchTag, RecvBatch, Totals};

use crate::LinkError;

/// Datagrams that were dropped for want of buffer before the receiver could take them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drops {
    /// Each dropped datagram was counted.
    Exact(u64),
    /// At least so many: the kernel merges datagrams (GRO) and counts a merged buffer once.
    AtLeast(u64),
}

impl Drops {
    /// The number, exact or not.
    #[must_use]
    pub fn count(self) -> u64 {
        match self {
            Self::Exact(count) | Self::AtLeast(count) => count,
        }
    }
}

/// How full a receive buffer is, in the kernel's measure (whole buffers, not payload).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct BufferFill {
    /// In use, bytes; may exceed the limit by one datagram.
    pub used_bytes: u64,
    /// The limit, bytes.
    pub limit_bytes: u64,
}

impl BufferFill {
    /// The filled part, 0 to 1.
    #[must_use]
    pub fn ratio(self) -> f64 {
        if self.limit_bytes == 0 {
            0.0
        } else {
            (self.used_bytes as f64 / self.limit_bytes as f64).min(1.0)
        }
    }
}

/// One incoming stream of datagrams.
///
/// One batch may serve many sources in turn; after a receive, the datagrams are read from the batch
/// ([`RecvBatch::datagram`], [`RecvBatch::payload`]). Nothing here waits. The books: what was sent to a source is what was
/// received plus [`drops`](Self::drops) plus what its buffer still holds.
pub trait DatagramSource {
    /// Takes up to `max` datagrams into the batch's own memory; 0 when there is none.
    ///
    /// # Errors
    /// When the source itself fails.
    fn receive_scratch(
        &mut self,
        batch: &mut RecvBatch,
        max: usize,
        tag: BatchTag,
    ) -> Result<usize, LinkError>;

    /// Takes one datagram straight into `buffer`, such as memory lent by a ring; `false` when there is none. A datagram
    /// longer than `buffer` is cut, flagged, and its true length told.
    ///
    /// # Errors
    /// When the source itself fails.
    fn receive_into(
        &mut self,
        batch: &mut RecvBatch,
        buffer: &mut [u8],
        tag: BatchTag,
    ) -> Result<bool, LinkError>;

    /// What was received so far, by this source and, if it was resumed, its predecessors.
    fn received(&self) -> Totals;

    /// Counts a batch that a killed predecessor had received and not accounted.
    fn count_adopted(&mut self, batch: &RecvBatch);

    /// What was dropped so far.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn drops(&mut self) -> Result<Drops, LinkError>;

    /// How full the buffer is now.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn fill(&self) -> Result<BufferFill, LinkError>;
}
