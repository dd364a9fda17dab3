//! Connections that carry bytes in order, and where they come in: what messaging runs over.
//!
//! An end point is written once, over [`ByteLink`] and [`Door`]; [`Address`] says which backend it is: `tcp://host:port`, `shm://name` or
//! `fabric+provider://place`. [`Terms`] say whether TCP is encrypted: beyond this host's loopback somebody has to decide.
//!
//! ```
//! use forebay_link::bytes::{Room, connect, listen};
//!
//! let mut door = listen(&"tcp://127.0.0.1:0".parse()?, Room::default())?;
//! let mut near = connect(&door.address()?, Room::default())?;
//! let mut far = loop {
//!     if let Some(link) = door.accept()? {
//!         break link;
//!     }
//! };
//! while near.send(&[b"hel", b"lo"])? == 0 {}
//! while far.bytes().len() < 5 {
//!     far.receive()?;
//! }
//! assert_eq!(far.bytes(), b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod apart;
mod error;
mod fabric;
mod piece;
mod shm;
mod tcp;
mod terms;
mod tls;

use std::ops::Range;
use std::os::fd::BorrowedFd;

pub use address::{Address, AddressError};
pub use apart::{Apart, PARTS_MAX};
pub use error::{ByteLinkError, DoorError};
pub use fabric::{FabricDoor, FabricLink};
pub use forebay_fabric::registered_bytes;
pub use forebay_ring::{REGION_BYTES_MAX, Region, View};
pub use forebay_wire::shm::Room;
pub use piece::{Lending, Piece};
pub use shm::{ShmDoor, ShmLink};
use tcp::Reach;
pub use tcp::{Round, TcpDoor, TcpLink};
pub use terms::{Security, Terms};
pub use tls::{
    CertificateError, CertificateFiles, Certificates, PemFile, TlsDoor, TlsFault, TlsLink,
};

/// Descriptors that a link or a door waits for at most.
pub const FDS_MAX: usize = 2;

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// More than there was before.
    Some,
    /// Nothing now.
    Nothing,
    /// Nothing now and never: the peer has ended its side in order.
    Ended,
}

/// One connection. Bytes come in the order in which they were sent, or the connection ends; whether in the same pieces is the backend's
/// business, but for this: where pieces are kept (`shm`, `fabric+…`), each holds what one [`send`](Self::send) took, and the next one comes only when the one
/// at hand is used up.
///
/// How it ends, seen from the side that stays:
///
/// | the peer | `tcp` | `tcp` with TLS | `shm` | `fabric+tcp` |
/// |---|---|---|---|---|
/// | [`finish`](Self::finish)es | all that it sent, then `Ended` | the same | the same | the same |
/// | and is dropped, all of ours read | the same | the same, if we take it within 1 s; else as without `finish` | the same | the same, if we take it within 1 s; else as without `finish` |
/// | and is dropped, some of ours unread | `Lost`; the end of what it sent may be missing | as over `tcp` | all, then `Ended` | as over `tcp` |
/// | is dropped without `finish` | as above: `Ended` is no proof of an orderly end | the beginning of what was taken by its `send`, then `Lost` | all that was taken by its `send`, then `Lost` | the first pieces of those, then `Lost` |
/// | is killed | the same | the same | the same | the same |
///
/// So over plain TCP an orderly end has to be said in the stream itself. That the peer is gone shows in [`send`](Self::send) sooner or later, as `Lost`;
/// what was taken meanwhile is lost with it.
///
/// Nothing here waits, but for the drop of a link over TLS or libfabric that was made and has [`finish`](Self::finish)ed: it takes up to 1 s to send the rest. An
/// error ends the connection.
///
/// A link over libfabric gets on only while it is asked: the connection that is being made, and what [`send`](Self::send) or `finish` has taken, may wait until
/// the next [`receive`](Self::receive) or [`arm`](Self::arm), on either side, or for the sleep between that its [`fds`](Self::fds) end. So both sides keep asking,
/// also one that has nothing to receive. Asked by `arm`, a link takes in what has come, as far as it has pages, and leaves it to be received.
pub trait ByteLink: Send + std::fmt::Debug {
    /// Hands over the parts, one after the other, and says how many bytes were taken: 0 when there is no room, or when the
    /// connection is not yet made. Where pieces are kept, all of it is taken or nothing.
    ///
    /// # Errors
    /// The connection is gone, or could not be made; this side has finished; where pieces are kept, it is longer than one may be.
    fn send(&mut self, parts: &[&[u8]]) -> Result<usize, ByteLinkError>;

    /// Hands over `own`, and behind it ranges of a region, at most [`PARTS_MAX`]; says how many bytes of it all were taken, as [`send`](Self::send) does.
    ///
    /// Nothing of the region is copied into memory of this process. Over `shm` the bytes stay where they are, and the peer reads them there: they must
    /// not change before it has said that it did. Over `tcp` the kernel has its own copy of what was taken.
    ///
    /// # Errors
    /// As [`send`](Self::send); or a range is not in the region.
    fn send_from(
        &mut self,
        own: &[u8],
        region: &Region,
        ranges: &[Range<usize>],
    ) -> Result<usize, ByteLinkError> {
        let mut parts = [&[][..]; 1 + PARTS_MAX];
        parts[0] = own;
        for (part, range) in parts[1..].iter_mut().zip(ranges) {
            *part = in_region(region, range)?;
        }
        let count = 1 + ranges.len().min(PARTS_MAX);
        self.send(&parts[usize::from(own.is_empty())..count])
    }

    /// How pieces go out from memory of the link's own, where that saves a copy. None where a backend copies what it sends in any case, or the kernel does.
    fn lending(&mut self) -> Option<&mut dyn Lending> {
        None
    }

    /// What belongs behind [`bytes`](Self::bytes) and lies in the peer's memory: the other end of what [`send_from`](Self::send_from) took, where the
    /// backend leaves it there. It is at hand until the next [`receive`](Self::receive).
    fn apart(&self) -> Option<Apart<'_>> {
        None
    }

    /// Takes what has come, as far as there is room for it.
    ///
    /// # Errors
    /// The connection is gone, or could not be made; where pieces are kept, the one at hand is not used up.
    fn receive(&mut self) -> Result<Received, ByteLinkError>;

    /// A quick look, without the kernel: whether it is certain that nothing has come. False where only [`receive`](Self::receive) can tell.
    fn is_quiet(&self) -> bool {
        false
    }

    /// What was received and not used.
    fn bytes(&self) -> &[u8];

    /// The first so many of [`bytes`](Self::bytes) are done with.
    fn used(&mut self, count: usize);

    /// Bytes that the link has copied on their way in or out, beside the copies that the kernel makes.
    fn copied_bytes(&self) -> u64 {
        0
    }

    /// What belongs together may be so long, in bytes: [`bytes`](Self::bytes) must have room for it.
    ///
    /// # Errors
    /// There is not so much room; where it is agreed with the peer, that may show only when the connection is made.
    fn expect(&mut self, bytes_max: usize) -> Result<(), ByteLinkError>;

    /// Nothing more is sent: the peer finds the end when it has read all.
    fn finish(&mut self);

    /// Whether it has [`finish`](Self::finish)ed and has still something to hand over, so that a drop would wait for that.
    fn lingers(&mut self) -> bool {
        false
    }

    /// Before a sleep: asks to be woken by one of [`fds`](Self::fds) when something comes, or also, when `for_room`, when there is room again.
    /// False: there is something, do not sleep. Room is room for what was refused last.
    ///
    /// # Errors
    /// The connection is gone.
    fn arm(&mut self, for_room: bool) -> Result<bool, ByteLinkError>;

    /// After a sleep, or instead of one.
    fn disarm(&mut self) {}

    /// What to wait for: the same as long as the link lives. The first one may have to be waited for until it is writable, see [`room_is_writable`](Self::room_is_writable).
    fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX];

    /// Whether room shows in the first descriptor becoming writable; else all of it shows in their becoming readable.
    fn room_is_writable(&self) -> bool {
        false
    }

    /// Whether nothing wakes a sleeper, so that it has to look again by itself.
    fn must_be_polled(&self) -> bool {
        false
    }

    /// The other end, for people.
    fn peer(&self) -> &str;
}

/// The bytes of a range, if the region has them. One that somebody else writes has none to be looked at here: it can only be shown.
fn in_region<'a>(region: &'a Region, range: &Range<usize>) -> Result<&'a [u8], ByteLinkError> {
    let bytes = region.bytes();
    bytes
        .get(range.clone())
        .ok_or_else(|| out_of(range, bytes.len()))
}

/// Whether the region has that range.
fn check_range(region: &Region, range: &Range<usize>) -> Result<(), ByteLinkError> {
    let has = range.start <= range.end && range.end <= region.len();
    if has {
        Ok(())
    } else {
        Err(out_of(range, region.len()))
    }
}

fn out_of(range: &Range<usize>, bytes: usize) -> ByteLinkError {
    ByteLinkError::OutOfRegion {
        from: range.start,
        to: range.end,
        bytes,
    }
}

/// Where connections come in. Nothing here waits.
pub trait Door: Send + std::fmt::Debug {
    /// The next peer that has come.
    ///
    /// # Errors
    /// None can be taken in for now, as without free descriptors; peers that have come wait, but for one whose hand-shake was under way.
    fn accept(&mut self) -> Result<Option<Box<dyn ByteLink>>, DoorError>;

    /// Where it really listens.
    ///
    /// # Errors
    /// The system does not say.
    fn address(&self) -> Result<Address, DoorError>;

    /// Readable when somebody has come. The same as long as the door lives.
    fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX];

    /// Those that were not let in so far. Nobody, where the kernel makes the connections.
    fn turned_away(&self) -> TurnedAway {
        TurnedAway::default()
    }

    /// Whether nothing wakes a sleeper, so that it has to look again by itself.
    fn must_be_polled(&self) -> bool {
        false
    }
}

/// Those that came to a door and were not let in, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnedAway {
    /// Another user's process.
    pub other_user: u64,
    /// What it said is no hand-shake, or one of another version.
    pub malformed: u64,
    /// It said nothing for too long.
    pub silent: u64,
    /// It left before it had said anything.
    pub left: u64,
    /// Too many others had not yet said anything.
    pub crowded: u64,
    /// There were no memory or descriptors for it.
    pub no_resource: u64,
    /// It ended or failed before the connection was made.
    pub given_up: u64,
}

/// Begins to connect; the link says later what came of it. That nothing listens there shows here or there.
///
/// # Errors
/// The address cannot be found, nothing listens there, it is to be secured and there is nothing to do it with, or the room is out of its range.
pub fn connect(
    address: &Address,
    terms: impl Into<Terms>,
) -> Result<Box<dyn ByteLink>, ByteLinkError> {
    connect_next(address, terms, &mut Round::default())
}

/// The same, for a caller that tries again: over TCP to the next address of those that the host's name has.
///
/// # Errors
/// As [`connect`]; that an address cannot be reached is no error while there are others in the round.
pub fn connect_next(
    address: &Address,
    terms: impl Into<Terms>,
    round: &mut Round,
) -> Result<Box<dyn ByteLink>, ByteLinkError> {
    let Terms { room, security } = terms.into();
    match (address, security) {
        (Address::Tcp { host, port }, Security::Tls(certificates)) => {
            let link = TlsLink::connect_next(host, *port, &certificates, round)?;
            Ok(Box::new(link))
        }
        (Address::Tcp { host, port }, security) => {
            let wire = tcp::Wire::connect(host, *port, reach(&security), round)?;
            Ok(Box::new(TcpLink::new(wire)))
        }
        (Address::Shm { name }, _) => Ok(Box::new(ShmLink::connect(name, room)?)),
        (Address::Fabric { .. }, Security::Tls(_)) => Err(ByteLinkError::NotSecurable {
            address: address.to_string(),
        }),
        (Address::Fabric { .. }, Security::PlainOnLoopback) if !address.is_local() => {
            Err(ByteLinkError::Unencrypted {
                address: address.to_string(),
            })
        }
        (Address::Fabric { provider, place }, _) => {
            Ok(Box::new(FabricLink::connect(provider, place, room)?))
        }
    }
}

/// Listens.
///
/// # Errors
/// The address is in use, cannot be listened on, or is to be secured and there is nothing to do it with.
pub fn listen(address: &Address, terms: impl Into<Terms>) -> Result<Box<dyn Door>, DoorError> {
    let Terms { room, security } = terms.into();
    match (address, security) {
        (Address::Tcp { host, port }, Security::Tls(certificates)) => {
            Ok(Box::new(TlsDoor::listen(host, *port, &certificates)?))
        }
        (Address::Tcp { host, port }, security) => {
            Ok(Box::new(TcpDoor::open(host, *port, reach(&security))?))
        }
        (Address::Shm { name }, _) => Ok(Box::new(ShmDoor::listen(name, room)?)),
        (Address::Fabric { .. }, Security::Tls(_)) => Err(DoorError::NotSecurable {
            address: address.to_string(),
        }),
        (Address::Fabric { .. }, Security::PlainOnLoopback) if !address.is_local() => {
            Err(DoorError::Unencrypted {
                address: address.to_string(),
            })
        }
        (Address::Fabric { provider, place }, _) => {
            Ok(Box::new(FabricDoor::listen(provider, place, room)?))
        }
    }
}

fn reach(security: &Security) -> Reach {
    match security {
        Security::PlainOnLoopback => Reach::Loopback,
        Security::Plain | Security::Tls(_) => Reach::Everywhere,
    }
}
