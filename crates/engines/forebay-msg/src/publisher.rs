//! Which subscriber gets which tag.

use std::collections::BTreeSet;

use forebay_wire::net::{Entry, Refusal, Slow};

use crate::config::Config;
use crate::outbound::{Memory, Outbound, Pushed};
use crate::routes::Routes;
use forebay_settings::OutOfRange;

/// A subscriber's connection. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(u64);

/// What became of a message, over all its subscribers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Subscribers that its tag has; 0 also where nothing was done.
    pub wanted: u32,
    /// Subscribers in whose buffers it is.
    pub taken: u32,
    /// Subscribers that were too slow for it.
    pub dropped: u32,
    /// A subscriber of the policy `Block` has no room: nothing was done; come again when credit came.
    pub wait: bool,
    /// A subscriber has no room, as far as credit was read, and it was only to be published if all have: nothing was done.
    pub short: bool,
    /// It is longer than our own buffers: nothing was done. One that only some subscribers' buffers do not take is dropped for those.
    pub too_long: bool,
    /// A buffer of one of them became full, and is to go out.
    pub filled: bool,
}

/// What is to happen when a subscriber has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Short {
    /// Nothing: the caller looks whether there is credit.
    Ask,
    /// What its policy says.
    Decide,
}

#[derive(Debug)]
struct Peer<M> {
    id: PeerId,
    outbound: Outbound<M>,
    asked: Asked,
}

/// Single tags that a subscriber may ask for: one for each E-link of a large system, many times over.
pub const TAGS_MAX: usize = 1 << 20;
/// Patterns that a subscriber may ask for: each of them is looked at when a tag is routed.
pub const PATTERNS_MAX: usize = 1024;

/// The subscriptions of a peer: single tags, and the others, mask first.
#[derive(Debug, Default)]
struct Asked {
    tags: BTreeSet<u64>,
    patterns: BTreeSet<(u64, u64)>,
}

impl Asked {
    /// All of them, or none when there are too many: those that were not there.
    fn begin(&mut self, entries: impl IntoIterator<Item = Entry>) -> Result<Vec<Entry>, Refusal> {
        let mut begun = Vec::new();
        for entry in entries {
            let is_new = if entry.mask == u64::MAX {
                self.tags.insert(entry.tag)
            } else {
                self.patterns.insert((entry.mask, entry.tag))
            };
            if is_new {
                begun.push(entry);
            }
            if self.tags.len() > TAGS_MAX || self.patterns.len() > PATTERNS_MAX {
                self.end(begun);
                return Err(Refusal::TooMany);
            }
        }
        Ok(begun)
    }

    /// Those that were there.
    fn end(&mut self, entries: impl IntoIterator<Item = Entry>) -> Vec<Entry> {
        let mut ended = Vec::new();
        for entry in entries {
            let was_there = if entry.mask == u64::MAX {
                self.tags.remove(&entry.tag)
            } else {
                self.patterns.remove(&(entry.mask, entry.tag))
            };
            if was_there {
                ended.push(entry);
            }
        }
        ended
    }

    fn len(&self) -> usize {
        self.tags.len() + self.patterns.len()
    }

    fn matches(&self, tag: u64) -> bool {
        let mut patterns = self.patterns.iter();
        self.tags.contains(&tag) || patterns.any(|&(mask, of)| Entry { tag: of, mask }.matches(tag))
    }
}

/// Sends each message to the subscribers of its tag. What one of them costs is counted at its own connection, and no other one feels it,
/// but for the policy `Block`, which holds up all.
///
/// The subscribers of a tag are looked up once and remembered until a subscription of that tag, or of a pattern, changes, so that the cost of a message does
/// not grow with the number of tags or subscriptions.
#[derive(Debug)]
pub struct Publisher<M = Box<[u8]>> {
    config: Config,
    peers: Vec<Peer<M>>,
    next_id: u64,
    /// Places in `peers` by tag, for the subscriptions as they are.
    routes: Routes,
    unheard: [u64; 2],
}

impl Publisher {
    /// A subscriber has connected: `epoch` is its connection's, the buffers are those agreed with it.
    ///
    /// # Errors
    /// A setting outside its range.
    pub fn add(
        &mut self,
        epoch: u64,
        slow: Slow,
        buffer_bytes: u32,
        buffer_count: u32,
    ) -> Result<PeerId, OutOfRange> {
        let own = |bytes| vec![0; bytes].into();
        self.add_in_memory(epoch, slow, [buffer_bytes, buffer_count], own)
    }
}

impl<M: Memory> Publisher<M> {
    /// A publisher without subscribers; `config` holds for each of its connections, but for the policy, which is the subscriber's own.
    ///
    /// # Errors
    /// A setting outside its range.
    pub fn new(config: &Config) -> Result<Self, OutOfRange> {
        config.validate()?;
        Ok(Self {
            config: *config,
            peers: Vec::new(),
            next_id: 0,
            routes: Routes::new(),
            unheard: [0; 2],
        })
    }

    /// A subscriber has connected, as [`add`](Publisher::add) says, and its buffers, which are so long and so many, are in memory that `memory` gives.
    ///
    /// # Errors
    /// A setting outside its range.
    pub fn add_in_memory(
        &mut self,
        epoch: u64,
        slow: Slow,
        [buffer_bytes, buffer_count]: [u32; 2],
        memory: impl FnMut(usize) -> M,
    ) -> Result<PeerId, OutOfRange> {
        let config = Config {
            slow,
            buffer_bytes,
            buffer_count,
            ..self.config
        };
        let id = PeerId(self.next_id);
        self.next_id += 1;
        self.peers.push(Peer {
            id,
            outbound: Outbound::in_memory(&config, epoch, memory)?,
            asked: Asked::default(),
        });
        Ok(id)
    }

    /// A connection is gone: gives its sending end, whose books are to be closed.
    pub fn remove(&mut self, id: PeerId) -> Option<Outbound<M>> {
        let at = self.place(id)?;
        let gone = self.peers.remove(at);
        // Those that came later move up.
        if at < self.peers.len() || gone.asked.len() > 0 {
            self.routes.clear();
        }
        Some(gone.outbound)
    }

    /// Begins subscriptions; one that is there is not begun twice.
    ///
    /// # Errors
    /// `Ending`: there is no such peer. `TooMany`: it would have more than [`TAGS_MAX`] or [`PATTERNS_MAX`]; then none of these begins.
    pub fn subscribe(
        &mut self,
        id: PeerId,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), Refusal> {
        let peer = self.find(id).ok_or(Refusal::Ending)?;
        let begun = peer.asked.begin(entries)?;
        self.forget(&begun);
        Ok(())
    }

    /// Ends subscriptions. False when there is no such peer.
    pub fn unsubscribe(&mut self, id: PeerId, entries: impl IntoIterator<Item = Entry>) -> bool {
        let Some(peer) = self.find(id) else {
            return false;
        };
        let ended = peer.asked.end(entries);
        self.forget(&ended);
        true
    }

    /// Ends all subscriptions of a peer. False when there is no such peer.
    pub fn unsubscribe_all(&mut self, id: PeerId) -> bool {
        let Some(peer) = self.find(id) else {
            return false;
        };
        let asked = std::mem::take(&mut peer.asked);
        if asked.len() > 0 {
            self.routes.clear();
        }
        true
    }

    /// Routes that have changed with these subscriptions are looked up anew: that of a single tag, or all.
    fn forget(&mut self, changed: &[Entry]) {
        if changed.iter().any(|entry| entry.mask != u64::MAX) {
            self.routes.clear();
            return;
        }
        for entry in changed {
            self.routes.forget(entry.tag);
        }
    }

    fn find(&mut self, id: PeerId) -> Option<&mut Peer<M>> {
        let at = self.place(id)?;
        Some(&mut self.peers[at])
    }

    /// Numbers only grow, and so the peers are in order.
    fn place(&self, id: PeerId) -> Option<usize> {
        self.peers.binary_search_by_key(&id, |peer| peer.id).ok()
    }

    /// Subscriptions of a peer.
    #[must_use]
    pub fn subscriptions(&self, id: PeerId) -> usize {
        let peer = self.place(id).map(|at| &self.peers[at]);
        peer.map_or(0, |peer| peer.asked.len())
    }

    /// Sends a message to all subscribers of its tag; what one costs that has no room is decided by its policy.
    #[inline]
    pub fn publish(&mut self, now_ns: u64, tag: u64, status: u8, payload: &[u8]) -> Published {
        self.publish_with(now_ns, tag, status, payload.len(), |place| {
            place.copy_from_slice(payload);
        })
    }

    /// The same for a payload of so many bytes that `write` copies to where it goes out from, once for each subscriber that takes it.
    #[inline]
    pub fn publish_with(
        &mut self,
        now_ns: u64,
        tag: u64,
        status: u8,
        bytes: usize,
        write: impl Fn(&mut [u8]),
    ) -> Published {
        self.publish_or(Short::Decide, now_ns, tag, status, bytes, write)
    }

    /// The same only if all of them have room: a chance to read what they have given back before a policy decides.
    #[inline]
    pub fn publish_if_room(
        &mut self,
        now_ns: u64,
        tag: u64,
        status: u8,
        bytes: usize,
        write: impl Fn(&mut [u8]),
    ) -> Published {
        self.publish_or(Short::Ask, now_ns, tag, status, bytes, write)
    }

    #[inline]
    fn publish_or(
        &mut self,
        short: Short,
        now_ns: u64,
        tag: u64,
        status: u8,
        bytes: usize,
        write: impl Fn(&mut [u8]),
    ) -> Published {
        self.publish_each(
            (short, now_ns, tag, bytes),
            |outbound| outbound.has_room(tag, status, bytes),
            |outbound| outbound.push_with(now_ns, tag, status, bytes, &write),
        )
    }

    /// The same for a payload that stays where its owner has it: see [`Outbound::push_lent`]. Each of those that [took](Published::taken) it returns the token.
    #[inline]
    pub fn publish_lent(
        &mut self,
        now_ns: u64,
        tag: u64,
        status: u8,
        payload_bytes: usize,
        token: u64,
    ) -> Published {
        self.publish_each(
            (Short::Decide, now_ns, tag, payload_bytes),
            Outbound::has_free_buffer,
            |outbound| outbound.push_lent(now_ns, tag, status, payload_bytes, token),
        )
    }

    /// Whether a message that needs a buffer for itself has one at all subscribers of its tag.
    pub fn has_free_buffers(&mut self, tag: u64) -> bool {
        let Self { peers, routes, .. } = self;
        let route = routes.places(tag, || subscribed(peers, tag));
        let mut ends = route.iter().map(|at| &peers[*at].outbound);
        ends.all(Outbound::has_free_buffer)
    }

    #[inline]
    fn publish_each(
        &mut self,
        (short, now_ns, tag, bytes): (Short, u64, u64, usize),
        has_room: impl Fn(&Outbound<M>) -> bool,
        push: impl Fn(&mut Outbound<M>) -> Pushed,
    ) -> Published {
        let Self {
            peers,
            routes,
            unheard,
            config,
            ..
        } = self;
        if bytes > config.buffer_bytes as usize {
            return Published {
                too_long: true,
                ..Published::default()
            };
        }
        let route = routes.places(tag, || subscribed(peers, tag));
        let mut published = Published::default();
        if route.is_empty() {
            unheard[0] += 1;
            unheard[1] += bytes as u64;
            return published;
        }
        // Nothing may have happened when the caller is to come again.
        for at in route {
            let outbound = &mut peers[*at].outbound;
            if bytes > outbound.buffer_bytes() as usize || has_room(outbound) {
                continue;
            }
            match short {
                Short::Ask => published.short = true,
                Short::Decide => published.wait |= outbound.would_wait(now_ns),
            }
        }
        if published.wait || published.short {
            return published;
        }
        published.wanted = route.len() as u32;
        for at in route {
            let outbound = &mut peers[*at].outbound;
            let before = outbound.filled();
            let pushed = push(outbound);
            published.filled |= outbound.filled() != before;
            match pushed {
                Pushed::Taken => published.taken += 1,
                Pushed::Dropped | Pushed::GivenUp => published.dropped += 1,
                Pushed::TooLong => {
                    outbound.drop_too_long(bytes);
                    published.dropped += 1;
                }
                // It was asked about just before.
                Pushed::Wait => {}
            }
        }
        published
    }

    /// Messages and bytes of tags that nobody had subscribed to.
    #[must_use]
    pub fn unheard(&self) -> [u64; 2] {
        self.unheard
    }

    /// The sending end of a connection.
    pub fn peer(&mut self, id: PeerId) -> Option<&mut Outbound<M>> {
        self.find(id).map(|peer| &mut peer.outbound)
    }

    /// All connections.
    pub fn peers(&mut self) -> impl Iterator<Item = (PeerId, &mut Outbound<M>)> {
        self.peers
            .iter_mut()
            .map(|peer| (peer.id, &mut peer.outbound))
    }

    /// Closes buffers whose time has come.
    pub fn handle_time(&mut self, now_ns: u64) {
        for peer in &mut self.peers {
            peer.outbound.handle_time(now_ns);
        }
    }

    /// When the next buffer is to go out at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        self.peers
            .iter()
            .filter_map(|peer| peer.outbound.poll_timeout())
            .min()
    }
}

#[cold]
fn subscribed<M>(peers: &[Peer<M>], tag: u64) -> Box<[usize]> {
    let subscribed = peers
        .iter()
        .enumerate()
        .filter(|(_, peer)| peer.asked.matches(tag));
    subscribed.map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    /// What a subscriber says costs the others no more than it changes.
    #[test]
    fn only_what_changes_is_looked_up_anew() {
        let config = Config {
            buffer_bytes: 100,
            buffer_count: 2,
            ..Config::default()
        };
        let mut publisher: Publisher = Publisher::new(&config).unwrap();
        let one = publisher.add(1, Slow::DropOldest, 100, 2).unwrap();
        let other = publisher.add(2, Slow::DropOldest, 100, 2).unwrap();
        let pattern = |tag| Entry { tag, mask: 0xffff };
        let all = [0, 1, 2, 3].map(Entry::one);
        publisher.subscribe(one, all).unwrap();
        publisher.subscribe(other, [pattern(9)]).unwrap();
        let publish = |publisher: &mut Publisher| {
            let sent = (0..10).map(|tag| publisher.publish(0, tag, 0, b"x").taken);
            sent.collect::<Vec<_>>()
        };
        assert_eq!(publish(&mut publisher), [1, 1, 1, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(publisher.routes.known(), 10);
        // Nothing changes.
        publisher.subscribe(one, all).unwrap();
        publisher.subscribe(other, [pattern(9)]).unwrap();
        let too_many = (0..=PATTERNS_MAX as u64).map(pattern);
        let refused = publisher.subscribe(one, too_many);
        assert_eq!(refused, Err(Refusal::TooMany));
        assert!(publisher.unsubscribe(one, [pattern(9), Entry::one(7)]));
        let late = publisher.add(3, Slow::DropOldest, 100, 2).unwrap();
        assert!(publisher.unsubscribe_all(late));
        assert!(publisher.remove(late).is_some());
        assert_eq!(publisher.subscribe(late, all), Err(Refusal::Ending));
        assert!(!publisher.unsubscribe(late, all) && !publisher.unsubscribe_all(late));
        assert_eq!(publisher.routes.known(), 10);
        // Two tags change, and one of them twice.
        publisher.subscribe(other, [1, 4].map(Entry::one)).unwrap();
        assert!(publisher.unsubscribe(other, [Entry::one(1)]));
        assert_eq!(publisher.routes.known(), 8);
        assert_eq!(publish(&mut publisher), [1, 1, 1, 1, 1, 0, 0, 0, 0, 1]);
        assert_eq!(publish(&mut publisher), [1, 1, 1, 1, 1, 0, 0, 0, 0, 1]);
        assert_eq!(publisher.routes.known(), 10);
        // A pattern may be of any tag, and a place of any route.
        publisher.subscribe(one, [pattern(9)]).unwrap();
        assert_eq!(publisher.routes.known(), 0);
        assert_eq!(publish(&mut publisher), [1, 1, 1, 1, 1, 0, 0, 0, 0, 2]);
        assert!(publisher.remove(one).is_some());
        assert_eq!(publisher.routes.known(), 0);
        assert_eq!(publish(&mut publisher), [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
        assert!(publisher.unsubscribe_all(other));
        assert_eq!(publish(&mut publisher), [0; 10]);
    }
}
