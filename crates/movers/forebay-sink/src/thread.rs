//! A sink at work: a thread with a queue, and books of its own.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_ledger::{Carriage, Leak, Taint, TaintKind};
use forebay_ring::{Carried, Consumers, Record, RingSetSpec};
use forebay_sys::clock;
use forebay_sys::watched::LOOK;

use crate::block::{Block, Bytes};
use crate::books::SinkBooks;
use crate::error::SinkError;
use crate::file::HldWriter;
use crate::plan::{FilePlan, Stall, TcpPlan};
use crate::tcp::TcpSink;
use crate::tenure::Lease;
use crate::writer::{Told, Writer};

/// Longest sleep of a sink that has nothing to do.
const SLEEP: Duration = Duration::from_millis(20);
/// Blocks written before the books are committed.
const BLOCKS_PER_COMMIT: u32 = 8;
/// How often a sink that is waited for is asked whether it got on.
const JOIN_LOOK: Duration = Duration::from_millis(100);

/// Where a sink's events go.
#[derive(Debug)]
pub enum To {
    /// HLD files in a directory.
    Files(FilePlan),
    /// A mover, which writes them.
    Mover {
        /// Where it is, and when it shall begin a new file.
        tcp: TcpPlan,
        /// Name of the run: with the sink's own, the mover's name for the stream.
        run_id: String,
    },
}

/// What a sink is started with.
#[derive(Debug)]
pub struct Sink {
    /// Its name.
    pub name: String,
    /// Where its events go.
    pub to: To,
    /// Shape of its queue, of one ring.
    pub queue: RingSetSpec,
    /// Its books.
    pub books: SinkBooks,
    /// Loses events uncounted, to test the books.
    pub leak: Leak,
    /// For tests: what holds the first block up.
    pub stall: Stall,
}

/// A running sink.
#[derive(Debug)]
pub struct SinkHandle {
    thread: JoinHandle<()>,
    reports: mpsc::Receiver<Told>,
    progress: Arc<AtomicU64>,
    name: String,
    /// Nothing more will be put into the queue.
    ending: Arc<AtomicBool>,
    /// Without this handle the thread counts nothing more.
    _lease: Lease,
}

impl SinkHandle {
    /// Starts a sink where its books say that it stopped. `consumer` is its end of the queue.
    ///
    /// # Errors
    /// Its queue cannot be mapped, or its file cannot be opened.
    pub fn start(sink: Sink, consumer: Vec<OwnedFd>) -> Result<Self, SinkError> {
        let Sink {
            name,
            to,
            queue,
            mut books,
            leak,
            stall,
        } = sink;
        let lease = Lease(books.tenure.clone());
        let capacity = queue.capacities_bytes.iter().sum();
        books.book.set(books.words.capacity, capacity);
        books.commit();
        let mut consumers = Consumers::map(&queue, consumer)?;
        let (head, pulled) = (
            books.book.value(books.words.head),
            books.book.value(books.words.pulled),
        );
        consumers.rings[0].resume(head)?;
        consumers.rings[0].count_from(pulled);
        let taken = Carriage::restored(&books.book, books.words.taken, 0);
        let (reports_in, reports) = mpsc::channel();
        let progress = Arc::new(AtomicU64::new(0));
        let ending = Arc::new(AtomicBool::new(false));
        let to_builder = ToBuilder {
            reports: reports_in,
            progress: Arc::clone(&progress),
            ending: Arc::clone(&ending),
        };
        let work: Box<dyn FnOnce() + Send> = match to {
            To::Files(file) => {
                let out = HldWriter::resume_telling(file, &mut books, progress.clone())?;
                books.commit();
                let work = Work {
                    consumers,
                    taken,
                    out: Box::new(out),
                    books,
                    leak,
                    stall,
                    to_builder,
                    looked_ns: 0,
                    taking: VecDeque::new(),
                    decided: None,
                };
                Box::new(move || work.run())
            }
            To::Mover { tcp, run_id } => {
                let stream = (run_id, name.clone());
                let queue = (consumers, taken);
                let sink =
                    TcpSink::new(&tcp, stream, queue, books, to_builder).testing(leak, stall);
                Box::new(move || sink.run())
            }
        };
        let thread_name = format!("sink-{name}");
        let thread = std::thread::Builder::new()
            .name(thread_name.clone())
            .spawn(work)
            .map_err(SinkError::file("starting thread", thread_name))?;
        Ok(Self {
            thread,
            reports,
            progress,
            name,
            ending,
            _lease: lease,
        })
    }

    /// What the supervisor should know, if there is something new.
    #[must_use]
    pub fn poll_report(&self) -> Option<Told> {
        self.reports.try_recv().ok()
    }

    /// Says that nothing more will be put into the queue.
    pub fn expect_end(&self) {
        // SYNC POINT ending: partner is the load in `ToBuilder::is_ending`.
        self.ending.store(true, Ordering::Release);
    }

    /// Waits until everything is written, or the sink got on with nothing for `limit`: then it is given up, and its books
    /// stand still. Tells what the supervisor should know.
    #[must_use]
    pub fn join(self, limit: Duration) -> Vec<Told> {
        let mut reports = Vec::new();
        let mut waited = Duration::ZERO;
        let mut progress = self.progress.load(Ordering::Relaxed);
        while waited < limit {
            match self.reports.recv_timeout(JOIN_LOOK) {
                Ok(report) => reports.push(report),
                Err(RecvTimeoutError::Timeout) => waited += JOIN_LOOK,
                // The sink is through.
                Err(RecvTimeoutError::Disconnected) => {
                    if self.thread.join().is_err() {
                        let text = format!("sink {} died", self.name);
                        let taint = Taint::new(TaintKind::WriteError, text);
                        reports.push(Told::Tainted(taint));
                    }
                    return reports;
                }
            }
            let now = self.progress.load(Ordering::Relaxed);
            if now != progress {
                (progress, waited) = (now, Duration::ZERO);
            }
        }
        let text = format!(
            "sink {} wrote nothing for {limit:?} at the end of the run",
            self.name
        );
        let taint = Taint::new(TaintKind::SinkStalled, text);
        reports.push(Told::Tainted(taint));
        reports
    }
}

/// What a sink tells the builder, and hears from it.
pub(crate) struct ToBuilder {
    reports: mpsc::Sender<Told>,
    progress: Arc<AtomicU64>,
    ending: Arc<AtomicBool>,
}

impl ToBuilder {
    pub(crate) fn report(&self, report: Told) {
        // The builder may have given this sink up.
        let _ = self.reports.send(report);
    }

    /// The sink got on.
    pub(crate) fn tick(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether nothing more will be put into the queue.
    pub(crate) fn is_ending(&self) -> bool {
        // SYNC POINT ending: partner is the store in `SinkHandle::expect_end`.
        self.ending.load(Ordering::Acquire)
    }
}

struct Work {
    consumers: Consumers,
    taken: Carriage,
    books: SinkBooks,
    out: Box<dyn Writer + Send>,
    leak: Leak,
    /// For tests: what holds the first block up.
    stall: Stall,
    to_builder: ToBuilder,
    /// When it last looked after its output.
    looked_ns: u64,
    /// Blocks that were taken, and are not decided.
    taking: VecDeque<Taking>,
    /// Up to where blocks are decided, and not committed.
    decided: Option<(u64, Carried)>,
}

/// A block between the queue and the disk.
struct Taking {
    /// Where it ends in the queue, and what that had carried up to there.
    end: (u64, Carried),
    /// Its events and bytes, as they came in.
    entered: (u64, u64),
}

impl Work {
    fn run(mut self) {
        loop {
            let blocks = self.take_blocks();
            if self.books.are_lost() {
                return;
            }
            if blocks > 0 {
                self.report();
                continue;
            }
            let ring = &self.consumers.rings[0];
            if ring.is_closed() || ring.fault().is_some() {
                break;
            }
            let patience = self.out.patience().unwrap_or(SLEEP);
            if let Err(error) = self.consumers.wait(patience) {
                tracing::error!(%error, "waiting for events");
                break;
            }
            self.watch();
        }
        self.out.finish(&mut self.books);
        self.settle();
        self.commit();
        self.report();
    }

    /// Looks now and then after what was written, while nothing comes: before each block the writer looks itself.
    fn watch(&mut self) {
        let now_ns = clock::monotonic_ns();
        if now_ns.saturating_sub(self.looked_ns) < LOOK.as_nanos() as u64 {
            return;
        }
        self.looked_ns = now_ns;
        if self.out.watch(&mut self.books) {
            self.settle();
            self.commit();
        }
        self.report();
    }

    fn report(&mut self) {
        for report in self.out.reports() {
            self.to_builder.report(report);
        }
    }

    /// Writes what is there, then commits what is decided, then frees the queue.
    fn take_blocks(&mut self) -> u32 {
        let mut blocks = 0;
        while blocks < BLOCKS_PER_COMMIT
            && let Ok(Some(record)) = self.consumers.rings[0].next()
        {
            self.stall.wait();
            if self.books.are_lost() {
                return blocks;
            }
            if self.out.prepare(record.meta.tag, &mut self.books) {
                self.settle();
                self.commit();
            }
            self.take_block(&record);
            blocks += 1;
        }
        self.settle();
        if self.decided.is_some() {
            self.commit();
        }
        blocks
    }

    /// Takes into the books what is decided by now: what came in stands there together with what became of it.
    fn settle(&mut self) {
        for _ in 0..self.out.settle(&mut self.books) {
            let Some(Taking { end, entered }) = self.taking.pop_front() else {
                break;
            };
            self.books.entered(entered.0, entered.1);
            self.decided = Some(end);
        }
    }

    /// Commits; blocks that are decided are given back. With them goes what the queue had carried up to there.
    fn commit(&mut self) {
        let decided = self.decided.take();
        if let Some((end, carried)) = &decided {
            for word in [self.books.words.head, self.books.words.pulled] {
                self.books.book.set(word, *end);
            }
            self.taken.save(&mut self.books.book, carried.counts());
        }
        let committed = self.books.commit();
        self.to_builder.tick();
        if let Some((end, _)) = decided
            && committed
        {
            self.consumers.rings[0].release(end);
            self.consumers.notify_space();
        }
    }

    fn take_block(&mut self, record: &Record) {
        let Some(view) = self.consumers.rings[0].view(record.position, record.len as usize) else {
            return;
        };
        let mut block = Block {
            bytes: Bytes::Queue(view),
            run: record.meta.tag,
            events: u64::from(record.meta.items),
        };
        if self.leak.is_armed() && self.leak.take("sink_queue") {
            block = block.without_last();
        }
        self.taking.push_back(Taking {
            end: (record.end, self.consumers.rings[0].carried()),
            entered: (block.events, block.bytes.len() as u64),
        });
        if self.leak.is_armed() && self.leak.take("sink") {
            block = block.without_last();
        }
        self.out.write_block(&block, &mut self.books);
    }
}
