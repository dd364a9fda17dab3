//! A connection.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use forebay_ring::{Full, Meta, Region, RingError};
use forebay_sys::SysError;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::seqpacket::{Arrived, SeqSocket};
use forebay_wire::shm::{GREETING_BYTES, Greeting, Refusal};
use rustix::io::Errno;

use super::copier::PieceCopier;
use super::ends::{Ends, PEER_FDS, fault_of, is_want};
use super::place::Place;
use super::regions::{Regions, Shown};
use super::{Room, checked, is_gone, resource};
use crate::bytes::{
    Address, Apart, ByteLink, ByteLinkError, FDS_MAX, PARTS_MAX, Received, check_range, in_region,
};

/// Of so many looks that find nothing, one asks the kernel whether the peer is still there.
const LOOKS_PER_QUESTION: u32 = 256;

/// A connection over shared memory, or one that is being made.
#[derive(Debug)]
pub struct ShmLink {
    /// Says that the peer is gone.
    socket: SeqSocket,
    /// The socket and, once they are there, the bells: one descriptor from the beginning on.
    waits: Poller,
    peer: String,
    /// What this side wanted; once connected, what is agreed.
    room: Room,
    ends: Option<Ends>,
    copier: PieceCopier,
    regions: Regions,
    expected_bytes: usize,
    /// The piece that found no room last.
    waiting_bytes: usize,
    idle_looks: u32,
    is_gone: bool,
    is_finished: bool,
    has_ended: bool,
}

impl ShmLink {
    /// Knocks at the door of that name on this host.
    ///
    /// # Errors
    /// Nobody listens there, or the room is out of its range.
    pub fn connect(name: &str, room: Room) -> Result<Self, ByteLinkError> {
        let address = Address::Shm { name: name.into() }.to_string();
        let refused = |source| ByteLinkError::Connect {
            address: address.clone(),
            source,
        };
        let room = checked(room).map_err(refused)?;
        let place = Place::open().map_err(|error| refused(nobody(error)))?;
        let socket = SeqSocket::connect(&place.socket(name))
            .map_err(|error| refused(nobody(error.source)))?;
        let said = socket.send(&Greeting::Hello(room).emit(), &[]);
        said.map_err(|error| refused(error.source))?;
        Ok(Self::new(socket, address, room)?)
    }

    /// The listener's side: all is agreed.
    pub(super) fn open(
        socket: SeqSocket,
        peer: String,
        room: Room,
        ends: Ends,
    ) -> Result<Self, SysError> {
        let mut link = Self::new(socket, peer, room)?;
        link.begin(room, ends)?;
        Ok(link)
    }

    pub(super) fn socket(&self) -> &SeqSocket {
        &self.socket
    }

    fn new(socket: SeqSocket, peer: String, room: Room) -> Result<Self, SysError> {
        let waits = Poller::create(1)?;
        waits.add(&socket, 0, Interest::Readable, Trigger::Level)?;
        Ok(Self {
            socket,
            waits,
            peer,
            room,
            ends: None,
            copier: PieceCopier::default(),
            regions: Regions::default(),
            expected_bytes: 0,
            waiting_bytes: 0,
            idle_looks: 0,
            is_gone: false,
            is_finished: false,
            has_ended: false,
        })
    }

    fn begin(&mut self, room: Room, mut ends: Ends) -> Result<(), SysError> {
        for bell in [&ends.input_ready, &ends.out_free] {
            self.waits
                .add(bell, 0, Interest::Readable, Trigger::Level)?;
        }
        if self.is_finished {
            ends.finish();
        }
        self.room = room;
        self.copier = PieceCopier::new(room.piece_bytes_max);
        self.ends = Some(ends);
        Ok(())
    }

    #[inline]
    fn is_connected(&mut self) -> Result<bool, ByteLinkError> {
        if self.ends.is_some() {
            return Ok(true);
        }
        self.hear()
    }

    /// Takes the listener's answer, if it is there.
    #[cold]
    fn hear(&mut self) -> Result<bool, ByteLinkError> {
        let (mut record, mut fds) = ([0; GREETING_BYTES + 1], Vec::new());
        let bytes = match self.socket.receive_with_fds(&mut record, &mut fds)? {
            Arrived::Nothing => return Ok(false),
            Arrived::End => {
                let text = "the listener closed the connection without an answer";
                return Err(self.refused(ErrorKind::ConnectionRefused, text));
            }
            Arrived::Record(bytes) => bytes,
        };
        let room = match Greeting::parse(&record[..bytes]) {
            Ok(Greeting::Welcome(room)) => self.agreed(room)?,
            Ok(Greeting::Refusal(reason)) => {
                return Err(self.refused(ErrorKind::ConnectionRefused, reason));
            }
            Err(Refusal::Version) => {
                return Err(self.refused(ErrorKind::ConnectionRefused, Refusal::Version));
            }
            Ok(Greeting::Hello(_) | Greeting::Region(_)) | Err(_) => {
                return Err(self.broken("greeting"));
            }
        };
        if fds.len() != PEER_FDS {
            return Err(self.broken("descriptors"));
        }
        let ends = Ends::of_peer(room, fds).map_err(|error| self.unmapped(error))?;
        match self.begin(room, ends) {
            Err(error) if !Errno::from_io_error(&error.source).is_some_and(is_want) => {
                Err(self.broken("descriptors"))
            }
            begun => Ok(begun.map(|()| true)?),
        }
    }

    /// The room that the listener gives, if it is one that this side can live with.
    fn agreed(&self, room: Room) -> Result<Room, ByteLinkError> {
        let wanted = self.room;
        if room.piece_bytes_max > wanted.piece_bytes_max || room.pieces > wanted.pieces {
            return Err(self.broken("room"));
        }
        if room.piece_bytes_max < self.expected_bytes {
            return Err(ByteLinkError::TooLong {
                bytes: self.expected_bytes,
                most: room.piece_bytes_max,
            });
        }
        Ok(room)
    }

    /// Asks the kernel whether the peer is gone, and takes the regions that have come.
    #[cold]
    fn look_for_peer(&mut self) -> Result<bool, ByteLinkError> {
        while !self.is_gone {
            let (mut record, mut fds) = ([0; GREETING_BYTES + 1], Vec::new());
            let bytes = match self.socket.receive_with_fds(&mut record, &mut fds)? {
                Arrived::Nothing => break,
                Arrived::End => {
                    self.is_gone = true;
                    break;
                }
                Arrived::Record(bytes) => bytes,
            };
            let Ok(Greeting::Region(number)) = Greeting::parse(&record[..bytes]) else {
                return Err(self.broken("record_after_greeting"));
            };
            let taken = self.regions.take(number, &fds);
            taken.map_err(|what| self.broken(what))?;
        }
        Ok(self.is_gone)
    }

    /// A piece that begins with references has come: they are looked up, and a region that is not yet here is on the socket already.
    #[cold]
    fn refer(&mut self, count: u32) -> Result<(), ByteLinkError> {
        let mut found = self.regions.begin(count, self.copier.bytes());
        if found == Ok(None) {
            self.look_for_peer()?;
            found = self.regions.begin(count, self.copier.bytes());
        }
        match found {
            Ok(Some(bytes)) => {
                self.copier.used(bytes);
                Ok(())
            }
            Ok(None) => Err(self.broken("unknown_region")),
            Err(what) => Err(self.broken(what)),
        }
    }

    /// Puts a piece into the ring: the parts, which are `bytes` long together. Says whether there was room.
    fn put(&mut self, parts: &[&[u8]], bytes: usize, meta: Meta) -> Result<bool, ByteLinkError> {
        let put = self.ends.as_mut().map(|ends| ends.put(parts, bytes, meta));
        match put {
            Some(Ok(())) => Ok(true),
            Some(Err(Full::Peer(fault))) => Err(self.broken(fault.reason())),
            // The agreed room may be smaller than the one wanted, against which the piece was held before.
            Some(Err(Full::TooLong { len, max })) => Err(ByteLinkError::TooLong {
                bytes: len,
                most: max as usize,
            }),
            Some(Err(Full::NoSpace { .. })) | None => {
                self.waiting_bytes = bytes;
                Ok(false)
            }
        }
    }

    /// Whether something of so many bytes can be sent at all now: connected, allowed, and to somebody.
    fn may_send(&mut self, bytes: usize) -> Result<bool, ByteLinkError> {
        if self.is_finished {
            return Err(self.lost(ErrorKind::BrokenPipe, "this side has finished"));
        }
        if bytes > self.room.piece_bytes_max {
            return Err(ByteLinkError::TooLong {
                bytes,
                most: self.room.piece_bytes_max,
            });
        }
        if bytes == 0 || !self.is_connected()? {
            return Ok(false);
        }
        if self.is_gone {
            return self.unsent().map(|_| false);
        }
        Ok(true)
    }

    /// There was no room: now and then it is because nobody is there.
    fn no_room(&mut self) -> Result<usize, ByteLinkError> {
        if self.is_gone_after_all()? {
            return self.unsent();
        }
        Ok(0)
    }

    /// Nothing came, or there was no room: now and then it is because nobody is there.
    #[inline]
    fn is_gone_after_all(&mut self) -> Result<bool, ByteLinkError> {
        self.idle_looks = self.idle_looks.wrapping_add(1);
        if self.is_gone || !self.idle_looks.is_multiple_of(LOOKS_PER_QUESTION) {
            return Ok(self.is_gone);
        }
        self.look_for_peer()
    }

    /// A piece finds no peer that takes it, but what the peer left is read first.
    #[cold]
    fn unsent(&self) -> Result<usize, ByteLinkError> {
        if self.ends.as_ref().is_some_and(Ends::has_piece) {
            return Ok(0);
        }
        Err(self.lost(ErrorKind::ConnectionReset, "the peer is gone"))
    }

    fn lost(&self, kind: ErrorKind, text: &'static str) -> ByteLinkError {
        ByteLinkError::Lost {
            peer: self.peer.clone(),
            source: io::Error::new(kind, text),
        }
    }

    fn broken(&self, what: &'static str) -> ByteLinkError {
        ByteLinkError::Broken {
            peer: self.peer.clone(),
            what,
        }
    }

    fn refused(&self, kind: ErrorKind, text: impl ToString) -> ByteLinkError {
        ByteLinkError::Connect {
            address: self.peer.clone(),
            source: io::Error::new(kind, text.to_string()),
        }
    }

    fn unmapped(&self, error: RingError) -> ByteLinkError {
        match fault_of(&error) {
            Some(what) => self.broken(what),
            None => resource(error).into(),
        }
    }
}

impl ByteLink for ShmLink {
    fn send(&mut self, parts: &[&[u8]]) -> Result<usize, ByteLinkError> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        if !self.may_send(bytes)? {
            return Ok(0);
        }
        if self.put(parts, bytes, Meta::default())? {
            return Ok(bytes);
        }
        self.no_room()
    }

    fn send_from(
        &mut self,
        own: &[u8],
        region: &Region,
        ranges: &[Range<usize>],
    ) -> Result<usize, ByteLinkError> {
        let ranges = &ranges[..ranges.len().min(PARTS_MAX)];
        let mut bytes = own.len();
        for range in ranges {
            check_range(region, range)?;
            bytes += range.len();
        }
        if !self.may_send(bytes)? {
            return Ok(0);
        }
        let shown = match self.regions.show(region, &self.socket) {
            Err(error) if is_gone(error.kind()) => {
                self.is_gone = true;
                return self.unsent();
            }
            shown => shown?,
        };
        let put = match shown {
            Shown::NotNow => false,
            Shown::TooMany => {
                let mut parts = [own; 1 + PARTS_MAX];
                for (part, range) in parts[1..].iter_mut().zip(ranges) {
                    *part = in_region(region, range)?;
                }
                self.put(&parts[..=ranges.len()], bytes, Meta::default())?
            }
            Shown::Yes => {
                let (references, meta) = Regions::refer(region, ranges);
                let references = references[..ranges.len()].as_flattened();
                let short = references.len() + own.len();
                self.put(&[references, own], short, meta)?
            }
        };
        if put {
            return Ok(bytes);
        }
        self.no_room()
    }

    fn apart(&self) -> Option<Apart<'_>> {
        self.regions.apart()
    }

    fn receive(&mut self) -> Result<Received, ByteLinkError> {
        if !self.copier.is_used_up() {
            return Err(self.broken("a piece ends within a frame"));
        }
        self.regions.done();
        if self.has_ended {
            return Ok(Received::Ended);
        }
        loop {
            if !self.is_connected()? {
                return Ok(Received::Nothing);
            }
            let Some(ends) = &mut self.ends else {
                return Ok(Received::Nothing);
            };
            match ends.take(&mut self.copier) {
                Ok(Some(Meta { tag: 0, .. })) => return Ok(Received::Some),
                Ok(Some(Meta { tag, .. })) => {
                    self.refer(tag)?;
                    return Ok(Received::Some);
                }
                Ok(None) => {}
                Err(what) => return Err(self.broken(what)),
            }
            if ends.is_ended() {
                self.has_ended = true;
                return Ok(Received::Ended);
            }
            if self.is_gone {
                // Known before this look at the ring, so that it was the last one.
                return Err(self.lost(ErrorKind::ConnectionReset, "the peer is gone"));
            }
            if !self.is_gone_after_all()? {
                return Ok(Received::Nothing);
            }
        }
    }

    #[inline]
    fn is_quiet(&self) -> bool {
        let ends = self.ends.as_ref();
        let quiet = ends.is_some_and(|ends| !ends.has_piece() && !ends.is_ended());
        quiet && !self.is_gone && self.copier.is_used_up()
    }

    fn bytes(&self) -> &[u8] {
        self.copier.bytes()
    }

    fn used(&mut self, count: usize) {
        self.copier.used(count);
    }

    fn copied_bytes(&self) -> u64 {
        self.copier.copied_bytes()
    }

    fn expect(&mut self, bytes_max: usize) -> Result<(), ByteLinkError> {
        if bytes_max > self.room.piece_bytes_max {
            return Err(ByteLinkError::TooLong {
                bytes: bytes_max,
                most: self.room.piece_bytes_max,
            });
        }
        self.expected_bytes = self.expected_bytes.max(bytes_max);
        Ok(())
    }

    fn finish(&mut self) {
        if let Some(ends) = self.ends.as_mut().filter(|_| !self.is_finished) {
            ends.finish();
        }
        self.is_finished = true;
    }

    fn arm(&mut self, for_room: bool) -> Result<bool, ByteLinkError> {
        if !self.is_connected()? {
            return Ok(true);
        }
        let is_gone = self.look_for_peer()?;
        let Some(ends) = &mut self.ends else {
            return Ok(true);
        };
        ends.ask(for_room);
        let is_news = is_gone
            || ends.has_piece()
            || (ends.is_ended() && !self.has_ended)
            || (for_room && ends.has_room(self.waiting_bytes));
        if is_news {
            ends.awake();
        }
        Ok(!is_news)
    }

    fn disarm(&mut self) {
        if let Some(ends) = &mut self.ends {
            ends.awake();
        }
    }

    fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX] {
        [Some(self.waits.as_fd()), None]
    }

    fn peer(&self) -> &str {
        &self.peer
    }
}

/// What is not there, or there and dead, is no listener.
fn nobody(source: io::Error) -> io::Error {
    match source.kind() {
        ErrorKind::NotFound => io::Error::new(
            ErrorKind::ConnectionRefused,
            "nobody listens by that name on this host",
        ),
        ErrorKind::WouldBlock => io::Error::new(
            ErrorKind::WouldBlock,
            "too many wait there already to be taken in",
        ),
        _ => source,
    }
}
