//! Messages that go out from where their sender has them.

use std::ops::Range;

use super::{NetError, Sender, Sent};
use crate::lends::{Memory, MemoryId};

impl Sender {
    /// Takes memory into its keeping, from which messages can go out without being copied. It lives as long as the sender.
    pub fn register(&mut self, memory: Memory) -> MemoryId {
        self.end_point.lends.register(memory)
    }

    /// That memory, to be written.
    ///
    /// # Errors
    /// It is another end point's.
    pub fn memory(&mut self, id: MemoryId) -> Result<&mut Memory, NetError> {
        self.end_point.lends.memory(id)
    }

    /// Sends a message that consists of ranges of registered memory, at most four, if there is room for it. It takes a buffer of the connection for itself,
    /// whose bytes are not used: only its limit holds. The ranges cannot be written until `token` comes out of [`returned`](Self::returned): when the
    /// receiver is through with the message, or the connection is over.
    ///
    /// # Errors
    /// It is longer than a buffer, has too many parts, or the memory does not have them.
    pub fn try_send_lent(
        &mut self,
        tag: u64,
        status: u8,
        memory: MemoryId,
        parts: &[Range<usize>],
        token: u64,
    ) -> Result<Sent, NetError> {
        let (number, bytes) = self.end_point.lends.begin(memory, parts, token)?;
        let mut taken = false;
        let sent = self.push(tag, bytes, |outbound, now_ns| {
            let pushed = outbound.push_lent(now_ns, tag, status, bytes, number);
            taken = pushed == forebay_msg::Pushed::Taken;
            pushed
        });
        if !taken {
            self.end_point.lends.shared(number, 0);
            if matches!(sent, Ok(Sent::Dropped)) {
                // Its memory is free at once.
                self.end_point.lends.unused(token);
            }
        }
        Ok(self.end_point.books.told(sent?, bytes))
    }

    /// The same, waiting for a receiver and for room as [`send`](Self::send) does.
    ///
    /// # Errors
    /// As [`try_send_lent`](Self::try_send_lent) and [`send`](Self::send).
    pub fn send_lent(
        &mut self,
        tag: u64,
        status: u8,
        memory: MemoryId,
        parts: &[Range<usize>],
        token: u64,
    ) -> Result<(), NetError> {
        let mut begun_ns = None;
        while self.try_send_lent(tag, status, memory, parts, token)? == Sent::NotNow {
            self.wait_for_room(&mut begun_ns)?;
        }
        Ok(())
    }

    /// The next message whose memory is free again, by its token.
    pub fn returned(&mut self) -> Option<u64> {
        self.end_point.lends.done()
    }
}
