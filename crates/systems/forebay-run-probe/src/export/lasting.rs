//! A connection to a collector that is made again when it is lost. Nothing here waits: what cannot be sent now stays where it was.
//!
//! A message counts as sent when the kernel has all of it. One that was under way when the connection was lost is sent again on the next one: a collector
//! cannot read a part of a message. What the kernel had and the collector had not read then is nobody's knowledge.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use forebay_run::stop::Stop;
use forebay_sys::clock;

use super::carrier::{CONNECT, Tcp, first, is_wait};

/// A collector that is away is looked for so often, in ns.
const AGAIN_NS: u64 = 500_000_000;

/// What may be done now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// A message may be sent.
    Send,
    /// A message may be sent, the first one of a new connection.
    Afresh,
    /// So many records of a message that was under way are sent.
    Sent(usize),
    /// Nothing.
    Wait,
}

enum State {
    There(TcpStream),
    /// When it is looked for next, and the answer of the thread that does that.
    Away {
        next_ns: u64,
        dial: Option<Receiver<io::Result<TcpStream>>>,
    },
}

/// A message under way.
struct Under {
    bytes: Vec<u8>,
    sent: usize,
    records: usize,
}

pub(super) struct Lasting {
    collector: String,
    state: State,
    under: Option<Under>,
    stop: Stop,
}

impl Lasting {
    pub(super) fn new(collector: &str, socket: TcpStream, stop: &Stop) -> Self {
        let mut lasting = Self {
            collector: collector.to_owned(),
            state: away(0),
            under: None,
            stop: stop.clone(),
        };
        if socket.set_nonblocking(true).is_ok() {
            lasting.state = State::There(socket);
        }
        lasting
    }

    /// Looks for the collector, or brings on what is under way.
    pub(super) fn turn(&mut self) -> Turn {
        if let State::Away { .. } = self.state {
            return if self.dial() {
                Turn::Afresh
            } else {
                Turn::Wait
            };
        }
        if self.has_left() {
            self.lose();
            return Turn::Wait;
        }
        match self.push() {
            Some(0) => Turn::Send,
            Some(records) => Turn::Sent(records),
            None => Turn::Wait,
        }
    }

    /// Whether the collector is there, and nothing is under way.
    pub(super) const fn is_idle(&self) -> bool {
        matches!(self.state, State::There(_)) && self.under.is_none()
    }

    /// Whether the collector is looked for.
    pub(super) const fn is_away(&self) -> bool {
        matches!(self.state, State::Away { .. })
    }

    /// Sends a message: its records, if the kernel has taken all of it.
    pub(super) fn send(&mut self, message: &[u8], records: usize) -> usize {
        self.under = Some(Under {
            bytes: message.to_vec(),
            sent: 0,
            records,
        });
        self.push().unwrap_or(0)
    }

    /// Brings on what is under way: its records when all is sent, 0 when nothing was; none when it stays.
    fn push(&mut self) -> Option<usize> {
        let (State::There(socket), Some(under)) = (&mut self.state, &mut self.under) else {
            return Some(0);
        };
        while let Some(left) = under
            .bytes
            .get(under.sent..)
            .filter(|left| !left.is_empty())
        {
            match socket.write(left) {
                Ok(taken @ 1..) => under.sent += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_wait(&error) => return None,
                Ok(_) | Err(_) => {
                    self.lose();
                    return None;
                }
            }
        }
        self.under.take().map(|under| under.records)
    }

    /// Whether the collector has closed the connection: what is written to it then, the kernel takes and nobody reads.
    fn has_left(&mut self) -> bool {
        let State::There(socket) = &mut self.state else {
            return false;
        };
        match socket.read(&mut [0; 512]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => !is_wait(&error),
        }
    }

    fn lose(&mut self) {
        self.under = None;
        self.state = away(clock::monotonic_ns());
    }

    /// Looks whether there is a connection again; one is tried after the other, each by a thread that nobody waits for.
    fn dial(&mut self) -> bool {
        let State::Away { next_ns, dial } = &mut self.state else {
            return true;
        };
        let Some(answer) = dial else {
            if clock::monotonic_ns() >= *next_ns {
                *next_ns = clock::monotonic_ns() + AGAIN_NS;
                *dial = try_again(&self.collector);
            }
            return false;
        };
        match answer.try_recv() {
            Ok(Ok(socket)) if socket.set_nonblocking(true).is_ok() => {
                self.state = State::There(socket);
                true
            }
            Err(TryRecvError::Empty) => false,
            Ok(_) | Err(TryRecvError::Disconnected) => {
                *dial = None;
                false
            }
        }
    }

    /// Waits until the collector closes the connection.
    pub(super) fn finish(self) -> io::Result<()> {
        match self.state {
            State::There(socket) => {
                let mut tcp = Tcp::of(socket, &self.stop)?;
                // Nobody can read half a message.
                let under = self.under.iter();
                let left = under.filter_map(|under| under.bytes.get(under.sent..));
                for left in left {
                    tcp.send(left)?;
                }
                tcp.finish()
            }
            State::Away { .. } => {
                let text = "the collector was away at the end; what it has of the last records is not known";
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, text))
            }
        }
    }
}

fn away(next_ns: u64) -> State {
    State::Away {
        next_ns,
        dial: None,
    }
}

fn try_again(collector: &str) -> Option<Receiver<io::Result<TcpStream>>> {
    let (tell, answer) = mpsc::channel();
    let collector = collector.to_owned();
    let dial = move || {
        let open = |address: SocketAddr| TcpStream::connect_timeout(&address, CONNECT);
        let socket = first(&collector, open).map_err(io::Error::other);
        // A run that is over is not told any more.
        let _ = tell.send(socket);
    };
    let thread = thread::Builder::new().name("dial".into()).spawn(dial);
    thread.ok().map(|_| answer)
}
