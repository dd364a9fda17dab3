//! A client's end: its place at the daemon, and its two pools.

mod reserved;
mod waiting;

use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_ring::{
    Descriptor, Frame, FrameReceiver, FrameSender, Full, RingError, SIDE_FDS, View,
};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::seqpacket::{Arrived, SeqSocket};
use forebay_sys::{SysError, wait};

use crate::error::{ClientError, SendError};
use crate::protocol::{HEADER_BYTES, Message, Name, RECORD_BYTES_MAX, WELCOME_FDS, Welcome};

pub use reserved::Reserved;
pub use waiting::Woken;

/// Bytes that a VLAN tag adds to a frame.
const TAG_BYTES: usize = 4;

/// So long a connection is waited for that finds too many others waiting, before it is tried again: nothing tells when there is room.
const CROWDED_WAIT: Duration = Duration::from_millis(1);

/// What a client has counted itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames handed over to be sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that were not handed over, as all buffers were on their way.
    pub refused_full: u64,
}

/// What the daemon hands over with a place: the connection, which holds the place, and the descriptors of two pools. [`Client::connect`] takes it and maps them.
#[derive(Debug)]
pub struct Handed {
    /// The connection: the daemon's last word comes over it, and the place is held as long as it is open.
    pub socket: SeqSocket,
    /// What the daemon gave.
    pub welcome: Welcome,
    /// The receiver's end of the pool in which frames come.
    pub receive: Vec<OwnedFd>,
    /// The sender's end of the pool in which frames go.
    pub transmit: Vec<OwnedFd>,
}

impl Handed {
    /// Asks the daemon at this socket for the place of this name, and waits for the answer as long as `patience`.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn ask(path: &Path, name: &str, patience: Duration) -> Result<Self, ClientError> {
        let hello = Message::Hello(Name::new(name)?);
        let until = Instant::now() + patience;
        let socket = reach(path, until)?;
        // One that is refused before it has said a word finds the refusal all the same.
        let said = socket.send(&hello.emit(), &[]);
        let (answer, mut receive) = hear(&socket, until, patience)?;
        let welcome = match answer {
            Message::Welcome(welcome) => welcome,
            Message::Refusal(refusal) => return Err(ClientError::Refused(refusal)),
            Message::Hello(_) | Message::Bell => {
                return Err(ClientError::Unexpected {
                    expected: "a welcome",
                    found: answer.kind_name(),
                });
            }
        };
        said?;
        if receive.len() != WELCOME_FDS {
            let (expected, found) = (WELCOME_FDS, receive.len());
            return Err(RingError::Descriptors { expected, found }.into());
        }
        let transmit = receive.split_off(SIDE_FDS);
        Ok(Self {
            socket,
            welcome,
            receive,
            transmit,
        })
    }
}

/// A client at its place.
#[derive(Debug)]
pub struct Client {
    socket: SeqSocket,
    welcome: Welcome,
    receiver: FrameReceiver,
    sender: FrameSender,
    /// A frame that was looked at and not yet received.
    next: Option<Descriptor>,
    is_full: bool,
    /// Whether the daemon is asked to ring when buffers are back.
    asks_for_room: bool,
    /// Buffers in the hands of the program that makes frames in them.
    reserved: usize,
    /// What ended the connection, heard while frames were still there: it is told behind them.
    farewell: Option<ClientError>,
    counts: Counts,
}

/// A received frame; its buffer goes back when this is dropped.
#[derive(Debug)]
pub struct Received<'a> {
    receiver: &'a mut FrameReceiver,
    frame: Descriptor,
}

/// A received frame that is kept while others are received. It goes back by [`Client::release`], or with the client.
#[derive(Debug)]
#[must_use = "a frame that is not released is missing in the client's queue"]
pub struct Held(Descriptor);

impl Client {
    /// Asks the daemon at this socket for the place of this name, and waits for the answer as long as `patience`.
    ///
    /// # Errors
    /// Nobody listens there, so many others wait there all the time that it comes not to be heard, the daemon refuses or is silent, or what it hands over is not
    /// what it should be.
    pub fn connect(path: &Path, name: &str, patience: Duration) -> Result<Self, ClientError> {
        let Handed {
            socket,
            welcome,
            receive,
            transmit,
        } = Handed::ask(path, name, patience)?;
        Ok(Self {
            receiver: FrameReceiver::map(&welcome.receive.spec("mux"), receive)?,
            sender: FrameSender::map(&welcome.transmit.spec("mux"), transmit)?,
            socket,
            welcome,
            next: None,
            is_full: false,
            asks_for_room: false,
            reserved: 0,
            farewell: None,
            counts: Counts::default(),
        })
    }

    /// What the daemon gave: number, addresses, and the link's MTU.
    #[must_use]
    pub const fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// What it has counted so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Most bytes of a frame that can be sent.
    #[must_use]
    pub fn frame_bytes_max(&self) -> usize {
        let of_link = self.welcome.mtu_bytes as usize + HEADER_BYTES + TAG_BYTES;
        of_link.min(self.welcome.transmit.frame_bytes as usize)
    }

    /// The next frame, if one has come.
    ///
    /// # Errors
    /// The memory has what an honest daemon does not write.
    pub fn receive(&mut self) -> Result<Option<Received<'_>>, ClientError> {
        if !self.look()? {
            return Ok(None);
        }
        let Some(frame) = self.next.take() else {
            return Ok(None);
        };
        self.counts.received += 1;
        self.counts.received_bytes += u64::from(frame.len);
        Ok(Some(Received {
            receiver: &mut self.receiver,
            frame,
        }))
    }

    /// Copies the next frame to `frame`, in the place of what is there, and gives its buffer back. False: none has come.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn receive_into(&mut self, frame: &mut Vec<u8>) -> Result<bool, ClientError> {
        let received = self.receive()?;
        if let Some(received) = &received {
            received.copy_into(frame);
        }
        Ok(received.is_some())
    }

    fn look(&mut self) -> Result<bool, ClientError> {
        if self.next.is_none() {
            self.next = self.receiver.next()?;
        }
        Ok(self.next.is_some())
    }

    /// The bytes of a frame that is held.
    #[must_use]
    pub fn view(&self, held: &Held) -> Option<View<'_>> {
        self.receiver.view(&held.0)
    }

    /// Gives a frame back that was held.
    pub fn release(&mut self, held: Held) {
        self.receiver.free(held.0.frame);
    }

    /// Copies a frame of an Ethernet link, without its check sum, into a buffer, and hands it over with the next [`Self::flush`] or [`Self::wait`].
    ///
    /// # Errors
    /// All buffers are on their way, the link takes no such frame, or the memory has what an honest daemon does not write.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), SendError> {
        self.send_with(frame.len(), |room| room.copy_from_slice(frame))
    }

    /// The same with a frame of so many bytes that is made where it is sent from: `make` is told the buffer, which still has what was there before, and is
    /// not called where the frame cannot be sent.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_with(
        &mut self,
        bytes: usize,
        make: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        self.admit(bytes)?;
        self.is_full = !(self.is_ready()? && self.put(bytes, make)?);
        self.note(bytes)
    }

    /// Whether the link takes a frame of so many bytes.
    fn admit(&self, found: usize) -> Result<(), SendError> {
        let (least, most) = (HEADER_BYTES, self.frame_bytes_max());
        let is_frame = (least..=most).contains(&found);
        is_frame
            .then_some(())
            .ok_or(SendError::Length { found, least, most })
    }

    /// Counts a frame that was handed over, or was not.
    fn note(&mut self, bytes: usize) -> Result<(), SendError> {
        if self.is_full {
            self.counts.refused_full += 1;
            let frames = self.welcome.transmit.frames;
            return Err(SendError::Full { frames });
        }
        self.counts.sent += 1;
        self.counts.sent_bytes += bytes as u64;
        Ok(())
    }

    /// Whether there is a buffer for a frame. If not, [`Self::wait`] ends when some are back, as after [`SendError::Full`].
    ///
    /// # Errors
    /// The memory has what an honest daemon does not write.
    pub fn is_ready(&mut self) -> Result<bool, ClientError> {
        self.is_full = !self.has_room()?;
        Ok(!self.is_full)
    }

    /// Frames that were handed over and whose buffers are not back: the daemon has not taken them yet.
    ///
    /// # Errors
    /// As [`Self::is_ready`].
    pub fn frames_on_their_way(&mut self) -> Result<usize, ClientError> {
        self.sender.reclaim()?;
        let here = self.sender.free_frames() + self.reserved;
        Ok((self.welcome.transmit.frames as usize).saturating_sub(here))
    }

    fn has_room(&mut self) -> Result<bool, ClientError> {
        if self.sender.free_frames() == 0 {
            self.sender.reclaim()?;
        }
        Ok(self.sender.free_frames() > 0)
    }

    /// Puts a frame into a buffer, which is long enough. False: there is none, or no place for its descriptor.
    fn put(&mut self, bytes: usize, make: impl FnOnce(&mut [u8])) -> Result<bool, ClientError> {
        let Some(mut frame) = self.sender.acquire() else {
            return Ok(false);
        };
        if let Some(room) = self.sender.bytes_mut(&mut frame) {
            make(&mut room[..bytes]);
        }
        self.hand_over(frame, bytes)
    }

    /// Hands a buffer over, or puts it back. False: there is no place for its descriptor.
    fn hand_over(&mut self, frame: Frame, bytes: usize) -> Result<bool, ClientError> {
        let Err(unsent) = self.sender.send(frame, 0, bytes as u32, 0) else {
            return Ok(true);
        };
        self.sender.put_back(unsent.frame);
        match unsent.why {
            Full::Peer(fault) => Err(RingError::Peer { ring: 0, fault }.into()),
            Full::NoSpace { .. } | Full::TooLong { .. } => Ok(false),
        }
    }

    /// Shows the daemon what was sent and what was given back, and rings once if it sleeps.
    pub fn flush(&mut self) {
        self.receiver.publish();
        self.receiver.returns.notify();
        self.sender.publish();
        self.sender.data.notify();
    }
}

impl Held {
    /// The number of its buffer, below the frames of the receive pool: no other frame that is held has it.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.0.frame
    }
}

impl Received<'_> {
    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.frame.len as usize
    }

    /// Its bytes in the shared memory, read without being trusted.
    #[must_use]
    pub fn view(&self) -> Option<View<'_>> {
        self.receiver.view(&self.frame)
    }

    /// Puts a copy into `to`, in the place of what is there.
    pub fn copy_into(&self, to: &mut Vec<u8>) {
        to.clear();
        if let Some(view) = self.view() {
            view.append_to(to);
        }
    }

    /// Keeps it while others are received.
    pub fn hold(self) -> Held {
        let held = Held(self.frame);
        // The frame stays where it is: nothing is freed.
        std::mem::forget(self);
        held
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        self.receiver.free(self.frame.frame);
    }
}

/// A connection, for which others may wait as well: it is tried again until that time.
fn reach(path: &Path, until: Instant) -> Result<SeqSocket, SysError> {
    loop {
        match SeqSocket::connect(path) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(CROWDED_WAIT);
            }
            other => return other,
        }
    }
}

/// The answer to a hello, with what came with it.
fn hear(
    socket: &SeqSocket,
    until: Instant,
    patience: Duration,
) -> Result<(Message, Vec<OwnedFd>), ClientError> {
    let (mut record, mut fds) = ([0; RECORD_BYTES_MAX], Vec::new());
    loop {
        match socket.receive_with_fds(&mut record, &mut fds)? {
            Arrived::Record(bytes) => return Ok((Message::parse(&record[..bytes])?, fds)),
            Arrived::End => return Err(ClientError::Gone),
            Arrived::Nothing if Instant::now() >= until => {
                let waited_ms = patience.as_millis();
                return Err(ClientError::Silent { waited_ms });
            }
            Arrived::Nothing => {
                wait::sleep_until_or([socket.as_fd()], deadline_ns(until), 0)?;
            }
        }
    }
}

fn deadline_ns(until: Instant) -> u64 {
    let left = until.saturating_duration_since(Instant::now());
    let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
    monotonic_ns().saturating_add(left_ns)
}

impl From<SysError> for SendError {
    fn from(error: SysError) -> Self {
        Self::Client(error.into())
    }
}
