//! A connection to a collector that is made again when it is lost. Nothing here waits: what cannot be sent now stays where it was.
//!
//! A message counts as sent when the kernel has all of it. One that was under way when the connection was lost is sent again on the next one: a collector
//! cannot read a part of a message. What the kernel had and the collector had not read then is nobody's knowledge.

use std::io;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use forebay_sys::clock;

use super::stream::{Place, Stream, is_wait};
use super::waiting::{GoesOn, Tcp};

/// A collector that is away is looked for so often, in ns.
const AGAIN_NS: u64 = 500_000_000;

/// What may be done now.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
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
    There(Stream),
    /// When it is looked for next, and the answer of the thread that does that.
    Away {
        next_ns: u64,
        dial: Option<Receiver<io::Result<Stream>>>,
        why: String,
    },
}

/// A message under way.
struct Under {
    bytes: Vec<u8>,
    sent: usize,
    records: usize,
}

/// Such a connection.
pub struct Lasting {
    place: Place,
    state: State,
    under: Option<Under>,
    goes_on: GoesOn,
}

impl Lasting {
    /// Of a connection to a place that is there already. `goes_on` says how long its end is waited for.
    #[must_use]
    pub fn new(place: &Place, stream: Stream, goes_on: GoesOn) -> Self {
        let state = match stream.set_waits(false) {
            Ok(()) => State::There(stream),
            Err(error) => away(0, error.to_string()),
        };
        Self {
            place: place.clone(),
            state,
            under: None,
            goes_on,
        }
    }

    /// Looks for the collector, or brings on what is under way.
    pub fn turn(&mut self) -> Turn {
        if let State::Away { .. } = self.state {
            return if self.dial() {
                Turn::Afresh
            } else {
                Turn::Wait
            };
        }
        if let Some(why) = self.has_left() {
            self.lose(why);
            return Turn::Wait;
        }
        match self.push() {
            Some(0) => Turn::Send,
            Some(records) => Turn::Sent(records),
            None => Turn::Wait,
        }
    }

    /// Whether the collector is there, and nothing is under way.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.state, State::There(_)) && self.under.is_none()
    }

    /// Why the collector is looked for, if it is.
    #[must_use]
    pub fn away(&self) -> Option<&str> {
        match &self.state {
            State::Away { why, .. } => Some(why),
            State::There(_) => None,
        }
    }

    /// Sends a message: its records, if the kernel has taken all of it.
    pub fn send(&mut self, message: &[u8], records: usize) -> usize {
        self.under = Some(Under {
            bytes: message.to_vec(),
            sent: 0,
            records,
        });
        self.push().unwrap_or(0)
    }

    /// Brings on what is under way: its records when all is sent, 0 when nothing was; none when it stays.
    fn push(&mut self) -> Option<usize> {
        let (State::There(stream), Some(under)) = (&mut self.state, &mut self.under) else {
            return Some(0);
        };
        match hand_over(stream, under) {
            Ok(()) => self.under.take().map(|under| under.records),
            Err(error) if is_wait(&error) => None,
            Err(error) => {
                self.lose(error.to_string());
                None
            }
        }
    }

    /// Why the collector has closed the connection, if it has: what is written to it then, the kernel takes and no program reads.
    fn has_left(&mut self) -> Option<String> {
        let State::There(stream) = &mut self.state else {
            return None;
        };
        match stream.has_ended() {
            Ok(true) => Some("it closed the connection".to_owned()),
            Ok(false) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    fn lose(&mut self, why: String) {
        self.under = None;
        self.state = away(clock::monotonic_ns(), why);
    }

    /// Looks whether there is a connection again; one is tried after the other, each by a thread that nobody waits for.
    fn dial(&mut self) -> bool {
        let State::Away { next_ns, dial, why } = &mut self.state else {
            return true;
        };
        let Some(answer) = dial else {
            if clock::monotonic_ns() >= *next_ns {
                *next_ns = clock::monotonic_ns() + AGAIN_NS;
                *dial = try_again(&self.place);
            }
            return false;
        };
        let answer = match answer.try_recv() {
            Ok(answer) => answer.and_then(|stream| stream.set_waits(false).map(|()| stream)),
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => Err(io::Error::other("it is looked for no more")),
        };
        match answer {
            Ok(stream) => {
                self.state = State::There(stream);
                true
            }
            Err(error) => {
                (*dial, *why) = (None, error.to_string());
                false
            }
        }
    }

    /// Sends what is under way, and waits until the collector closes the connection.
    ///
    /// # Errors
    /// The collector is away, or as of [`Tcp::finish`].
    pub fn finish(self) -> io::Result<()> {
        match self.state {
            State::There(stream) => {
                let mut tcp = Tcp::of(stream, self.goes_on)?;
                // Nobody can read half a message.
                let under = self.under.iter();
                let left = under.filter_map(|under| under.bytes.get(under.sent..));
                for left in left {
                    tcp.send(left)?;
                }
                tcp.finish()
            }
            State::Away { why, .. } => {
                let text = format!(
                    "the collector was away at the end ({why}); what it has of the last records is not known"
                );
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, text))
            }
        }
    }
}

fn away(next_ns: u64, why: String) -> State {
    State::Away {
        next_ns,
        dial: None,
        why,
    }
}

/// Brings on a message until the kernel has all of it.
fn hand_over(stream: &mut Stream, under: &mut Under) -> io::Result<()> {
    while let Some(left) = under
        .bytes
        .get(under.sent..)
        .filter(|left| !left.is_empty())
    {
        match stream.write(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => under.sent += taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.flush()
}

fn try_again(place: &Place) -> Option<Receiver<io::Result<Stream>>> {
    let (tell, answer) = mpsc::channel();
    let place = place.clone();
    let dial = move || {
        // A run that is over is not told any more.
        let _ = tell.send(place.dial(&|| true));
    };
    let thread = thread::Builder::new().name("dial".into()).spawn(dial);
    thread.ok().map(|_| answer)
}
