//! A file of raw blocks in the place of front ends and links: a card that shows its readers what another one has recorded.
//!
//! Blocks go into the DMA buffers in the order of the file, damaged ones too, and wait for room there. Bytes in which no block begins are dropped by name.

mod books;
mod reading;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_emu::card::Dma;
use forebay_ledger::{Condition, Reason};
use forebay_ring::BlockProducer;
use forebay_run::record::Record;
use forebay_run::{Host, System};
use forebay_run_felix::check::frame::Next;
use forebay_run_felix::device::{DeviceInfo, Door};
use forebay_sys::clock;
use forebay_wire::felix::{BlockFormat, BlockHead};
use serde::Serialize;

use super::summary::unread;
use super::{CardPlan, DmaSummary, Rings};
use crate::error::EmuError;
use crate::hops;
use books::{Books, FileDrop};
use reading::{Reading, Sequences, Survey, head_of, survey};

/// Longest wait: so late is a reader let in, or an order heard.
const WAIT: Duration = Duration::from_millis(2);
/// Blocks that are shown together, at most.
const SHOWN_BLOCKS: u64 = 64;
/// Books are shown so often.
const COMMIT_NS: u64 = 100_000_000;
/// What is replayed, and how.
#[derive(Clone, Debug)]
pub struct BlockReplay {
    /// The file.
    pub file: PathBuf,
    /// Blocks in a second; none: as fast as readers make room.
    pub blocks_hz: Option<u64>,
    /// How often the file is gone through, 1 and more.
    pub loops: u64,
    /// The words of its blocks stand in front of the data: a variant of this project.
    pub headers: bool,
}

/// What a replay came to.
#[derive(Clone, Debug, Serialize)]
pub struct ReplaySummary {
    /// The format of the blocks.
    pub blocks_format: String,
    /// Blocks shown to readers.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the file in which no block begins.
    pub skipped_bytes: u64,
    /// Bytes of a block that the file does not have to its end.
    pub tail_bytes: u64,
    /// How often the file was gone through to its end.
    pub loops: u64,
    /// E-links that the blocks are of.
    pub elinks: Vec<u16>,
    /// Time for which a DMA buffer without room held the file back, in s.
    pub held_up_s: f64,
    /// From the first block to the last, in s.
    pub replay_s: f64,
    /// The DMA buffers.
    pub dma: Vec<DmaSummary>,
}

/// A replay at work.
struct Player<'a> {
    plan: &'a CardPlan,
    replay: &'a BlockReplay,
    format: BlockFormat,
    /// The DMA buffer of each E-link.
    buffers: Box<[usize]>,
    rings: Rings,
    door: Door,
    books: Books,
    sequences: Sequences,
    host: &'a Host,
    /// Blocks that were committed and not shown.
    hidden: u64,
    begun_ns: u64,
    blocks: u64,
}

/// A replay as a program: it replays the file as the card, until that has ended and is read.
#[derive(Debug)]
pub struct CardReplay {
    /// The card.
    pub plan: CardPlan,
    /// The file.
    pub replay: BlockReplay,
}

impl System for CardReplay {
    const HOPS: &'static [&'static str] = hops::CARD_REPLAY;
    type Summary = ReplaySummary;
    type Error = EmuError;

    fn run(self, host: &Host) -> Result<Record<ReplaySummary>, EmuError> {
        play(&self.plan, &self.replay, host)
    }
}

fn play(
    plan: &CardPlan,
    replay: &BlockReplay,
    host: &Host,
) -> Result<Record<ReplaySummary>, EmuError> {
    let Survey { format, elinks } = survey(replay)?;
    let mut buffers: Box<[usize]> = vec![0; forebay_wire::felix::ELINKS].into();
    for one in &plan.config.elinks {
        buffers[usize::from(one.elink.number())] = one.buffer;
    }
    let mut of_buffers = vec![Vec::new(); plan.config.buffers];
    for elink in &elinks {
        of_buffers[buffers[usize::from(*elink)]].push(*elink);
    }
    let dma_bytes = plan.dma_blocks * plan.config.format.bytes() as u64;
    let dma_blocks = (dma_bytes / format.bytes() as u64)
        .max(2)
        .next_power_of_two();
    let info = DeviceInfo {
        name: plan.name.clone(),
        marker: format.marker(),
        headers: replay.headers,
        blocks: vec![dma_blocks; plan.config.buffers],
        elinks: of_buffers,
        from_host: None,
        pid: std::process::id(),
    };
    let (memories, rings) = Rings::create(&info)?;
    let mut books = Books::open(plan, format.bytes(), &host.leak, &mut |warning| {
        host.warn(warning)
    })?;
    books.ledger.page(plan.metrics)?;
    let door = Door::open(&plan.socket, info, memories)?;
    host.say(format_args!(
        "{} is at {}",
        plan.name,
        plan.socket.display()
    ));
    let mut player = Player {
        plan,
        replay,
        format,
        buffers,
        rings,
        door,
        books,
        sequences: Sequences::new(),
        host,
        hidden: 0,
        begun_ns: 0,
        blocks: 0,
    };
    let ended = player.play();
    let summary = player.conclude(&ended, elinks)?;
    ended.map(|()| summary)
}

impl Player<'_> {
    fn stops(&self) -> bool {
        self.host.stop.is_asked()
    }

    fn play(&mut self) -> Result<(), EmuError> {
        let wanted = self.plan.config.buffers;
        while self.plan.wait_for_readers && self.door.readers() < wanted && !self.stops() {
            self.tend()?;
            std::thread::sleep(WAIT);
        }
        self.begun_ns = clock::monotonic_ns();
        let mut done = 0;
        while done < self.replay.loops && !self.stops() {
            self.sequences.begin_again();
            if self.play_once()? {
                done += 1;
                self.books.book.add(self.books.loops, 1);
            }
        }
        self.show();
        self.finish()
    }

    /// Once through the file; false when it was stopped.
    fn play_once(&mut self) -> Result<bool, EmuError> {
        let mut reading = Reading::begin(self.replay, Some(self.format))?;
        while !self.stops() {
            let next = reading.next(&self.replay.file)?;
            let taken = match next {
                Next::Block => self.format.bytes(),
                Next::Skip(bytes, _) | Next::Tail(bytes) => bytes,
                Next::End => return Ok(true),
            };
            self.books
                .read(u64::from(matches!(next, Next::Block)), taken);
            match next {
                Next::Block => {
                    let block = reading.block();
                    self.books.handed(block.len());
                    if !self.books.leak.take("file") {
                        self.show_block(block)?;
                    }
                }
                Next::Skip(bytes, _) => self.books.dropped(FileDrop::NoBlock, bytes),
                Next::Tail(bytes) => self.books.dropped(FileDrop::CutOff, bytes),
                Next::End => {}
            }
            reading.window.skip(taken);
        }
        Ok(false)
    }

    /// Puts a block into its buffer, as late as its time and the room there ask for.
    fn show_block(&mut self, block: &[u8]) -> Result<(), EmuError> {
        let head = head_of(block, self.format);
        let buffer = head.map_or(0, |head| self.buffers[usize::from(head.elink.number())]);
        let bytes = block.len();
        self.books.comes(buffer, bytes);
        self.books.waits(buffer, bytes);
        let placed = self.place(block, head, buffer);
        // Whatever hindered it, it is not in hand any more.
        self.books.waits_no_more(buffer, bytes);
        let is_placed = matches!(placed, Ok(true));
        if !is_placed {
            self.books.not_shown(buffer, bytes);
        }
        self.blocks += u64::from(is_placed);
        self.hidden += u64::from(is_placed);
        placed?;
        if self.hidden >= SHOWN_BLOCKS {
            self.show();
            self.tend()?;
        }
        Ok(())
    }

    /// False when it was told to stop before there was room.
    fn place(
        &mut self,
        block: &[u8],
        head: Option<BlockHead>,
        buffer: usize,
    ) -> Result<bool, EmuError> {
        self.wait_for_time()?;
        let has_room = self.wait_for_room(buffer)?;
        let Some(into) = self.rings.reserve(buffer).filter(|_| has_room) else {
            return Ok(false);
        };
        into.copy_from_slice(block);
        if let Some(head) = head {
            self.sequences.stamp(head, into);
        }
        self.rings.commit(buffer);
        Ok(true)
    }

    fn wait_for_time(&mut self) -> Result<(), EmuError> {
        let Some(blocks_hz) = self.replay.blocks_hz else {
            return Ok(());
        };
        let after_ns = u128::from(self.blocks) * 1_000_000_000 / u128::from(blocks_hz.max(1));
        let due_ns = self.begun_ns + u64::try_from(after_ns).unwrap_or(u64::MAX - self.begun_ns);
        loop {
            let now_ns = clock::monotonic_ns();
            if now_ns >= due_ns || self.stops() {
                return Ok(());
            }
            self.show();
            self.tend()?;
            std::thread::sleep(Duration::from_nanos(due_ns - now_ns).min(WAIT));
        }
    }

    /// Whether there is room; without it only after an order to stop.
    fn wait_for_room(&mut self, buffer: usize) -> Result<bool, EmuError> {
        if self.rings.reserve(buffer).is_some() {
            return Ok(true);
        }
        let begun_ns = clock::monotonic_ns();
        let has_room = loop {
            self.show();
            self.tend()?;
            if self.rings.reserve(buffer).is_some() {
                break true;
            }
            if self.stops() {
                break false;
            }
            self.rings.wait_space(buffer, WAIT)?;
        };
        let held_ns = clock::monotonic_ns() - begun_ns;
        self.books.book.add(self.books.held_up_ns, held_ns);
        Ok(has_room)
    }

    fn show(&mut self) {
        self.hidden = 0;
        self.rings.show();
    }

    /// Readers and books.
    fn tend(&mut self) -> Result<(), EmuError> {
        self.door.serve()?;
        self.rings.check()?;
        let now_ns = clock::monotonic_ns();
        if now_ns >= self.books.committed_ns + COMMIT_NS {
            self.books.committed_ns = now_ns;
            self.books.commit(&mut self.rings);
        }
        Ok(())
    }

    /// Waits until everything is read, as long as that may take.
    fn finish(&mut self) -> Result<(), EmuError> {
        let (begun, before, asked) = (Instant::now(), self.host.stop.urgency(), self.stops());
        self.rings.close();
        loop {
            self.tend()?;
            let nobody = self.door.readers() == 0;
            let done = self.rings.unread() == 0 || nobody && asked;
            if done
                || begun.elapsed() >= self.plan.drain
                || !self.host.stop.urgency().is_still(before)
            {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn conclude(
        &mut self,
        ended: &Result<(), EmuError>,
        elinks: BTreeSet<u16>,
    ) -> Result<Record<ReplaySummary>, EmuError> {
        // What failed may have failed before what was placed could be seen.
        self.show();
        self.books.commit(&mut self.rings);
        let (condition, reason) = match ended {
            Err(_) => (Condition::Interrupted, Reason::None),
            Ok(()) if self.stops() => (Condition::Ended, Reason::Requested),
            Ok(()) => (Condition::Ended, Reason::InputEnded),
        };
        let ledger = &mut self.books.ledger;
        let (_, mut envelope) = ledger.end(condition, reason, Vec::new())?;
        let summary = self.summary(elinks);
        envelope.failed = match ended {
            Ok(()) => unread(&summary.dma, 0),
            Err(error) => Some(error.to_string()),
        };
        let mut record = Record { envelope, summary };
        self.books.ledger.keep(&mut record)?;
        Ok(record)
    }

    fn summary(&mut self, elinks: BTreeSet<u16>) -> ReplaySummary {
        let (books, file) = (&self.books, &self.books.file);
        let accounts = books.dma.iter().map(|(account, _)| account);
        let [blocks, bytes] = books.sum(accounts.map(|account| account.outgoing));
        let lost = |why: FileDrop| books.book.tally(file.lost(why)).1;
        let nanoseconds = |ns: u64| ns as f64 / 1e9;
        let since_ns = clock::monotonic_ns().saturating_sub(self.begun_ns);
        let dma = self.rings.rings.iter_mut();
        ReplaySummary {
            blocks_format: self.format.to_string(),
            blocks,
            bytes,
            skipped_bytes: lost(FileDrop::NoBlock),
            tail_bytes: lost(FileDrop::CutOff),
            loops: books.book.value(books.loops),
            elinks: elinks.into_iter().collect(),
            held_up_s: nanoseconds(books.book.value(books.held_up_ns)),
            replay_s: nanoseconds(if self.begun_ns > 0 { since_ns } else { 0 }),
            dma: dma.map(|ring| of_ring(ring, self.format)).collect(),
        }
    }
}

#[cfg(test)]
mod tests;

fn of_ring(ring: &mut BlockProducer, format: BlockFormat) -> DmaSummary {
    DmaSummary {
        blocks: ring.position() / format.bytes() as u64,
        blocks_unread: ring.blocks() - ring.free_blocks(),
        capacity_blocks: ring.blocks(),
        busy: None,
    }
}
