//! Buffers that the card receives into.

use super::ReceivePool;

/// The right to receive a frame into a buffer, which no client has meanwhile. It becomes a client's with the frame ([`ReceivePool::give`]), or is put back.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a buffer that is neither given nor put back is lost to the pool"]
pub struct Lent(u32);

impl Lent {
    /// The number of the buffer.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.0
    }
}

impl ReceivePool {
    /// Buffers beyond those that clients share.
    const fn card_buffers(&self) -> u32 {
        self.buffers.len() as u32 - self.shared
    }

    /// Lends the card a buffer to receive into. None: it has all of its own. While it has fewer there is one, whatever clients keep.
    pub fn lend(&mut self) -> Option<Lent> {
        if self.lent >= self.card_buffers() {
            return None;
        }
        let buffer = self.free.pop()?;
        self.lent += 1;
        Some(Lent(buffer))
    }

    /// Takes a buffer back that the card does not receive into.
    pub fn put_back(&mut self, lent: Lent) {
        let buffer = self.accept(lent);
        self.free.push(buffer);
    }

    /// Buffers that the card has.
    #[must_use]
    pub const fn lent_frames(&self) -> u32 {
        self.lent
    }

    /// Ends a loan.
    #[inline]
    pub(super) fn accept(&mut self, lent: Lent) -> u32 {
        self.lent -= 1;
        lent.0
    }
}
