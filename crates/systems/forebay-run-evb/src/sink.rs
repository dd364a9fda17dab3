//! Sinks: each a thread with a queue, a ledger group and a policy of its own.

mod begun;
mod block;
mod file;
mod kept;
mod name;
mod tcp;
mod tenure;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_ledger::{Book, GroupWriter, Leak, Words};
use forebay_ring::{Carried, Consumers, Record};
use forebay_run::error::RunError;
use forebay_run::stage::Report;
use forebay_sys::clock;

use crate::books::{Books, SinkDrop, SinkWords};
use crate::carriage::Carriage;
use crate::error::EvbError;
use crate::plan::{Plan, SinkKind, Stall, check_names};
pub(crate) use block::{Block, Bytes};
pub(crate) use file::HldWriter;
pub(crate) use forebay_sys::watched::LOOK;
use tcp::TcpSink;
use tenure::Lease;
pub(crate) use tenure::Tenure;

/// Longest sleep of a sink that has nothing to do.
const SLEEP: Duration = Duration::from_millis(20);
/// Blocks written before the books are committed.
const BLOCKS_PER_COMMIT: u32 = 8;
/// How often a sink that is waited for is asked whether it got on.
const JOIN_LOOK: Duration = Duration::from_millis(100);

/// Both ends of a sink's queue.
#[derive(Debug)]
pub struct SinkParts {
    /// The builder's end.
    pub producer: Vec<OwnedFd>,
    /// The sink's end.
    pub consumer: Vec<OwnedFd>,
}

/// What writes blocks of events somewhere.
pub(crate) trait Writer {
    /// Makes ready for blocks of `run`; true when the books now say something that must be committed before a block is
    /// written: a successor would not know of the file otherwise, and write its events a second time.
    fn prepare(&mut self, run: u32, books: &mut SinkBooks) -> bool;
    /// Writes the events of one block. What is lost is counted by the writer.
    fn write_block(&mut self, block: &Block<'_>, books: &mut SinkBooks);
    /// Looks after what was written while nothing more comes; true when the books must be committed.
    fn watch(&mut self, books: &mut SinkBooks) -> bool;
    /// Ends the output in order.
    fn finish(&mut self, books: &mut SinkBooks);
    /// What the supervisor should know.
    fn reports(&mut self) -> Vec<Report>;
}

/// A sink's account while it works.
pub(crate) struct SinkBooks {
    pub(crate) words: SinkWords,
    pub(crate) writer: GroupWriter,
    pub(crate) book: Book,
    pub(crate) tenure: Tenure,
}

impl SinkBooks {
    /// Commits; false when the sink was given up and the books are another's now.
    pub(crate) fn commit(&mut self) -> bool {
        self.tenure.during(|| self.writer.commit(&self.book))
    }

    /// Whether the sink was given up.
    fn are_lost(&self) -> bool {
        self.tenure.has_ended()
    }

    /// Came in off the queue.
    fn entered(&mut self, events: u64, bytes: u64) {
        self.book
            .add_tally(self.words.account.incoming, events, bytes);
    }

    /// Is kept here until its fate is known.
    fn hold(&mut self, events: u64, bytes: u64) {
        self.book.add_tally(self.words.account.held, events, bytes);
    }

    /// Is kept no longer.
    fn let_go(&mut self, events: u64, bytes: u64) {
        self.book.sub_tally(self.words.account.held, events, bytes);
    }

    fn written(&mut self, events: u64, bytes: u64) {
        self.book
            .add_tally(self.words.account.outgoing, events, bytes);
    }

    fn dropped(&mut self, reason: SinkDrop, events: u64, bytes: u64) {
        self.book
            .add_tally(self.words.account.lost(reason), events, bytes);
    }
}

/// A running sink.
#[derive(Debug)]
pub struct SinkHandle {
    thread: JoinHandle<()>,
    reports: mpsc::Receiver<Report>,
    progress: Arc<AtomicU64>,
    name: String,
    /// Nothing more will be put into the queue.
    ending: Arc<AtomicBool>,
    /// Without this handle the thread counts nothing more.
    _lease: Lease,
}

impl SinkHandle {
    /// Starts the sink `index` of `plan` where its books say that it stopped.
    ///
    /// # Errors
    /// Its queue cannot be mapped, or its file cannot be opened.
    pub fn start(
        plan: &Plan,
        index: usize,
        books: &Books,
        words: Words,
        fds: Vec<OwnedFd>,
        leak: Leak,
    ) -> Result<Self, RunError> {
        let sink_words = books.sinks[index].clone();
        let writer = GroupWriter::attach(&books.schema, &words, sink_words.group)?;
        let mut own = SinkBooks {
            book: writer.restore(),
            writer,
            words: sink_words,
            tenure: Tenure::default(),
        };
        let lease = Lease(own.tenure.clone());
        own.book
            .set(own.words.capacity, plan.sinks[index].queue_bytes);
        own.commit();
        let mut consumers = Consumers::map(&plan.sink_ring(index), fds)?;
        let (head, pulled) = (
            own.book.value(own.words.head),
            own.book.value(own.words.pulled),
        );
        consumers.rings[0].resume(head)?;
        consumers.rings[0].count_from(pulled);
        let taken = Carriage::restored(&own.book, own.words.taken, 0);
        let name = plan.sinks[index].name.clone();
        let (reports_in, reports) = mpsc::channel();
        let progress = Arc::new(AtomicU64::new(0));
        let ending = Arc::new(AtomicBool::new(false));
        let to_builder = ToBuilder {
            reports: reports_in,
            progress: Arc::clone(&progress),
            ending: Arc::clone(&ending),
        };
        let stall = plan.stall_of(&name);
        let work: Box<dyn FnOnce() + Send> = match &plan.sinks[index].kind {
            SinkKind::File(file) => {
                let out = HldWriter::resume(file.clone(), &mut own)?;
                own.commit();
                let work = Work {
                    consumers,
                    taken,
                    out: Box::new(out),
                    books: own,
                    leak,
                    stall,
                    to_builder,
                    looked_ns: 0,
                };
                Box::new(move || work.run())
            }
            SinkKind::Tcp(tcp) => {
                check_names(&plan.run_id, &name).map_err(EvbError::from)?;
                let stream = (plan.run_id.clone(), name.clone());
                let queue = (consumers, taken);
                let sink = TcpSink::new(tcp, stream, queue, own, to_builder).testing(leak, stall);
                Box::new(move || sink.run())
            }
            SinkKind::Null => {
                return Err(EvbError::SinkWithoutWriter { sink: name }.into());
            }
        };
        let thread_name = format!("sink-{name}");
        let thread = std::thread::Builder::new()
            .name(thread_name.clone())
            .spawn(work)
            .map_err(RunError::file("starting thread", thread_name))?;
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
    pub fn poll_report(&self) -> Option<Report> {
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
    pub fn join(self, limit: Duration) -> Vec<Report> {
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
                        reports.push(Report::Tainted(format!(
                            "write_error: sink {} died",
                            self.name
                        )));
                    }
                    return reports;
                }
            }
            let now = self.progress.load(Ordering::Relaxed);
            if now != progress {
                (progress, waited) = (now, Duration::ZERO);
            }
        }
        reports.push(Report::Tainted(format!(
            "sink_stalled: sink {} wrote nothing for {limit:?} at the end of the run",
            self.name
        )));
        reports
    }
}

/// What a sink tells the builder, and hears from it.
struct ToBuilder {
    reports: mpsc::Sender<Report>,
    progress: Arc<AtomicU64>,
    ending: Arc<AtomicBool>,
}

impl ToBuilder {
    fn report(&self, report: Report) {
        // The builder may have given this sink up.
        let _ = self.reports.send(report);
    }

    /// The sink got on.
    fn tick(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether nothing more will be put into the queue.
    fn is_ending(&self) -> bool {
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
            if let Err(error) = self.consumers.wait(SLEEP) {
                tracing::error!(%error, "waiting for events");
                break;
            }
            self.watch();
        }
        self.out.finish(&mut self.books);
        self.books.commit();
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
            self.commit(None);
        }
        self.report();
    }

    fn report(&mut self) {
        for report in self.out.reports() {
            self.to_builder.report(report);
        }
    }

    /// Writes what is there, then commits, then frees the queue.
    fn take_blocks(&mut self) -> u32 {
        let mut blocks = 0;
        let mut end = None;
        while blocks < BLOCKS_PER_COMMIT
            && let Ok(Some(record)) = self.consumers.rings[0].next()
        {
            self.stall.wait();
            if self.books.are_lost() {
                return blocks;
            }
            if self.out.prepare(record.meta.tag, &mut self.books) {
                self.commit(end);
            }
            self.take_block(&record);
            end = Some((record.end, self.consumers.rings[0].carried()));
            blocks += 1;
        }
        if end.is_some() {
            self.commit(end);
        }
        blocks
    }

    /// Commits what was written; blocks before the end of the last one are given back. With it goes what the queue had carried up to there.
    fn commit(&mut self, end: Option<(u64, Carried)>) {
        if let Some((end, carried)) = &end {
            for word in [self.books.words.head, self.books.words.pulled] {
                self.books.book.set(word, *end);
            }
            self.taken.save(&mut self.books.book, carried);
        }
        let committed = self.books.commit();
        self.to_builder.tick();
        if let Some((end, _)) = end
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
        self.books.entered(block.events, block.bytes.len() as u64);
        if self.leak.is_armed() && self.leak.take("sink") {
            block = block.without_last();
        }
        self.out.write_block(&block, &mut self.books);
    }
}
