//! The streams of a mover: some open, the rest in their ledgers on disk, of which a summary is kept.

use std::collections::{BTreeMap, VecDeque};

use forebay_run::error::RunError;
use forebay_sink::FilePlan;
use forebay_wire::mover::{Hello, Refusal};

use crate::stream::Stream;
use crate::summary::{self, StreamRecord, Unlisted};

/// Most streams that are open at a time. For one more, the one that was longest without a connection is closed; when it
/// comes again it is opened from its ledger.
const STREAMS_OPEN_MAX: usize = 64;
/// Most closed streams that the summary lists; older ones are summed up.
const STREAMS_LISTED_MAX: usize = 256;

/// An open stream.
struct Open {
    stream: Stream,
    /// Since when it has no connection; none while it has one.
    idle_since_ns: Option<u64>,
}

/// All streams of one mover's life.
#[derive(Default)]
pub(crate) struct Streams {
    open: BTreeMap<u64, Open>,
    next_id: u64,
    pub(crate) listed: VecDeque<StreamRecord>,
    pub(crate) unlisted: Unlisted,
    /// How often senders ended a stream: one that did not hear the farewell does it again.
    pub(crate) ended: u64,
    /// Streams that were closed to make room for others.
    pub(crate) evicted: u64,
    /// Events and bytes written in this life.
    pub(crate) written: (u64, u64),
    /// The first stream whose ledger could not be read at its end.
    failed: Option<RunError>,
}

impl Streams {
    /// The stream of a hello, which has a connection now: an open one, or one that is opened.
    pub(crate) fn enter(&mut self, plan: &FilePlan, hello: &Hello<'_>) -> Result<u64, Refusal> {
        let known = self.open.iter_mut();
        let known = known
            .map(|(id, open)| (*id, open))
            .find(|(_, open)| open.stream.is_of(hello));
        if let Some((id, open)) = known {
            open.idle_since_ns = None;
            return Ok(id);
        }
        if self.open.len() >= STREAMS_OPEN_MAX {
            self.evict()?;
        }
        let mut stream = Stream::open(plan, hello).map_err(|error| {
            tracing::error!(%error, run = hello.run_id, "a stream cannot be opened");
            Refusal::Storage
        })?;
        let listed = self.listed.iter();
        let listed = listed
            .map(|past| (past.envelope.run_id.as_str(), past.sink.as_str()))
            .position(|past| past == (hello.run_id, hello.sink));
        if let Some(past) = listed.and_then(|at| self.listed.remove(at)) {
            stream.taints = past.envelope.taints;
            stream.warnings = past.envelope.warnings;
        }
        let id = self.next_id;
        self.next_id += 1;
        let idle_since_ns = None;
        self.open.insert(
            id,
            Open {
                stream,
                idle_since_ns,
            },
        );
        Ok(id)
    }

    pub(crate) fn at(&mut self, id: u64) -> Option<&mut Stream> {
        self.open.get_mut(&id).map(|open| &mut open.stream)
    }

    /// The stream's connection is gone. One that has ended is closed; another may come again.
    pub(crate) fn leave(&mut self, id: u64, now_ns: u64) {
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        open.idle_since_ns = Some(now_ns);
        if open.stream.has_ended() {
            self.ended += 1;
            self.close(id);
        }
    }

    /// Looks after the files of all that are open.
    pub(crate) fn watch(&mut self) {
        self.open.values_mut().for_each(|open| open.stream.watch());
    }

    /// Makes room: connections are fewer than streams, so that somebody without one is always there.
    fn evict(&mut self) -> Result<(), Refusal> {
        let idle = self.open.iter();
        let idle = idle.filter_map(|(id, open)| Some((open.idle_since_ns?, *id)));
        let (_, id) = idle.min().ok_or(Refusal::Busy)?;
        self.evicted += 1;
        self.close(id);
        Ok(())
    }

    /// Ends the files of a stream and keeps what it came to.
    fn close(&mut self, id: u64) {
        let Some(mut open) = self.open.remove(&id) else {
            return;
        };
        open.stream.interrupt();
        open.stream.look_for_ledger();
        let written = open.stream.written_since_opened();
        self.written.0 += written.0;
        self.written.1 += written.1;
        match summary::of_stream(&open.stream) {
            Ok(summary) => self.listed.push_back(summary),
            Err(error) => {
                tracing::error!(%error, run = open.stream.run_id, "the ledger of a stream cannot be read");
                self.failed.get_or_insert(error);
            }
        }
        while self.listed.len() > STREAMS_LISTED_MAX
            && let Some(oldest) = self.listed.pop_front()
        {
            self.unlisted.add(&oldest);
        }
    }

    /// Closes all that are open.
    ///
    /// # Errors
    /// The ledger of one could not be read at its end.
    pub(crate) fn close_all(&mut self) -> Result<(), RunError> {
        let ids: Vec<u64> = self.open.keys().copied().collect();
        ids.into_iter().for_each(|id| self.close(id));
        self.failed.take().map_or(Ok(()), Err)
    }
}
