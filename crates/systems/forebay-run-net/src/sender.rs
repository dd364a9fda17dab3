//! Sends messages to one receiver.

mod lent;

use std::time::Duration;

use forebay_link::bytes::Address;
use forebay_msg::session::Agreed;
use forebay_msg::{Config, OutOfRange, Pushed, Role as Wants, Slow};
use forebay_run::Urgency;
use forebay_sys::clock;

use crate::buffers::{Buffers, Outbound};
use crate::end_point::{Doze, EndPoint, PeerId, Role};
use crate::error::NetError;
use crate::settings::Settings;
use crate::summary::NetRecord;
use crate::viewed::Delivered;

/// Messages between two looks at the clock.
const CLOCK_EVERY: u32 = 32;
/// One wait for room; then it is asked whether it is not too long already.
const ROOM_WAIT: Duration = Duration::from_millis(20);

/// The reason for a wait for a receiver is told after so long, in ns.
const TELL_NS: u64 = 1_000_000_000;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in a buffer, and counted.
    Taken,
    /// Its receiver has taken nothing for too long and is given up: the message is dropped, and counted. It is not to be sent again.
    Dropped,
    /// There is no room, or no receiver: nothing was counted.
    NotNow,
}

/// The sending ends of connections.
#[derive(Debug)]
pub(super) struct Ends {
    config: Config,
    ends: Vec<(u64, Outbound)>,
    /// A receiver wanted no more.
    has_left: bool,
}

impl Ends {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            ends: Vec::new(),
            has_left: false,
        }
    }

    pub(super) fn open(
        &mut self,
        id: u64,
        agreed: &Agreed,
        mut buffers: Buffers,
    ) -> Result<(), OutOfRange> {
        if agreed.sends {
            let config = Config {
                buffer_bytes: agreed.buffer_bytes,
                buffer_count: agreed.buffer_count,
                ..self.config
            };
            let memory = |bytes| buffers.next(bytes);
            let outbound = Outbound::in_memory(&config, agreed.epoch, memory)?;
            self.ends.push((id, outbound));
        }
        Ok(())
    }

    #[inline]
    pub(super) fn get(&mut self, id: u64) -> Option<&mut Outbound> {
        let end = self.ends.iter_mut().find(|(of, _)| *of == id);
        end.map(|(_, outbound)| outbound)
    }

    pub(super) fn take(&mut self, id: u64) -> Option<Outbound> {
        let at = self.ends.iter().position(|(of, _)| *of == id)?;
        Some(self.ends.remove(at).1)
    }

    /// Nothing more is handed to it.
    pub(super) fn left(&mut self, id: u64) {
        self.has_left = true;
        if let Some(outbound) = self.get(id) {
            outbound.close();
        }
    }

    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Outbound> {
        self.ends.iter_mut().map(|(_, outbound)| outbound)
    }

    pub(super) fn handle_time(&mut self, now_ns: u64) {
        self.all().for_each(|outbound| outbound.handle_time(now_ns));
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let times = self.ends.iter().filter_map(|(_, end)| end.poll_timeout());
        times.min()
    }
}

#[derive(Debug)]
pub(super) struct Sending {
    ends: Ends,
}

impl Role for Sending {
    const NAME: &'static str = "sender";
    const WANTS: Wants = Wants::Sender;

    fn opened(&mut self, id: u64, agreed: &Agreed, buffers: Buffers) -> Result<(), OutOfRange> {
        self.ends.open(id, agreed, buffers)
    }

    #[inline]
    fn outbound(&mut self, id: u64) -> Option<&mut Outbound> {
        self.ends.get(id)
    }

    fn left(&mut self, id: u64) {
        self.ends.left(id);
    }

    fn has_left(&self) -> bool {
        self.ends.has_left
    }

    fn gone(&mut self, id: u64) -> Option<Outbound> {
        self.ends.take(id)
    }

    fn handle_time(&mut self, now_ns: u64) {
        self.ends.handle_time(now_ns);
    }

    fn poll_timeout(&self) -> Option<u64> {
        self.ends.poll_timeout()
    }
}

/// Sends messages to one receiver, to which it connects, again and again if it must. A receiver that answers sends back.
#[derive(Debug)]
pub struct Sender {
    end_point: EndPoint<Sending>,
    since_clock: u32,
}

impl Sender {
    /// Begins to connect.
    ///
    /// # Errors
    /// A setting is out of range, or the backend cannot be used here.
    pub fn connect(address: &Address, settings: &Settings) -> Result<Self, NetError> {
        let role = Sending {
            ends: Ends::new(settings.messages),
        };
        Ok(Self {
            end_point: EndPoint::connect(role, std::slice::from_ref(address), settings)?,
            since_clock: 0,
        })
    }

    /// Whether there is a receiver.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        !self.end_point.role.ends.ends.is_empty()
    }

    /// How often a connection was made.
    #[must_use]
    pub fn connections_made(&self) -> u64 {
        self.end_point.made()
    }

    /// Bytes of payload that a message may have, by what was agreed with the receiver, or by our own settings while there is none.
    #[must_use]
    pub fn buffer_bytes(&self) -> u32 {
        let end = self.end_point.role.ends.ends.first();
        end.map_or(self.end_point.settings.messages.buffer_bytes, |(_, end)| {
            end.buffer_bytes()
        })
    }

    /// Sends a message if there is room for it.
    ///
    /// # Errors
    /// It is longer than a buffer.
    #[inline]
    pub fn try_send(&mut self, tag: u64, status: u8, payload: &[u8]) -> Result<Sent, NetError> {
        self.try_send_with(tag, status, payload.len(), |place| {
            place.copy_from_slice(payload)
        })
    }

    /// Sends a message whose payload is written where it goes out from: no copy is made of it. `write` finds bytes of earlier messages there.
    ///
    /// # Errors
    /// It is longer than a buffer.
    #[inline]
    pub fn try_send_with(
        &mut self,
        tag: u64,
        status: u8,
        payload_bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<Sent, NetError> {
        let sent = self.push(tag, payload_bytes, |outbound, now_ns| {
            outbound.push_with(now_ns, tag, status, payload_bytes, write)
        })?;
        Ok(self.end_point.books.told(sent, payload_bytes))
    }

    /// Hands a message to the receiver's connection by `push`, and accounts for what that did with it.
    #[inline]
    fn push(
        &mut self,
        tag: u64,
        payload_bytes: usize,
        push: impl FnOnce(&mut Outbound, u64) -> Pushed,
    ) -> Result<Sent, NetError> {
        self.since_clock += 1;
        if self.since_clock >= CLOCK_EVERY {
            self.since_clock = 0;
            self.end_point.now_ns = clock::monotonic_ns();
        }
        let end_point = &mut self.end_point;
        if end_point.settings.messages.slow != Slow::Block {
            let is_short = |end_point: &mut EndPoint<Sending>| {
                let first = end_point.role.ends.ends.first();
                first.is_some_and(|end| !end.1.has_free_buffer())
            };
            // What a receiver that answers has said waits for the next poll.
            if is_short(end_point) && !end_point.is_answered() {
                end_point.look_for_credit(is_short)?;
            }
        }
        if end_point.role.ends.has_left {
            return Err(NetError::Left);
        }
        let Some((_, outbound)) = end_point.role.ends.ends.first_mut() else {
            return Ok(Sent::NotNow);
        };
        if end_point.ending {
            return Ok(Sent::NotNow);
        }
        let bytes = payload_bytes as u64;
        if end_point.books.vanishes(outbound, tag, payload_bytes) {
            return Ok(Sent::Taken);
        }
        let before = outbound.filled();
        let pushed = push(outbound, end_point.now_ns);
        let filled = outbound.filled() != before;
        let most = outbound.buffer_bytes();
        let sent = end_point.books.pushed(pushed, tag, bytes);
        if filled && sent != Some(Sent::NotNow) {
            end_point.pump();
        }
        sent.ok_or(NetError::TooLong {
            bytes: payload_bytes,
            most,
        })
    }

    /// Sends a message, and waits for a receiver and for room as long as the settings' `block_ns` allows. One that is [dropped](Sent::Dropped) is in the books
    /// and no error. What a receiver that answers says meanwhile is lost by the name `not_wanted`.
    ///
    /// # Errors
    /// It is longer than a buffer, nobody took anything for so long, the receiver wants no more or refuses for good, something else listens there, or a
    /// signal came.
    #[inline]
    pub fn send(&mut self, tag: u64, status: u8, payload: &[u8]) -> Result<(), NetError> {
        match self.try_send(tag, status, payload)? {
            Sent::Taken | Sent::Dropped => Ok(()),
            Sent::NotNow => self.send_later(tag, status, payload),
        }
    }

    /// The same for a payload that is written where it goes out from, see [`try_send_with`](Self::try_send_with).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_with(
        &mut self,
        tag: u64,
        status: u8,
        payload_bytes: usize,
        mut write: impl FnMut(&mut [u8]),
    ) -> Result<(), NetError> {
        let mut begun_ns = None;
        while self.try_send_with(tag, status, payload_bytes, &mut write)? == Sent::NotNow {
            self.wait_for_room(&mut begun_ns)?;
        }
        Ok(())
    }

    /// Waits for a moment; `begun_ns` is when that began, which is now where no time had begun.
    #[cold]
    fn wait_for_room(&mut self, begun_ns: &mut Option<u64>) -> Result<(), NetError> {
        let begun_ns = *begun_ns.get_or_insert_with(clock::monotonic_ns);
        if self.end_point.urgency() > Urgency::Go {
            return Err(NetError::Stopped);
        }
        self.end_point.wait_unheard(ROOM_WAIT)?;
        self.end_point.check_refusals()?;
        self.check_patience(begun_ns)
    }

    #[cold]
    fn send_later(&mut self, tag: u64, status: u8, payload: &[u8]) -> Result<(), NetError> {
        self.send_with(tag, status, payload.len(), |place| {
            place.copy_from_slice(payload)
        })
    }

    /// Waits for a receiver as long as the settings' `block_ns` allows, or until `give_up` says so.
    ///
    /// # Errors
    /// There is none, or what listens there is none and will be none.
    pub fn connected(&mut self, give_up: impl Fn() -> bool) -> Result<(), NetError> {
        let begun_ns = clock::monotonic_ns();
        let mut told = false;
        while !self.is_connected() && !give_up() {
            self.end_point.wait_unheard(ROOM_WAIT)?;
            if !told && clock::monotonic_ns() - begun_ns >= TELL_NS {
                told = true;
                let why = self.end_point.trouble();
                tracing::warn!("no receiver yet, still trying: {why}");
            }
            if !self.is_connected() {
                self.end_point.check_refusals()?;
                self.check_patience(begun_ns)?;
            }
        }
        Ok(())
    }

    /// Why there is no connection, as far as it is known.
    #[must_use]
    pub fn trouble(&self) -> String {
        self.end_point.trouble()
    }

    /// Whether the receiver sends back.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.end_point.is_answered()
    }

    fn check_patience(&self, begun_ns: u64) -> Result<(), NetError> {
        let waited_ns = clock::monotonic_ns().saturating_sub(begun_ns);
        if waited_ns < self.end_point.settings.messages.block_ns {
            return Ok(());
        }
        Err(self.stuck(begun_ns))
    }

    /// What to say when the peer took nothing since `begun_ns` of the monotonic clock.
    pub fn stuck(&self, begun_ns: u64) -> NetError {
        let address = self.end_point.address();
        NetError::Stuck {
            peer: address.map_or_else(|_| String::new(), |at| at.to_string()),
            waited_ms: clock::monotonic_ns().saturating_sub(begun_ns) / 1_000_000,
            why: if self.is_connected() {
                "it is connected, and its reader or its output is slow or stopped (a longer --block waits longer)".into()
            } else {
                self.end_point.trouble()
            },
        }
    }

    /// Gives everything to the link that is in buffers.
    fn flush_now(&mut self) {
        self.end_point.role.ends.all().for_each(Outbound::flush);
        self.end_point.pump();
    }

    /// Lets everything go out that is in buffers, whether they are full or not. What a receiver that answers has said waits for the next poll.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn flush(&mut self) -> Result<(), NetError> {
        if self.end_point.is_answered() {
            self.flush_now();
            return Ok(());
        }
        self.end_point.role.ends.all().for_each(Outbound::flush);
        self.end_point.turn(&mut |_| {}).map(drop)
    }

    /// Works, and waits up to `most` for something to happen; whether anything did. `on` is given what a receiver that answers has sent.
    ///
    /// # Errors
    /// The system refuses to wait, the receiver refuses for good, or something else listens there.
    pub fn poll(
        &mut self,
        most: Duration,
        mut on: impl FnMut(Delivered<'_>),
    ) -> Result<bool, NetError> {
        if !self.end_point.ending {
            self.end_point.check_refusals()?;
        }
        self.end_point.wait_copied(most, &mut on)
    }

    /// For a caller that waits in a loop of its own: what to wait for, and how long at most, before [`poll`](Self::poll) is called again with no time to wait.
    pub fn doze(&mut self) -> Doze<'_> {
        self.end_point.doze()
    }

    /// Whether nothing is in buffers or on its way unread.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.end_point
            .role
            .ends
            .ends
            .iter()
            .all(|(_, end)| end.is_done())
    }

    /// Asks for the end and goes on at once: a caller that [polls](Self::poll) until nobody is connected may then [`finish`](Self::finish) without waiting.
    pub fn begin_end(&mut self) {
        self.end_point.end();
    }

    /// Sends what is held, says so, waits up to `limit` for the receiver's totals, and closes the books; ledger and record stay in the run's
    /// directory. What a receiver that answers says meanwhile is lost by the name `not_wanted`.
    ///
    /// # Errors
    /// The system refuses to wait, or the books cannot be written.
    pub fn finish(mut self, limit: Duration) -> Result<NetRecord, NetError> {
        self.end_point.declines = true;
        self.end_point.finish(limit, &mut |_| {})
    }

    /// The receiver, for [`Delivered::peer`].
    #[must_use]
    pub fn peer(&self) -> Option<PeerId> {
        self.end_point
            .role
            .ends
            .ends
            .first()
            .map(|(id, _)| PeerId(*id))
    }
}
