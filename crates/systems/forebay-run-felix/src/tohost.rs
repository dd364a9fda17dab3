//! To-host as a whole: the DMA buffers of one card or several, each in a thread of its own, and one ledger of all.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_ledger::{Condition, Reason};
use forebay_run::error::RunError;
use forebay_run::record::Record;
use forebay_run::run_dir::KeptLedger;
use forebay_run::{Host, System};
use forebay_run_net::{Address, Settings};
use forebay_sys::process;
use serde::Serialize;

use crate::books;
use crate::buffer_summary::{BufferSummary, CardEnd};
use crate::config::ToHostSettings;
use crate::device::{Device, DeviceError, DeviceInfo};
use crate::error::ReadoutError;
use crate::hops::TOHOST;
use crate::reader::{self, ReaderPlan};

/// What is said of a run whose card went without a farewell.
pub(crate) const CARD_LOST: &str =
    "the card is gone without a farewell; what it had shown was read, and the books are closed";
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
    /// The buffers.
    pub buffers: Vec<BufferSummary>,
}

impl ToHostSummary {
    fn of(buffers: Vec<BufferSummary>) -> Self {
        let sum = |one: fn(&BufferSummary) -> u64| buffers.iter().map(one).sum::<u64>();
        Self {
            blocks: sum(|buffer| buffer.blocks),
            chunks: sum(|buffer| buffer.chunks),
            chunk_bytes: sum(|buffer| buffer.chunk_bytes),
            chunks_published: sum(|buffer| buffer.chunks_published),
            buffers,
        }
    }
}

/// Reads until the cards end.
impl System for ToHostFile {
    const HOPS: &'static [&'static str] = TOHOST;
    type Summary = ToHostSummary;
    type Error = ReadoutError;

    fn run(self, host: &Host) -> Result<Record<ToHostSummary>, ReadoutError> {
        let mut plan = self.plan(|| host.stop.is_asked())?;
        for reader in &mut plan.readers {
            // So many items in all, and not in each buffer.
            if reader.number == 0 {
                reader.settings.leak = host.leak.clone();
            }
            reader.settings.stop = Some(host.stop.clone());
        }
        read_out(&plan, host)
    }
}

fn read_out(plan: &ToHostPlan, host: &Host) -> Result<Record<ToHostSummary>, ReadoutError> {
    let owner = |reader: &ReaderPlan| format!("dma{}", reader.number);
    let owners: Vec<String> = plan.readers.iter().map(owner).collect();
    let mut warn = |warning: &str| host.warn(warning);
    let (mut books, buffer_books) = books::open(plan.out.as_deref(), &owners, &mut warn)?;
    let stop = &host.stop;
    let shown = books.page(plan.metrics)?;
    if let Some(most) = plan.duration {
        stop.end_after(most);
    }
    // One that fails ends the others.
    let failed = AtomicBool::new(false);
    let stops = || failed.load(Ordering::Relaxed) || stop.is_asked();
    let results: Vec<Result<BufferSummary, ReadoutError>> = std::thread::scope(|scope| {
        let (stops, failed) = (&stops, &failed);
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
                    let ready = |address: &Address| {
                        host.say(format_args!(
                            "DMA buffer {number} is published at {address}"
                        ));
                    };
                    let result = reader::run(&reader, book, ready, stops);
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
    conclude(&mut books, results, stop.reason())
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
    asked: Option<Reason>,
) -> Result<Record<ToHostSummary>, ReadoutError> {
    let (mut buffers, mut refused) = (Vec::new(), None);
    for result in results {
        match result {
            Ok(buffer) => buffers.push(buffer),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let lost = buffers.iter().any(|buffer| buffer.end == CardEnd::Lost);
    let failed = buffers.iter().find_map(|buffer| buffer.failed.clone());
    let failed = failed
        .or_else(|| Some(refused.as_ref()?.to_string()))
        .or_else(|| lost.then(|| CARD_LOST.to_owned()));
    let (condition, reason) = match &failed {
        Some(_) => (Condition::Interrupted, Reason::ConnectionLost),
        None => (Condition::Ended, asked.unwrap_or(Reason::InputEnded)),
    };
    let (_, mut envelope) = books.end(condition, reason, Vec::new())?;
    envelope.failed = failed;
    let publishers = buffers.iter_mut();
    for publisher in publishers.filter_map(|buffer| buffer.publisher.as_mut()) {
        // Those without a subscriber are in the account of the chunks.
        let is_counted = |name: &str| name.contains(".no_subscriber.");
        envelope.include(&mut publisher.envelope, is_counted);
    }
    let mut record = Record {
        envelope,
        summary: ToHostSummary::of(buffers),
    };
    books.keep(&mut record)?;
    match refused {
        Some(error) if record.buffers.is_empty() => Err(error),
        _ => Ok(record),
    }
}

#[cfg(test)]
mod tests;
