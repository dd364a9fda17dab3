//! An emulated card as a process of its own: the engine of [`forebay_emu::card`], given a clock and DMA buffers in shared memory.
//!
//! The card's time is the host's monotonic clock, or a slower one. Blocks that were filled in one round are shown together, and a reader that sleeps is woken once for
//! them: interrupts are coalesced. When the run is over the card waits until its readers have read everything.

mod board;
mod from_host;
pub mod replay;
mod summary;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_emu::card::board::Fault;
use forebay_emu::card::{Card, CardConfig, Dma};
use forebay_ledger::{Condition, Reason};
use forebay_ring::{BlockProducer, BlockRingMemory};
use forebay_run::record::Record;
use forebay_run::{Host, System};
use forebay_run_felix::device::{
    DeviceError, DeviceInfo, Door, FromHostInfo, Writer, from_host_spec,
};
use forebay_run_felix::trigger_times::{self, TriggerTimes};
use forebay_sys::clock;

use crate::card_books::{CardBooks, CardTime};
use crate::diagnostics::ServedBoard;
use crate::error::EmuError;
use crate::hops;
use from_host::FromHostSide;
pub use summary::{CardSummary, DmaSummary, ElinkSummary, FromHostSummary};

/// Shortest sleep: triggers of so much time are made at once.
const GATHER_NS: u64 = 50_000;
/// Longest sleep: so late is a reader let in.
const SLEEP_MOST_NS: u64 = 2_000_000;
/// The door is looked after so often.
const TEND_NS: u64 = 2_000_000;
/// Books are shown so often.
const COMMIT_NS: u64 = 100_000_000;

/// What a card does.
#[derive(Clone, Debug)]
pub struct CardPlan {
    /// What it is called.
    pub name: String,
    /// Where readers open it.
    pub socket: PathBuf,
    /// Directory of its ledger; none: nothing is kept.
    pub out: Option<PathBuf>,
    /// Where Prometheus is answered.
    pub metrics: Option<SocketAddr>,
    /// File in which it notes when some of its triggers were due.
    pub trigger_times: Option<PathBuf>,
    /// Blocks of each DMA buffer, a power of two.
    pub dma_blocks: u64,
    /// Packets of the from-host buffer, a power of two.
    pub from_host_packets: u64,
    /// What it emulates.
    pub config: CardConfig,
    /// What is broken in its board, as its diagnostics see it.
    pub defects: Vec<Fault>,
    /// Triggers begin when every buffer has a reader.
    pub wait_for_readers: bool,
    /// How much slower than real time it lives, 1 and more.
    pub time_dilation: u64,
    /// How long it waits at its end until everything is read.
    pub drain: Duration,
}

impl CardPlan {
    /// Memory that its DMA buffers take together, in bytes.
    #[must_use]
    pub fn dma_bytes(&self) -> u64 {
        self.config.buffers as u64 * self.dma_blocks * self.config.format.bytes() as u64
    }

    /// A card with one DMA buffer of the usual size, for blocks of a file.
    #[must_use]
    pub fn of_replay() -> Self {
        let name = "card0";
        let config = CardConfig::full_mode(1, 1.0, 16);
        Self {
            socket: PathBuf::from(format!("{name}.sock")),
            name: name.into(),
            out: None,
            metrics: None,
            trigger_times: None,
            from_host_packets: 32_768,
            dma_blocks: (64 << 20) / config.format.bytes() as u64,
            config,
            defects: Vec::new(),
            wait_for_readers: true,
            time_dilation: 1,
            drain: Duration::from_secs(60),
        }
    }
}

/// Rings that the engine writes into.
struct Rings {
    rings: Vec<BlockProducer>,
    /// Something was committed and not shown.
    fresh: Vec<bool>,
    /// Buffers that take test blocks only, a bit each.
    held: u64,
    /// Buffers that never interrupt.
    silent: u64,
}

impl Dma for Rings {
    fn reserve(&mut self, buffer: usize) -> Option<&mut [u8]> {
        if self.held >> buffer & 1 == 1 {
            return None;
        }
        self.rings.get_mut(buffer)?.reserve().ok()
    }

    fn commit(&mut self, buffer: usize) {
        if let Some(ring) = self.rings.get_mut(buffer) {
            self.fresh[buffer] |= ring.commit();
        }
    }

    fn free_blocks(&mut self, buffer: usize) -> u64 {
        self.rings
            .get_mut(buffer)
            .map_or(0, BlockProducer::free_blocks)
    }

    fn blocks(&self, buffer: usize) -> u64 {
        self.rings.get(buffer).map_or(0, BlockProducer::blocks)
    }
}

impl Rings {
    /// The memories of a card's DMA buffers, and the side that writes into them.
    fn create(info: &DeviceInfo) -> Result<(Vec<BlockRingMemory>, Self), EmuError> {
        let (mut memories, mut rings) = (Vec::new(), Vec::new());
        for spec in (0..info.blocks.len()).filter_map(|buffer| info.spec(buffer)) {
            let memory = BlockRingMemory::create(&spec)?;
            rings.push(BlockProducer::map(&spec, memory.producer_fds()?)?);
            memories.push(memory);
        }
        let fresh = vec![false; rings.len()];
        let rings = Self {
            rings,
            fresh,
            held: 0,
            silent: 0,
        };
        Ok((memories, rings))
    }

    /// Shows what was committed.
    fn show(&mut self) {
        let rings = self.rings.iter_mut().zip(&mut self.fresh).enumerate();
        for (buffer, (ring, fresh)) in rings {
            if std::mem::take(fresh) {
                ring.publish();
                if self.silent >> buffer & 1 == 0 {
                    ring.notify();
                }
            }
        }
    }

    /// Nothing more comes; a reader that sleeps is woken to see it.
    fn close(&mut self) {
        for ring in &mut self.rings {
            ring.close();
            ring.notify();
        }
    }

    /// Fails when a reader has written what no honest one does.
    fn check(&self) -> Result<(), DeviceError> {
        let mut faults = self.rings.iter().map(BlockProducer::fault).enumerate();
        match faults.find_map(|(buffer, fault)| Some((buffer, fault?))) {
            Some((buffer, fault)) => Err(DeviceError::Reader { buffer, fault }),
            None => Ok(()),
        }
    }

    /// Sleeps until that buffer has room, at most so long.
    fn wait_space(&mut self, buffer: usize, most: Duration) -> Result<(), EmuError> {
        let waited = self.rings[buffer].wait_space(most);
        // A reader that is the cause of a failure is named.
        self.check()?;
        waited?;
        Ok(())
    }

    /// Blocks that were shown and not given back.
    fn unread(&mut self) -> u64 {
        let unread = |ring: &mut BlockProducer| ring.blocks() - ring.free_blocks();
        self.rings.iter_mut().map(unread).sum()
    }
}

/// A card at work.
struct Process<'a> {
    plan: &'a CardPlan,
    card: Card,
    times: Option<TriggerTimes>,
    rings: Rings,
    from_host: FromHostSide,
    door: Door<ServedBoard>,
    host: &'a Host,
    books: CardBooks,
    tended_ns: u64,
    /// So far has the board's time come.
    board_ns: u64,
    committed_ns: u64,
    /// How far the card's time has come.
    card_ns: u64,
}

/// Makes the card, and lets it work until it ends.
impl System for CardPlan {
    const HOPS: &'static [&'static str] = hops::CARD;
    type Summary = CardSummary;
    type Error = EmuError;

    fn run(self, host: &Host) -> Result<Record<CardSummary>, EmuError> {
        let mut process = Process::begin(&self, host)?;
        let ended = process.work();
        process.conclude(ended)
    }
}

impl<'a> Process<'a> {
    fn begin(plan: &'a CardPlan, host: &'a Host) -> Result<Self, EmuError> {
        let mut card = Card::new(&plan.config)?;
        let times = match &plan.trigger_times {
            Some(path) => {
                card.sample_triggers(trigger_times::EVERY);
                Some(TriggerTimes::create(path)?)
            }
            None => None,
        };
        let info = describe(plan);
        let (memories, rings) = Rings::create(&info)?;
        let account = card.account();
        let (books, from_host_book) = CardBooks::open(
            &plan.name,
            plan.out.as_deref(),
            &account,
            rings.rings.len(),
            &mut |warning| host.warn(warning),
        )?;
        let (mut books, from_host_book) = (
            books.leaking(&host.leak),
            from_host_book.leaking(&host.leak),
        );
        books.ledger.page(plan.metrics)?;
        let (from_host, memory) = FromHostSide::open(
            from_host_spec(&plan.name, plan.from_host_packets),
            from_host_book,
        )?;
        let board = board::board(plan, &info)?;
        let mut door = Door::open(&plan.socket, info, memories)?;
        door.offer_board(ServedBoard(board));
        door.offer_from_host(Some(memory));
        host.say(format_args!(
            "{} is at {}",
            plan.name,
            plan.socket.display()
        ));
        Ok(Self {
            plan,
            card,
            times,
            rings,
            from_host,
            door,
            host,
            books,
            tended_ns: 0,
            board_ns: clock::monotonic_ns(),
            committed_ns: 0,
            card_ns: 0,
        })
    }
}

fn describe(plan: &CardPlan) -> DeviceInfo {
    let config = &plan.config;
    let mut elinks = vec![Vec::new(); config.buffers];
    for one in &config.elinks {
        elinks[one.buffer].push(one.elink.number());
    }
    if let Some(buffer) = config.ttc.to_host {
        elinks[buffer].push(forebay_wire::felix::Elink::TTC_TO_HOST.number());
    }
    let layout = config.format.layout();
    DeviceInfo {
        name: plan.name.clone(),
        marker: config.format.marker(),
        headers: layout == forebay_wire::felix::Layout::Headers32,
        blocks: vec![plan.dma_blocks; config.buffers],
        elinks,
        from_host: Some(FromHostInfo {
            packets: plan.from_host_packets,
            format: config.front_end.packets.name().into(),
            message_bytes_max: config.front_end.message_bytes_max,
        }),
        pid: std::process::id(),
    }
}

/// How the card's time ended.
struct Ended {
    /// So much of the card's time has passed.
    card_ns: u64,
    stopped: bool,
    /// All that front ends had sent is in DMA buffers.
    is_out: bool,
}

impl Process<'_> {
    fn work(&mut self) -> Result<Ended, EmuError> {
        let wanted = self.plan.config.buffers;
        // A process at its diagnostics has buffers too, and wants no triggers.
        let waits = |door: &Door<ServedBoard>| door.readers() < wanted || door.is_diagnosed();
        while self.plan.wait_for_readers && waits(&self.door) && !self.stops() {
            self.tend(clock::monotonic_ns())?;
            std::thread::sleep(Duration::from_millis(2));
        }
        let begun_ns = clock::monotonic_ns();
        let card_time = |now_ns: u64| (now_ns - begun_ns) / self.plan.time_dilation;
        let (mut now_ns, mut card_ns) = (begun_ns, 0);
        while !self.stops() && self.card.has_triggers() {
            let took = self.take_packets(card_ns)?;
            let is_up_to_date = self.card.handle_time(card_ns, &mut self.rings);
            self.note_times(begun_ns);
            self.rings.show();
            self.tend(now_ns)?;
            if is_up_to_date && !took {
                self.sleep(card_ns)?;
            }
            now_ns = clock::monotonic_ns();
            card_ns = card_time(now_ns);
            self.card_ns = card_ns;
        }
        let stopped = self.stops();
        let is_out = self.finish(card_ns)?;
        Ok(Ended {
            card_ns,
            stopped,
            is_out,
        })
    }

    fn stops(&self) -> bool {
        self.host.stop.is_asked()
    }

    /// Notes when triggers were due, before anybody can see their chunks.
    fn note_times(&mut self, begun_ns: u64) {
        if let Some(times) = &mut self.times {
            while let Some((number, due_ns)) = self.card.take_sampled() {
                times.put(number, begun_ns + due_ns * self.plan.time_dilation);
            }
        }
    }

    /// Takes packets for the front ends: whether there were some.
    fn take_packets(&mut self, card_ns: u64) -> Result<bool, EmuError> {
        let (card, door) = (&mut self.card, &mut self.door);
        let mut warn = |warning: &str| self.host.warn(warning);
        Ok(self.from_host.turn(card, card_ns, door, &mut warn)?)
    }

    /// Until something happens in the card, or packets come, or a DMA buffer has room again.
    fn sleep(&mut self, card_ns: u64) -> Result<(), EmuError> {
        let dilation = self.plan.time_dilation;
        let due = self.card.poll_timeout();
        let wait_ns = due.map_or(SLEEP_MOST_NS, |due| {
            due.saturating_sub(card_ns).saturating_mul(dilation)
        });
        let wait_ns = wait_ns.clamp(GATHER_NS, SLEEP_MOST_NS);
        let mut rings = self.rings.rings.iter_mut();
        if let Some(full) = rings.position(|ring| ring.free_blocks() == 0) {
            return self.rings.wait_space(full, Duration::from_nanos(wait_ns));
        }
        let wait = Duration::from_nanos(wait_ns);
        if self.door.writer() == Writer::Here && self.card.takes_packets() {
            self.from_host.sleep(wait);
        } else {
            std::thread::sleep(wait);
        }
        Ok(())
    }

    /// Readers and books.
    fn tend(&mut self, now_ns: u64) -> Result<(), EmuError> {
        if now_ns >= self.tended_ns + TEND_NS {
            self.tended_ns = now_ns;
            // What is asked sees the board as it is now.
            self.tend_board(now_ns);
            self.door.serve()?;
            self.hold_buffers();
            self.rings.check()?;
        }
        if now_ns >= self.committed_ns + COMMIT_NS {
            self.committed_ns = now_ns;
            self.show_books();
        }
        Ok(())
    }

    fn show_books(&mut self) {
        let fills = self.rings.rings.iter_mut();
        let fills: Vec<[u64; 2]> = fills
            .map(|ring| [ring.position(), ring.blocks() - ring.free_blocks()])
            .collect();
        let block_bytes = self.plan.config.format.bytes() as u64;
        let time = CardTime {
            ns: self.card_ns,
            busy_ns: self.card.busy_ns(),
        };
        self.books
            .commit(&self.card.account(), time, &fills, block_bytes);
    }

    /// Everything goes out and is read, as long as that may take: whether all went out.
    fn finish(&mut self, card_ns: u64) -> Result<bool, EmuError> {
        let (begun, before, asked) = (Instant::now(), self.host.stop.urgency(), self.stops());
        let mut is_out = false;
        self.from_host.begin_end(&mut self.door);
        loop {
            if !is_out {
                while self.take_packets(card_ns)? {}
                let is_read = self.from_host.is_read();
                is_out = self.card.finish(card_ns, &mut self.rings) && is_read;
                self.rings.show();
                if is_read {
                    self.from_host.close(&mut self.card);
                }
                if is_out {
                    self.rings.close();
                }
            }
            let now_ns = clock::monotonic_ns();
            self.tend(now_ns)?;
            let nobody = self.door.readers() == 0;
            let done = is_out && (self.rings.unread() == 0 || nobody && asked);
            if done
                || begun.elapsed() >= self.plan.drain
                || !self.host.stop.urgency().is_still(before)
            {
                return Ok(is_out);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn conclude(mut self, ended: Result<Ended, EmuError>) -> Result<Record<CardSummary>, EmuError> {
        // What came into the buffer before its end and was not read in time stays there.
        self.from_host.close(&mut self.card);
        self.show_books();
        let (condition, reason) = match &ended {
            Err(_) => (Condition::Interrupted, Reason::None),
            Ok(ended) if !ended.is_out => (Condition::Interrupted, Reason::Requested),
            Ok(ended) if ended.stopped => (Condition::Ended, Reason::Requested),
            Ok(_) => (Condition::Ended, Reason::LimitReached),
        };
        let card_ns = ended.as_ref().map_or(0, |ended| ended.card_ns);
        let summary = self.summary(card_ns);
        let ledger = &mut self.books.ledger;
        let (_, mut envelope) = ledger.end(condition, reason, Vec::new())?;
        envelope.failed = match &ended {
            Ok(_) => summary.unread(),
            Err(error) => Some(error.to_string()),
        };
        // The engine's own sums see one thing more: that each trigger made a chunk on each E-link.
        let [of_triggers, of_chunks, of_bytes] = self.card.account().residual();
        let books = &mut envelope.books;
        books.residual_items = books.residual_items.max(of_triggers + of_chunks);
        books.residual_bytes = books.residual_bytes.max(of_bytes);
        let mut record = Record { envelope, summary };
        self.books.ledger.keep(&mut record)?;
        ended.map(|_| record)
    }
}
