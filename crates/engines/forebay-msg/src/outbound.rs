//! The sending end of a connection.

mod books;
mod buffer;
mod lent;

use std::collections::VecDeque;

use forebay_wire::net::{Credit, DataFields, Totals};
use forebay_wire::netio3::{BufferState, BufferWriter, message_bytes};
use thiserror::Error;

use crate::config::Config;
use crate::slow::{Situation, Verdict, judge};
pub use books::Dropped;
pub use buffer::Memory;
use buffer::{Buffer, FRONT_BYTES};
use forebay_settings::OutOfRange;
pub use lent::{Lent, Transmit};

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in a buffer.
    Taken,
    /// There is no room: come again when credit came. Nothing is counted.
    Wait,
    /// It is dropped, and counted.
    Dropped,
    /// It is longer than a buffer: the caller's mistake. Nothing is counted.
    TooLong,
    /// The receiver was too slow, and the connection is to be ended. The message is dropped, and counted.
    GivenUp,
}

/// Credit that cannot be: the peer gives back or confirms what it was not sent, or takes back what it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("credit for {given} {what}; there was credit for {credited} before, and {sent} were sent")]
pub struct CreditError {
    /// Of what.
    pub what: &'static str,
    /// What came.
    pub given: u64,
    /// What had come before.
    pub credited: u64,
    /// Sent.
    pub sent: u64,
}

/// A farewell that cannot be: the peer says that more came than was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the peer says that {found} {what} came; {sent} were sent")]
pub struct FarewellError {
    /// Of what.
    pub what: &'static str,
    /// What it says: taken, and broken.
    pub found: u64,
    /// Sent.
    pub sent: u64,
}

/// The sending end of a connection: gathers messages, bounds what is on its way, and counts.
///
/// `pushed = sent + dropped + held`, in messages and in bytes of payload, each counted where it happens.
///
/// Its buffers are in memory of its own, or in [given](Self::in_memory) memory, which a link may [take](Self::on_link) and send from. Such a buffer is
/// free when the receiver has given it back and its memory has [come back](Self::give_back), too.
#[derive(Debug)]
pub struct Outbound<M = Box<[u8]>> {
    config: Config,
    epoch: u64,
    buffers: Vec<Buffer<M>>,
    free: Vec<usize>,
    open: Option<usize>,
    /// Closed, and none of it is with the link yet.
    waiting: VecDeque<usize>,
    /// With the link, as a whole.
    on_link: Option<usize>,
    /// Sent, and not given back.
    sent: VecDeque<usize>,
    credited: u64,
    /// Messages and bytes of which the receiver knows what became of them.
    confirmed: [u64; 2],
    pushed: [u64; 2],
    held: [u64; 2],
    /// Without drops, which have a tally for each reason.
    totals: Totals,
    stuck_since_ns: Option<u64>,
    dropped: Dropped,
    /// Buffers that were closed so far.
    filled: u64,
    given_up: bool,
    closed: bool,
    /// Memory that was lent and is done with.
    returned: VecDeque<u64>,
}

impl Outbound {
    /// The sending end of the connection `epoch`. All memory is taken here.
    ///
    /// # Errors
    /// A setting outside its range.
    pub fn new(config: &Config, epoch: u64) -> Result<Self, OutOfRange> {
        Self::in_memory(config, epoch, |bytes| vec![0; bytes].into())
    }
}

impl<M: Memory> Outbound<M> {
    /// The same with buffers in memory that `memory` gives, so many bytes each.
    ///
    /// # Errors
    /// A setting outside its range.
    pub fn in_memory(
        config: &Config,
        epoch: u64,
        mut memory: impl FnMut(usize) -> M,
    ) -> Result<Self, OutOfRange> {
        config.validate()?;
        let bytes = config.frame_bytes();
        let count = config.buffer_count as usize;
        let mut buffer = || Buffer {
            memory: Some(memory(bytes)),
            is_done: false,
            state: BufferState::default(),
            payload_bytes: 0,
            put: [0; 2],
            opened_ns: 0,
            lent: None,
        };
        Ok(Self {
            config: *config,
            epoch,
            buffers: (0..count).map(|_| buffer()).collect(),
            free: (0..count).rev().collect(),
            open: None,
            waiting: VecDeque::with_capacity(count),
            on_link: None,
            sent: VecDeque::with_capacity(count),
            credited: 0,
            confirmed: [0; 2],
            pushed: [0; 2],
            held: [0; 2],
            totals: Totals::default(),
            stuck_since_ns: None,
            dropped: Dropped::default(),
            filled: 0,
            given_up: false,
            closed: false,
            returned: VecDeque::new(),
        })
    }

    /// Takes a message at the time `now_ns`.
    #[inline]
    pub fn push(&mut self, now_ns: u64, tag: u64, status: u8, payload: &[u8]) -> Pushed {
        self.push_with(now_ns, tag, status, payload.len(), |place| {
            place.copy_from_slice(payload);
        })
    }

    /// Takes a message whose payload is written where it goes out from: `write` is given its place, with bytes of an earlier message in it, and is
    /// called only when the message is taken.
    #[inline]
    pub fn push_with(
        &mut self,
        now_ns: u64,
        tag: u64,
        status: u8,
        payload_bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Pushed {
        let Some(open) = self
            .open
            .filter(|open| self.fits(*open, tag, status, payload_bytes))
        else {
            return match self.open_next(now_ns, payload_bytes) {
                Ok(open) => self.put(open, tag, status, payload_bytes, write),
                Err(pushed) => pushed,
            };
        };
        self.put(open, tag, status, payload_bytes, write)
    }

    #[inline]
    fn fits(&self, open: usize, tag: u64, status: u8, payload_bytes: usize) -> bool {
        let state = &self.buffers[open].state;
        let need = message_bytes(state.previous, tag, status, payload_bytes);
        state.len + need <= self.config.area_bytes()
    }

    /// Whether a message would be taken, or dropped, without waiting.
    #[must_use]
    pub fn has_room(&self, tag: u64, status: u8, payload_bytes: usize) -> bool {
        let fits = |open| self.fits(open, tag, status, payload_bytes);
        !self.free.is_empty() || self.open.is_some_and(fits)
    }

    /// Whether a message that needs a buffer for itself would be taken without waiting.
    #[must_use]
    pub fn has_free_buffer(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether it may hold its sender up at `now_ns`, now that it has no room.
    pub(crate) fn would_wait(&mut self, now_ns: u64) -> bool {
        !self.given_up && self.judge(now_ns) == Verdict::Wait
    }

    /// Bytes of payload that a message may have.
    #[inline]
    #[must_use]
    pub fn buffer_bytes(&self) -> u32 {
        self.config.buffer_bytes
    }

    /// Whether the receiver was too slow for its policy, so that the connection is to be ended.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// The open buffer has no room, or there is none: the next one, or why there is none.
    #[cold]
    fn open_next(&mut self, now_ns: u64, payload_bytes: usize) -> Result<usize, Pushed> {
        if payload_bytes > self.config.buffer_bytes as usize {
            return Err(Pushed::TooLong);
        }
        if self.closed {
            return Err(Pushed::Wait);
        }
        self.flush();
        if self.given_up {
            return Err(self.drop_new(payload_bytes, Pushed::GivenUp));
        }
        if self.free.is_empty() {
            match self.judge(now_ns) {
                Verdict::Wait => return Err(Pushed::Wait),
                Verdict::DropNewest => return Err(self.drop_new(payload_bytes, Pushed::Dropped)),
                Verdict::DropOldest => self.drop_oldest(),
                Verdict::Disconnect => {
                    self.given_up = true;
                    return Err(self.drop_new(payload_bytes, Pushed::GivenUp));
                }
            }
        }
        self.stuck_since_ns = None;
        let next = self.free.pop().ok_or(Pushed::Wait)?;
        let buffer = &mut self.buffers[next];
        (buffer.state, buffer.payload_bytes, buffer.opened_ns) =
            (BufferState::default(), 0, now_ns);
        (buffer.lent, buffer.put) = (None, [0; 2]);
        self.open = Some(next);
        Ok(next)
    }

    #[cold]
    fn judge(&mut self, now_ns: u64) -> Verdict {
        let since = *self.stuck_since_ns.get_or_insert(now_ns);
        let situation = Situation {
            waiting: self.waiting.len(),
            stuck_ns: now_ns.saturating_sub(since),
            block_ns: self.config.block_ns,
        };
        judge(self.config.slow, &situation)
    }

    /// Adds to a buffer that has room.
    #[inline]
    fn put(
        &mut self,
        at: usize,
        tag: u64,
        status: u8,
        payload_bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Pushed {
        let buffer = &mut self.buffers[at];
        let Some(memory) = &mut buffer.memory else {
            return Pushed::Wait;
        };
        let area = &mut memory.as_mut()[FRONT_BYTES..];
        let mut writer = BufferWriter::resume(area, buffer.state);
        let Some(place) = writer.reserve(tag, status, payload_bytes) else {
            return Pushed::TooLong;
        };
        write(place);
        buffer.state = writer.into_state();
        let bytes = payload_bytes as u64;
        buffer.payload_bytes += bytes;
        count(&mut buffer.put, 1, bytes);
        let full = buffer.state.len >= self.config.water_mark_bytes as usize;
        count(&mut self.pushed, 1, bytes);
        count(&mut self.held, 1, bytes);
        if full {
            self.flush();
        }
        Pushed::Taken
    }

    fn drop_new(&mut self, payload_bytes: usize, what: Pushed) -> Pushed {
        count(&mut self.pushed, 1, payload_bytes as u64);
        count(&mut self.dropped.slow, 1, payload_bytes as u64);
        what
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.waiting.pop_front() else {
            return;
        };
        let buffer = &self.buffers[oldest];
        let (messages, bytes) = (u64::from(buffer.state.messages), buffer.payload_bytes);
        count(&mut self.dropped.slow, messages, bytes);
        self.release(oldest);
        self.put_back(oldest);
    }

    /// What was put into a buffer is held no longer: it was sent, or dropped, which is counted by what the frame says.
    fn release(&mut self, at: usize) {
        let [messages, bytes] = std::mem::take(&mut self.buffers[at].put);
        self.held[0] = self.held[0].wrapping_sub(messages);
        self.held[1] = self.held[1].wrapping_sub(bytes);
    }

    /// A buffer is free again, or will be when its memory comes back.
    fn put_back(&mut self, at: usize) {
        let buffer = &mut self.buffers[at];
        if buffer.memory.is_none() {
            buffer.is_done = true;
            return;
        }
        self.returned.extend(buffer.lent.take());
        self.free.push(at);
    }

    /// The receiver has said what it took, after the end: no buffer is on its way any more.
    ///
    /// # Errors
    /// It says more than was sent.
    pub fn handle_farewell(&mut self, took: &Totals) -> Result<(), FarewellError> {
        let sent = &self.totals;
        let messages = took.messages.saturating_add(took.messages_dropped);
        let bytes = took.bytes.saturating_add(took.bytes_dropped);
        for (what, found, sent) in [
            ("buffers", took.buffers, sent.buffers),
            ("messages", messages, sent.messages),
            ("bytes", bytes, sent.bytes),
        ] {
            if found > sent {
                return Err(FarewellError { what, found, sent });
            }
        }
        while let Some(done) = self.sent.pop_front() {
            self.put_back(done);
        }
        self.credited = self.totals.buffers;
        self.confirmed = [messages, bytes];
        Ok(())
    }

    /// Takes nothing more: each further message has to wait. What is held goes out.
    pub fn close(&mut self) {
        self.flush();
        self.closed = true;
    }

    /// A message that others take is longer than this receiver's buffers: it is dropped, and counted.
    pub fn drop_too_long(&mut self, payload_bytes: usize) {
        count(&mut self.pushed, 1, payload_bytes as u64);
        count(&mut self.dropped.too_long, 1, payload_bytes as u64);
    }

    /// For tests of the books: a message is handed in, and nothing becomes of it.
    #[doc(hidden)]
    pub fn vanish(&mut self, payload_bytes: usize) {
        count(&mut self.pushed, 1, payload_bytes as u64);
    }

    /// Closes the open buffer: it goes out next.
    pub fn flush(&mut self) {
        if let Some(open) = self.open.take() {
            self.waiting.push_back(open);
            self.filled += 1;
        }
    }

    /// Closes the open buffer when its time has come.
    pub fn handle_time(&mut self, now_ns: u64) {
        if self.poll_timeout().is_some_and(|at| at <= now_ns) {
            self.flush();
        }
    }

    /// When the open buffer is to go out at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let open = self.open?;
        Some(
            self.buffers[open]
                .opened_ns
                .saturating_add(self.config.flush_ns),
        )
    }

    /// The frame that is to be handed to the link, from its first byte to its last, but for what was lent and comes behind it
    /// ([`frame_from`](Self::frame_from) gives all); the same one until [`handle_transmitted`](Self::handle_transmitted).
    pub fn poll_transmit(&mut self) -> Option<&[u8]> {
        if self.on_link.is_none() {
            let next = self.waiting.pop_front()?;
            let buffer = &mut self.buffers[next];
            let fields = DataFields {
                epoch: self.epoch,
                sequence: self.totals.buffers,
                messages_total: self.totals.messages + u64::from(buffer.state.messages),
                bytes_total: self.totals.bytes + buffer.payload_bytes,
                messages: buffer.state.messages,
                bytes: buffer.state.len as u32,
            };
            let memory = buffer.memory.as_mut()?.as_mut();
            memory[..FRONT_BYTES].copy_from_slice(&fields.to_bytes());
            self.on_link = Some(next);
        }
        let buffer = &self.buffers[self.on_link?];
        Some(&buffer.memory.as_ref()?.as_ref()[..buffer.own_bytes()])
    }

    /// The link has taken the whole frame.
    pub fn handle_transmitted(&mut self) {
        let Some(done) = self.on_link.take() else {
            return;
        };
        let buffer = &self.buffers[done];
        let (messages, bytes) = (u64::from(buffer.state.messages), buffer.payload_bytes);
        self.totals.buffers += 1;
        self.totals.messages += messages;
        self.totals.bytes += bytes;
        self.release(done);
        self.sent.push_back(done);
    }

    /// The receiver gave buffers back, and confirmed messages.
    ///
    /// # Errors
    /// It cannot have.
    pub fn handle_credit(&mut self, credit: &Credit) -> Result<(), CreditError> {
        for (what, given, credited, sent) in [
            (
                "buffers",
                credit.buffers,
                self.credited,
                self.totals.buffers,
            ),
            (
                "messages",
                credit.messages,
                self.confirmed[0],
                self.totals.messages,
            ),
            ("bytes", credit.bytes, self.confirmed[1], self.totals.bytes),
        ] {
            if !(credited..=sent).contains(&given) {
                return Err(CreditError {
                    what,
                    given,
                    credited,
                    sent,
                });
            }
        }
        for _ in self.credited..credit.buffers {
            if let Some(done) = self.sent.pop_front() {
                self.put_back(done);
            }
        }
        self.credited = credit.buffers;
        self.confirmed = [credit.messages, credit.bytes];
        Ok(())
    }

    /// Whether a full buffer, or one whose time was over, is to go out.
    #[inline]
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || self.on_link.is_some()
    }

    /// Buffers that were filled so far, or whose time was over: when it grows, something new is to go out.
    #[inline]
    #[must_use]
    pub fn filled(&self) -> u64 {
        self.filled
    }
}

#[inline]
fn count(tally: &mut [u64; 2], items: u64, bytes: u64) {
    tally[0] += items;
    tally[1] += bytes;
}

// Buffers whose memory a link takes, and gives back when it has been sent.
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
