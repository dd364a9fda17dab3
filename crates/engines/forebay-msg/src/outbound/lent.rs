//! Messages whose payload stays where its owner has it, and goes out from there.

use forebay_wire::netio3::{BufferState, Head, Messages};

use super::{FRONT_BYTES, Memory, Outbound, Pushed, count};

/// Memory that a frame's end lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// What its owner calls it.
    pub token: u64,
    /// The first of its bytes that has not gone out.
    pub from: usize,
    /// All of its bytes.
    pub bytes: usize,
}

/// What a link is to be given: these bytes, and behind them those that are lent.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Bytes that lie here.
    pub bytes: &'a [u8],
    /// Whether that is a buffer of messages, whose memory the link may [take](Outbound::on_link), or a frame of another kind.
    pub is_buffer: bool,
    /// The others.
    pub lent: Option<Lent>,
}

impl<M: Memory> Outbound<M> {
    /// Takes a message of `payload_bytes` that lie in memory of the caller's, which he calls `token`: not a byte of it is copied. It takes a buffer
    /// for itself. The memory must stay as it is until the token comes out of [`returned`](Self::returned), as it does when the receiver has given the buffer back,
    /// or the connection is over; only what was [taken](Pushed::Taken) is lent.
    pub fn push_lent(
        &mut self,
        now_ns: u64,
        tag: u64,
        status: u8,
        payload_bytes: usize,
        token: u64,
    ) -> Pushed {
        let at = match self.open_next(now_ns, payload_bytes) {
            Ok(at) => at,
            Err(pushed) => return pushed,
        };
        let head = Head::emit(None, tag, status, payload_bytes);
        let head = head.as_bytes();
        let buffer = &mut self.buffers[at];
        let Some(memory) = &mut buffer.memory else {
            return Pushed::Wait;
        };
        memory.as_mut()[FRONT_BYTES..FRONT_BYTES + head.len()].copy_from_slice(head);
        buffer.state = BufferState {
            len: head.len() + payload_bytes,
            messages: 1,
            previous: Some(tag),
        };
        buffer.payload_bytes = payload_bytes as u64;
        count(&mut buffer.put, 1, payload_bytes as u64);
        buffer.lent = Some(token);
        count(&mut self.pushed, 1, payload_bytes as u64);
        count(&mut self.held, 1, payload_bytes as u64);
        self.flush();
        Pushed::Taken
    }

    /// What is left of the frame on the link behind its first `taken` bytes; none when that is all of it, or when the link has its memory.
    #[must_use]
    pub fn frame_from(&self, taken: usize) -> Option<Transmit<'_>> {
        let buffer = &self.buffers[self.on_link?];
        let own = &buffer.memory.as_ref()?.as_ref()[..buffer.own_bytes()];
        let lent = buffer.lent.map(|token| Lent {
            token,
            from: taken.saturating_sub(own.len()),
            bytes: buffer.payload_bytes as usize,
        });
        let left = Transmit {
            bytes: &own[taken.min(own.len())..],
            is_buffer: true,
            lent: lent.filter(|lent| lent.from < lent.bytes),
        };
        (!left.bytes.is_empty() || left.lent.is_some()).then_some(left)
    }

    /// Memory that is done with, by the token of its lender.
    pub fn returned(&mut self) -> Option<u64> {
        self.returned.pop_front()
    }

    /// The connection is gone. What is held is dropped, and `lost` is told of each message of it by tag and bytes. What is
    /// [unconfirmed](Self::unconfirmed) stays so, and all memory that was lent is returned.
    pub fn abandon(&mut self, mut lost: impl FnMut(u64, usize)) {
        if let Some(begun) = self.on_link.take() {
            self.drop_held(&[begun], &mut lost);
        }
        self.let_go(lost);
        // Of what was sent, also of what the receiver has given back and the link has not.
        let lent = self.buffers.iter_mut().filter_map(|one| one.lent.take());
        self.returned.extend(lent);
    }

    /// The receiver is let go: what is held and has not begun to go out is dropped, and `lost` is told of it as by [`abandon`](Self::abandon).
    pub fn let_go(&mut self, mut lost: impl FnMut(u64, usize)) {
        self.flush();
        let waiting: Vec<usize> = self.waiting.drain(..).collect();
        self.drop_held(&waiting, &mut lost);
        self.given_up = true;
    }

    fn drop_held(&mut self, held: &[usize], lost: &mut impl FnMut(u64, usize)) {
        for at in held.iter().copied() {
            let buffer = &self.buffers[at];
            // What the link has not taken has its memory.
            let memory = buffer.memory.as_ref().map(AsRef::as_ref);
            let mut bytes = memory.map_or(&[][..], |all| &all[FRONT_BYTES..buffer.own_bytes()]);
            let mut drop_one = |tag, bytes: usize| {
                lost(tag, bytes);
                count(&mut self.dropped.lost, 1, bytes as u64);
            };
            if buffer.lent.is_some() {
                drop_one(
                    buffer.state.previous.unwrap_or_default(),
                    buffer.payload_bytes as usize,
                );
                bytes = &[];
            }
            for message in Messages::new(bytes).flatten() {
                drop_one(message.tag, message.payload.len());
            }
            self.release(at);
            self.put_back(at);
        }
    }
}
