//! Where connections come in.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_sys::SysError;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::seqpacket::{Arrived, Peer, SeqListener, SeqSocket};
use forebay_wire::shm::{GREETING_BYTES, Greeting, Refusal};

use super::ends::Ends;
use super::link::ShmLink;
use super::place::{Claim, Place, own_uid};
use super::{Room, checked, is_gone, resource};
use crate::bytes::{Address, ByteLink, Door, DoorError, FDS_MAX, TurnedAway};

/// Connections that may wait to be taken in.
const BACKLOG: u16 = 1024;
/// Connections whose hand-shake has not come.
const VISITORS_MAX: usize = 64;
/// How long they may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Connections that one call takes in at most until it finds one to hand out.
const ACCEPTS_MAX: usize = 64;

/// A listening place in shared memory.
#[derive(Debug)]
pub struct ShmDoor {
    listener: SeqListener,
    claim: Claim,
    /// The listener and the visitors that have not yet said anything.
    waits: Poller,
    visitors: VecDeque<Visitor>,
    turned_away: TurnedAway,
    name: String,
    room: Room,
}

/// Somebody whose hand-shake has not come.
#[derive(Debug)]
struct Visitor {
    socket: SeqSocket,
    peer: Peer,
    since: Instant,
}

/// What became of a visitor.
enum Outcome {
    Link(Box<ShmLink>),
    Silent(Visitor),
    Over,
}

impl ShmDoor {
    /// Listens by that name; no connection gets more than `room`.
    ///
    /// # Errors
    /// Another process listens by that name, its directory is not ours alone, or the room is out of its range.
    pub fn listen(name: &str, room: Room) -> Result<Self, DoorError> {
        let refused = |source: io::Error| DoorError::Listen {
            address: Address::Shm { name: name.into() }.to_string(),
            remedy: remedy(source.kind()),
            source,
        };
        let room = checked(room).map_err(refused)?;
        let claim = Place::make().and_then(|place| place.claim(name));
        let claim = claim.map_err(refused)?;
        let listener = SeqListener::bind(&claim.socket(), BACKLOG);
        let listener = listener.map_err(|error| refused(error.source))?;
        let waits = Poller::create(1)?;
        waits.add(&listener, 0, Interest::Readable, Trigger::Level)?;
        Ok(Self {
            listener,
            claim,
            waits,
            visitors: VecDeque::with_capacity(VISITORS_MAX),
            turned_away: TurnedAway::default(),
            name: name.into(),
            room,
        })
    }

    /// The file of the socket on which both ends meet.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.claim.path()
    }

    fn give_up_silent(&mut self, now: Instant) {
        let before = self.visitors.len();
        self.visitors
            .retain(|visitor| now.saturating_duration_since(visitor.since) < SILENCE_MAX);
        self.turned_away.silent += (before - self.visitors.len()) as u64;
    }

    /// Visitors that came before and were silent.
    fn hear_visitors(&mut self) -> Result<Option<Box<ShmLink>>, DoorError> {
        for _ in 0..self.visitors.len() {
            let Some(visitor) = self.visitors.pop_front() else {
                break;
            };
            match self.hear(visitor)? {
                Outcome::Link(link) => {
                    self.waits.remove(link.socket())?;
                    return Ok(Some(link));
                }
                Outcome::Silent(visitor) => self.visitors.push_back(visitor),
                Outcome::Over => {}
            }
        }
        Ok(None)
    }

    /// Somebody new.
    fn meet(&mut self, socket: SeqSocket, now: Instant) -> Result<Option<Box<ShmLink>>, DoorError> {
        let peer = socket.peer()?;
        if peer.uid != own_uid() {
            self.turned_away.other_user += 1;
            return Ok(None);
        }
        let visitor = Visitor {
            socket,
            peer,
            since: now,
        };
        match self.hear(visitor)? {
            Outcome::Link(link) => return Ok(Some(link)),
            Outcome::Over => {}
            Outcome::Silent(visitor) if self.visitors.len() < VISITORS_MAX => {
                self.waits
                    .add(&visitor.socket, 0, Interest::Readable, Trigger::Level)?;
                self.visitors.push_back(visitor);
            }
            Outcome::Silent(visitor) => {
                self.turned_away.crowded += 1;
                refuse(&visitor.socket, Refusal::Crowded);
            }
        }
        Ok(None)
    }

    /// Takes the hand-shake, if it is there.
    fn hear(&mut self, visitor: Visitor) -> Result<Outcome, DoorError> {
        let mut record = [0; GREETING_BYTES + 1];
        let bytes = match visitor.socket.receive(&mut record)? {
            Arrived::Nothing => return Ok(Outcome::Silent(visitor)),
            Arrived::End => {
                self.turned_away.left += 1;
                return Ok(Outcome::Over);
            }
            Arrived::Record(bytes) => bytes,
        };
        let reason = match Greeting::parse(&record[..bytes]) {
            Ok(Greeting::Hello(wanted)) => return self.welcome(visitor, wanted),
            Ok(_) => Refusal::Malformed,
            Err(reason) => reason,
        };
        self.turned_away.malformed += 1;
        refuse(&visitor.socket, reason);
        Ok(Outcome::Over)
    }

    fn welcome(&mut self, visitor: Visitor, wanted: Room) -> Result<Outcome, DoorError> {
        let room = Room {
            piece_bytes_max: wanted.piece_bytes_max.min(self.room.piece_bytes_max),
            pieces: wanted.pieces.min(self.room.pieces),
        };
        let Visitor { socket, peer, .. } = visitor;
        match self.hand_over(&socket, room) {
            Ok(Some(ends)) => {
                let peer = format!("shm://{} (pid {})", self.name, peer.pid);
                let link = ShmLink::open(socket, peer, room, ends)?;
                Ok(Outcome::Link(Box::new(link)))
            }
            Ok(None) => {
                self.turned_away.left += 1;
                Ok(Outcome::Over)
            }
            Err(error) => {
                self.turned_away.no_resource += 1;
                refuse(&socket, Refusal::Resource);
                Err(error.into())
            }
        }
    }

    /// Makes the rings and gives the peer its ends; `None` when it is gone.
    fn hand_over(&self, socket: &SeqSocket, room: Room) -> Result<Option<Ends>, SysError> {
        let (ends, of_peer) = Ends::make(&self.name, room).map_err(resource)?;
        let fds: Vec<_> = of_peer.iter().map(AsFd::as_fd).collect();
        match socket.send(&Greeting::Welcome(room).emit(), &fds) {
            Ok(sent) => Ok(sent.then_some(ends)),
            Err(error) if is_gone(error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Door for ShmDoor {
    fn accept(&mut self) -> Result<Option<Box<dyn ByteLink>>, DoorError> {
        let now = Instant::now();
        self.give_up_silent(now);
        if let Some(link) = self.hear_visitors()? {
            return Ok(Some(link));
        }
        for _ in 0..ACCEPTS_MAX {
            let Some(socket) = self.listener.accept()? else {
                break;
            };
            if let Some(link) = self.meet(socket, now)? {
                return Ok(Some(link));
            }
        }
        Ok(None)
    }

    fn address(&self) -> Result<Address, DoorError> {
        Ok(Address::Shm {
            name: self.name.clone(),
        })
    }

    fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX] {
        [Some(self.waits.as_fd()), None]
    }

    fn turned_away(&self) -> TurnedAway {
        self.turned_away
    }
}

fn refuse(socket: &SeqSocket, reason: Refusal) {
    // A peer that does not hear it sees the end of the connection.
    let _ = socket.send(&Greeting::Refusal(reason).emit(), &[]);
}

fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AddrInUse => "; choose another name, or end that process: `fuser` names it",
        io::ErrorKind::NotFound => "; XDG_RUNTIME_DIR must name a directory, or be unset",
        _ => "",
    }
}
