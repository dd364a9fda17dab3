//! Receive buffers that the card has, to receive into.

use crate::buffers::Lent;

use super::{Mux, Outlet};

impl Mux {
    /// Lends the card a receive buffer: see [`ReceivePool::lend`](crate::buffers::ReceivePool::lend).
    pub fn lend(&mut self) -> Option<Lent> {
        self.pool.lend()
    }

    /// Takes a frame that the card received into this buffer ([`Self::lend`]). It is given to clients in that buffer, which is theirs until the last of them gives it back;
    /// where no client gets it, the buffer is the card's still and comes back.
    #[inline]
    pub fn handle_frame_in(
        &mut self,
        buffer: Lent,
        frame: &[u8],
        outlet: &mut impl Outlet,
    ) -> Option<Lent> {
        let mut card = Some(buffer);
        self.handle(frame, &mut card, outlet);
        card
    }

    /// Takes a buffer back that the card does not receive into.
    pub fn put_back(&mut self, buffer: Lent) {
        self.pool.put_back(buffer);
    }

    /// Receive buffers that the card has.
    #[must_use]
    pub const fn lent_frames(&self) -> u32 {
        self.pool.lent_frames()
    }

    /// Receive buffers that neither a client nor the card has.
    #[must_use]
    pub const fn free_frames(&self) -> u32 {
        self.pool.free_frames()
    }
}
