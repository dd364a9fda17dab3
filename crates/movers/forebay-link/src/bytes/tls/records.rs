//! TLS without a socket: bytes of the network in and out, and what they say.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    AppDataRecord, ConnectionState, EncodeError, EncryptError, UnbufferedStatus,
};
use rustls::{Error, ServerConfig};
use rustls_pki_types::ServerName;

use super::certificates::Certificates;
use super::fault::TlsFault;

/// Room for what a stranger sends before it has proved its identity, at first and at most: rustls wants a whole message of the hand-shake in one piece,
/// and none may have more than 64 KiB.
const STRANGER_BYTES: usize = 4 << 10;
const STRANGER_BYTES_MAX: usize = 96 << 10;
/// Room for what a known peer sends: so much comes in one system call.
const KNOWN_BYTES: usize = 256 << 10;
/// Plaintext that is encrypted at once, and then sent: what waits for the socket is never more.
const BATCH_BYTES: usize = 64 << 10;
/// A record has at most so much plaintext, and this much beside it at most.
const RECORD_BYTES: usize = 16 << 10;
const RECORD_EXTRA_BYTES: usize = 64;
/// Said first by the side that listens, when it has accepted the certificate of the side that connects: in TLS 1.3 that side does not learn it otherwise.
const ACCEPTED: u8 = 1;
/// An alert by which a side that speaks TLS answers one that does not: a fatal "unexpected message".
const ALERT: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 10];
/// A record of the hand-shake, and an alert.
const HANDSHAKE: u8 = 0x16;
const ALERTS: u8 = 0x15;

enum Side {
    Connects(Box<UnbufferedClientConnection>),
    Listens(Box<UnbufferedServerConnection>),
}

impl Side {
    /// Does the next thing, and says how many of `bytes` are done with.
    fn step(
        &mut self,
        bytes: &mut [u8],
        outgoing: &mut Queue,
        plain: &mut Queue,
    ) -> (usize, Result<Step, Error>) {
        match self {
            Self::Connects(side) => take(side.process_tls_records(bytes), outgoing, plain),
            Self::Listens(side) => take(side.process_tls_records(bytes), outgoing, plain),
        }
    }

    fn wants_write(&self) -> bool {
        match self {
            Self::Connects(side) => side.wants_write(),
            Self::Listens(side) => side.wants_write(),
        }
    }
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not its keys.
        f.write_str(match self {
            Self::Connects(_) => "Connects",
            Self::Listens(_) => "Listens",
        })
    }
}

/// What one step has come to.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Again,
    /// More has to come.
    Waits,
    /// The hand-shake is over, and nothing else is left to do.
    Idle,
    PeerEnded,
}

/// Bytes that wait: written behind, taken from the front.
#[derive(Debug, Default)]
struct Queue {
    memory: Vec<u8>,
    waiting: Range<usize>,
    /// Bytes copied into it so far.
    copied: u64,
}

impl Queue {
    fn bytes(&self) -> &[u8] {
        &self.memory[self.waiting.clone()]
    }

    fn used(&mut self, count: usize) {
        self.waiting.start = (self.waiting.start + count).min(self.waiting.end);
        if self.waiting.is_empty() {
            self.waiting = 0..0;
        }
    }

    /// Room for so many bytes behind those that wait.
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.memory.len() - self.waiting.end < bytes {
            self.memory.copy_within(self.waiting.clone(), 0);
            self.waiting = 0..self.waiting.len();
            let wanted = self.waiting.end + bytes;
            if self.memory.len() < wanted {
                self.memory.resize(wanted, 0);
            }
        }
        &mut self.memory[self.waiting.end..]
    }

    fn came(&mut self, count: usize) {
        self.waiting.end += count;
    }

    fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.came(bytes.len());
        self.copied += bytes.len() as u64;
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Records {
    side: Side,
    /// From the network.
    incoming: Queue,
    /// To the network.
    outgoing: Queue,
    /// What the peer has said.
    plain: Queue,
    /// Parts are put together here.
    gathered: Vec<u8>,
    /// Both sides have proved their identity, and know it.
    known: bool,
    looked: bool,
    /// It is over.
    fault: Option<TlsFault>,
    pub(super) peer_ended: bool,
}

impl Records {
    pub(super) fn connect(
        certificates: &Certificates,
        host: ServerName<'static>,
    ) -> Result<Self, Error> {
        let config = Arc::clone(&certificates.client);
        let mut records = Self::new(Side::Connects(Box::new(UnbufferedClientConnection::new(
            config, host,
        )?)));
        // Begins.
        records.step()?;
        Ok(records)
    }

    pub(super) fn listen(config: &Arc<ServerConfig>) -> Result<Self, Error> {
        let side = UnbufferedServerConnection::new(Arc::clone(config))?;
        Ok(Self::new(Side::Listens(Box::new(side))))
    }

    fn new(side: Side) -> Self {
        Self {
            side,
            incoming: Queue::default(),
            outgoing: Queue::default(),
            plain: Queue::default(),
            gathered: Vec::new(),
            known: false,
            looked: false,
            fault: None,
            peer_ended: false,
        }
    }

    /// Both sides have proved their identity.
    pub(super) fn is_known(&self) -> bool {
        self.known
    }

    /// Where the next bytes of the network go; [`came`](Self::came) says how many there were.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if !self.known {
            return self.incoming.room(STRANGER_BYTES);
        }
        // What is held is a part of a record: less than that.
        let held = self.incoming.waiting.len();
        self.incoming
            .room(KNOWN_BYTES.saturating_sub(held).max(RECORD_BYTES))
    }

    /// So many bytes came: looks at them.
    pub(super) fn came(&mut self, count: usize) -> Result<(), TlsFault> {
        self.incoming.came(count);
        self.check()?;
        let done = self.look().and_then(|()| self.work());
        self.keep(done)
    }

    /// Nothing is asked of rustls after an error: it would find the same one again.
    fn check(&self) -> Result<(), TlsFault> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// Keeps an error, and what there is to say to the peer about it.
    fn keep<T>(&mut self, done: Result<T, TlsFault>) -> Result<T, TlsFault> {
        if let Err(fault) = &done {
            self.fault = Some(fault.clone());
            // What waits to be said comes before anything else, and nothing that came is looked at.
            while self.side.wants_write() {
                let (outgoing, plain) = (&mut self.outgoing, &mut self.plain);
                let (_, step) = self.side.step(&mut [], outgoing, plain);
                if step.is_err() {
                    break;
                }
            }
        }
        done
    }

    /// Whether it looks like TLS at all.
    fn look(&mut self) -> Result<(), TlsFault> {
        if self.looked {
            return Ok(());
        }
        self.looked = true;
        let bytes = self.incoming.bytes();
        if matches!(bytes.first(), None | Some(&(HANDSHAKE | ALERTS))) {
            return Ok(());
        }
        let what = if bytes.first() == Some(&b'F') {
            "Forebay's messaging without TLS"
        } else {
            "something that is no TLS"
        };
        if matches!(self.side, Side::Listens(_)) {
            self.outgoing.push(&ALERT);
        }
        Err(TlsFault::PlainPeer { what })
    }

    /// Everything that has come.
    fn work(&mut self) -> Result<(), TlsFault> {
        loop {
            match self.step()? {
                Step::Again => {}
                Step::PeerEnded => self.peer_ended = true,
                Step::Waits if self.incoming.waiting.len() < STRANGER_BYTES_MAX => return Ok(()),
                Step::Waits => {
                    let what = format!(
                        "a message of the hand-shake has more than {STRANGER_BYTES_MAX} bytes"
                    );
                    return Err(TlsFault::Protocol { what });
                }
                Step::Idle => break,
            }
        }
        if self.known {
            return Ok(());
        }
        // It is about to speak, or to read that it may.
        match self.side {
            Side::Listens(_) => {
                self.known = true;
                self.encrypt(&[ACCEPTED])
            }
            Side::Connects(_) => match self.plain.bytes().first() {
                None => Ok(()),
                Some(&ACCEPTED) => {
                    self.plain.used(1);
                    self.plain.copied -= 1;
                    self.known = true;
                    Ok(())
                }
                Some(_) => Err(TlsFault::Protocol {
                    what: "the peer speaks another protocol in it".into(),
                }),
            },
        }
    }

    fn step(&mut self) -> Result<Step, Error> {
        let bytes = &mut self.incoming.memory[self.incoming.waiting.clone()];
        let (discard, step) = self.side.step(bytes, &mut self.outgoing, &mut self.plain);
        self.incoming.used(discard);
        step
    }

    /// Encrypts what `parts` hold from `from` on, as much as goes out at once: how much that was.
    pub(super) fn encrypt_parts(
        &mut self,
        parts: &[&[u8]],
        mut from: usize,
    ) -> Result<usize, TlsFault> {
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.clear();
        let mut batch = None;
        for part in parts {
            let Some(rest) = part.get(from..).filter(|rest| !rest.is_empty()) else {
                from -= part.len();
                continue;
            };
            from = 0;
            let rest = &rest[..rest.len().min(BATCH_BYTES - gathered.len())];
            if gathered.is_empty() && (rest.len() == BATCH_BYTES || parts.len() == 1) {
                batch = Some(rest);
                break;
            }
            gathered.extend_from_slice(rest);
            if gathered.len() == BATCH_BYTES {
                break;
            }
        }
        let batch = batch.unwrap_or(&gathered);
        let taken = batch.len();
        let done = self.encrypt(batch);
        self.gathered = gathered;
        self.keep(done.map(|()| taken))
    }

    fn encrypt(&mut self, bytes: &[u8]) -> Result<(), TlsFault> {
        let records = bytes.len().div_ceil(RECORD_BYTES);
        let room = bytes.len() + records * RECORD_EXTRA_BYTES;
        self.seal(room, |sealing, room| sealing.encrypt(bytes, room))
    }

    /// Says that nothing more is said.
    pub(super) fn end(&mut self) -> Result<(), TlsFault> {
        let done = self.seal(RECORD_EXTRA_BYTES, |sealing, room| sealing.end(room));
        self.keep(done)
    }

    fn seal(
        &mut self,
        mut room: usize,
        mut write: impl FnMut(&mut dyn Seals, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<(), TlsFault> {
        self.check()?;
        // What rustls has to do first, as a change of keys.
        loop {
            let Self {
                side,
                incoming,
                outgoing,
                plain,
                ..
            } = self;
            let bytes = &mut incoming.memory[incoming.waiting.clone()];
            let (discard, done) = match side {
                Side::Connects(side) => {
                    let status = side.process_tls_records(bytes);
                    seal_or_take(status, &mut write, room, outgoing, plain)
                }
                Side::Listens(side) => {
                    let status = side.process_tls_records(bytes);
                    seal_or_take(status, &mut write, room, outgoing, plain)
                }
            };
            incoming.used(discard);
            match done? {
                Sealed::Done => return Ok(()),
                Sealed::Needs(bytes) => room = bytes,
                Sealed::Not(Step::Again) => {}
                Sealed::Not(Step::PeerEnded) => self.peer_ended = true,
                Sealed::Not(Step::Waits | Step::Idle) => {
                    return Err(TlsFault::Protocol {
                        what: "its keys are used up".into(),
                    });
                }
            }
        }
    }

    /// Bytes that the peer has said so far.
    pub(super) fn plain_total(&self) -> u64 {
        self.plain.copied
    }

    pub(super) fn plain(&self) -> &[u8] {
        self.plain.bytes()
    }

    pub(super) fn plain_used(&mut self, count: usize) {
        self.plain.used(count);
    }

    pub(super) fn outgoing(&self) -> &[u8] {
        self.outgoing.bytes()
    }

    pub(super) fn sent(&mut self, count: usize) {
        self.outgoing.used(count);
    }
}

enum Sealed {
    Done,
    /// So much room is wanted.
    Needs(usize),
    Not(Step),
}

/// What both sides' connections can do.
trait Seals {
    fn encrypt(&mut self, bytes: &[u8], room: &mut [u8]) -> Result<usize, EncryptError>;
    fn end(&mut self, room: &mut [u8]) -> Result<usize, EncryptError>;
}

impl<D> Seals for rustls::unbuffered::WriteTraffic<'_, D> {
    fn encrypt(&mut self, bytes: &[u8], room: &mut [u8]) -> Result<usize, EncryptError> {
        Self::encrypt(self, bytes, room)
    }

    fn end(&mut self, room: &mut [u8]) -> Result<usize, EncryptError> {
        self.queue_close_notify(room)
    }
}

fn seal_or_take<D>(
    mut status: UnbufferedStatus<'_, '_, D>,
    write: &mut impl FnMut(&mut dyn Seals, &mut [u8]) -> Result<usize, EncryptError>,
    room: usize,
    outgoing: &mut Queue,
    plain: &mut Queue,
) -> (usize, Result<Sealed, Error>) {
    if let Ok(ConnectionState::WriteTraffic(traffic)) = &mut status.state {
        let sealed = match write(traffic, outgoing.room(room)) {
            Ok(count) => {
                outgoing.came(count);
                Ok(Sealed::Done)
            }
            Err(EncryptError::InsufficientSize(size)) => Ok(Sealed::Needs(size.required_size)),
            Err(EncryptError::EncryptExhausted) => Err(Error::EncryptError),
        };
        return (status.discard, sealed);
    }
    let (discard, step) = take(status, outgoing, plain);
    (discard, step.map(Sealed::Not))
}

/// Does what rustls asks for; how many bytes from the network are done with.
fn take<D>(
    status: UnbufferedStatus<'_, '_, D>,
    outgoing: &mut Queue,
    plain: &mut Queue,
) -> (usize, Result<Step, Error>) {
    let mut discard = status.discard;
    let step = status.state.and_then(|state| match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let AppDataRecord {
                    payload,
                    discard: more,
                    ..
                } = record?;
                plain.push(payload);
                discard += more;
            }
            Ok(Step::Again)
        }
        ConnectionState::EncodeTlsData(mut data) => {
            let bytes = match data.encode(&mut []) {
                Err(EncodeError::InsufficientSize(size)) => size.required_size,
                _ => 0,
            };
            if let Ok(count) = data.encode(outgoing.room(bytes)) {
                outgoing.came(count);
            }
            Ok(Step::Again)
        }
        // It goes out in its order.
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(Step::Again)
        }
        ConnectionState::PeerClosed => Ok(Step::PeerEnded),
        ConnectionState::WriteTraffic(_) | ConnectionState::Closed => Ok(Step::Idle),
        _ => Ok(Step::Waits),
    });
    (discard, step)
}
