//! To-host as a whole: the DMA buffers of one card or several, each in a thread of its own, and one ledger of all.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_ledger::{Closed, Condition, Reason};
use forebay_run::Stop;
use forebay_run::error::RunError;
use forebay_run::metrics::{MetricsServer, Shown};
use forebay_run::run_dir::KeptLedger;
use forebay_run_net::{Address, Settings};
use forebay_sys::process;
use serde::Serialize;

use crate::books;
use crate::buffer_summary::{BufferSummary, CardEnd};
use crate::config::ToHostSettings;
use crate::device::{Device, DeviceError, DeviceInfo};
use crate::error::ReadoutError;
use crate::reader::{self, ReaderPlan};

/// The main thread looks after the others so often.
const LOOK: Duration = Duration::from_millis(50);

/// What a file of to-host says. Which DMA buffers there are, the cards know: see [`plan`](Self::plan).
#[derive(Clone, Debug)]
pub struct ToHostFile {
    /// The section of the whole.
    pub said: ToHostSettings,
    /// The cards.
    pub devices: Vec<DevicePlan>,
}

/// One card that is read.
#[derive(Clone, Debug)]
pub struct DevicePlan {
    /// Where it is opened.
    pub socket: PathBuf,
    /// Which of its buffers; none: all.
    pub buffers: Option<Vec<usize>>,
    /// Where the first of them is published.
    pub address: Address,
    /// How.
    pub settings: Settings,
    /// Chunks from so many bytes on stay where they are.
    pub by_reference_bytes: Option<usize>,
}

impl ToHostFile {
    /// The plan for the cards as they are. One that is not there yet is waited for, unless `stops` says otherwise.
    ///
    /// # Errors
    /// A card is not there, or there are not so many ports.
    pub fn plan(&self, stops: impl Fn() -> bool) -> Result<ToHostPlan, ReadoutError> {
        let said = &self.said;
        let card_wait = Duration::from_secs(said.card_wait_s);
        let mut readers = Vec::new();
        for device in &self.devices {
            let buffers = match &device.buffers {
                Some(buffers) => buffers.clone(),
                None => {
                    let described = described(&device.socket, card_wait, &stops)?;
                    (0..described.blocks.len()).collect()
                }
            };
            for (n, buffer) in buffers.into_iter().enumerate() {
                let number = readers.len();
                let mut settings = device.settings.clone();
                settings.out = Some(said.directory.join(format!("publisher{number}")));
                readers.push(ReaderPlan {
                    number,
                    socket: device.socket.clone(),
                    buffer,
                    address: match n {
                        0 => device.address.clone(),
                        n => device.address.nth(n as u16)?,
                    },
                    settings,
                    detector: said.detector,
                    connector: said.connector,
                    decoder: forebay_readout::Config {
                        chunk_bytes_max: said.chunk_bytes_max,
                    },
                    subscribers_min: said.subscribers_min,
                    card_wait,
                    by_reference_bytes: device.by_reference_bytes,
                });
            }
        }
        Ok(ToHostPlan {
            readers,
            out: Some(said.directory.clone()),
            metrics: said.metrics,
            duration: said.duration_s.map(Duration::from_secs),
        })
    }
}

/// What a card says of itself, as soon as it is there.
fn described(
    socket: &Path,
    most: Duration,
    stops: &dyn Fn() -> bool,
) -> Result<DeviceInfo, DeviceError> {
    let begun = Instant::now();
    loop {
        match Device::describe_unless(socket, stops) {
            Err(DeviceError::NotThere { .. }) if begun.elapsed() < most && !stops() => {
                std::thread::sleep(LOOK);
            }
            answer => return answer,
        }
    }
}

/// What to-host does.
#[derive(Clone, Debug)]
pub struct ToHostPlan {
    /// Its buffers.
    pub readers: Vec<ReaderPlan>,
    /// Directory of the run: its ledger, and those of the publishers below it; none: nothing is kept.
    pub out: Option<PathBuf>,
    /// Where Prometheus is answered.
    pub metrics: Option<SocketAddr>,
    /// Ends after so long.
    pub duration: Option<Duration>,
}

/// What to-host did.
#[derive(Clone, Debug, Serialize)]
pub struct ToHostSummary {
    /// Blocks read.
    pub blocks: u64,
    /// Chunks found.
    pub chunks: u64,
    /// Bytes of them.
    pub chunk_bytes: u64,
    /// Chunks that went to a subscriber or to several.
    pub chunks_published: u64,
    /// What was lost, by place and reason.
    pub drops: BTreeMap<String, u64>,
    /// What the books leave over, in blocks, subchunks, chunks and messages together, and what they still say to be inside.
    #[serde(flatten)]
    pub books: Closed,
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// CPU time of the process, in seconds.
    pub cpu_seconds: f64,
    /// Its process.
    pub pid: u32,
    /// Why the others were ended: what the first that failed said.
    pub failed: Option<String>,
    /// The buffers.
    pub buffers: Vec<BufferSummary>,
}

impl ToHostSummary {
    /// Whether nothing is left over, and nothing left inside.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.books.is_closed()
    }

    /// Whether a card was lost.
    #[must_use]
    pub fn lost_card(&self) -> bool {
        self.buffers
            .iter()
            .any(|buffer| buffer.end == CardEnd::Lost)
    }
}

/// Reads until the cards end or `stop` says so. `ready` is told of each address as soon as it is listened at, and `warn` what an operator should know.
///
/// # Errors
/// Nothing could be read at all; what fails later ends the run with its books closed, and is in the summary.
pub fn run(
    plan: &ToHostPlan,
    stop: &Stop,
    ready: impl Fn(usize, &Address) + Sync,
    mut warn: impl FnMut(&str),
) -> Result<ToHostSummary, ReadoutError> {
    let begun = Instant::now();
    let owner = |reader: &ReaderPlan| format!("dma{}", reader.number);
    let owners: Vec<String> = plan.readers.iter().map(owner).collect();
    let mut warnings = Vec::new();
    let (mut books, buffer_books) = books::open(plan.out.as_deref(), &owners, &mut warnings)?;
    warnings.iter().for_each(|warning| warn(warning));
    let shown = Shown::from(books.reader()?);
    let _metrics = match plan.metrics {
        Some(address) => Some(MetricsServer::start(address, shown.clone())?),
        None => None,
    };
    if let Some(most) = plan.duration {
        stop.end_after(most);
    }
    // One that fails ends the others.
    let failed = AtomicBool::new(false);
    let stops = || failed.load(Ordering::Relaxed) || stop.is_asked();
    let results: Vec<Result<BufferSummary, ReadoutError>> = std::thread::scope(|scope| {
        let (ready, stops, failed) = (&ready, &stops, &failed);
        let threads: Vec<_> = plan
            .readers
            .iter()
            .zip(buffer_books)
            .map(|(reader, book)| {
                let number = reader.number;
                let mut reader = reader.clone();
                reader.settings.shown = Some(shown.labelled("publisher", &owner(&reader)));
                let work = move || {
                    let _guard = StopAtPanic(failed);
                    process::name_thread(&format!("fb-dma{number}"));
                    let result =
                        reader::run(&reader, book, |address| ready(number, address), stops);
                    if !result.as_ref().is_ok_and(|done| done.failed.is_none()) {
                        failed.store(true, Ordering::Relaxed);
                    }
                    result
                };
                scope.spawn(work)
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            books.heartbeat();
            std::thread::sleep(LOOK);
        }
        let panicked = || ReadoutError::from(RunError::Panicked { stage: "reader" });
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())))
            .collect()
    });
    conclude(&mut books, results, begun, stop.reason())
}

/// A thread that panics ends the others, whose books are to be closed.
struct StopAtPanic<'a>(&'a AtomicBool);

impl Drop for StopAtPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

fn conclude(
    books: &mut KeptLedger,
    results: Vec<Result<BufferSummary, ReadoutError>>,
    begun: Instant,
    asked: Option<Reason>,
) -> Result<ToHostSummary, ReadoutError> {
    let (mut buffers, mut refused) = (Vec::new(), None);
    for result in results {
        match result {
            Ok(buffer) => buffers.push(buffer),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let of_buffers = buffers.iter().find_map(|buffer| buffer.failed.clone());
    let failed = of_buffers.or_else(|| Some(refused.as_ref()?.to_string()));
    let lost = buffers.iter().any(|buffer| buffer.end == CardEnd::Lost);
    let (condition, reason) = match (&failed, lost) {
        (Some(_), _) | (_, true) => (Condition::Interrupted, Reason::ConnectionLost),
        (None, false) => (Condition::Ended, asked.unwrap_or(Reason::InputEnded)),
    };
    books.close(condition, reason);
    let summary = summary(books, buffers, begun, failed)?;
    books.keep_summary(&summary)?;
    match refused {
        Some(error) if summary.buffers.is_empty() => Err(error),
        _ => Ok(summary),
    }
}

fn summary(
    books: &KeptLedger,
    buffers: Vec<BufferSummary>,
    begun: Instant,
    failed: Option<String>,
) -> Result<ToHostSummary, ReadoutError> {
    let verdict = books.verdict()?;
    let mut drops = BTreeMap::new();
    for account in &verdict.balance.accounts {
        for line in &account.dropped {
            let name = format!("{}.{}", account.place, line.reason);
            *drops.entry(name).or_default() += line.items;
        }
    }
    let of_publishers = |one: fn(&BufferSummary) -> u64| buffers.iter().map(one).sum::<u64>();
    for buffer in &buffers {
        for (reason, count) in &buffer.publisher.dropped_by_reason {
            // Those without a subscriber are in the account of the chunks.
            if !reason.ends_with("no_subscriber") {
                *drops.entry(reason.clone()).or_default() += count;
            }
        }
    }
    let cpu = process::own_cpu_time();
    Ok(ToHostSummary {
        blocks: of_publishers(|buffer| buffer.blocks),
        chunks: of_publishers(|buffer| buffer.chunks),
        chunk_bytes: of_publishers(|buffer| buffer.chunk_bytes),
        chunks_published: of_publishers(|buffer| buffer.chunks_published),
        drops,
        books: buffers.iter().fold(verdict.closed_books(), |sum, buffer| {
            sum.with(&buffer.publisher.books)
        }),
        seconds: begun.elapsed().as_secs_f64(),
        cpu_seconds: (cpu.user_ns + cpu.system_ns) as f64 / 1e9,
        pid: std::process::id(),
        failed,
        buffers,
    })
}

#[cfg(test)]
mod tests;
