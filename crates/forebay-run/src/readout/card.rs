//! An emulated card as a process of its own: the engine of [`forebay_emu::card`], given a clock and DMA buffers in shared memory.
//!
//! The card's time is the host's monotonic clock, or a slower one. Blocks that were filled in one round are shown together, and a reader that sleeps is woken once for
//! them: interrupts are coalesced. When the run is over the card waits until its readers have read everything.

pub mod replay;
mod summary;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_emu::Behind;
use forebay_emu::card::{Card, CardAccount, CardConfig, Dma};
use forebay_ledger::{Condition, Reason};
use forebay_ring::{BlockProducer, BlockRingMemory};
use forebay_sys::signals::StopSignals;
use forebay_sys::{clock, process};

use super::card_books::{CardBooks, CardTime};
use super::child::Parent;
use super::device::{DeviceError, DeviceInfo, Door};
use super::error::ReadoutError;
use super::trigger_times::{self, TriggerTimes};
use crate::error::RunError;
use crate::metrics::MetricsServer;
pub use summary::{CardSummary, DmaSummary, ElinkSummary};

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
    /// What it emulates.
    pub config: CardConfig,
    /// Triggers begin when every buffer has a reader.
    pub wait_for_readers: bool,
    /// How much slower than real time it lives, 1 and more.
    pub time_dilation: u64,
    /// How long it waits at its end until everything is read.
    pub drain: Duration,
}

impl CardPlan {
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
            dma_blocks: (64 << 20) / config.format.bytes() as u64,
            config,
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
}

impl Dma for Rings {
    fn reserve(&mut self, buffer: usize) -> Option<&mut [u8]> {
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
    fn create(info: &DeviceInfo) -> Result<(Vec<BlockRingMemory>, Self), ReadoutError> {
        let (mut memories, mut rings) = (Vec::new(), Vec::new());
        for spec in (0..info.blocks.len()).filter_map(|buffer| info.spec(buffer)) {
            let memory = BlockRingMemory::create(&spec)?;
            rings.push(BlockProducer::map(&spec, memory.producer_fds()?)?);
            memories.push(memory);
        }
        let fresh = vec![false; rings.len()];
        Ok((memories, Self { rings, fresh }))
    }

    /// Shows what was committed.
    fn show(&mut self) {
        for (ring, fresh) in self.rings.iter_mut().zip(&mut self.fresh) {
            if std::mem::take(fresh) {
                ring.publish();
                ring.notify();
            }
        }
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
    door: Door,
    books: CardBooks,
    signals: &'a StopSignals,
    parent: Parent,
    /// Who started it as a part of a chain is gone.
    orphaned: bool,
    tended_ns: u64,
    committed_ns: u64,
    /// How far the card's time has come.
    card_ns: u64,
}

/// Makes the card, and lets it work until it ends or `signals` say so. `ready` is called when it can be opened.
///
/// # Errors
/// It cannot be made: the socket, its memory, or the configuration.
pub fn run(
    plan: &CardPlan,
    signals: &StopSignals,
    ready: impl FnOnce(&Path),
    mut warn: impl FnMut(&str),
) -> Result<CardSummary, ReadoutError> {
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
    let mut warnings = Vec::new();
    let account = card.account();
    let books = CardBooks::open(
        &plan.name,
        plan.out.as_deref(),
        &account,
        rings.rings.len(),
        &mut warnings,
    )?;
    warnings.iter().for_each(|warning| warn(warning));
    let _metrics = match plan.metrics {
        Some(address) => Some(MetricsServer::start(address, books.reader()?)?),
        None => None,
    };
    let door = Door::open(&plan.socket, info, memories)?;
    ready(&plan.socket);
    let mut process = Process {
        plan,
        card,
        times,
        rings,
        door,
        books,
        signals,
        parent: Parent::from_env(),
        orphaned: false,
        tended_ns: 0,
        committed_ns: 0,
        card_ns: 0,
    };
    let ended = process.work();
    process.conclude(ended)
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
    fn work(&mut self) -> Result<Ended, ReadoutError> {
        let wanted = self.plan.config.buffers;
        while self.plan.wait_for_readers && self.door.readers() < wanted && !self.stops() {
            self.tend(clock::monotonic_ns())?;
            std::thread::sleep(Duration::from_millis(2));
        }
        let begun_ns = clock::monotonic_ns();
        let card_time = |now_ns: u64| (now_ns - begun_ns) / self.plan.time_dilation;
        let (mut now_ns, mut card_ns) = (begun_ns, 0);
        while !self.stops() && self.card.has_triggers() {
            let is_up_to_date = self.card.handle_time(card_ns, &mut self.rings);
            self.note_times(begun_ns);
            self.rings.show();
            self.tend(now_ns)?;
            if is_up_to_date {
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
        self.signals.count() > 0 || self.orphaned
    }

    /// Notes when triggers were due, before anybody can see their chunks.
    fn note_times(&mut self, begun_ns: u64) {
        if let Some(times) = &mut self.times {
            while let Some((number, due_ns)) = self.card.take_sampled() {
                times.put(number, begun_ns + due_ns * self.plan.time_dilation);
            }
        }
    }

    /// Until something happens in the card, or a DMA buffer has room again.
    fn sleep(&mut self, card_ns: u64) -> Result<(), ReadoutError> {
        let dilation = self.plan.time_dilation;
        let due = self.card.poll_timeout();
        let wait_ns = due.map_or(SLEEP_MOST_NS, |due| {
            due.saturating_sub(card_ns).saturating_mul(dilation)
        });
        let wait_ns = wait_ns.clamp(GATHER_NS, SLEEP_MOST_NS);
        for ring in &mut self.rings.rings {
            if ring.free_blocks() == 0 {
                ring.wait_space(Duration::from_nanos(wait_ns))?;
                return Ok(());
            }
        }
        std::thread::sleep(Duration::from_nanos(wait_ns));
        Ok(())
    }

    /// Readers and books.
    fn tend(&mut self, now_ns: u64) -> Result<(), ReadoutError> {
        if now_ns >= self.tended_ns + TEND_NS {
            self.tended_ns = now_ns;
            self.door.serve()?;
            self.orphaned = self.parent.is_gone();
            for (buffer, ring) in self.rings.rings.iter().enumerate() {
                if let Some(fault) = ring.fault() {
                    return Err(DeviceError::Reader { buffer, fault }.into());
                }
            }
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
    fn finish(&mut self, card_ns: u64) -> Result<bool, ReadoutError> {
        let (begun, stops, asked) = (Instant::now(), self.signals.count(), self.stops());
        let mut is_out = false;
        loop {
            if !is_out {
                is_out = self.card.finish(card_ns, &mut self.rings);
                self.rings.show();
                if is_out {
                    self.rings.rings.iter_mut().for_each(BlockProducer::close);
                    // Who sleeps shall see the end.
                    for ring in &self.rings.rings {
                        ring.notify();
                    }
                }
            }
            let now_ns = clock::monotonic_ns();
            self.tend(now_ns)?;
            let nobody = self.door.readers() == 0;
            let done = is_out && (self.rings.unread() == 0 || nobody && asked);
            if done || begun.elapsed() >= self.plan.drain || self.signals.count() > stops {
                return Ok(is_out);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn conclude(mut self, ended: Result<Ended, ReadoutError>) -> Result<CardSummary, ReadoutError> {
        self.show_books();
        let (condition, reason) = match &ended {
            Err(_) => (Condition::Interrupted, Reason::None),
            Ok(ended) if !ended.is_out => (Condition::Interrupted, Reason::Requested),
            Ok(ended) if ended.stopped => (Condition::Complete, Reason::Requested),
            Ok(_) => (Condition::Complete, Reason::LimitReached),
        };
        self.books.close(condition, reason);
        let card_ns = ended.as_ref().map_or(0, |ended| ended.card_ns);
        let summary = self.summary(card_ns);
        self.books.keep(|_| {
            let record = serde_json::to_string_pretty(&summary);
            record.map_err(RunError::not_sayable("record"))
        })?;
        ended.map(|_| summary)
    }

    fn summary(&mut self, card_ns: u64) -> CardSummary {
        let account: CardAccount = self.card.account();
        let Behind {
            lag_ns_p99,
            generator_limited,
            run_ns,
            ..
        } = self.card.behind();
        // What is sent and read after the last trigger is not its time.
        let card_ns = if run_ns > 0 { run_ns } else { card_ns };
        let (triggers, chunks) = (account.triggers, account.chunks);
        let [of_triggers, of_chunks, of_bytes] = account.residual();
        let cpu = process::own_cpu_time();
        let block_bytes = self.plan.config.format.bytes() as u64;
        let dma = self.rings.rings.iter_mut().map(|ring| DmaSummary {
            blocks: ring.position() / block_bytes,
            blocks_unread: ring.blocks() - ring.free_blocks(),
            capacity_blocks: ring.blocks(),
        });
        let dma = dma.collect();
        let lost = |unit: fn(&forebay_emu::Amount) -> u64| {
            let all = forebay_emu::card::CardLoss::ALL.into_iter();
            let all = all.map(|loss| (loss.name(), unit(&chunks.lost(loss))));
            all.filter(|(_, count)| *count > 0).collect()
        };
        let seconds = card_ns as f64 / 1e9;
        let per_second = |count: u64| {
            if card_ns > 0 {
                count as f64 / seconds
            } else {
                0.0
            }
        };
        CardSummary {
            triggers_requested: triggers.requested,
            triggers: triggers.accepted,
            held_by_link: triggers.held_by_link,
            held_by_dma: triggers.held_by_dma,
            held_by_dead_time: triggers.held_by_dead_time,
            chunks: chunks.made.items,
            chunk_bytes: chunks.made.bytes,
            chunks_out: chunks.in_dma.items,
            chunk_bytes_out: chunks.in_dma.bytes,
            chunks_truncated: account.elinks.iter().map(|elink| elink.truncated).sum(),
            dropped: lost(|amount| amount.items),
            dropped_bytes: lost(|amount| amount.bytes),
            faults: account.faults().filter(|(_, count)| *count > 0).collect(),
            held: chunks.held().items,
            busy_fraction: per_second(triggers.busy_ns) / 1e9,
            trigger_rate_hz: per_second(triggers.accepted),
            seconds,
            time_dilation: self.plan.time_dilation,
            host_limited: generator_limited,
            lag_ns_p99,
            residual_items: of_triggers + of_chunks,
            residual_bytes: of_bytes,
            readers_refused: self.door.refused(),
            cpu_seconds: (cpu.user_ns + cpu.system_ns) as f64 / 1e9,
            pid: std::process::id(),
            dma,
            elinks: account.elinks.iter().map(of_elink).collect(),
        }
    }
}

fn of_elink(account: &forebay_emu::card::ElinkAccount) -> ElinkSummary {
    let blocks = account.blocks;
    ElinkSummary {
        elink: account.elink.number(),
        dma_buffer: account.buffer,
        chunks: account.chunks.made.items,
        chunks_out: account.chunks.in_dma.items,
        truncated: account.truncated,
        blocks: [blocks.full, blocks.timed_out, blocks.last],
        xoff: account.fifo.xoff,
        fifo_peak_bytes: account.fifo.peak_bytes,
    }
}
