//! One DMA buffer: its blocks are decoded where they lie, and their chunks published.
//!
//! A chunk that lies within one block is copied once, out of the card's memory into the network buffers of those who have subscribed to it; one of several
//! blocks is joined before, and that copy is counted. The blocks are given back to the card when their chunks are in network buffers, so a subscriber that holds
//! the publisher up lets the DMA buffer fill, which the card sees.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_readout::{Account as Decoded, Bytes, Chunk, Config, Damage, Decoder, Payload, Status};
use forebay_ring::View;
use forebay_sys::clock;
use forebay_wire::felix::{ELINKS, Elink, Fid};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::fd::AsFd;

use super::books::{BufferBook, Unpublished};
use super::device::{Device, DeviceError};
use super::error::ReadoutError;
use crate::net::{Address, NetError, NetSummary, Publisher, Settings};

/// Blocks that are decoded before they are given back.
const BATCH: u64 = 64;
/// The publisher looks after its connections so often while there are blocks, in ns.
const TEND_NS: u64 = 1_000_000;
/// Longest sleep: so long after its end a card that was killed is noticed.
const SLEEP_MOST: Duration = Duration::from_millis(100);
/// One wait for a subscriber that has no room, or that has not come yet.
const WAIT: Duration = Duration::from_millis(20);
/// One wait for a card that is not there yet.
const CARD_WAIT: Duration = Duration::from_millis(50);
/// How long an end in order may take.
const END_LIMIT: Duration = Duration::from_secs(10);

/// What one DMA buffer is read for.
#[derive(Clone, Debug)]
pub struct ReaderPlan {
    /// Its number among those of one process, in the books.
    pub number: usize,
    /// Socket of the card.
    pub socket: PathBuf,
    /// Which of its buffers.
    pub buffer: usize,
    /// Where its chunks are published.
    pub address: Address,
    /// How.
    pub settings: Settings,
    /// Detector in the fids, 0 to 255.
    pub detector: u8,
    /// Connector in the fids.
    pub connector: u16,
    /// Limits of the decoder.
    pub decoder: Config,
    /// The card is opened when so many have subscribed.
    pub subscribers_min: usize,
    /// How long a card that is not there is waited for.
    pub card_wait: Duration,
}

/// How reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CardEnd {
    /// The card ended, and everything was read.
    InOrder,
    /// The card is gone without having said so; everything that it had shown was read.
    Lost,
    /// This side was told to stop.
    Stopped,
}

/// What became of one DMA buffer.
#[derive(Clone, Debug, Serialize)]
pub struct BufferSummary {
    /// Its number in the books.
    pub number: usize,
    /// Which DMA buffer of its card.
    pub buffer: usize,
    /// Where its chunks were published.
    pub address: String,
    /// How it ended.
    pub end: CardEnd,
    /// Blocks read.
    pub blocks: u64,
    /// Blocks dropped by reason.
    pub blocks_dropped: BTreeMap<&'static str, u64>,
    /// Blocks missing by their sequence numbers, at least.
    pub missing_blocks: u64,
    /// Blocks that the card had shown and that were not read when this side was told to stop.
    pub blocks_left: u64,
    /// Chunks found, flagged ones among them.
    pub chunks: u64,
    /// Bytes of them.
    pub chunk_bytes: u64,
    /// Chunks that went to a subscriber or to several.
    pub chunks_published: u64,
    /// Chunks that did not, by reason.
    pub chunks_dropped: BTreeMap<&'static str, u64>,
    /// Chunks by each bit of their status.
    pub chunks_flagged: BTreeMap<&'static str, u64>,
    /// What was wrong within blocks and between them.
    pub damage: BTreeMap<&'static str, u64>,
    /// Bytes copied to join chunks of several blocks.
    pub joined_bytes: u64,
    /// How often a subscriber held the buffer up.
    pub held_up: u64,
    /// For how long, in seconds.
    pub held_up_seconds: f64,
    /// The publisher's own summary.
    pub publisher: NetSummary,
}

/// Bytes of a block in the card's memory.
#[derive(Clone, Copy)]
struct Shared<'a>(View<'a>);

impl Bytes for Shared<'_> {
    #[inline]
    fn len(self) -> usize {
        self.0.len()
    }

    #[inline]
    fn u16_le(self, at: usize) -> Option<u16> {
        self.0.read_u16_le(at)
    }

    #[inline]
    fn u32_le(self, at: usize) -> Option<u32> {
        self.0.read_u32_le(at)
    }

    #[inline]
    fn part(self, at: usize, bytes: usize) -> Option<Self> {
        self.0.part(at, bytes).map(Self)
    }

    #[inline]
    fn append_to(self, to: &mut Vec<u8>) {
        self.0.append_to(to);
    }
}

/// Where chunks go, and what became of them since the books were shown.
struct Outlet<'a> {
    publisher: Publisher,
    fids: &'a [u64],
    published: [u64; 2],
    unpublished: [[u64; 2]; 3],
    failed: Option<NetError>,
    /// Told to stop while a subscriber had no room: what is still offered is given up by name.
    stopped: bool,
    /// All so far.
    total: Totals,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    published: u64,
    unpublished: [u64; 3],
    held_up: u64,
    held_up_ns: u64,
}

impl Outlet<'_> {
    /// Offers a chunk to its subscribers; false when one of them has no room.
    #[inline]
    fn offer(&mut self, chunk: &Chunk<'_, Shared<'_>>) -> bool {
        let fid = self.fids[usize::from(chunk.elink.number())];
        let bytes = chunk.payload.len();
        let status = chunk.status.0;
        if self.stopped {
            self.lose(Unpublished::Stopped, bytes);
            return true;
        }
        let published = match chunk.payload {
            Payload::Within(Shared(view)) => {
                self.publisher
                    .try_publish_with(fid, status, bytes, |place| {
                        // The place is as long as the view.
                        let _copied = view.copy_to(0, place);
                    })
            }
            Payload::Joined(joined) => self.publisher.try_publish(fid, status, joined),
        };
        match published {
            Ok(None) => return false,
            Ok(Some(0)) => self.lose(Unpublished::NoSubscriber, bytes),
            Ok(Some(_)) => {
                self.published[0] += 1;
                self.published[1] += bytes as u64;
            }
            Err(NetError::TooLong { .. }) => self.lose(Unpublished::TooLong, bytes),
            Err(error) => {
                self.failed = Some(error);
                self.lose(Unpublished::Stopped, bytes);
            }
        }
        true
    }

    fn lose(&mut self, why: Unpublished, bytes: usize) {
        self.unpublished[why as usize][0] += 1;
        self.unpublished[why as usize][1] += bytes as u64;
    }

    /// Puts what became of chunks into the books.
    fn settle(&mut self, book: &mut BufferBook) {
        let [chunks, bytes] = std::mem::take(&mut self.published);
        book.published(chunks, bytes);
        self.total.published += chunks;
        let all = [
            Unpublished::NoSubscriber,
            Unpublished::TooLong,
            Unpublished::Stopped,
        ];
        for why in all {
            let [chunks, bytes] = std::mem::take(&mut self.unpublished[why as usize]);
            book.unpublished(why, chunks, bytes);
            self.total.unpublished[why as usize] += chunks;
        }
    }
}

/// One DMA buffer at work.
struct Reader<'a> {
    device: Device,
    decoder: Decoder,
    outlet: Outlet<'a>,
    book: BufferBook,
    stops: &'a dyn Fn() -> bool,
    tended_ns: u64,
}

/// Reads one DMA buffer to its end. `ready` is told where its chunks are published; `stops` says when to stop.
pub(super) fn run(
    plan: &ReaderPlan,
    book: BufferBook,
    ready: impl FnOnce(&Address),
    stops: &dyn Fn() -> bool,
) -> Result<BufferSummary, ReadoutError> {
    let publisher = Publisher::listen(&plan.address, &plan.settings)?;
    let address = publisher.address()?;
    ready(&address);
    let fids: Vec<u64> = (0..ELINKS as u16)
        .map(|number| Fid::to_host(plan.detector, plan.connector, Elink::from_bits(number)).0)
        .collect();
    let mut outlet = Outlet {
        publisher,
        fids: &fids,
        published: [0; 2],
        unpublished: [[0; 2]; 3],
        failed: None,
        stopped: false,
        total: Totals::default(),
    };
    while outlet.publisher.ready_subscribers() < plan.subscribers_min && !stops() {
        outlet.publisher.poll(WAIT)?;
    }
    let device = open(plan, &mut outlet.publisher, stops)?;
    let decoder = Decoder::new(device.format, &plan.decoder)?;
    let mut reader = Reader {
        device,
        decoder,
        outlet,
        book,
        stops,
        tended_ns: 0,
    };
    let ended = reader.read();
    reader.finish(plan, &address, ended)
}

/// The card's buffer; one that is not there yet, or that another reader still has, is waited for.
fn open(
    plan: &ReaderPlan,
    publisher: &mut Publisher,
    stops: &dyn Fn() -> bool,
) -> Result<Device, ReadoutError> {
    let begun = Instant::now();
    loop {
        let failed = match Device::open(&plan.socket, plan.buffer) {
            Ok(device) => return Ok(device),
            Err(error) => error,
        };
        let may_come = matches!(
            failed,
            DeviceError::NotThere { .. } | DeviceError::Refused { .. }
        );
        if !may_come || begun.elapsed() >= plan.card_wait || stops() {
            return Err(failed.into());
        }
        let slept = Instant::now();
        while slept.elapsed() < CARD_WAIT {
            publisher.poll(CARD_WAIT)?;
        }
    }
}

impl Reader<'_> {
    fn read(&mut self) -> Result<CardEnd, ReadoutError> {
        loop {
            if (self.stops)() {
                return Ok(CardEnd::Stopped);
            }
            if self.device.blocks.look()? > 0 {
                self.turn()?;
                continue;
            }
            if self.device.blocks.is_closed() {
                return Ok(CardEnd::InOrder);
            }
            if self.device.is_gone() && self.device.blocks.look()? == 0 {
                // It may have ended between the two looks.
                let closed = self.device.blocks.is_closed();
                return Ok(if closed {
                    CardEnd::InOrder
                } else {
                    CardEnd::Lost
                });
            }
            self.sleep()?;
        }
    }

    /// Decodes what is there, up to a batch, and gives it back.
    fn turn(&mut self) -> Result<(), ReadoutError> {
        let Self {
            device,
            decoder,
            outlet,
            book,
            stops,
            ..
        } = self;
        let mut there = device.blocks.look()?.min(BATCH);
        for ahead in 0..there {
            let Some(block) = device.blocks.block(ahead) else {
                break;
            };
            if let Some(next) = device.blocks.block(ahead + 1) {
                next.prefetch();
            }
            let block = Shared(block);
            // What is wrong with it the decoder has counted by its name.
            let _damaged = decoder.handle_block(block);
            while !decoder.poll(block, |chunk| outlet.offer(&chunk)) {
                wait_for_room(outlet, book, *stops)?;
            }
            if outlet.stopped {
                // The others stay with the card.
                there = ahead + 1;
                break;
            }
        }
        device.blocks.take(there);
        if let Some(failed) = outlet.failed.take() {
            return Err(failed.into());
        }
        self.show();
        let blocks = &mut self.device.blocks;
        blocks.release(blocks.read_position());
        blocks.notify();
        let now_ns = clock::monotonic_ns();
        if now_ns >= self.tended_ns + TEND_NS {
            self.tended_ns = now_ns;
            self.outlet.publisher.poll(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Brings the books up to date and shows them.
    fn show(&mut self) {
        let blocks = &self.device.blocks;
        let fill = [blocks.fill_blocks(), blocks.blocks()];
        self.outlet.settle(&mut self.book);
        let block_bytes = self.device.format.bytes() as u64;
        self.book.commit(self.decoder.account(), block_bytes, fill);
    }

    /// Nothing is there: sleeps until there is, or until a subscriber wants something.
    fn sleep(&mut self) -> Result<(), ReadoutError> {
        let Self { device, outlet, .. } = self;
        outlet.publisher.poll(Duration::ZERO)?;
        device.blocks.prepare_wait();
        let awaited = device.blocks.look()? == 0 && !device.blocks.is_closed();
        if awaited {
            let doze = outlet.publisher.doze();
            let most = doze.most.min(SLEEP_MOST);
            let most = Timespec {
                tv_sec: 0,
                tv_nsec: most.subsec_nanos().into(),
            };
            let fds = [doze.fd, device.blocks.as_fd()];
            let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            // Interrupted or not: everything is looked at again.
            let _ = rustix::event::poll(&mut fds, Some(&most));
        }
        device.blocks.finish_wait();
        outlet.publisher.poll(Duration::ZERO)?;
        Ok(())
    }

    /// The chunks that are open are given out flagged, the subscribers told, and the books closed.
    fn finish(
        mut self,
        plan: &ReaderPlan,
        address: &Address,
        ended: Result<CardEnd, ReadoutError>,
    ) -> Result<BufferSummary, ReadoutError> {
        let outlet = &mut self.outlet;
        while !self
            .decoder
            .finish(|chunk: Chunk<'_, Shared<'_>>| outlet.offer(&chunk))
        {
            wait_for_room(outlet, &mut self.book, self.stops)?;
        }
        self.show();
        let left = self.device.blocks.look().unwrap_or(0);
        let publisher = self.outlet.publisher.finish(END_LIMIT)?;
        let end = ended?;
        let decoded = *self.decoder.account();
        let total = self.outlet.total;
        Ok(BufferSummary {
            number: plan.number,
            buffer: plan.buffer,
            address: address.to_string(),
            end,
            blocks_left: left,
            chunks_published: total.published,
            chunks_dropped: counted(
                ["no_subscriber", "too_long", "stopped"]
                    .into_iter()
                    .zip(total.unpublished),
            ),
            held_up: total.held_up,
            held_up_seconds: total.held_up_ns as f64 / 1e9,
            publisher,
            ..of_decoder(&decoded)
        })
    }
}

/// Those that happened.
fn counted(all: impl IntoIterator<Item = (&'static str, u64)>) -> BTreeMap<&'static str, u64> {
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// What the decoder says; the rest is empty.
fn of_decoder(decoded: &Decoded) -> BufferSummary {
    let damage = Damage::ALL.map(Damage::name).into_iter();
    let flagged = Status::NAMES.map(|(_, name)| name).into_iter();
    BufferSummary {
        number: 0,
        buffer: 0,
        address: String::new(),
        end: CardEnd::InOrder,
        blocks: decoded.blocks,
        blocks_dropped: counted(decoded.dropped_blocks()),
        missing_blocks: decoded.missing_blocks,
        blocks_left: 0,
        chunks: decoded.chunks,
        chunk_bytes: decoded.chunk_bytes,
        chunks_published: 0,
        chunks_dropped: BTreeMap::new(),
        chunks_flagged: counted(flagged.zip(decoded.flagged)),
        damage: counted(damage.zip(decoded.damage)),
        joined_bytes: decoded.copied_bytes,
        held_up: 0,
        held_up_seconds: 0.0,
        publisher: NetSummary::default(),
    }
}

/// A subscriber of the policy `block` has no room: it is waited for. Who is told to stop meanwhile gives the chunks up by name.
fn wait_for_room(
    outlet: &mut Outlet<'_>,
    book: &mut BufferBook,
    stops: &dyn Fn() -> bool,
) -> Result<(), ReadoutError> {
    let begun_ns = clock::monotonic_ns();
    outlet.publisher.poll(WAIT)?;
    let ns = clock::monotonic_ns() - begun_ns;
    outlet.total.held_up += 1;
    outlet.total.held_up_ns += ns;
    book.held_up(ns);
    outlet.stopped |= stops();
    Ok(())
}
