//! The queues of all sources in private memory, laid out as the rings hold them.

use forebay_evb::{Input, Message};
use forebay_wire::hadtu::PADDING;
use forebay_wire::subevent::SubEventRepr;

/// One queue for each source; messages lie one behind the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arena {
    queues: Vec<Vec<u8>>,
    /// Positions below are freed: reading them is an error of the engine.
    freed: Vec<u64>,
}

impl Arena {
    /// Empty queues of `sources` sources.
    pub(crate) fn new(sources: usize) -> Self {
        Self {
            queues: vec![Vec::new(); sources],
            freed: vec![0; sources],
        }
    }

    /// Position behind the last message of `source`.
    pub(crate) fn end(&self, source: usize) -> u64 {
        self.queues[source].len() as u64
    }

    /// Lays a message of `items` sub-events down; `body` is what follows its queue header.
    pub(crate) fn push(
        &mut self,
        source: usize,
        body: &[u8],
        items: u32,
        stamp_ns: u64,
    ) -> Message {
        let queue = &mut self.queues[source];
        // A ring holds a record header and the queue header before the first sub-event.
        queue.extend_from_slice(&[0x55; 40]);
        let at = queue.len() as u64;
        queue.extend_from_slice(body);
        let end = queue.len().next_multiple_of(32);
        queue.resize(end, 0x55);
        Message {
            at,
            len: body.len() as u32,
            items,
            end: end as u64,
            stamp_ns,
            dropped: 0,
            numbers: None,
        }
    }

    /// The bytes of `source`'s queue, to be spoiled.
    #[allow(dead_code, reason = "only the hostile tests spoil memory")]
    pub(crate) fn bytes_mut(&mut self, source: usize) -> &mut [u8] {
        &mut self.queues[source]
    }

    /// Frees `source`'s queue up to `position`.
    #[allow(dead_code, reason = "the bench frees nothing")]
    pub(crate) fn free(&mut self, source: usize, position: u64) {
        assert!(
            position <= self.end(source),
            "freed beyond the end of source {source}"
        );
        assert!(
            position >= self.freed[source],
            "source {source} was freed up to {} before, now to {position}",
            self.freed[source]
        );
        self.freed[source] = position;
    }

    #[inline]
    fn range(&self, source: usize, at: u64, len: usize) -> Option<&[u8]> {
        assert!(
            at >= self.freed[source],
            "source {source} was read at {at}, freed up to {}",
            self.freed[source]
        );
        let start = usize::try_from(at).ok()?;
        self.queues[source].get(start..start.checked_add(len)?)
    }
}

impl Input for Arena {
    #[inline]
    fn header(&self, source: usize, at: u64) -> Option<[u8; 16]> {
        self.range(source, at, 16)?.first_chunk().copied()
    }

    #[inline]
    fn copy(&self, source: usize, at: u64, into: &mut [u8]) -> bool {
        self.range(source, at, into.len())
            .map(|bytes| into.copy_from_slice(bytes))
            .is_some()
    }

    #[inline]
    fn prefetch(&self, source: usize, at: u64, len: usize) {
        let bytes = self.queues[source].get(at as usize..).unwrap_or_default();
        forebay_ring::prefetch(bytes.get(..len).unwrap_or(bytes));
    }
}

/// Puts a sub-event of `bytes` (header included) behind `body`, padded to 8.
pub(crate) fn append(body: &mut Vec<u8>, sub: &SubEventRepr, bytes: u32, fill: u8) {
    let payload = bytes.saturating_sub(16);
    body.extend_from_slice(&sub.header_bytes(payload));
    body.resize(body.len() + payload as usize, fill);
    body.resize(body.len().next_multiple_of(8), PADDING);
}
