//! Drivers: frames from a card and onto one.
//!
//! ```text
//! card ─▶ ReceiveSide ─▶ a visit for each frame        frame ─▶ SendSide::send_with … SendSide::flush ─▶ card
//! ```
//!
//! A [`Driver`] has two halves, which may go to two threads ([`apart`](apart())), and a [`Card`] that says how the card is. None of them ever waits: each half has a descriptor that is waited
//! for with all others. What comes is visited where it lies; it is whole, with its VLAN tag and its check sum, and none of it was sent by this host. Some drivers can receive into
//! memory that clients read ([`shared`]).
//!
//! | module | card | needs |
//! |---|---|---|
//! | [`packet`] | an interface, by packet sockets | `CAP_NET_RAW` |
//! | [`xdp`] | an interface, past the kernel's stack (AF_XDP) | `CAP_NET_RAW`, `CAP_NET_ADMIN`, `CAP_BPF`, a binary built with clang |
//! | [`tap`] | the other end of an interface that the kernel makes | `/dev/net/tun`, `CAP_NET_ADMIN`, `CAP_NET_RAW` |
//! | [`pcap`] | files | nothing |
//! | [`emulated`] | memory | nothing |
//!
//! What each party counts stands in [`account`].
#![forbid(unsafe_code)]

pub mod account;
mod apart;
mod card;
pub mod checksum;
pub mod emulated;
mod error;
mod fates;
mod leaky;
pub mod packet;
pub mod pcap;
pub mod shared;
pub mod tap;
pub mod xdp;

use std::fmt::Debug;
use std::os::fd::BorrowedFd;

use forebay_mux::Mac;

pub use account::{CardInDrop, CardOutDrop, LinkCounts, ReceiveCounts, SendCounts};
pub use apart::apart;
pub use error::DriverError;
pub use fates::Fate;
pub use leaky::{HOPS, leaking};
pub use shared::{Desk, SharedMemory};

/// The longest frame that comes or goes unless something else is said, in bytes: a packet of 1,500 bytes with its header and one VLAN tag (IEEE 802.3).
pub const FRAME_BYTES_MAX: usize = 1_518;
/// The shortest frame that is sent: the header of Ethernet, in bytes. The card pads what is shorter than the wire wants (60 bytes), and a virtual one does not.
pub const FRAME_BYTES_MIN: usize = 14;

/// A card with its driver. Its parts may go to different threads.
#[derive(Debug)]
pub struct Driver {
    /// Where frames come from.
    pub receive: Box<dyn ReceiveSide>,
    /// Where frames go to.
    pub send: Box<dyn SendSide>,
    /// The card itself.
    pub card: Box<dyn Card>,
    /// How frames come and go, in some words: what the kernel has granted, where it has a choice.
    pub mode: &'static str,
}

/// The half of a driver that frames come from.
pub trait ReceiveSide: Send + Debug {
    /// Visits frames that are there, in the order in which they came, and gives how many; never waits. It stops at `most` or up to [`burst_frames`](Self::burst_frames)
    /// behind it. The bytes of each are there for its visit alone.
    ///
    /// # Errors
    /// The card gives no more frames, in any later call either.
    fn receive(&mut self, most: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, DriverError>;

    /// From now on frames come into memory that clients read, with so many buffers for them. None: the driver has its frames elsewhere, and [`receive`](Self::receive) alone.
    ///
    /// # Errors
    /// There is not as much memory, or descriptors run out.
    fn share(&mut self, _client_frames: u32) -> Result<Option<SharedMemory>, DriverError> {
        Ok(None)
    }

    /// As [`receive`](Self::receive), of a driver that [shares](Self::share): frames come into buffers that it is lent, and which the desk has with them.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    fn receive_shared(&mut self, _most: usize, _desk: &mut dyn Desk) -> Result<usize, DriverError> {
        Ok(0)
    }

    /// How many more frames than asked for [`receive`](Self::receive) may visit, as some lie together: 0 unless a driver says otherwise.
    fn burst_frames(&self) -> usize {
        0
    }

    /// Whether frames are there that [`receive`](Self::receive) would visit.
    fn is_ready(&mut self) -> bool;

    /// Readable when frames are there. It may be so without one, as when the card goes down: [`Card::look`] says why, after [`settle`](Self::settle).
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Takes what woke a wait for the descriptor without a frame, so that it can be waited for again.
    fn settle(&mut self);

    /// Takes no more frames; those that came before are visited by further calls of [`receive`](Self::receive), the last of them within 100 ms.
    fn close(&mut self);

    /// What was counted so far, by this end and by the other.
    ///
    /// # Errors
    /// The kernel refuses.
    fn counts(&mut self) -> Result<ReceiveCounts, DriverError>;
}

/// Writes a frame into a place of its length; false where it cannot: the place may then have anything.
pub type Fill<'a> = &'a mut dyn FnMut(&mut [u8]) -> bool;

/// What became of a frame that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The driver has a copy, which the next [`SendSide::flush`] gives to the card.
    Taken,
    /// There is no room now; the driver has nothing of it. After a flush there is, or when the descriptor is writable.
    NoRoom,
    /// It can never be sent; the driver has nothing of it.
    Refused(CardOutDrop),
}

/// What a flush has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// Nothing: all frames are with the card, or were given up, each counted by its reason.
    All,
    /// The card has no room for some that the driver has taken: flush again when the descriptor is writable.
    Waits,
    /// Another thread is giving the card some that the driver has taken, and nothing is known of a lack of room: the descriptor is writable when all are there, or as of a card that lacks room.
    UnderWay,
}

/// The half of a driver that frames go to.
pub trait SendSide: Send + Debug {
    /// Takes a frame of so many bytes, which `fill` writes to where the driver has it; never waits. `fill` is called once at most, and not for a frame that is too short,
    /// too long with any tag, or without room. Where it gives false the driver has nothing of the frame ([`CardOutDrop::NotFilled`]).
    fn send_with(&mut self, bytes: usize, fill: Fill<'_>) -> Sent;

    /// Takes a copy of a frame; never waits.
    fn send(&mut self, frame: &[u8]) -> Sent {
        self.send_with(frame.len(), &mut |place| {
            let is_whole = place.len() == frame.len();
            if is_whole {
                place.copy_from_slice(frame);
            }
            is_whole
        })
    }

    /// Gives the card what was taken, and wakes it once; never waits. Called after each batch. What the card gives up is counted by its reason.
    fn flush(&mut self) -> Flushed;

    /// Tells what became of frames that were taken: of each once, in the order in which they were taken. It may be told after any call of [`send_with`](Self::send_with) or
    /// [`flush`](Self::flush), and for a card whose buffers come back later, after a later one.
    fn fates(&mut self, told: &mut dyn FnMut(Fate));

    /// Writable when the card has room. It may be so early: then the next [`flush`](Self::flush) says again that something waits.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Whether it goes on. What a card refuses is no reason: that is a fate.
    ///
    /// # Errors
    /// It gives the card nothing any more, for a reason of its own.
    fn check(&mut self) -> Result<(), DriverError> {
        Ok(())
    }

    /// Gives the card nothing more: what it has not is held. Only a driver that works between two calls has something to end.
    fn close(&mut self) {}

    /// What was counted so far, by this end and by the other.
    ///
    /// # Errors
    /// The kernel refuses.
    fn counts(&mut self) -> Result<SendCounts, DriverError>;
}

/// How a card is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// It takes frames and gives some.
    Up,
    /// It is up, and the other end of its cable is not.
    NoCarrier,
    /// It is set down.
    Down,
    /// It is there no more, and comes not back under this driver.
    Gone,
}

/// What a card is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CardState {
    /// How it is.
    pub link: Link,
    /// The longest packet that it takes, in bytes without the Ethernet header; 0 of one that is gone.
    pub mtu_bytes: u32,
    /// Its Ethernet address; zeros of one that is gone.
    pub mac: Mac,
}

/// What there is to know of a card.
pub trait Card: Send + Debug {
    /// What it is called.
    fn name(&self) -> &str;

    /// How it is now. Asked at each tick, and whenever a wait ended without a frame.
    fn look(&mut self) -> CardState;

    /// What the kernel counts of the whole interface, by whomever it is used; none of a card that is no interface.
    ///
    /// # Errors
    /// The kernel refuses.
    fn link_counts(&mut self) -> Result<Option<LinkCounts>, DriverError>;
}

/// A change of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its link is so now.
    Link {
        /// It was so before.
        from: Link,
        /// It is so now.
        to: Link,
    },
    /// It takes packets of another length.
    Mtu {
        /// Bytes before.
        from: u32,
        /// Bytes now.
        to: u32,
    },
    /// It has another address.
    Mac {
        /// The one before.
        from: Mac,
        /// The one now.
        to: Mac,
    },
}

/// Tells what has changed since the last look at a card.
#[derive(Debug, Clone, Copy)]
pub struct CardWatch {
    last: CardState,
}

impl CardWatch {
    /// From this state on.
    #[must_use]
    pub const fn new(first: CardState) -> Self {
        Self { last: first }
    }

    /// What is different now. Of a card that is gone, that alone.
    pub fn observe(&mut self, now: CardState) -> impl Iterator<Item = Change> + use<> {
        let last = std::mem::replace(&mut self.last, now);
        let link = (last.link != now.link).then_some(Change::Link {
            from: last.link,
            to: now.link,
        });
        let is_there = now.link != Link::Gone;
        let mtu = (is_there && last.mtu_bytes != now.mtu_bytes).then_some(Change::Mtu {
            from: last.mtu_bytes,
            to: now.mtu_bytes,
        });
        let mac = (is_there && last.mac != now.mac).then_some(Change::Mac {
            from: last.mac,
            to: now.mac,
        });
        [link, mtu, mac].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: CardState = CardState {
        link: Link::Up,
        mtu_bytes: 1_500,
        mac: Mac([2, 0, 0, 0, 0, 1]),
    };

    #[test]
    fn each_change_is_told_once_and_of_a_card_that_is_gone_that_alone() {
        let mut watch = CardWatch::new(UP);
        let mut told = |now| watch.observe(now).collect::<Vec<_>>();
        assert_eq!(told(UP), []);
        let down = CardState {
            link: Link::Down,
            mtu_bytes: 9_000,
            ..UP
        };
        let (from, to) = (Link::Up, Link::Down);
        let mtu = Change::Mtu {
            from: 1_500,
            to: 9_000,
        };
        assert_eq!(told(down), [Change::Link { from, to }, mtu]);
        assert_eq!(told(down), []);
        let gone = CardState {
            link: Link::Gone,
            mtu_bytes: 0,
            mac: Mac([0; 6]),
        };
        let (from, to) = (Link::Down, Link::Gone);
        assert_eq!(told(gone), [Change::Link { from, to }]);
    }
}
