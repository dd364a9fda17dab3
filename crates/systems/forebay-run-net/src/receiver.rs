//! Receives messages from any number of senders.

use std::time::Duration;

use forebay_link::bytes::Address;
use forebay_msg::session::Agreed;
use forebay_msg::{OutOfRange, Role as Wants};

use crate::acknowledgement::Acknowledgement;
use crate::buffers::{Buffers, Outbound};
use crate::end_point::{Doze, EndPoint, PeerId, Role};
use crate::error::NetError;
use crate::sender::{Ends, Sent};
use crate::settings::Settings;
use crate::summary::NetRecord;
use crate::viewed::{Delivered, Viewed};

#[derive(Debug)]
pub(super) struct Receiving {
    answers: bool,
    ends: Ends,
}

impl Role for Receiving {
    const NAME: &'static str = "receiver";
    const WANTS: Wants = Wants::Sender;

    fn answers(&self) -> bool {
        self.answers
    }

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

/// Receives messages from any number of senders, which connect to it.
#[derive(Debug)]
pub struct Receiver {
    end_point: EndPoint<Receiving>,
}

impl Receiver {
    /// Listens.
    ///
    /// # Errors
    /// The address is in use, a setting out of range, or the run's directory not to be written.
    pub fn listen(address: &Address, settings: &Settings) -> Result<Self, NetError> {
        Self::open(address, settings, false)
    }

    /// Listens, and can send to its senders, too.
    ///
    /// # Errors
    /// As [`listen`](Self::listen).
    pub fn listen_and_answer(address: &Address, settings: &Settings) -> Result<Self, NetError> {
        Self::open(address, settings, true)
    }

    fn open(address: &Address, settings: &Settings, answers: bool) -> Result<Self, NetError> {
        let role = Receiving {
            answers,
            ends: Ends::new(settings.messages),
        };
        Ok(Self {
            end_point: EndPoint::listen(role, address, settings)?,
        })
    }

    /// Where it really listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<Address, NetError> {
        self.end_point.address()
    }

    /// Works, and waits up to `most` for something to happen; `on` is given every message. Whether anything happened.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn poll(
        &mut self,
        most: Duration,
        mut on: impl FnMut(Delivered<'_>),
    ) -> Result<bool, NetError> {
        self.end_point.wait_copied(most, &mut on)
    }

    /// The same for a caller that reads messages where they lie, also in the sender's memory.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn poll_viewed(
        &mut self,
        most: Duration,
        mut on: impl FnMut(Viewed<'_>),
    ) -> Result<bool, NetError> {
        self.end_point.wait(most, &mut on)
    }

    /// For a caller that waits in a loop of its own: what to wait for, and how long at most, before [`poll`](Self::poll) is called again with no time to wait.
    pub fn doze(&mut self) -> Doze<'_> {
        self.end_point.doze()
    }

    /// Sends a message to a sender, if there is room for it and this receiver answers.
    ///
    /// # Errors
    /// It is longer than a buffer.
    pub fn try_send(
        &mut self,
        to: PeerId,
        tag: u64,
        status: u8,
        payload: &[u8],
    ) -> Result<Sent, NetError> {
        let end_point = &mut self.end_point;
        let Some(outbound) = end_point.role.ends.get(to.0) else {
            return Ok(Sent::NotNow);
        };
        let most = outbound.buffer_bytes();
        let pushed = outbound.push(end_point.now_ns, tag, status, payload);
        let bytes = payload.len();
        let sent = end_point.books.pushed(pushed, tag, bytes as u64);
        let sent = sent.ok_or(NetError::TooLong { bytes, most })?;
        Ok(end_point.books.told(sent, bytes))
    }

    /// An answer of so many bytes is given up, as its sender has no room for it or is gone: it is lost by the name `not_answered`, in an account that is not
    /// balanced, as nobody else knows of it.
    pub fn give_up(&mut self, bytes: u64) {
        self.end_point.books.given_up(bytes);
    }

    /// Lets everything go out that is in buffers.
    pub fn flush(&mut self) {
        self.end_point.role.ends.all().for_each(Outbound::flush);
        self.end_point.pump();
    }

    /// Whether this sender is still there.
    #[must_use]
    pub fn knows(&mut self, peer: PeerId) -> bool {
        self.end_point.role.ends.get(peer.0).is_some()
    }

    /// Says the end to senders that have said theirs: nothing more is answered to them.
    pub fn end_with_the_ended(&mut self) {
        self.end_point.end_with_the_ended();
    }

    /// Senders that are connected now.
    #[must_use]
    pub fn senders(&self) -> usize {
        self.end_point.open_connections()
    }

    /// How many have been connected.
    #[must_use]
    pub fn connections_made(&self) -> u64 {
        self.end_point.made()
    }

    /// Whether somebody was there, and nobody is any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.end_point.has_ended()
    }

    /// Works but for reading, so that the peers know that somebody is there: for a caller that has no room for what they send. That waits with them, and costs
    /// what the policy for a slow receiver says.
    ///
    /// # Errors
    /// The system refuses to go on.
    pub fn stay(&mut self) -> Result<(), NetError> {
        self.end_point.stay()
    }

    /// Says what has become of messages that were delivered; for a caller that [gathers](Settings::gathers).
    pub fn acknowledge(&mut self) -> Acknowledgement<'_> {
        Acknowledgement::by(&mut self.end_point)
    }

    /// Whether every sender that is connected has said all that it had to say, and waits for its messages to be confirmed, if for anything.
    #[must_use]
    pub fn has_heard_all(&self) -> bool {
        self.end_point.has_heard_all()
    }

    /// Asks for the end and goes on at once: a caller that [polls](Self::poll) until nobody is connected may then [`finish`](Self::finish) without waiting.
    pub fn begin_end(&mut self) {
        self.end_point.end();
    }

    /// Asks the senders to end, waits up to `limit` for it, and closes the books; ledger and record stay in the run's directory.
    ///
    /// # Errors
    /// The system refuses to wait, or the books cannot be written.
    pub fn finish(
        mut self,
        limit: Duration,
        mut on: impl FnMut(Delivered<'_>),
    ) -> Result<NetRecord, NetError> {
        self.end_point.finish_copied(limit, &mut on)
    }
}
