//! The remote mover: takes streams of built events from event builders and writes HLD files (`docs/wire/mover.md`).
//!
//! One thread serves every connection in turn. Each stream has a ledger beside its files, whose one group holds the stream's
//! position, the file's, and the counters: they commit as one record after each write and before the
//! acknowledgement, so that a mover killed at any time goes on with nothing lost and nothing twice.

mod connection;
mod stream;
mod summary;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_sys::clock;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::signals::StopSignals;
use forebay_wire::mover::{BlockFields, Frame, Hello, Refusal, Totals};

use crate::error::RunError;
use crate::plan::FilePlan;
use connection::{Connection, Dropped};
use stream::Stream;
pub use summary::{MoverSummary, StreamSummary};

/// Most connections at a time.
const CONNECTIONS_MAX: usize = 16;
/// Most streams of one mover's life.
const STREAMS_MAX: usize = 64;
/// Longest time from the connection to the hello.
const HELLO_LIMIT_NS: u64 = 5_000_000_000;
/// Longest sleep: an order to end costs this much.
const SLEEP: Duration = Duration::from_millis(50);
/// Token of the listening socket; connections count from 1.
const LISTENER: u64 = 0;

/// What a mover is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoverPlan {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where and how files are written; when a new one begins is the sender's business.
    pub file: FilePlan,
    /// Ends when one stream has ended in order.
    pub once: bool,
}

/// A mover at work.
pub struct Mover {
    plan: MoverPlan,
    listener: TcpListener,
    poller: Poller,
    signals: StopSignals,
    /// Held as long as this mover lives: two would write the same files.
    _lock: File,
    connections: HashMap<u64, Connection>,
    streams: Vec<Stream>,
    next_token: u64,
    accepted: u64,
    refused: BTreeMap<&'static str, u64>,
}

impl Mover {
    /// Listens.
    ///
    /// # Errors
    /// The address is in use, or the directory is not ours to write.
    pub fn open(mut plan: MoverPlan) -> Result<Self, RunError> {
        let directory = &plan.file.directory;
        std::fs::create_dir_all(directory)
            .map_err(RunError::file("creating directory", directory))?;
        plan.file.directory = directory
            .canonicalize()
            .map_err(RunError::file("finding", directory))?;
        let lock = lock(&plan.file.directory)?;
        let place = || PathBuf::from(plan.listen.to_string());
        let listener =
            TcpListener::bind(plan.listen).map_err(RunError::file("listening on", place()))?;
        listener
            .set_nonblocking(true)
            .map_err(RunError::file("listening on", place()))?;
        let poller = Poller::create(CONNECTIONS_MAX)?;
        poller.add(&listener, LISTENER, Interest::Readable, Trigger::Level)?;
        Ok(Self {
            plan,
            listener,
            poller,
            signals: StopSignals::install()?,
            _lock: lock,
            connections: HashMap::new(),
            streams: Vec::new(),
            next_token: LISTENER + 1,
            accepted: 0,
            refused: BTreeMap::new(),
        })
    }

    /// Where it really listens.
    ///
    /// # Errors
    /// The socket has no address.
    pub fn address(&self) -> Result<SocketAddr, RunError> {
        let address = self.listener.local_addr();
        address.map_err(RunError::file("asking for", "the listening address"))
    }

    /// Serves until a signal comes, or one stream has ended if that is enough.
    ///
    /// # Errors
    /// The system refuses to wait, or a ledger cannot be read at the end.
    pub fn run(mut self) -> Result<MoverSummary, RunError> {
        let mut ready = Vec::with_capacity(CONNECTIONS_MAX);
        while !self.is_done() {
            ready.clear();
            ready.extend(
                self.poller
                    .wait(Some(SLEEP), Duration::ZERO)?
                    .map(|event| event.token),
            );
            for token in &ready {
                match *token {
                    LISTENER => self.accept(),
                    token => self.serve(token),
                }
            }
            self.tend();
        }
        self.streams.iter_mut().for_each(Stream::interrupt);
        MoverSummary::of(&self.streams, self.accepted, self.refused)
    }

    fn is_done(&self) -> bool {
        let served = self.plan.once
            && self.streams.iter().any(Stream::has_ended)
            && self.connections.is_empty();
        served || self.signals.count() > 0
    }

    fn accept(&mut self) {
        while let Ok((socket, peer)) = self.listener.accept() {
            self.accepted += 1;
            let token = self.next_token;
            self.next_token += 1;
            let connection = Connection::new(socket, peer, clock::monotonic_ns());
            if self.connections.len() >= CONNECTIONS_MAX {
                self.count_refused(Refusal::Busy.name(), peer);
                continue;
            }
            let Ok(connection) = connection else { continue };
            let added = self.poller.add(
                connection.socket(),
                token,
                Interest::Readable,
                Trigger::Level,
            );
            if added.is_ok() {
                self.connections.insert(token, connection);
            }
        }
    }

    /// Reads what a connection has, and answers.
    fn serve(&mut self, token: u64) {
        let Some(mut connection) = self.connections.remove(&token) else {
            return;
        };
        match self.converse(token, &mut connection) {
            Ok(()) => {
                self.connections.insert(token, connection);
            }
            Err(dropped) => self.part(connection, &dropped),
        }
    }

    fn converse(&mut self, token: u64, connection: &mut Connection) -> Result<(), Dropped> {
        let closed = connection.fill()?;
        while let Some((frame, length)) = connection.frame()? {
            self.answer(token, connection.stream, &frame)
                .and_then(|answer| connection.take_answer(answer))?;
            connection.used(length);
        }
        connection.flush()?;
        if closed { Err(Dropped::Closed) } else { Ok(()) }
    }

    fn part(&mut self, mut connection: Connection, dropped: &Dropped) {
        if let Some(refusal) = dropped.refusal() {
            connection.say_last(&Frame::Refuse(Ok(refusal)));
        }
        match dropped {
            Dropped::Closed | Dropped::Farewell => {}
            other => self.count_refused(other.reason(), connection.peer),
        }
        let _ = self.poller.remove(connection.socket());
    }

    fn count_refused(&mut self, reason: &'static str, peer: SocketAddr) {
        tracing::warn!(%peer, reason, "a connection was refused");
        *self.refused.entry(reason).or_default() += 1;
    }

    /// Sends what waited for room. Whoever connects and says nothing keeps no place.
    fn tend(&mut self) {
        let now_ns = clock::monotonic_ns();
        let waiting = self.connections.iter();
        let waiting: Vec<u64> = waiting
            .filter(|(_, connection)| connection.has_answers())
            .map(|(token, _)| *token)
            .collect();
        waiting.into_iter().for_each(|token| self.serve(token));
        let silent = |connection: &Connection| {
            connection.stream.is_none() && now_ns > connection.since_ns + HELLO_LIMIT_NS
        };
        let tokens: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, connection)| silent(connection))
            .map(|(token, _)| *token)
            .collect();
        for token in tokens {
            if let Some(connection) = self.connections.remove(&token) {
                self.part(connection, &Dropped::Silent);
            }
        }
    }

    /// What a frame of a connection is answered with.
    fn answer(
        &mut self,
        token: u64,
        stream: Option<usize>,
        frame: &Frame<'_>,
    ) -> Result<Answer, Dropped> {
        match (frame, stream) {
            (Frame::Hello(hello), None) => self.welcome(token, hello),
            (Frame::Block(fields, events), Some(index)) => self.store(index, fields, events),
            (Frame::End(totals), Some(index)) => self.end(index, totals),
            _ => Err(Dropped::Refused(Refusal::Malformed)),
        }
    }

    /// Finds or opens the stream; a sender that comes again takes the place of its old connection.
    fn welcome(&mut self, token: u64, hello: &Hello<'_>) -> Result<Answer, Dropped> {
        let known = self.streams.iter().position(|stream| stream.is_of(hello));
        let index = match known {
            Some(index) => index,
            None if self.streams.len() >= STREAMS_MAX => {
                return Err(Dropped::Refused(Refusal::Busy));
            }
            None => {
                let stream = Stream::open(&self.plan.file, hello).map_err(|error| {
                    tracing::error!(%error, run = hello.run_id, "a stream cannot be opened");
                    Dropped::Refused(Refusal::Storage)
                })?;
                self.streams.push(stream);
                self.streams.len() - 1
            }
        };
        let old = self.connections.iter();
        let old: Vec<u64> = old
            .filter(|(other, connection)| **other != token && connection.stream == Some(index))
            .map(|(other, _)| *other)
            .collect();
        for other in old {
            if let Some(connection) = self.connections.remove(&other) {
                self.part(connection, &Dropped::Replaced);
            }
        }
        let position = self.streams[index].welcome(hello);
        Ok(Answer::Welcome { index, position })
    }

    fn store(
        &mut self,
        index: usize,
        fields: &BlockFields,
        events: &[u8],
    ) -> Result<Answer, Dropped> {
        let position = self.streams[index].store(fields, events);
        position.map(Answer::Ack).map_err(Dropped::Refused)
    }

    fn end(&mut self, index: usize, totals: &Totals) -> Result<Answer, Dropped> {
        let ours = self.streams[index].end(totals);
        ours.map(Answer::Farewell).map_err(Dropped::Refused)
    }
}

/// One mover at a time writes into a directory.
fn lock(directory: &Path) -> Result<File, RunError> {
    let path = directory.join(".mover.lock");
    let file = File::create(&path).map_err(RunError::file("creating", &path))?;
    let locked = file.try_lock().map_err(io::Error::from);
    locked.map_err(RunError::file("another mover uses", directory))?;
    Ok(file)
}

/// What goes back to a sender.
enum Answer {
    Welcome { index: usize, position: u64 },
    Ack(u64),
    Farewell(Totals),
}
