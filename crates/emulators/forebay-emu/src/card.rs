//! An emulated FELIX card: triggers, front ends, links and the blocks that come out of them.
//!
//! [`Card`] is a sans-IO engine as the soft readouts are: it is told the time and writes blocks into whatever implements [`Dma`]. What is in the blocks of an E-link follows
//! from the [`CardConfig`] alone, as long as the DMA buffers have room; how E-links take turns follows from the times that it is told too.
//!
//! ```text
//! TTC ─▶ front end ─▶ link ─▶ queue behind it ─▶ open block ─▶ DMA buffer
//!  ▲       │ queue             │ bytes            full, or its time │ free blocks
//!  │       │     ▲──── XOFF ───┘                  is over           │
//!  └─ BUSY ┴────────────────────────────────────────────────────────┘
//! ```
//!
//! - For each trigger each E-link's front end makes one chunk ([`Generated`](forebay_wire::felix::Generated)), which the link sends at its speed ([`Speed`]). A queue in front
//!   of a link that is full raises BUSY, and triggers are held back until it is down to a lower mark.
//! - A DMA buffer with too few free blocks raises BUSY too, if it is asked to, until it has more again: before anything has to wait behind a link.
//! - A chunk comes out of the link whole, when its last symbol does. Blocks are filled at once and go out at once; only a DMA buffer without room makes chunks
//!   wait behind the link. That queue tells its front end to stop, and what does not fit is cut off or dropped.
//! - What goes wrong ([`CardFault`]) follows from the seed too, is counted by name, and what it costs is in the books ([`CardLoss`]).
//! - In the other direction packets come ([`Card::handle_packet`]), whose messages the front ends forget, or send back as chunks of the same E-link.
//! - Room in a DMA buffer is looked for when the card is told the time; so be it often.
//!
//! ```
//! use forebay_emu::card::{Card, CardConfig, Memory};
//!
//! let mut config = CardConfig::full_mode(12, 1e6, 1024); // more than a link can carry
//! config.ttc.limit.duration_ns = Some(10_000_000);
//! let mut card = Card::new(&config)?;
//! let mut dma = Memory::new(&config, 1024);
//! let mut now_ns = 0; // any clock, also a slow one
//! while !card.is_finished() {
//!     while !card.handle_time(now_ns, &mut dma) {}
//!     dma.take(0, |block| assert_eq!(block.len(), 4096)); // read them
//!     now_ns = card.poll_timeout().unwrap_or(now_ns).max(now_ns + 10_000);
//! }
//! let account = card.account();
//! assert_eq!(account.residual(), [0; 3]);
//! assert_eq!(account.chunks.in_dma.items, 12 * account.triggers.accepted);
//! assert!(account.triggers.held_by_link > 0);
//! # Ok::<(), forebay_emu::card::CardConfigError>(())
//! ```

mod account;
mod block;
pub mod board;
mod config;
mod dma_marks;
mod fault;
mod fifo;
mod from_host;
mod link;
mod loop_back;
mod memory;
mod payload;
mod sampled;
mod sizes;
mod triggers;
mod ttc;

use std::num::NonZeroU64;

use forebay_wire::felix::Elink;

pub use account::{CardAccount, CardLoss, ChunkBooks, ElinkAccount, TriggerBooks};
pub use block::Blocks;
pub use config::{
    CARD_ELINKS, CHUNK_BYTES, CardConfig, CardConfigError, DMA_BUFFERS, ElinkConfig, FULL_WORDS_HZ,
    FrontEnd, LinkFifo, Speed,
};
pub use fault::{CardFault, CardFaultKind, CardFaultRule, CardFaults};
pub use fifo::FifoBooks;
pub use from_host::{FromHostBooks, FromHostDrop};
pub use memory::Memory;
pub use sampled::SAMPLED_MOST;
pub use sizes::ChunkSizes;
pub use ttc::{BUNCH_HZ, ORBIT_BUNCHES, Spread, Trains, TtcConfig};

use self::block::Builder;
use self::dma_marks::DmaMarks;
use self::fault::LinkFaults;
use self::fifo::Fifo;
use self::from_host::FromHost;
use self::link::Link;
use self::loop_back::{LoopBack, Messages};
use self::payload::Payload;
use self::sampled::Sampled;
use self::sizes::Sizes;
use self::triggers::Triggers;
use self::ttc::{TICKS_PER_NS, Ttc};
use crate::lag::{Behind, Lag};
use crate::rng::hash;

/// Triggers that are made at once, at most: each E-link then writes that many chunks in a row.
const BATCH_TRIGGERS: u64 = 128;
/// Bytes of all E-links that they have together, at most, if that is more than one trigger has.
const BATCH_BYTES: u64 = 2 << 20;
/// Chunks after which a call says that there is more to do.
const CALL_CHUNKS: u64 = 4096;
/// Bytes after which it does, about.
const CALL_BYTES: u64 = 8 << 20;
/// Triggers held back after which a call says so.
const CALL_HELD: u64 = 1 << 16;

/// Where blocks go: a queue of blocks for each DMA buffer, which somebody else reads.
pub trait Dma {
    /// The memory of the next free block of a buffer, as long as a block is; none while all its blocks are unread. Asked for again, it is the same one.
    fn reserve(&mut self, buffer: usize) -> Option<&mut [u8]>;
    /// The block that was reserved last is complete.
    fn commit(&mut self, buffer: usize);
    /// Blocks of a buffer that are free now.
    fn free_blocks(&mut self, buffer: usize) -> u64;
    /// Blocks of a buffer.
    fn blocks(&self, buffer: usize) -> u64;
}

/// An emulated card. See the documentation of the module for how to drive it.
#[derive(Debug, Clone)]
pub struct Card {
    ttc: Ttc,
    triggers: Triggers,
    links: Vec<Link>,
    /// E-links that send back what they are sent.
    loops: Vec<LoopBack>,
    from_host: FromHost,
    batch_triggers: u64,
    call_chunks: u64,
    busy_on: u64,
    busy_off: u64,
    marks: DmaMarks,
    /// Blocks that a trigger fills at most, in part.
    trigger_blocks: u64,
    /// Since when BUSY is up.
    busy_since: Option<u64>,
    /// When the last of the links that were BUSY had come down.
    calm_at: u64,
    books: TriggerBooks,
    lag: Lag,
    /// How far it has come, in ticks.
    now: u64,
    is_up_to_date: bool,
    /// The link that has its turn first: none is always last to find room.
    first: usize,
    sampled: Option<Sampled>,
}

impl Card {
    /// A card whose time begins with 0.
    ///
    /// # Errors
    /// A configuration that cannot be carried out.
    pub fn new(config: &CardConfig) -> Result<Self, CardConfigError> {
        config.validate()?;
        let sizes = Sizes::new(&config.sizes);
        let timeout = config.block_timeout_ns * TICKS_PER_NS;
        let queues = |elink, buffer, payload| {
            let builder = Builder::new(config.format, elink, buffer, payload, timeout);
            (Fifo::new(&config.fifo), builder)
        };
        let faults = |elink| LinkFaults::new(&config.faults, elink, config.seed);
        let link = |one: &ElinkConfig| {
            let key = hash(config.seed, 1 + u64::from(one.elink.number()));
            let queues = queues(one.elink, one.buffer, Payload::of(one));
            Link::new(one, key, &sizes, queues).with_faults(faults(one.elink))
        };
        let (looped, answering): (Vec<&ElinkConfig>, Vec<&ElinkConfig>) =
            config.elinks.iter().partition(|one| one.loop_back);
        let mut links: Vec<Link> = answering.into_iter().map(link).collect();
        let most = config.front_end.busy_on_chunks;
        let loop_back = |one: &&ElinkConfig| {
            let queues = queues(one.elink, one.buffer, Payload::Looped(Messages::default()));
            LoopBack::new(Link::looped(one, queues), most)
        };
        let loops = looped.iter().map(loop_back).collect();
        if let Some(buffer) = config.ttc.to_host {
            let elink = Elink::TTC_TO_HOST;
            let payload = Payload::Ttc(config.ttc.trigger_type);
            let link = Link::ttc(buffer, queues(elink, buffer, payload));
            links.push(link.with_faults(faults(elink)));
        }
        let largest = sizes.largest() as u64;
        let per_trigger = largest * links.len() as u64;
        Ok(Self {
            loops,
            from_host: FromHost::new(config),
            batch_triggers: (BATCH_BYTES / per_trigger.max(1)).clamp(1, BATCH_TRIGGERS),
            call_chunks: (CALL_BYTES / largest).min(CALL_CHUNKS),
            ttc: Ttc::new(&config.ttc, hash(config.seed, 0)),
            triggers: Triggers::new(config.front_end.busy_on_chunks),
            links,
            busy_on: config.front_end.busy_on_chunks,
            busy_off: config.front_end.busy_off_chunks,
            marks: DmaMarks::new(&config.front_end, config.buffers),
            trigger_blocks: per_trigger.div_ceil(config.format.bytes() as u64).max(1),
            busy_since: None,
            calm_at: 0,
            books: TriggerBooks::default(),
            lag: Lag::new(config.ttc.behind_after_ns),
            now: 0,
            is_up_to_date: false,
            first: 0,
            sampled: None,
        })
    }

    /// From now on keeps the time of each trigger whose number is a multiple of `every`, for [`take_sampled`](Self::take_sampled).
    pub fn sample_triggers(&mut self, every: NonZeroU64) {
        self.sampled = Some(Sampled::new(every));
    }

    /// The next of these: its number among the triggers that were given, from 0, and when it was due, in nanoseconds of the card's time. Of more than
    /// [`SAMPLED_MOST`] that nobody takes the oldest go.
    pub fn take_sampled(&mut self) -> Option<(u64, u64)> {
        self.sampled.as_mut()?.take()
    }

    /// Does what happens until `now_ns` of the card's time, whose relation to any other clock is the caller's. The work of a call is bounded: false when there is
    /// more to do, and the call is to be repeated, with the same time or a later one. A time before the last one counts as the last one.
    pub fn handle_time(&mut self, now_ns: u64, dma: &mut impl Dma) -> bool {
        let oldest = self.ttc.peek().map(|at| at / TICKS_PER_NS);
        self.lag.handle_time(now_ns, oldest);
        let until = now_ns.saturating_mul(TICKS_PER_NS).max(self.now);
        self.is_up_to_date = self.run(until, dma);
        if self.is_up_to_date {
            self.now = until;
        }
        self.is_up_to_date
    }

    fn run(&mut self, until: u64, dma: &mut impl Dma) -> bool {
        let now = self.now;
        self.each_link(|link, _| link.drain(now, dma));
        self.look_for_room(now, dma);
        let per_trigger = self.links.len() as u64;
        let mut chunks = 0;
        loop {
            if self.busy_since.is_some() && !self.wait_for_calm(until, dma) {
                return false;
            }
            if self.busy_since.is_some() {
                break;
            }
            let given = self.trigger(until, dma);
            if given == 0 {
                break;
            }
            let last = self.triggers.at(self.triggers.accepted() - 1).at;
            self.each_link(|link, triggers| link.advance(triggers, last, dma));
            self.now = last;
            self.look_for_busy(last, dma);
            chunks += given * per_trigger;
            if chunks >= self.call_chunks {
                return false;
            }
        }
        self.each_link(|link, triggers| link.advance(triggers, until, dma));
        true
    }

    fn each_link(&mut self, mut with: impl FnMut(&mut Link, &Triggers)) {
        let (later, sooner) = self.links.split_at_mut(self.first);
        // What is sent back has its turn before the first link or behind the last one.
        let loops_first = self.first == 0;
        let mut loops = self.loops.iter_mut();
        if loops_first {
            loops.by_ref().for_each(|one| one.with(&mut with));
        }
        for link in sooner.iter_mut().chain(later) {
            with(link, &self.triggers);
        }
        loops.for_each(|one| one.with(&mut with));
        self.first = (self.first + 1) % self.links.len().max(1);
    }

    /// Gives triggers until then, but no more than surely fit into the queue of each front end, nor many more than fill a DMA buffer to its mark: how many.
    fn trigger(&mut self, until: u64, dma: &mut impl Dma) -> u64 {
        let from = self.triggers.accepted();
        let longest = self
            .links
            .iter()
            .map(|link| link.queued(&self.triggers))
            .max();
        let room = (self.busy_on - longest.unwrap_or(0)).min(self.batch_triggers);
        let of_dma = self.marks.room(dma) / self.trigger_blocks;
        let room = room.min(of_dma.max(1));
        while self.triggers.accepted() - from < room
            && let Some(at) = self.ttc.peek()
            && at <= until
        {
            self.books.requested += 1;
            match self.ttc.give(at) {
                Some(trigger) => {
                    self.books.accepted += 1;
                    if let Some(sampled) = &mut self.sampled {
                        sampled.handle_trigger(trigger);
                    }
                    self.triggers.push(trigger);
                    self.lag.record(until.saturating_sub(at) / TICKS_PER_NS);
                }
                None => self.books.held_by_dead_time += 1,
            }
        }
        let given = self.triggers.accepted() - from;
        if given > 0 {
            self.links
                .iter_mut()
                .for_each(|link| link.make(&self.triggers, from));
        }
        given
    }

    /// A DMA buffer may have got room since, or lost it.
    fn look_for_room(&mut self, now: u64, dma: &mut impl Dma) {
        let was_low = self.marks.is_low();
        let is_low = self.marks.look(dma);
        if was_low && !is_low {
            self.calm_at = self.calm_at.max(now);
        }
        if is_low && self.busy_since.is_none() {
            self.raise_busy(now);
        }
    }

    fn raise_busy(&mut self, now: u64) {
        self.busy_since = Some(now);
        self.calm_at = now;
        self.books.busy += 1;
    }

    /// A queue that came up to its mark raises BUSY, and so does a DMA buffer that came down to its own.
    fn look_for_busy(&mut self, now: u64, dma: &mut impl Dma) {
        for link in &mut self.links {
            link.is_busy = link.queued(&self.triggers) >= self.busy_on;
        }
        if self.marks.look(dma) || self.links.iter().any(|link| link.is_busy) {
            self.raise_busy(now);
        }
    }

    /// Lets the links that are BUSY come down to the low mark, and holds triggers back until they are, or until the time given. False when there are more of these than a
    /// call can have.
    fn wait_for_calm(&mut self, until: u64, dma: &mut impl Dma) -> bool {
        let calm = self.triggers.accepted().saturating_sub(self.busy_off);
        let is_low = self.marks.is_low();
        let (mut calm_at, mut waits, mut for_dma) = (self.calm_at, is_low, is_low);
        for link in self.links.iter_mut().filter(|link| link.is_busy) {
            link.send(&self.triggers, calm, until, dma);
            if link.queued(&self.triggers) <= self.busy_off {
                link.is_busy = false;
                calm_at = calm_at.max(link.free_at());
            } else {
                waits = true;
                for_dma |= link.is_xoff();
            }
        }
        self.calm_at = calm_at;
        let end = if waits {
            until.saturating_add(1)
        } else {
            calm_at
        };
        let held = self.ttc.skip_until(end, CALL_HELD);
        self.books.requested += held;
        match for_dma {
            true => self.books.held_by_dma += held,
            false => self.books.held_by_link += held,
        }
        if self.ttc.peek().is_some_and(|at| at < end) {
            return false;
        }
        if let Some(since) = self.busy_since.filter(|_| !waits) {
            self.books.busy_ns += (calm_at - since) / TICKS_PER_NS;
            self.busy_since = None;
            self.now = self.now.max(calm_at);
        }
        true
    }

    /// When to come back, in nanoseconds of the card's time: at once (the time last given) while there is work left, none when nothing will happen by itself any more.
    /// What waits for room in a DMA buffer ([`waits_for_dma`](Self::waits_for_dma)) is not in it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        if !self.is_up_to_date {
            return Some(self.now / TICKS_PER_NS);
        }
        let links = self
            .links
            .iter()
            .filter_map(|link| link.due(&self.triggers));
        let due = links
            .chain(self.loops.iter().filter_map(LoopBack::due))
            .chain(self.ttc.peek())
            .filter(|at| *at > self.now)
            .min()?;
        Some(due.div_ceil(TICKS_PER_NS))
    }

    /// Whether something waits for nothing but room in a DMA buffer.
    #[must_use]
    pub fn waits_for_dma(&self) -> bool {
        self.links.iter().any(|link| link.waits_for_dma(self.now))
            || self.loops.iter().any(|one| one.waits_for_dma(self.now))
    }

    /// Takes a packet for a front end, which comes now. Whether there is room for what it may send back, [`takes_packets`](Self::takes_packets) says; what is none
    /// comes to nothing by its name, as all that is lost.
    pub fn handle_packet(&mut self, now_ns: u64, packet: &[u8]) {
        let at = now_ns.saturating_mul(TICKS_PER_NS).max(self.now);
        self.from_host.handle_packet(packet, at, &mut self.loops);
    }

    /// Whether the next packet may come: not while the queue in front of a link that sends messages back is full.
    #[must_use]
    pub fn takes_packets(&self) -> bool {
        self.loops.iter().all(|one| one.has_room(self.busy_on))
    }

    /// The writer of packets is gone, or none come any more: messages that have not ended are lost by name.
    pub fn abandon_packets(&mut self) {
        self.from_host.abandon();
    }

    /// Ends the run: no further trigger; what front ends and links hold is sent, however long that takes them, and open blocks go out. True when all is in the DMA
    /// buffers; false when these are full, and the call is to be repeated when they have room.
    pub fn finish(&mut self, now_ns: u64, dma: &mut impl Dma) -> bool {
        self.ttc.stop();
        self.handle_time(now_ns, dma);
        let now = self.now;
        self.each_link(|link, triggers| {
            link.drain(now, dma);
            link.send(triggers, u64::MAX, u64::MAX - 1, dma);
            if link.queued(triggers) == 0 {
                link.let_go_last(dma);
            }
        });
        self.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.links.iter().all(|link| link.is_empty(&self.triggers))
            && self.loops.iter().all(LoopBack::is_empty)
    }

    /// Whether no trigger will come any more and everything is in the DMA buffers.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.ttc.peek().is_none() && self.is_empty()
    }

    /// How long BUSY was up until now, in nanoseconds of the card's time; one that lasts is in it.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        let lasts = self
            .busy_since
            .map_or(0, |since| self.now.saturating_sub(since));
        self.books.busy_ns + lasts / TICKS_PER_NS
    }

    /// Whether triggers are still to come.
    #[must_use]
    pub fn has_triggers(&self) -> bool {
        self.ttc.peek().is_some()
    }

    /// The books of packets to front ends, and of their messages; a copy.
    #[must_use]
    pub fn from_host(&self) -> FromHostBooks {
        self.from_host.books()
    }

    /// The books; a copy.
    #[must_use]
    pub fn account(&self) -> CardAccount {
        let mut books = self.books;
        books.busy_ns = self.busy_ns();
        let times = self.marks.times.clone();
        CardAccount::new(books, self.elinks(), self.from_host.books(), times)
    }

    /// The books of each E-link, as configured, then the one for messages about triggers, and then those that send back what they are sent.
    #[must_use]
    pub fn elinks(&self) -> Vec<ElinkAccount> {
        let links = self.links.iter().map(|link| link.account(&self.triggers));
        let mut elinks: Vec<_> = links
            .chain(self.loops.iter().map(LoopBack::account))
            .collect();
        for one in &mut elinks {
            one.sent_to_it = self.from_host.sent_to(one.elink);
        }
        elinks
    }

    /// How late triggers were made, in the card's time, and whether the caller was the limit of the run: what BUSY held back is not late.
    #[must_use]
    pub fn behind(&self) -> Behind {
        self.lag.behind()
    }
}
