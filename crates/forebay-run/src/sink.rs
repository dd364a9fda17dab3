//! Sinks: each a thread with a queue, a ledger group and a policy of its own.

mod block;
mod file;
mod name;
mod tcp;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_ledger::{Book, GroupWriter, Leak, Words};
use forebay_ring::{Consumers, Record};

use crate::books::{Books, SinkWords};
use crate::error::RunError;
use crate::plan::{Plan, SinkKind};
use crate::stage::Report;
pub(crate) use block::{Block, Bytes};
pub(crate) use file::HldWriter;
use tcp::TcpSink;

/// Longest sleep of a sink that has nothing to do.
const SLEEP: Duration = Duration::from_millis(20);
/// Blocks written before the books are committed.
const BLOCKS_PER_COMMIT: u32 = 8;

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
    /// Writes the events of one block. What is lost is counted by the writer.
    fn write_block(&mut self, block: &Block<'_>, books: &mut SinkBooks);
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
}

impl SinkBooks {
    pub(crate) fn commit(&mut self) {
        self.writer.commit(&self.book);
    }

    fn written(&mut self, events: u64, bytes: u64) {
        self.book
            .add_tally(self.words.account.outgoing, events, bytes);
    }

    fn dropped(&mut self, reason: Dropped, events: u64, bytes: u64) {
        self.book
            .add_tally(self.words.account.dropped[reason as usize], events, bytes);
    }
}

/// Why a sink drops events; the order is that of the ledger's reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dropped {
    DiskFull,
    WriteError,
    PeerLost,
}

/// A running sink.
#[derive(Debug)]
pub struct SinkHandle {
    thread: JoinHandle<Vec<Report>>,
    name: String,
    /// Nothing more will be put into the queue.
    ending: Arc<AtomicBool>,
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
        let own = SinkBooks {
            book: writer.restore(),
            writer,
            words: sink_words,
        };
        let mut consumers = Consumers::map(&plan.sink_ring(index), fds)?;
        consumers.rings[0].resume(own.book.value(own.words.head))?;
        let name = plan.sinks[index].name.clone();
        let ending = Arc::new(AtomicBool::new(false));
        let work: Box<dyn FnOnce() -> Vec<Report> + Send> = match &plan.sinks[index].kind {
            SinkKind::File(file) => {
                let out = Box::new(HldWriter::resume(file.clone(), &own)?);
                let work = Work {
                    consumers,
                    books: own,
                    out,
                    leak,
                };
                Box::new(move || work.run())
            }
            SinkKind::Tcp(tcp) => {
                let stream = (plan.run_id.clone(), name.clone());
                let sink = TcpSink::new(tcp, stream, consumers, own, leak, Arc::clone(&ending));
                Box::new(move || sink.run())
            }
            SinkKind::Null => {
                return Err(RunError::Stage(format!("sink {name} has no writer")));
            }
        };
        let thread_name = format!("sink-{name}");
        let thread = std::thread::Builder::new()
            .name(thread_name.clone())
            .spawn(work)
            .map_err(RunError::file("starting thread", thread_name))?;
        Ok(Self {
            thread,
            name,
            ending,
        })
    }

    /// Waits until everything is written; tells what the supervisor should know.
    #[must_use]
    pub fn join(self) -> Vec<Report> {
        // SYNC POINT ending: partner is the load in `TcpSink::is_ending`.
        self.ending.store(true, Ordering::Release);
        let name = self.name;
        self.thread
            .join()
            .unwrap_or_else(|_| vec![Report::Tainted(format!("sink {name} died"))])
    }
}

struct Work {
    consumers: Consumers,
    books: SinkBooks,
    out: Box<dyn Writer + Send>,
    leak: Leak,
}

impl Work {
    fn run(mut self) -> Vec<Report> {
        loop {
            if self.take_blocks() > 0 {
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
        }
        self.out.finish(&mut self.books);
        self.books.commit();
        self.out.reports()
    }

    /// Writes what is there, then commits, then frees the queue.
    fn take_blocks(&mut self) -> u32 {
        let mut blocks = 0;
        let mut end = None;
        while blocks < BLOCKS_PER_COMMIT
            && let Ok(Some(record)) = self.consumers.rings[0].next()
        {
            self.take_block(&record);
            end = Some(record.end);
            blocks += 1;
        }
        if let Some(end) = end {
            self.books.book.set(self.books.words.head, end);
            self.books.commit();
            self.consumers.rings[0].release(end);
            self.consumers.notify_space();
        }
        blocks
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
        let words = self.books.words.clone();
        let bytes = block.bytes.len() as u64;
        self.books.book.add_tally(words.taken, block.events, bytes);
        if self.leak.is_armed() && self.leak.take("sink_queue") {
            block = block.without_last();
        }
        let bytes = block.bytes.len() as u64;
        self.books
            .book
            .add_tally(words.account.incoming, block.events, bytes);
        if self.leak.is_armed() && self.leak.take("sink") {
            block = block.without_last();
        }
        self.out.write_block(&block, &mut self.books);
    }
}
