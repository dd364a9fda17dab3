//! One connection: pages out, pages in.

mod pieces;
mod progress;

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use forebay_wire::fabric::Hello;

use crate::config::Config;
use crate::error::{FabricError, Fault};
use crate::provider::{Libfabric, host_and_port};
use crate::sys::{Channel, Completion, Domain, Fabric, Opened, Page, Region, Room, SharedMemory};
use crate::totals::Totals;

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A page: [`Endpoint::bytes`].
    Some,
    /// Nothing now.
    Nothing,
    /// Nothing now and never: the peer has ended its side in order.
    Ended,
}

/// A send of a piece that is done.
#[derive(Debug)]
pub struct Returned {
    /// The piece, as it was given.
    pub piece: Region,
    /// The caller's number.
    pub user: u64,
    /// Whether it was sent; else it is not known whether it arrived.
    pub sent: bool,
}

/// How far the end of this side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Wanted,
    Posted,
    Sent,
}

/// What shares registrations of memory: regions that are registered with it can be sent from all of its end points.
#[derive(Clone)]
pub struct SharedDomain(pub(crate) Arc<Domain>);

impl SharedDomain {
    /// Registers memory to be sent from.
    ///
    /// # Errors
    /// The provider cannot take it, as when the limit of locked memory (`ulimit -l`) is reached.
    pub fn register(&self, memory: Box<[u8]>) -> Result<Region, FabricError> {
        Region::register(&self.0, memory)
    }

    /// Maps memory that others write, and registers it to be sent from. `file` is a memory file that is sealed against shrinking; its pages may be
    /// read-only. What is written there while it is sent arrives as it is found.
    ///
    /// # Errors
    /// It is no such file, or empty; or as [`register`](Self::register).
    pub fn share(&self, file: BorrowedFd<'_>) -> Result<SharedMemory, FabricError> {
        SharedMemory::map(&self.0, file)
    }
}

impl std::fmt::Debug for SharedDomain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedDomain({})", self.0.name)
    }
}

/// A connection over libfabric, or one that is being made. Each send is one page, and comes as one page, in order. Nothing here waits, but for
/// the end: dropped after [`finish`](Self::finish), it sends for up to one second what is left. An error ends the connection.
pub struct Endpoint {
    channel: Channel,
    peer: String,
    config: Config,
    connected: bool,
    page_bytes_peer: usize,
    free_to_send: Vec<Page>,
    to_post: Vec<Page>,
    at_hand: Option<(Page, Range<usize>)>,
    arrived: VecDeque<(Page, usize)>,
    returned: VecDeque<Returned>,
    peer_ended: bool,
    told: bool,
    /// One could not be received: those behind it are not what comes next.
    misses_a_page: bool,
    gone: Option<Fault>,
    broken: Option<&'static str>,
    end: End,
    /// Kept for its memory.
    found: Vec<Completion>,
    idle_looks: u32,
    /// What was refused last was a piece.
    wants_piece: bool,
    totals: Totals,
}

impl Endpoint {
    pub(crate) fn connect(
        libfabric: &Libfabric,
        provider: &str,
        place: &str,
        config: &Config,
    ) -> Result<Self, FabricError> {
        let peer = format!("fabric+{provider}://{place}");
        let found = libfabric.find(provider, config)?;
        let place = host_and_port(place)?;
        let refused = |error| not_connected(&peer, error);
        let info = libfabric.find_at(provider, &found, place, false);
        let info = info.map_err(refused)?;
        let domain = Domain::open(&Fabric::open(&info)?, &info)?;
        let opened = Channel::open(&domain, &info, room(&found.config))?;
        let mut endpoint = Self::new(opened, peer.clone(), found.config)?;
        let hello = endpoint.config.hello().emit();
        let begun = endpoint.channel.connect(&info, &hello);
        begun.map_err(refused)?;
        Ok(endpoint)
    }

    /// Takes over an open channel and posts all of its pages.
    pub(crate) fn new(opened: Opened, peer: String, config: Config) -> Result<Self, FabricError> {
        let mut endpoint = Self {
            channel: opened.channel,
            peer,
            config,
            connected: false,
            page_bytes_peer: config.page_bytes,
            free_to_send: opened.send_pages,
            to_post: opened.receive_pages,
            at_hand: None,
            arrived: VecDeque::new(),
            returned: VecDeque::new(),
            peer_ended: false,
            told: false,
            misses_a_page: false,
            gone: None,
            broken: None,
            end: End::Open,
            found: Vec::new(),
            idle_looks: 0,
            wants_piece: false,
            totals: Totals::default(),
        };
        endpoint.post_receives();
        match endpoint.gone.take() {
            Some(fault) => Err(FabricError::Call {
                call: "fi_recv",
                fault,
            }),
            None => Ok(endpoint),
        }
    }

    pub(crate) fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    pub(crate) fn meet(&mut self, hello: Hello) {
        self.page_bytes_peer = hello.page_bytes as usize;
    }

    /// Sends the parts, one after the other, as one page. Says how many bytes it took: all, or 0 when no page is free, or when the connection is not
    /// yet made, or when it is gone and something that came before is not read. A page without bytes is not sent.
    ///
    /// # Errors
    /// The connection is gone, or could not be made; or the parts are more than a page.
    pub fn send(&mut self, parts: &[&[u8]]) -> Result<usize, FabricError> {
        let bytes = self.measure(parts, 0)?;
        if bytes == 0 || !self.is_ready()? {
            return Ok(0);
        }
        self.wants_piece = false;
        let Some(mut page) = self.free_page()? else {
            return Ok(0);
        };
        gather(self.channel.page_to_send(&mut page), parts);
        match self.channel.post_send(page, bytes) {
            Ok(()) => {
                self.totals.pages_sent += 1;
                self.totals.bytes_sent += bytes as u64;
                Ok(bytes)
            }
            Err(refused) => {
                self.free_to_send.push(refused.back);
                self.no_room(refused.code)
            }
        }
    }

    /// The next piece that is done with.
    pub fn returned(&mut self) -> Option<Returned> {
        self.returned.pop_front()
    }

    /// Looks for what has come; the next page comes only when the one at hand is used up. Without room in pages of this side, the peer waits.
    ///
    /// # Errors
    /// The connection is gone, or could not be made. All pages that arrived come before it.
    pub fn receive(&mut self) -> Result<Received, FabricError> {
        if self.at_hand.is_some() || self.arrived.is_empty() {
            self.look();
        }
        if self.at_hand.is_some() {
            return Ok(Received::Nothing);
        }
        if let Some((page, bytes)) = self.arrived.pop_front() {
            self.at_hand = Some((page, 0..bytes));
            return Ok(Received::Some);
        }
        if self.peer_ended && self.broken.is_none() {
            self.told = true;
            return Ok(Received::Ended);
        }
        self.alive()?;
        Ok(Received::Nothing)
    }

    /// What was received and not used, of the page at hand.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.at_hand {
            Some((page, range)) => &self.channel.received(page)[range.clone()],
            None => &[],
        }
    }

    /// The first so many of [`bytes`](Self::bytes) are done with; after the last one the page goes back to the provider.
    pub fn used(&mut self, count: usize) {
        if let Some((page, mut range)) = self.at_hand.take() {
            range.start += count.min(range.len());
            if range.is_empty() {
                self.to_post.push(page);
                self.post_receives();
            } else {
                self.at_hand = Some((page, range));
            }
        }
    }

    /// Nothing more is sent: the peer finds the end when it has read all.
    pub fn finish(&mut self) {
        if self.end == End::Open {
            self.end = End::Wanted;
        }
        self.look();
    }

    /// Whether all that was sent, the end included, is out of this side's hands, so that it can be dropped without waiting.
    pub fn is_drained(&mut self) -> bool {
        self.look();
        self.end == End::Sent && self.channel.sends_under_way() == 0
    }

    /// Before a sleep: false when there is something, or, with `for_room`, when there is room to send; then do not sleep. An end point that
    /// [must be polled](Self::must_be_polled) has nothing to wake a sleeper.
    ///
    /// # Errors
    /// The connection is gone, or could not be made.
    pub fn arm(&mut self, for_room: bool) -> Result<bool, FabricError> {
        self.look_at_all();
        let page = self.at_hand.is_none() && !self.arrived.is_empty();
        let end = self.peer_ended && !self.told && self.at_hand.is_none();
        if page || end || !self.returned.is_empty() {
            return Ok(false);
        }
        if !self.told {
            self.alive()?;
        }
        let has_room = if self.wants_piece {
            self.channel.has_context()
        } else {
            !self.free_to_send.is_empty()
        };
        if for_room && self.connected && self.gone.is_none() && has_room {
            return Ok(false);
        }
        Ok(self.gone.is_some() || self.must_be_polled() || self.channel.may_sleep())
    }

    /// What to wait for, until readable.
    #[must_use]
    pub fn fds(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [self.channel.fd(), self.channel.events_fd()]
    }

    /// Whether nothing wakes a sleeper when data come, so that it has to look again by itself.
    #[must_use]
    pub fn must_be_polled(&self) -> bool {
        self.channel.fd().is_none()
    }

    /// Whether the connection is made.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// The other end, for people.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Most bytes that one send takes; while the connection is being made, by this side's pages alone.
    #[must_use]
    pub fn page_bytes_max(&self) -> usize {
        self.config.page_bytes.min(self.page_bytes_peer)
    }

    /// The settings, as far as the provider takes them.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What to register regions with that are sent from here.
    #[must_use]
    pub fn domain(&self) -> SharedDomain {
        SharedDomain(Arc::clone(&self.channel.domain))
    }

    /// What was counted.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            pages_under_way: self.channel.sends_under_way() as u64,
            ..self.totals
        }
    }

    /// Pages that were sent and of which it is not known whether they arrived: those that failed, and those that are under way.
    #[must_use]
    pub fn unconfirmed_pages(&self) -> u64 {
        self.totals().unconfirmed_pages()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.drain();
        if self.connected {
            self.channel.shut_down();
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("peer", &self.peer)
            .field("connected", &self.connected)
            .field("totals", &self.totals())
            .finish_non_exhaustive()
    }
}

pub(crate) fn room(config: &Config) -> Room {
    Room {
        page_bytes: config.page_bytes,
        receive_pages: config.receive_pages,
        send_pages: config.send_pages,
        region_sends: config.region_sends,
    }
}

fn gather(page: &mut [u8], parts: &[&[u8]]) {
    let mut at = 0;
    for part in parts {
        page[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

fn not_connected(peer: &str, error: FabricError) -> FabricError {
    match error {
        FabricError::Call { fault, .. } => FabricError::Connect {
            address: peer.into(),
            fault,
        },
        other => other,
    }
}
