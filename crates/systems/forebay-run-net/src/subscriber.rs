//! Gets the messages of tags from any number of publishers.

use std::time::Duration;

use forebay_link::bytes::Address;
use forebay_msg::session::Agreed;
use forebay_msg::{Entry, OutOfRange, Role as Wants, Slow};

use crate::acknowledgement::Acknowledgement;
use crate::buffers::{Buffers, Outbound};
use crate::bus::{Bus, Finder};
use crate::end_point::{Doze, EndPoint, Role};
use crate::error::NetError;
use crate::settings::Settings;
use crate::summary::NetRecord;
use crate::viewed::{Delivered, Viewed};

#[derive(Debug)]
pub(super) struct Subscribing {
    entries: Vec<Entry>,
    slow: Slow,
}

impl Role for Subscribing {
    const NAME: &'static str = "subscriber";
    const WANTS: Wants = Wants::Subscriber;

    fn opened(&mut self, _: u64, _: &Agreed, _: Buffers) -> Result<(), OutOfRange> {
        Ok(())
    }

    fn outbound(&mut self, _id: u64) -> Option<&mut Outbound> {
        None
    }

    fn gone(&mut self, _id: u64) -> Option<Outbound> {
        None
    }

    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn slow(&self) -> Slow {
        self.slow
    }
}

/// Gets the messages of tags from publishers, to which it connects, again and again if it must; then it asks for its tags again.
#[derive(Debug)]
pub struct Subscriber {
    end_point: EndPoint<Subscribing>,
    finder: Option<Finder>,
}

impl Subscriber {
    /// Begins to connect to all of them. The policy of `settings.messages.slow` is what this subscriber wants to be treated by.
    ///
    /// # Errors
    /// A setting is out of range, or a backend cannot be used here.
    pub fn connect(addresses: &[Address], settings: &Settings) -> Result<Self, NetError> {
        let role = Subscribing {
            entries: Vec::new(),
            slow: settings.messages.slow,
        };
        Ok(Self {
            end_point: EndPoint::connect(role, addresses, settings)?,
            finder: None,
        })
    }

    /// Connects to the publishers that offer a tag that is subscribed to, as they come and go.
    ///
    /// # Errors
    /// A setting is out of range, or the system refuses a thread.
    pub fn find(bus: &Bus, settings: &Settings) -> Result<Self, NetError> {
        let mut subscriber = Self::connect(&[], settings)?;
        subscriber.finder = Some(Finder::start(bus, &settings.security)?);
        Ok(subscriber)
    }

    /// Looks at the bus.
    fn follow(&mut self) {
        let Some(offers) = self.finder.as_mut().and_then(Finder::changed) else {
            return;
        };
        let entries = &self.end_point.role.entries;
        let fitting = offers.iter().filter(|offer| offer.has_any(entries));
        let mut addresses: Vec<Address> = fitting.filter_map(|offer| offer.check().ok()).collect();
        addresses.dedup();
        self.end_point.follow(&addresses);
    }

    /// On a bus others may come, which do not refuse.
    fn check_refusals(&self) -> Result<(), NetError> {
        if self.finder.is_some() || self.end_point.ending {
            return Ok(());
        }
        self.end_point.check_refusals()
    }

    /// Begins subscriptions, at all publishers, also at those that come later.
    pub fn subscribe(&mut self, entries: &[Entry]) {
        let known = &mut self.end_point.role.entries;
        known.extend_from_slice(entries);
        known.sort_unstable_by_key(|entry| (entry.mask, entry.tag));
        known.dedup();
        self.end_point.ask(true, entries);
        if let Some(finder) = &mut self.finder {
            finder.again();
        }
    }

    /// Ends subscriptions.
    pub fn unsubscribe(&mut self, entries: &[Entry]) {
        self.end_point
            .role
            .entries
            .retain(|entry| !entries.contains(entry));
        self.end_point.ask(false, entries);
    }

    /// Works, and waits up to `most` for something to happen; `on` is given every message. Whether anything happened.
    ///
    /// # Errors
    /// The system refuses to wait, or all publishers that were named have refused for good what was asked for.
    pub fn poll(
        &mut self,
        most: Duration,
        mut on: impl FnMut(Delivered<'_>),
    ) -> Result<bool, NetError> {
        self.follow();
        self.check_refusals()?;
        self.end_point.wait_copied(most, &mut on)
    }

    /// The same for a caller that reads messages where they lie, also in the publisher's memory.
    ///
    /// # Errors
    /// The system refuses to wait, or all publishers that were named have refused for good what was asked for.
    pub fn poll_viewed(
        &mut self,
        most: Duration,
        mut on: impl FnMut(Viewed<'_>),
    ) -> Result<bool, NetError> {
        self.follow();
        self.check_refusals()?;
        self.end_point.wait(most, &mut on)
    }

    /// For a caller that waits in a loop of its own: what to wait for, and how long at most, before [`poll`](Self::poll) is called again with no time to wait.
    pub fn doze(&mut self) -> Doze<'_> {
        self.end_point.doze()
    }

    /// Publishers that are connected now.
    #[must_use]
    pub fn publishers(&self) -> usize {
        self.end_point.open_connections()
    }

    /// Publishers that were connected and have ended in order, so that nothing more is to come of them.
    #[must_use]
    pub fn publishers_ended(&self) -> usize {
        self.end_point.ended()
    }

    /// How often a connection was made.
    #[must_use]
    pub fn connections_made(&self) -> u64 {
        self.end_point.made()
    }

    /// Whether all publishers were there and have ended in order; one that comes back is not waited for.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.end_point.has_ended()
    }

    /// Why there is no connection, as far as it is known.
    #[must_use]
    pub fn trouble(&self) -> String {
        if self.finder.is_some() && !self.end_point.has_dials() {
            return "nobody on the bus offers what is subscribed to, as far as it can be read"
                .into();
        }
        self.end_point.trouble()
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

    /// Whether every publisher that is connected has said all that it had to say, and waits for its messages to be confirmed, if for anything.
    #[must_use]
    pub fn has_heard_all(&self) -> bool {
        self.end_point.has_heard_all()
    }

    /// Asks for the end and goes on at once: a caller that [polls](Self::poll) until nobody is connected may then [`finish`](Self::finish) without waiting.
    pub fn begin_end(&mut self) {
        self.end_point.end();
    }

    /// Asks the publishers for the end, waits up to `limit` for what is on its way, and closes the books; ledger and record stay in the run's
    /// directory.
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
