//! The whole chain of link readout as it is used: an emulated card, to-host and a subscriber, three processes of this program. What it says at its end, and what
//! is seen of its ledgers meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use forebay_ledger::LedgerReader;
use forebay_run::Stop;
use forebay_run::run_dir::open_ledger;
use forebay_run_emu::demo::{self, DemoPlan, DemoSummary};

use crate::net::Interrupted;
use forebay_report::rows::Row;

/// How often fills are looked at.
const PERIOD: Duration = Duration::from_millis(20);
/// Size of a block in bytes.
const BLOCK_BYTES: u32 = 4096;
const SEED: u64 = 1;

/// What the chain is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setup {
    /// Links in FULL mode.
    pub(crate) links: u16,
    /// DMA buffers, in which links take turns.
    pub(crate) dma_buffers: u16,
    /// Triggers per second of the card's time.
    pub(crate) trigger_hz: u64,
    /// Size of a chunk in bytes.
    pub(crate) chunk_bytes: u32,
    /// How long triggers come, in ms of real time,
    pub(crate) real_ms: u64,
    /// and of the card's time at least: queues must fill before a link holds triggers back.
    pub(crate) card_ms_min: u64,
    /// How much slower than real time the card lives.
    pub(crate) dilation: u64,
}

/// How the card's time is made slower until this host keeps up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slower {
    /// By this factor at each attempt,
    pub(crate) by: u64,
    /// until it is so many times slower.
    pub(crate) most: u64,
}

impl Slower {
    /// Real time, whatever comes of it.
    pub(crate) const NEVER: Self = Self { by: 1, most: 1 };
}

/// What was measured.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) summary: DemoSummary,
    pub(crate) seen: Seen,
}

/// The most that was seen at a time, of looks every 20 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Of the fullest DMA buffer: blocks not given back, of as many.
    dma_blocks: [u64; 2],
    /// In network buffers of all connections.
    net_bytes: u64,
    /// Looks at which all ledgers were there.
    looks: u64,
}

impl Measured {
    /// CPU time of a process, in s.
    pub(crate) fn cpu_s(&self, process: &str) -> f64 {
        self.summary.cpu_s.get(process).copied().unwrap_or(f64::NAN)
    }

    /// How long triggers came, in s of the card's time.
    pub(crate) fn card_s(&self) -> f64 {
        self.summary.triggers as f64 / self.summary.trigger_rate_hz
    }
}

impl Setup {
    /// Measures in real time, then in slower and slower time until this host is not the limit any more, or as far as `slower` goes. What comes last
    /// counts, with its setup.
    ///
    /// # Errors
    /// As [`measure`].
    pub(crate) fn measure_slower(
        mut self,
        slower: Slower,
        directory: &Path,
        stop: &Stop,
    ) -> Result<(Self, Measured)> {
        loop {
            let measured = measure(&self, directory, stop)?;
            if !measured.summary.host_limited || self.dilation >= slower.most {
                return Ok((self, measured));
            }
            self.dilation = (self.dilation * slower.by).min(slower.most);
        }
    }

    /// As cells: what was asked for, and what came of it.
    pub(crate) fn row(&self, measured: &Measured) -> Row {
        let Measured { summary, seen } = measured;
        let mut row = Row::default();
        row.add("links", f64::from(self.links));
        row.add("dma_buffers", f64::from(self.dma_buffers));
        row.add("asked_hz", self.trigger_hz);
        row.add("chunk_bytes", f64::from(self.chunk_bytes));
        row.add("block_bytes", f64::from(BLOCK_BYTES));
        row.add("seed", SEED);
        row.add("dilation", self.dilation);
        row.add("host_limited", summary.host_limited);
        row.add("link_limited", summary.link_limited);
        row.add("card_seconds", measured.card_s());
        row.add("trigger_hz", summary.trigger_rate_hz);
        // One chunk for each trigger and E-link.
        let share = summary.chunks_received as f64 / summary.chunks_expected.max(1) as f64;
        row.add("elink_chunks_hz", summary.trigger_rate_hz * share);
        row.add("real_chunks_hz", summary.chunk_rate_hz);
        let mean = summary.bytes_received as f64 / summary.chunks_received.max(1) as f64;
        row.add("mean_chunk_bytes", mean);
        row.add("triggers", summary.triggers);
        row.add("held_by_link", summary.held_by_link);
        row.add("held_by_dma", summary.held_by_dma);
        row.add("chunks_expected", summary.chunks_expected);
        row.add("chunks_received", summary.chunks_received);
        row.add("bytes_received", summary.bytes_received);
        row.add("chunks_truncated", summary.chunks_truncated);
        row.add("payload_mismatches", summary.payload_mismatches);
        let drops = summary.drops.iter();
        let drops: Vec<String> = drops.map(|(name, n)| format!("{name}={n}")).collect();
        row.add("drops", drops.join(" "));
        row.add("busy_percent", 100.0 * summary.busy_fraction);
        let [most, capacity] = seen.dma_blocks.map(|blocks| blocks as f64);
        row.add("dma_free_percent_min", 100.0 * (1.0 - most / capacity));
        row.add("dma_fill_blocks_max", most);
        row.add("dma_capacity_blocks", capacity);
        row.add("net_held_bytes_max", seen.net_bytes);
        row.add("looks", seen.looks);
        for process in ["card", "tohost", "swrod"] {
            let percent = 100.0 * measured.cpu_s(process) / measured.card_s();
            row.add(&format!("cpu_{process}_percent_of_card_time"), percent);
            row.add(&format!("cpu_{process}_s"), measured.cpu_s(process));
        }
        row.add("residual_items", summary.books.residual_items);
        row.add("residual_bytes", summary.books.residual_bytes);
        row
    }
}

/// Runs the chain, with its files in `directory`, which is made and removed.
///
/// # Errors
/// It cannot be run, a process of it failed, or it was [`Interrupted`].
pub(crate) fn measure(setup: &Setup, directory: &Path, stop: &Stop) -> Result<Measured> {
    let look = |over: &AtomicBool| look(setup, directory, over);
    let (summary, seen) = beside(setup, directory, stop, look)?;
    Ok(Measured { summary, seen })
}

/// Runs the chain, and `work` in a thread beside it, which is told when the chain is over.
///
/// # Errors
/// As [`measure`].
pub(crate) fn beside<T: Send>(
    setup: &Setup,
    directory: &Path,
    stop: &Stop,
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> Result<(DemoSummary, T)> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("shm://forebay-bench-{}-{run}", std::process::id());
    let plan = DemoPlan {
        links: setup.links,
        dma_buffers: setup.dma_buffers,
        trigger_hz: setup.trigger_hz,
        chunk_bytes: setup.chunk_bytes,
        duration_ms: (setup.real_ms / setup.dilation).max(setup.card_ms_min),
        block_bytes: BLOCK_BYTES,
        backend: name.parse()?,
        time_dilation: setup.dilation,
        seed: SEED,
        out: directory.to_path_buf(),
        metrics: None,
        leak: None,
    };
    let over = AtomicBool::new(false);
    let (summary, worked) = std::thread::scope(|scope| {
        let working = scope.spawn(|| work(&over));
        let summary = demo::run(&plan, stop, |_| {});
        over.store(true, Ordering::Relaxed);
        (summary, working.join())
    });
    let removed = std::fs::remove_dir_all(directory);
    let summary = summary.context("running card, to-host and subscriber")?;
    removed.with_context(|| format!("removing {}", directory.display()))?;
    if stop.is_asked() {
        return Err(Interrupted.into());
    }
    if let Some(failed) = summary.failed.first() {
        bail!("a process of the chain failed: {failed}");
    }
    match worked {
        Ok(worked) => Ok((summary, worked)),
        Err(_) => bail!("the thread beside the chain panicked"),
    }
}

/// Looks at the ledgers until the run is over.
fn look(setup: &Setup, directory: &Path, over: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut ledgers: BTreeMap<String, LedgerReader> = BTreeMap::new();
    let publishers = (0..setup.dma_buffers).map(|number| format!("tohost/publisher{number}"));
    let names: Vec<String> = publishers.chain(["tohost".to_owned()]).collect();
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(PERIOD);
        for name in &names {
            // It is there a moment after the process.
            if !ledgers.contains_key(name)
                && let Ok(ledger) = open_ledger(&directory.join(name))
            {
                ledgers.insert(name.clone(), ledger);
            }
        }
        if ledgers.len() == names.len() {
            seen.add(&ledgers);
        }
    }
    seen
}

impl Seen {
    fn add(&mut self, ledgers: &BTreeMap<String, LedgerReader>) {
        let mut net_bytes = 0;
        for (name, ledger) in ledgers {
            let Ok(snapshot) = ledger.snapshot() else {
                continue;
            };
            if name == "tohost" {
                let of = |name: &str| -> Vec<u64> {
                    let all = snapshot.metrics().filter(|metric| metric.name == name);
                    all.map(|metric| metric.value).collect()
                };
                let fills = of("dma_fill_blocks").into_iter();
                for (fill, capacity) in fills.zip(of("dma_capacity_blocks")) {
                    if capacity > 0 && fill >= self.dma_blocks[0] {
                        self.dma_blocks = [fill, capacity];
                    }
                }
                continue;
            }
            let accounts = snapshot.balance().accounts;
            let send = accounts.iter().filter(|account| account.place == "send");
            net_bytes += send
                .map(|account| account.held.bytes.max(0) as u64)
                .sum::<u64>();
        }
        self.net_bytes = self.net_bytes.max(net_bytes);
        self.looks += 1;
    }
}
