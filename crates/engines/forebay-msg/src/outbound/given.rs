//! Buffers whose memory a link takes, and gives back when it has been sent.

use super::{Lent, Memory, Outbound};

/// The buffer on the link, of which nothing is sent yet.
#[derive(Debug)]
pub struct OnLink<'a, M> {
    /// Its memory. A link that takes it takes the whole frame: the next is [`handle_transmitted`](Outbound::handle_transmitted).
    pub memory: &'a mut Option<M>,
    /// The frame is so long, but for what is lent.
    pub own_bytes: usize,
    /// What belongs behind these.
    pub lent: Option<Lent>,
    /// What its memory [comes back](Outbound::give_back) by.
    pub number: u64,
}

impl<M: Memory> Outbound<M> {
    /// What [`poll_transmit`](Self::poll_transmit) gave, for a link that takes memory; none when there is nothing on the link.
    pub fn on_link(&mut self) -> Option<OnLink<'_, M>> {
        let at = self.on_link?;
        let buffer = &mut self.buffers[at];
        let (own_bytes, bytes) = (buffer.own_bytes(), buffer.payload_bytes as usize);
        let lent = buffer.lent.map(|token| Lent {
            token,
            from: 0,
            bytes,
        });
        Some(OnLink {
            memory: &mut buffer.memory,
            own_bytes,
            lent,
            number: at as u64,
        })
    }

    /// The link needs a buffer's memory no more, and what was lent with it.
    pub fn give_back(&mut self, number: u64, memory: M) {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(buffer) = self.buffers.get_mut(at) else {
            return;
        };
        debug_assert!(buffer.memory.is_none(), "a buffer has one memory");
        buffer.memory = Some(memory);
        if std::mem::take(&mut buffer.is_done) {
            self.put_back(at);
        }
    }
}
