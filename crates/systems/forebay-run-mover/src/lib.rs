//! The remote mover: takes streams of built events from event builders and writes HLD files (`docs/wire/mover.md`).
//!
//! One thread serves every connection in turn. Each stream has a ledger beside its files, whose one group holds the stream's
//! position, the file's, and the counters: they commit as one record after each write and before the
//! acknowledgement, so that a mover killed at any time goes on with nothing lost and nothing twice.

#![forbid(unsafe_code)]

pub mod config;
mod connection;
mod door;
pub mod hops;
mod stream;
mod streams;
mod summary;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use forebay_ledger::{Leak, Reason};
use forebay_run::error::RunError;
use forebay_run::record::Record;
use forebay_run::run_dir::leave_record;
use forebay_run::{Host, Stop, System};
use forebay_sink::FilePlan;
use forebay_sys::clock;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::watched::LOOK;
use forebay_wire::mover::{BlockFields, Frame, Hello, Refusal, Totals};

use connection::{Connection, Dropped};
use door::Door;
use stream::Stream;
use streams::Streams;
pub use summary::{MoverSummary, StreamRecord, StreamSummary, Unlisted};

/// Most connections at a time.
const CONNECTIONS_MAX: usize = 16;
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
    /// How long a connection is kept on which nothing comes, in ms: its sender may be gone without a word.
    pub idle_limit_ms: u64,
}

/// A mover at work.
pub struct Mover {
    plan: MoverPlan,
    door: Door,
    poller: Poller,
    stop: Stop,
    /// Held as long as this mover lives: two would write the same files.
    _lock: File,
    connections: HashMap<u64, Connection>,
    streams: Streams,
    next_token: u64,
    /// When it last looked after its files.
    looked_ns: u64,
    refused: BTreeMap<&'static str, u64>,
    leak: Leak,
}

impl Mover {
    /// Listens, and serves until `stop` says so.
    ///
    /// # Errors
    /// The address is in use, or the directory is not ours to write.
    pub fn open(mut plan: MoverPlan, stop: Stop) -> Result<Self, RunError> {
        let directory = &plan.file.directory;
        std::fs::create_dir_all(directory)
            .map_err(RunError::file("creating directory", directory))?;
        plan.file.directory = directory
            .canonicalize()
            .map_err(RunError::file("finding", directory))?;
        let lock = lock(&plan.file.directory)?;
        let poller = Poller::create(CONNECTIONS_MAX + 1)?;
        let door = Door::open(plan.listen, &poller, LISTENER)?;
        Ok(Self {
            plan,
            door,
            poller,
            stop,
            _lock: lock,
            connections: HashMap::new(),
            streams: Streams::default(),
            next_token: LISTENER + 1,
            looked_ns: 0,
            refused: BTreeMap::new(),
            leak: Leak::off(),
        })
    }

    /// Loses events uncounted at a hop of [`hops::MOVER`], to test the books.
    #[must_use]
    pub fn with_leak(mut self, leak: Leak) -> Self {
        self.leak = leak;
        self
    }

    /// Where it really listens.
    ///
    /// # Errors
    /// The socket has no address.
    pub fn address(&self) -> Result<SocketAddr, RunError> {
        self.door.address()
    }

    /// Serves until a signal comes, or one stream has ended if that is enough, and leaves the record in the directory.
    ///
    /// # Errors
    /// The system refuses to wait, or a ledger cannot be read at the end.
    pub fn run(mut self) -> Result<Record<MoverSummary>, RunError> {
        let begun_ns = clock::monotonic_ns();
        let mut ready = Vec::with_capacity(CONNECTIONS_MAX);
        while !self.is_done() {
            ready.clear();
            ready.extend(
                self.poller
                    .wait(Some(SLEEP), Duration::ZERO)?
                    .map(|event| event.token),
            );
            // A sender that has sent something by now has its turn before silent ones are looked for, however long writing takes.
            let now_ns = clock::monotonic_ns();
            for token in &ready {
                match *token {
                    LISTENER => self.accept(now_ns),
                    token => self.serve(token),
                }
            }
            self.tend(now_ns);
            if now_ns.saturating_sub(self.looked_ns) >= LOOK.as_nanos() as u64 {
                self.looked_ns = now_ns;
                self.streams.watch();
            }
        }
        self.streams.close_all()?;
        let duration_s = (clock::monotonic_ns() - begun_ns) as f64 / 1e9;
        let reason = self.stop.reason().unwrap_or(Reason::InputEnded);
        let ended = (duration_s, reason);
        let (streams, door) = (self.streams, &self.door);
        let mut record = summary::record(streams, door, self.refused, ended);
        leave_record(&self.plan.file.directory, &mut record)?;
        Ok(record)
    }

    fn is_done(&self) -> bool {
        let served = self.plan.once && self.streams.ended > 0 && self.connections.is_empty();
        served || self.stop.is_asked()
    }

    fn accept(&mut self, now_ns: u64) {
        for (socket, peer) in self.door.accept(&self.poller, now_ns) {
            if let Err(error) = self.admit(socket, peer, now_ns) {
                tracing::warn!(%peer, %error, "a connection cannot be served");
                self.count_refused("setup", peer);
            }
        }
    }

    fn admit(&mut self, socket: TcpStream, peer: SocketAddr, now_ns: u64) -> Result<(), RunError> {
        let connection = Connection::new(socket, peer, now_ns)
            .map_err(RunError::file("setting up", peer.to_string()))?;
        if self.connections.len() >= CONNECTIONS_MAX {
            self.part(connection, &Dropped::Refused(Refusal::Busy));
            return Ok(());
        }
        let token = self.next_token;
        self.next_token += 1;
        let socket = connection.socket();
        self.poller
            .add(socket, token, Interest::Readable, Trigger::Level)?;
        self.connections.insert(token, connection);
        Ok(())
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
        let closed = connection.fill(clock::monotonic_ns())?;
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
        // One that was never served is not there.
        let _ = self.poller.remove(connection.socket());
        if let Some(stream) = connection.stream {
            self.streams.leave(stream, clock::monotonic_ns());
        }
    }

    fn count_refused(&mut self, reason: &'static str, peer: SocketAddr) {
        tracing::warn!(%peer, reason, "a connection was refused");
        *self.refused.entry(reason).or_default() += 1;
    }

    /// Sends what waited for room, and takes leave of senders that are overdue.
    fn tend(&mut self, now_ns: u64) {
        self.door.tend(&self.poller, now_ns);
        let waiting = self.connections.iter();
        let waiting: Vec<u64> = waiting
            .filter(|(_, connection)| connection.has_answers())
            .map(|(token, _)| *token)
            .collect();
        waiting.into_iter().for_each(|token| self.serve(token));
        let idle_limit_ns = self.plan.idle_limit_ms.saturating_mul(1_000_000);
        let overdue = self.connections.iter();
        let overdue: Vec<(u64, Dropped)> = overdue
            .filter_map(|(token, one)| Some((*token, one.overdue(now_ns, idle_limit_ns)?)))
            .collect();
        for (token, dropped) in overdue {
            if let Some(connection) = self.connections.remove(&token) {
                self.part(connection, &dropped);
            }
        }
    }

    /// What a frame of a connection is answered with.
    fn answer(
        &mut self,
        token: u64,
        stream: Option<u64>,
        frame: &Frame<'_>,
    ) -> Result<Answer, Dropped> {
        match (frame, stream) {
            (Frame::Hello(hello), None) => self.welcome(token, hello),
            (Frame::Block(fields, events), Some(stream)) => self.store(stream, fields, events),
            (Frame::End(totals), Some(stream)) => self.end(stream, totals),
            _ => Err(Dropped::Refused(Refusal::Malformed)),
        }
    }

    /// Finds or opens the stream; a sender that comes again takes the place of its old connection.
    fn welcome(&mut self, token: u64, hello: &Hello<'_>) -> Result<Answer, Dropped> {
        let entered = self.streams.enter(&self.plan.file, hello);
        let stream = entered.map_err(Dropped::Refused)?;
        let old = self.connections.iter();
        let old: Vec<u64> = old
            .filter(|(other, connection)| **other != token && connection.stream == Some(stream))
            .map(|(other, _)| *other)
            .collect();
        for other in old {
            if let Some(mut connection) = self.connections.remove(&other) {
                // The stream is the new connection's.
                connection.stream = None;
                self.part(connection, &Dropped::Replaced);
            }
        }
        let position = self.stream(stream)?.welcome(hello);
        Ok(Answer::Welcome { stream, position })
    }

    fn store(
        &mut self,
        stream: u64,
        fields: &BlockFields,
        events: &[u8],
    ) -> Result<Answer, Dropped> {
        let Some(open) = self.streams.at(stream) else {
            return Err(Dropped::Refused(Refusal::OutOfOrder));
        };
        let position = open.store(fields, events, &mut self.leak);
        position.map(Answer::Ack).map_err(Dropped::Refused)
    }

    fn end(&mut self, stream: u64, totals: &Totals) -> Result<Answer, Dropped> {
        let ours = self.stream(stream)?.end(totals);
        ours.map(Answer::Farewell).map_err(Dropped::Refused)
    }

    /// The stream of a connection; it is open as long as the connection is there.
    fn stream(&mut self, id: u64) -> Result<&mut Stream, Dropped> {
        let open = self.streams.at(id);
        open.ok_or(Dropped::Refused(Refusal::OutOfOrder))
    }
}

impl System for MoverPlan {
    const HOPS: &'static [&'static str] = hops::MOVER;
    type Summary = MoverSummary;
    type Error = RunError;

    fn run(self, host: &Host) -> Result<Record<MoverSummary>, RunError> {
        let mover = Mover::open(self, host.stop.clone())?.with_leak(host.leak.clone());
        host.say(format_args!("the mover listens on {}", mover.address()?));
        mover.run()
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
    Welcome { stream: u64, position: u64 },
    Ack(u64),
    Farewell(Totals),
}
