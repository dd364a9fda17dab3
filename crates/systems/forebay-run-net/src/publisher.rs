//! Sends each message to the subscribers of its tag.

use std::ops::Range;
use std::time::Duration;

use forebay_link::bytes::{Address, Piece};
use forebay_msg::session::Agreed;
use forebay_msg::{Entry, OutOfRange, PeerId as EngineId, Published, Refusal, Role as Wants};
use forebay_run::Urgency;
use forebay_sys::clock;

use crate::buffers::{Buffers, Outbound};
use crate::end_point::{Doze, EndPoint, Role};
use crate::error::NetError;
use crate::lends::{Memory, MemoryId};
use crate::settings::Settings;
use crate::summary::NetRecord;

/// Messages between two looks at the clock.
const CLOCK_EVERY: u32 = 32;
/// One wait for a subscriber that holds up all.
const ROOM_WAIT: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Publishing {
    engine: forebay_msg::Publisher<Piece>,
    /// The engine's numbers of connections, in the order of ours.
    peers: Vec<(u64, EngineId)>,
    /// Messages and bytes that nobody wanted, as far as they are in the books.
    unheard: [u64; 2],
}

impl Publishing {
    /// Messages and bytes that the engine has found wanted by nobody since this was last asked.
    fn newly_unheard(&mut self) -> [u64; 2] {
        let now = self.engine.unheard();
        let before = std::mem::replace(&mut self.unheard, now);
        [now[0] - before[0], now[1] - before[1]]
    }

    fn engine_id(&self, id: u64) -> Option<EngineId> {
        let at = self.place(id).ok()?;
        Some(self.peers[at].1)
    }

    fn place(&self, id: u64) -> Result<usize, usize> {
        self.peers.binary_search_by_key(&id, |(of, _)| *of)
    }
}

impl Role for Publishing {
    const NAME: &'static str = "publisher";
    const WANTS: Wants = Wants::Subscriber;

    fn opened(&mut self, id: u64, agreed: &Agreed, mut buffers: Buffers) -> Result<(), OutOfRange> {
        let shape = [agreed.buffer_bytes, agreed.buffer_count];
        let memory = |bytes| buffers.next(bytes);
        let engine = &mut self.engine;
        let added = engine.add_in_memory(agreed.epoch, agreed.slow, shape, memory)?;
        // One that came later may be the first to say what it is.
        let (Ok(at) | Err(at)) = self.place(id);
        self.peers.insert(at, (id, added));
        Ok(())
    }

    fn outbound(&mut self, id: u64) -> Option<&mut Outbound> {
        let id = self.engine_id(id)?;
        self.engine.peer(id)
    }

    fn left(&mut self, id: u64) {
        if let Some(id) = self.engine_id(id) {
            self.engine.unsubscribe_all(id);
        }
    }

    fn lets_go(&mut self, id: u64) -> bool {
        self.left(id);
        true
    }

    fn gone(&mut self, id: u64) -> Option<Outbound> {
        let engine_id = self.engine_id(id)?;
        self.peers.retain(|(of, _)| *of != id);
        self.engine.remove(engine_id)
    }

    fn subscribe(&mut self, id: u64, begin: bool, entries: Vec<Entry>) -> Option<Refusal> {
        let Some(id) = self.engine_id(id) else {
            return Some(Refusal::Ending);
        };
        if begin {
            return self.engine.subscribe(id, entries).err();
        }
        self.engine.unsubscribe(id, entries);
        None
    }

    fn handle_time(&mut self, now_ns: u64) {
        self.engine.handle_time(now_ns);
    }

    fn poll_timeout(&self) -> Option<u64> {
        self.engine.poll_timeout()
    }
}

/// Sends each message to the subscribers of its tag, which connect to it.
#[derive(Debug)]
pub struct Publisher {
    end_point: EndPoint<Publishing>,
    since_clock: u32,
}

impl Publisher {
    /// Listens.
    ///
    /// # Errors
    /// The address is in use, a setting out of range, or the run's directory not to be written.
    pub fn listen(address: &Address, settings: &Settings) -> Result<Self, NetError> {
        let role = Publishing {
            engine: forebay_msg::Publisher::new(&settings.messages)?,
            peers: Vec::new(),
            unheard: [0; 2],
        };
        Ok(Self {
            end_point: EndPoint::listen(role, address, settings)?,
            since_clock: 0,
        })
    }

    /// Where it really listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<Address, NetError> {
        self.end_point.address()
    }

    /// Sends a message to all subscribers of its tag: how many there were. One of the policy `Block` that has no room is waited for, as long as
    /// the settings' `block_ns` allows.
    ///
    /// # Errors
    /// It is longer than the publisher's own buffers, or the system refuses to wait. Where it is longer than a subscriber's, it is dropped for that one alone.
    #[inline]
    pub fn publish(&mut self, tag: u64, status: u8, payload: &[u8]) -> Result<u32, NetError> {
        loop {
            if let Some(copies) = self.try_publish(tag, status, payload)? {
                return Ok(copies);
            }
            self.wait_for_room()?;
        }
    }

    /// The same without waiting: none when a subscriber of the policy `Block` has no room; then nobody got it, and nothing was counted. A caller that
    /// [polls](Self::poll) before it tries again is held up by such a subscriber no longer than the settings' `block_ns` allows.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    #[inline]
    pub fn try_publish(
        &mut self,
        tag: u64,
        status: u8,
        payload: &[u8],
    ) -> Result<Option<u32>, NetError> {
        self.try_publish_with(tag, status, payload.len(), |place| {
            place.copy_from_slice(payload);
        })
    }

    /// The same for a payload of so many bytes that lies where only `write` can read it: it fills the place that it is given, once for each subscriber.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    #[inline]
    pub fn try_publish_with(
        &mut self,
        tag: u64,
        status: u8,
        bytes: usize,
        write: impl Fn(&mut [u8]),
    ) -> Result<Option<u32>, NetError> {
        self.look_at_clock();
        let end_point = &mut self.end_point;
        let engine = &mut end_point.role.engine;
        if let Some((_, outbound)) = engine.peers().next()
            && end_point.books.vanishes(outbound, tag, bytes)
        {
            end_point.books.handed_in(1, bytes as u64);
            return Ok(Some(1));
        }
        let now_ns = end_point.now_ns;
        let mut published = engine.publish_if_room(now_ns, tag, status, bytes, &write);
        if published.short {
            end_point.look_for_credit(|end_point| {
                let engine = &mut end_point.role.engine;
                let now_ns = end_point.now_ns;
                published = engine.publish_if_room(now_ns, tag, status, bytes, &write);
                published.short
            })?;
        }
        if published.short {
            let engine = &mut end_point.role.engine;
            published = engine.publish_with(end_point.now_ns, tag, status, bytes, &write);
        }
        self.account(tag, &published, bytes)
    }

    /// The same for a message that consists of ranges of [registered](Self::register) memory, at most four, and is not copied. The ranges cannot be
    /// written until `token` comes out of [`returned`](Self::returned): when all subscribers are through with the message.
    ///
    /// # Errors
    /// As [`publish`](Self::publish); or it has too many parts, or the memory does not have them.
    pub fn publish_lent(
        &mut self,
        tag: u64,
        status: u8,
        memory: MemoryId,
        parts: &[Range<usize>],
        token: u64,
    ) -> Result<u32, NetError> {
        loop {
            if let Some(copies) = self.try_publish_lent(tag, status, memory, parts, token)? {
                return Ok(copies);
            }
            self.wait_for_room()?;
        }
    }

    /// The same without waiting, as [`try_publish`](Self::try_publish): none when a subscriber of the policy `Block` has no room. A message that nobody took gives its
    /// token back at once.
    ///
    /// # Errors
    /// As [`publish_lent`](Self::publish_lent).
    pub fn try_publish_lent(
        &mut self,
        tag: u64,
        status: u8,
        memory: MemoryId,
        parts: &[Range<usize>],
        token: u64,
    ) -> Result<Option<u32>, NetError> {
        self.look_at_clock();
        let end_point = &mut self.end_point;
        if !end_point.role.engine.has_free_buffers(tag) {
            end_point.look_for_credit(|end_point| !end_point.role.engine.has_free_buffers(tag))?;
        }
        let (number, bytes) = end_point.lends.begin(memory, parts, token)?;
        let engine = &mut end_point.role.engine;
        let published = engine.publish_lent(end_point.now_ns, tag, status, bytes, number);
        end_point.lends.shared(number, published.taken);
        let copies = self.account(tag, &published, bytes)?;
        if copies.is_some() && published.taken == 0 {
            self.end_point.lends.unused(token);
        }
        Ok(copies)
    }

    /// Takes memory into its keeping, from which messages can go out without being copied. It lives as long as the publisher.
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

    /// The next message whose memory is free again, by its token.
    pub fn returned(&mut self) -> Option<u64> {
        self.end_point.lends.done()
    }

    #[inline]
    fn look_at_clock(&mut self) {
        self.since_clock += 1;
        if self.since_clock >= CLOCK_EVERY {
            self.since_clock = 0;
            self.end_point.now_ns = clock::monotonic_ns();
        }
    }

    #[cold]
    fn wait_for_room(&mut self) -> Result<(), NetError> {
        if self.end_point.urgency() > Urgency::Go {
            return Err(NetError::Stopped);
        }
        self.end_point.wait(ROOM_WAIT, &mut |_| {}).map(drop)
    }

    /// Counts what became of a message; none when it has to be published again.
    fn account(
        &mut self,
        tag: u64,
        published: &Published,
        bytes: usize,
    ) -> Result<Option<u32>, NetError> {
        let end_point = &mut self.end_point;
        if published.too_long {
            return Err(NetError::TooLong {
                bytes,
                most: end_point.settings.messages.buffer_bytes,
            });
        }
        if published.wait {
            return Ok(None);
        }
        end_point
            .books
            .handed_in(published.wanted.max(1).into(), bytes as u64);
        let unheard = end_point.role.newly_unheard();
        end_point.books.unheard(unheard);
        if published.wanted == 0 {
            return Ok(Some(0));
        }
        let copies = published.taken + published.dropped;
        end_point.books.copied(tag, copies.into(), bytes as u64);
        if published.filled {
            end_point.pump();
        }
        Ok(Some(copies))
    }

    /// Lets everything go out that is in buffers.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn flush(&mut self) -> Result<(), NetError> {
        let peers = self.end_point.role.engine.peers();
        peers.for_each(|(_, outbound)| outbound.flush());
        self.end_point.turn(&mut |_| {}).map(drop)
    }

    /// Works, and waits up to `most` for something to happen; whether anything did.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn poll(&mut self, most: Duration) -> Result<bool, NetError> {
        self.end_point.wait(most, &mut |_| {})
    }

    /// For a caller that waits in a loop of its own: what to wait for, and how long at most, before [`poll`](Self::poll) is called again with no time to wait.
    pub fn doze(&mut self) -> Doze<'_> {
        self.end_point.doze()
    }

    /// Subscribers that are connected now.
    #[must_use]
    pub fn subscribers(&self) -> usize {
        self.end_point.open_connections()
    }

    /// Subscribers that have subscribed to something.
    #[must_use]
    pub fn ready_subscribers(&self) -> usize {
        let role = &self.end_point.role;
        let peers = role.peers.iter();
        peers
            .filter(|(_, peer)| role.engine.subscriptions(*peer) > 0)
            .count()
    }

    /// Subscriptions of all of them.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        let role = &self.end_point.role;
        let each = role
            .peers
            .iter()
            .map(|(_, peer)| role.engine.subscriptions(*peer));
        each.sum()
    }

    /// How many have been connected.
    #[must_use]
    pub fn connections_made(&self) -> u64 {
        self.end_point.made()
    }

    /// Asks for the end and goes on at once: a caller that [polls](Self::poll) until nobody is connected may then [`finish`](Self::finish) without waiting.
    pub fn begin_end(&mut self) {
        self.end_point.end();
    }

    /// Sends what is held, says so, waits up to `limit` for the subscribers' totals, and closes the books; ledger and record stay in the run's
    /// directory.
    ///
    /// # Errors
    /// The system refuses to wait, or the books cannot be written.
    pub fn finish(mut self, limit: Duration) -> Result<NetRecord, NetError> {
        self.end_point.finish(limit, &mut |_| {})
    }
}

#[cfg(test)]
mod tests {
    use forebay_msg::Slow;

    use super::*;

    #[test]
    fn who_came_later_may_be_the_first_to_subscribe() {
        let engine = forebay_msg::Publisher::new(&forebay_msg::Config::default()).unwrap();
        let mut role = Publishing {
            engine,
            peers: Vec::new(),
            unheard: [0; 2],
        };
        let agreed = Agreed {
            role: Wants::Subscriber,
            slow: Slow::Block,
            epoch: 1,
            identity: 1,
            buffer_bytes: 4096,
            buffer_count: 4,
            sends: true,
            receives: false,
        };
        let all = vec![Entry { tag: 0, mask: 0 }];
        for id in [7, 9, 3, 8] {
            role.opened(id, &agreed, Buffers::default()).unwrap();
            assert_eq!(role.subscribe(id, true, all.clone()), None, "{id}");
        }
        for id in [3, 7, 8, 9] {
            assert!(role.outbound(id).is_some(), "{id}");
            assert!(role.gone(id).is_some(), "{id}");
            assert!(role.gone(id).is_none(), "{id}");
        }
    }
}
