//! One DMA buffer: its blocks are decoded where they lie, and their chunks published.
//!
//! A chunk that lies within one block is copied once, out of the card's memory into the network buffers of its subscribers; one of several
//! blocks is joined before. A long one may stay where it is instead: over shared memory its subscribers are shown the place. Copies are counted. Blocks are given back to the
//! card when their chunks are in network buffers, and all that were shown some have looked; so a subscriber that holds the publisher up lets the DMA buffer fill, which the
//! card sees.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_ledger::PerReason;
use forebay_readout::{Chunk, Config, Decoder, FETCHED_BLOCKS};
use forebay_run::{Stop, Urgency};
use forebay_run_net::{Address, Memory, NetError, Publisher, Settings};
use forebay_sys::clock;
use forebay_wire::felix::{ELINKS, Elink, Fid};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::AsFd;

use crate::books::BufferBook;
use crate::buffer_summary::{BufferSummary, CardEnd, counted, of_decoder};
use crate::device::{Device, DeviceError};
use crate::elink_table::ElinkTable;
use crate::error::ReadoutError;
use crate::kept::KeptBlocks;
use crate::outlet::{Outlet, Shared, Showing, Totals, wait_for_room};

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
    /// Chunks from so many bytes on stay where they are, if they lie within one block and the address is one of shared memory; none: all are copied.
    pub by_reference_bytes: Option<usize>,
}

/// One DMA buffer at work.
struct Reader<'a> {
    device: Device,
    decoder: Decoder,
    outlet: Outlet<'a>,
    book: BufferBook,
    stops: &'a dyn Fn() -> bool,
    tended_ns: u64,
    /// Chunks by E-link, for the thread that is asked for metrics.
    elinks: Arc<ElinkTable>,
}

/// Reads one DMA buffer to its end. `ready` is told where its chunks are published; `stops` says when to stop. What fails when the buffer is open is in the summary,
/// beside what had been done.
pub(crate) fn run(
    plan: &ReaderPlan,
    mut book: BufferBook,
    ready: impl FnOnce(&Address),
    stops: &dyn Fn() -> bool,
) -> Result<BufferSummary, ReadoutError> {
    let (mut settings, leak) = (plan.settings.clone(), plan.settings.leak.clone());
    if leak.clone().take("publish") {
        // That is the books' of chunks, not those' of the messages that carry them.
        settings.leak = forebay_ledger::Leak::off();
    }
    let publisher = Publisher::listen(&plan.address, &settings)?;
    let address = publisher.address()?;
    ready(&address);
    let fids: Vec<u64> = (0..ELINKS as u16)
        .map(|number| Fid::to_host(plan.detector, plan.connector, Elink::from_bits(number)).0)
        .collect();
    let mut outlet = Outlet {
        publisher,
        fids: &fids,
        showing: None,
        kept: KeptBlocks::from(0),
        block: 0,
        published: [0; 2],
        copied_bytes: 0,
        by_reference: 0,
        unpublished: PerReason::default(),
        failed: None,
        stopped: false,
        leak,
        total: Totals::default(),
    };
    while outlet.publisher.ready_subscribers() < plan.subscribers_min && !stops() {
        outlet.publisher.poll(WAIT)?;
    }
    let device = open(plan, &mut outlet.publisher, stops)?;
    let decoder = Decoder::new(device.format, &plan.decoder)?;
    let block_bytes = device.format.bytes();
    if let Some(bytes_min) = plan.by_reference_bytes.filter(|_| address.is_shown()) {
        let memory = Memory::of_region(device.blocks.region()?, block_bytes);
        let memory = outlet.publisher.register(memory);
        outlet.showing = Some(Showing { memory, bytes_min });
    }
    let read = device.blocks.read_position() / block_bytes as u64;
    outlet.kept = KeptBlocks::from(read);
    book.begin(read, &plan.settings.leak);
    let elinks = Arc::new(ElinkTable::of_chunks());
    if let Some(shown) = &plan.settings.shown {
        let (elinks, owner) = (Arc::clone(&elinks), format!("dma{}", plan.number));
        shown.add_table(move || elinks.families(&owner));
    }
    let mut reader = Reader {
        device,
        decoder,
        outlet,
        book,
        stops,
        tended_ns: 0,
        elinks,
    };
    let ended = reader.read();
    Ok(reader.finish(plan, &address, ended))
}

/// The card's buffer; one that is not there yet, or that another reader still has, is waited for.
fn open(
    plan: &ReaderPlan,
    publisher: &mut Publisher,
    stops: &dyn Fn() -> bool,
) -> Result<Device, ReadoutError> {
    let begun = Instant::now();
    let mut before = None;
    loop {
        let failed = match Device::open_unless(&plan.socket, plan.buffer, stops) {
            Ok(device) => return Ok(device),
            // An order to end came while it was asked once more: what it had said is why nothing was read.
            Err(DeviceError::Left { path, waited }) => {
                before.take().unwrap_or(DeviceError::Left { path, waited })
            }
            Err(error) => error,
        };
        let may_come = matches!(
            failed,
            DeviceError::NotThere { .. } | DeviceError::Refused { .. }
        );
        if !may_come || begun.elapsed() >= plan.card_wait || stops() {
            return Err(failed.into());
        }
        if before.is_none() && matches!(failed, DeviceError::Refused { .. }) {
            tracing::warn!("{failed}; it is waited for, {:?} at most", plan.card_wait);
        }
        before = Some(failed);
        let slept = Instant::now();
        while slept.elapsed() < CARD_WAIT {
            publisher.poll(CARD_WAIT)?;
        }
    }
}

/// Fetches what the decoder looks at next: the words of some blocks, where chunks stay in them, else the whole of the next one.
#[inline]
fn fetch(device: &Device, decoder: &Decoder, is_showing: bool, ahead: u64, there: u64) {
    let block = |ahead: u64| {
        let view = device.blocks.block(ahead).filter(|_| ahead < there)?;
        Some(Shared { view, at: 0 })
    };
    if !is_showing || !Decoder::is_worth_fetching_words(device.format) {
        if let Some(next) = device.blocks.block(ahead + 1) {
            next.prefetch();
        }
        return;
    }
    if !ahead.is_multiple_of(FETCHED_BLOCKS as u64) {
        return;
    }
    if let Some(first) = block(ahead) {
        let mut some = [first; FETCHED_BLOCKS];
        let mut count = 1;
        while let Some(next) = block(ahead + count as u64).filter(|_| count < FETCHED_BLOCKS) {
            some[count] = next;
            count += 1;
        }
        decoder.fetch_words(&some[..count]);
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
        let block_bytes = device.format.bytes() as u64;
        for ahead in 0..there {
            let Some(block) = device.blocks.block(ahead) else {
                break;
            };
            fetch(device, decoder, outlet.showing.is_some(), ahead, there);
            outlet.block = outlet.kept.read();
            let block = Shared {
                view: block,
                at: device.blocks.offset(outlet.block * block_bytes) as usize,
            };
            // What is wrong with it the decoder has counted by its name.
            let _damaged = decoder.handle_block(block);
            while !decoder.poll(block, |chunk| outlet.offer(&chunk)) {
                wait_for_room(outlet, book, *stops);
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
        self.give_back();
        let now_ns = clock::monotonic_ns();
        if now_ns >= self.tended_ns + TEND_NS {
            self.tended_ns = now_ns;
            self.outlet.publisher.poll(Duration::ZERO)?;
        }
        self.elinks.put_in_time(now_ns, &self.decoder);
        Ok(())
    }

    /// Brings the books up to date and shows them.
    fn show(&mut self) {
        let blocks = &self.device.blocks;
        let fill = [blocks.fill_blocks(), blocks.blocks()];
        self.outlet.settle(&mut self.book);
        let block_bytes = self.device.format.bytes() as u64;
        let read = blocks.read_position() / block_bytes;
        self.book
            .commit(read, &self.decoder.account(), block_bytes, fill);
    }

    /// Gives the card what nobody looks at any more.
    fn give_back(&mut self) {
        self.outlet.take_back();
        let blocks = &mut self.device.blocks;
        let position = self.outlet.kept.give_back() * self.device.format.bytes() as u64;
        if position != blocks.released() && blocks.release(position) {
            blocks.notify();
        }
    }

    /// Nothing is there: sleeps until there is, or until a subscriber wants something.
    fn sleep(&mut self) -> Result<(), ReadoutError> {
        self.elinks
            .put_in_time(clock::monotonic_ns(), &self.decoder);
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
        self.give_back();
        Ok(())
    }

    /// The chunks that are open are given out flagged, the subscribers told, and the books closed, whatever ended it.
    fn finish(
        mut self,
        plan: &ReaderPlan,
        address: &Address,
        ended: Result<CardEnd, ReadoutError>,
    ) -> BufferSummary {
        let outlet = &mut self.outlet;
        while !self
            .decoder
            .finish(|chunk: Chunk<'_, Shared<'_>>| outlet.offer(&chunk))
        {
            wait_for_room(outlet, &mut self.book, self.stops);
        }
        self.show();
        self.give_back();
        self.elinks.put(&self.decoder);
        let left = self.device.blocks.look().unwrap_or(0);
        let begun = Instant::now();
        let waited = self.wait_for_subscribers(plan, begun);
        let kept = self.outlet.kept.len() as u64;
        let offered = self.outlet.failed.take();
        let limit = END_LIMIT.saturating_sub(begun.elapsed());
        let published = self.outlet.publisher.finish(limit);
        let (publisher, finished) = match published {
            Ok(publisher) => (Some(publisher), None),
            Err(error) => (None, Some(error)),
        };
        let later = offered.or(waited.err()).or(finished);
        let (end, failed) = match (ended, later) {
            (Ok(end), None) => (end, None),
            (Ok(_), Some(error)) => (CardEnd::Failed, Some(error.to_string())),
            (Err(error), _) => (CardEnd::Failed, Some(error.to_string())),
        };
        let total = self.outlet.total;
        let dropped = total.unpublished.iter();
        BufferSummary {
            number: plan.number,
            buffer: plan.buffer,
            address: address.to_string(),
            end,
            failed,
            blocks_left: left,
            blocks_kept: kept,
            chunks_published: total.published,
            chunks_dropped: counted(dropped.map(|(why, count)| (why.name(), count))),
            copied_bytes: total.copied_bytes,
            chunks_by_reference: total.by_reference,
            held_up_s: total.held_up_ns as f64 / 1e9,
            publisher,
            ..of_decoder(&self.decoder.account())
        }
    }

    /// The card waits for the blocks that subscribers still look at.
    fn wait_for_subscribers(&mut self, plan: &ReaderPlan, begun: Instant) -> Result<(), NetError> {
        let stop = plan.settings.stop.as_ref();
        let asked = || stop.map_or(Urgency::Go, Stop::urgency);
        let before = asked();
        self.outlet.publisher.begin_end();
        while self.outlet.kept.len() > 0 && begun.elapsed() < END_LIMIT && asked().is_still(before)
        {
            self.outlet.publisher.poll(WAIT)?;
            self.give_back();
        }
        Ok(())
    }
}
