//! Where the chunks of one DMA buffer go.

use std::slice::from_ref;
use std::time::Duration;

use forebay_ledger::{DropReason, Leak, PerReason};
use forebay_readout::{Bytes, Chunk, Payload};
use forebay_ring::View;
use forebay_run_net::{MemoryId, NetError, Publisher};
use forebay_sys::clock;

use crate::books::{BufferBook, Unpublished};
use crate::kept::KeptBlocks;

/// One wait for a subscriber that has no room.
const WAIT: Duration = Duration::from_millis(20);

/// Bytes of a block in the card's memory.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    pub(super) view: View<'a>,
    /// Where they are in that memory.
    pub(super) at: usize,
}

impl Bytes for Shared<'_> {
    #[inline]
    fn len(self) -> usize {
        self.view.len()
    }

    #[inline]
    fn u16_le(self, at: usize) -> Option<u16> {
        self.view.read_u16_le(at)
    }

    #[inline]
    fn u32_le(self, at: usize) -> Option<u32> {
        self.view.read_u32_le(at)
    }

    #[inline]
    fn part(self, at: usize, bytes: usize) -> Option<Self> {
        Some(Self {
            view: self.view.part(at, bytes)?,
            at: self.at + at,
        })
    }

    #[inline]
    fn append_to(self, to: &mut Vec<u8>) {
        self.view.append_to(to);
    }
}

/// The card's memory, out of which chunks are published where they lie.
#[derive(Clone, Copy)]
pub(super) struct Showing {
    pub(super) memory: MemoryId,
    /// Chunks from so many bytes on.
    pub(super) bytes_min: usize,
}

/// Where chunks go, and what became of them since the books were shown.
pub(super) struct Outlet<'a> {
    pub(super) publisher: Publisher,
    pub(super) fids: &'a [u64],
    pub(super) showing: Option<Showing>,
    pub(super) kept: KeptBlocks,
    /// The block that is being read.
    pub(super) block: u64,
    pub(super) published: [u64; 2],
    pub(super) copied_bytes: u64,
    pub(super) by_reference: u64,
    pub(super) unpublished: PerReason<Unpublished, [u64; 2], { Unpublished::COUNT }>,
    pub(super) failed: Option<NetError>,
    /// Told to stop while a subscriber had no room, or unable to wait for it: what is still offered is given up by name.
    pub(super) stopped: bool,
    /// The fault switch of the tests, at `publish`.
    pub(super) leak: Leak,
    /// All so far.
    pub(super) total: Totals,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) published: u64,
    pub(super) unpublished: PerReason<Unpublished, u64, { Unpublished::COUNT }>,
    pub(super) copied_bytes: u64,
    pub(super) by_reference: u64,
    pub(super) held_up_ns: u64,
}

impl Outlet<'_> {
    /// Offers a chunk to its subscribers; false when one of them has no room.
    #[inline]
    pub(super) fn offer(&mut self, chunk: &Chunk<'_, Shared<'_>>) -> bool {
        let fid = self.fids[usize::from(chunk.elink.number())];
        let bytes = chunk.payload.len();
        let status = chunk.status.0;
        if self.stopped {
            let why = match self.failed {
                Some(_) => Unpublished::Failed,
                None => Unpublished::Stopped,
            };
            self.lose(why, bytes);
            return true;
        }
        let published = match chunk.payload {
            Payload::Within(within) => match self.showing {
                Some(showing) if bytes >= showing.bytes_min => {
                    return self.show(showing, fid, status, within);
                }
                _ => self
                    .publisher
                    .try_publish_with(fid, status, bytes, |place| {
                        // The place is as long as the view.
                        let _copied = within.view.copy_to(0, place);
                    }),
            },
            Payload::Joined(joined) => self.publisher.try_publish(fid, status, joined),
        };
        if let Ok(Some(copies)) = published {
            self.copied_bytes += u64::from(copies) * bytes as u64;
        }
        self.became(published, bytes)
    }

    /// Offers a chunk where it lies.
    fn show(&mut self, showing: Showing, fid: u64, status: u8, within: Shared<'_>) -> bool {
        let (at, bytes) = (within.at, within.view.len());
        let place = at..at + bytes;
        let memory = showing.memory;
        self.kept.lend(self.block);
        let published =
            self.publisher
                .try_publish_lent(fid, status, memory, from_ref(&place), self.block);
        match published {
            Ok(Some(copies)) => self.by_reference += u64::from(copies > 0),
            // It is not on its way.
            Ok(None) | Err(_) => self.kept.take_back(self.block),
        }
        self.became(published, bytes)
    }

    /// What became of a chunk; false when a subscriber has no room.
    #[inline]
    fn became(&mut self, published: Result<Option<u32>, NetError>, bytes: usize) -> bool {
        match published {
            Ok(None) => return false,
            Ok(Some(0)) => self.lose(Unpublished::NoSubscriber, bytes),
            Ok(Some(_)) if self.leak.take("publish") => {}
            Ok(Some(_)) => {
                self.published[0] += 1;
                self.published[1] += bytes as u64;
            }
            Err(NetError::TooLong { .. }) => self.lose(Unpublished::TooLong, bytes),
            Err(error) => {
                self.failed = Some(error);
                self.lose(Unpublished::Failed, bytes);
            }
        }
        true
    }

    fn lose(&mut self, why: Unpublished, bytes: usize) {
        let [chunks, sum] = &mut self.unpublished[why];
        *chunks += 1;
        *sum += bytes as u64;
    }

    /// Chunks that subscribers have looked at.
    pub(super) fn take_back(&mut self) {
        while let Some(block) = self.publisher.returned() {
            self.kept.take_back(block);
        }
    }

    /// Puts what became of chunks into the books.
    pub(super) fn settle(&mut self, book: &mut BufferBook) {
        let copies = [
            std::mem::take(&mut self.copied_bytes),
            std::mem::take(&mut self.by_reference),
        ];
        book.copied(copies);
        self.total.copied_bytes += copies[0];
        self.total.by_reference += copies[1];
        let [chunks, bytes] = std::mem::take(&mut self.published);
        book.published(chunks, bytes);
        self.total.published += chunks;
        for (why, [chunks, bytes]) in std::mem::take(&mut self.unpublished).iter() {
            book.unpublished(why, chunks, bytes);
            self.total.unpublished[why] += chunks;
        }
    }
}

/// A subscriber of the policy `block` has no room: it is waited for. A publisher that is told to stop meanwhile, or cannot wait, gives the chunks up by name.
pub(super) fn wait_for_room(
    outlet: &mut Outlet<'_>,
    book: &mut BufferBook,
    stops: &dyn Fn() -> bool,
) {
    let begun_ns = clock::monotonic_ns();
    let waited = outlet.publisher.poll(WAIT);
    let ns = clock::monotonic_ns() - begun_ns;
    outlet.total.held_up_ns += ns;
    book.held_up(ns);
    book.show();
    outlet.stopped |= stops() || waited.is_err();
    if let Err(error) = waited {
        outlet.failed.get_or_insert(error);
    }
}
