//! The other end of an interface that the kernel makes (TAP): what the host sends on it comes, and what goes comes in there.
//!
//! The host is the station at the other end, so that the card has an address of its own. A frame costs a call of the kernel each way: this is for hosts without a card to
//! spare, for virtual machines and for tests. As each frame is read by its own call, it can be read to where clients find it ([`shared`](super::shared)).

use std::os::fd::{AsFd, BorrowedFd};

use forebay_mux::{Items, Mac};
use forebay_sys::tap::Tap;
use rustix::io::Errno;

use super::account::{CardInDrop, CardOutDrop, InDrops, ReceiveCounts, SendCounts};
use super::card::InterfaceCard;
use super::fates::Fates;
use super::shared::{Desk, Landed, Landing, SharedMemory};
use super::{
    Card, CardState, Driver, DriverError, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Fate, Fill, Flushed,
    Link, LinkCounts, ReceiveSide, SendSide, Sent,
};

/// Room for the longest frame that there can be.
const ROOM_BYTES: usize = 1 << 16;

/// How an interface is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapOptions {
    /// The longest frame that comes or goes, in bytes with its header.
    pub frame_bytes_max: usize,
    /// Of frames that went and that the host still has, at most so many bytes, with what each costs the kernel besides: more find no room.
    pub send_bytes_max: u32,
    /// The card's address. Without it, that of the interface with its last bit turned: the interface's own is the host's.
    pub mac: Option<Mac>,
}

impl Default for TapOptions {
    fn default() -> Self {
        Self {
            frame_bytes_max: FRAME_BYTES_MAX,
            send_bytes_max: 1 << 20,
            mac: None,
        }
    }
}

/// Makes the interface, or takes the free end of one that is there. It has to be set up: by `ip link set NAME up`.
///
/// # Errors
/// The kernel has no such device, the process may not (`CAP_NET_ADMIN`, `CAP_NET_RAW`), or the interface's end is taken.
pub fn open(interface: &str, options: &TapOptions) -> Result<Driver, DriverError> {
    let tap = Tap::open(interface)?;
    tap.limit_send_bytes(options.send_bytes_max)?;
    let send = TapSend {
        tap: tap.share()?,
        fates: Fates::default(),
        card: InterfaceCard::open(interface)?,
        told: Told::default(),
        room: vec![0; ROOM_BYTES],
        frame_bytes_max: options.frame_bytes_max,
        counts: SendCounts::default(),
    };
    Ok(Driver {
        receive: Box::new(TapReceive {
            tap,
            card: InterfaceCard::open(interface)?,
            room: vec![0; ROOM_BYTES],
            frame_bytes_max: options.frame_bytes_max,
            has_more: true,
            taken: 0,
            taken_then: 0,
            visited: Items::default(),
            dropped: InDrops::default(),
            told: LinkCounts::default(),
            landing: None,
        }),
        send: Box::new(send),
        card: Box::new(TapCard {
            card: InterfaceCard::open(interface)?,
            mac: options.mac,
        }),
        mode: "frame by frame",
    })
}

#[derive(Debug)]
struct TapReceive {
    tap: Tap,
    card: InterfaceCard,
    room: Vec<u8>,
    frame_bytes_max: usize,
    /// The last call did not find the end.
    has_more: bool,
    /// Frames that were taken out of the interface's queue.
    taken: u64,
    /// Those that were when it was asked last.
    taken_then: u64,
    visited: Items,
    dropped: InDrops,
    /// What the interface counted last: it is not there any more when it is gone.
    told: LinkCounts,
    /// Where frames come that clients read in place.
    landing: Option<Landing>,
}

/// Takes the next frame, as far as there is room for it. None if there is none, or no interface: that the card says.
fn read(tap: &Tap, room: &mut [u8]) -> Option<usize> {
    loop {
        match tap.receive(room) {
            Err(Errno::INTR) => {}
            other => return other.ok(),
        }
    }
}

impl ReceiveSide for TapReceive {
    fn receive(&mut self, most: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, DriverError> {
        let mut visited = 0;
        for _ in 0..most {
            let Some(bytes) = read(&self.tap, &mut self.room) else {
                self.has_more = false;
                return Ok(visited);
            };
            self.taken += 1;
            match self.room.get(..bytes) {
                Some(frame) if bytes <= self.frame_bytes_max => {
                    self.visited.add(bytes as u32);
                    visit(frame);
                    visited += 1;
                }
                _ => self.dropped[CardInDrop::TooLong] += 1,
            }
        }
        self.has_more = true;
        Ok(visited)
    }

    fn share(&mut self, client_frames: u32) -> Result<Option<SharedMemory>, DriverError> {
        let (landing, memory) = Landing::make(client_frames, self.frame_bytes_max)?;
        self.landing = Some(landing);
        Ok(Some(memory))
    }

    fn receive_shared(&mut self, most: usize, desk: &mut dyn Desk) -> Result<usize, DriverError> {
        let Some(landing) = &mut self.landing else {
            return Ok(0);
        };
        let (tap, mut visited) = (&self.tap, 0);
        for _ in 0..most {
            match landing.receive(desk, |room| read(tap, room)) {
                Landed::Frame(bytes) => {
                    self.visited.add(bytes);
                    visited += 1;
                }
                Landed::TooLong => self.dropped[CardInDrop::TooLong] += 1,
                Landed::Nothing => {
                    self.has_more = false;
                    return Ok(visited);
                }
            }
            self.taken += 1;
        }
        self.has_more = true;
        Ok(visited)
    }

    fn is_ready(&mut self) -> bool {
        self.has_more
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }

    fn settle(&mut self) {
        self.has_more = true;
    }

    fn close(&mut self) {}

    /// A frame that lies in the interface's queue is counted by it when it is taken out. Of one that is gone, what was taken out since it was asked last is added.
    fn counts(&mut self) -> Result<ReceiveCounts, DriverError> {
        if let Some(told) = self.card.link_counts()? {
            self.told = told;
            self.taken_then = self.taken;
        }
        let mut dropped = self.dropped;
        dropped[CardInDrop::RingFull] = self.told.send_dropped;
        Ok(ReceiveCounts {
            came: self.told.sent.items + self.told.send_dropped + (self.taken - self.taken_then),
            visited: self.visited,
            dropped,
            held: 0,
            checksums_completed: 0,
        })
    }
}

/// Frames that went, by both counts.
#[derive(Debug, Default)]
struct Told {
    /// Those that the interface had received when it was asked last.
    by_interface: u64,
    /// Those that this end had put in then.
    put: u64,
}

#[derive(Debug)]
struct TapSend {
    tap: Tap,
    fates: Fates,
    /// What the interface is asked over, which counts what it received.
    card: InterfaceCard,
    told: Told,
    /// Where a frame is written before the kernel copies it.
    room: Vec<u8>,
    frame_bytes_max: usize,
    counts: SendCounts,
}

impl TapSend {
    fn refuse(&mut self, why: CardOutDrop) -> Sent {
        self.counts.refused[why] += 1;
        Sent::Refused(why)
    }

    /// Why a frame of this length can never be sent.
    const fn wrong_length(&self, bytes: usize) -> Option<CardOutDrop> {
        if bytes > self.frame_bytes_max {
            Some(CardOutDrop::TooLong)
        } else if bytes < FRAME_BYTES_MIN {
            Some(CardOutDrop::TooShort)
        } else {
            None
        }
    }

    fn count(&mut self, bytes: usize, put: Result<(), Errno>) -> Sent {
        if put == Err(Errno::AGAIN) {
            self.counts.no_room += 1;
            return Sent::NoRoom;
        }
        self.counts.taken.add(bytes as u32);
        match put {
            Ok(()) => {
                self.counts.out += 1;
                self.fates.note(Fate::Out, 1);
            }
            Err(errno) => {
                let why = reason(errno);
                self.counts.dropped[why] += 1;
                self.fates.note(Fate::Dropped(why), 1);
            }
        }
        Sent::Taken
    }
}

fn put(tap: &Tap, frame: &[u8]) -> Result<(), Errno> {
    loop {
        match tap.send(frame) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

impl SendSide for TapSend {
    /// The kernel copies each frame at once, by a call: what `fill` writes is a copy before that.
    fn send_with(&mut self, bytes: usize, fill: Fill<'_>) -> Sent {
        if let Some(why) = self.wrong_length(bytes) {
            return self.refuse(why);
        }
        let place = self.room.get_mut(..bytes).filter(|place| !place.is_empty());
        let Some(frame) = place.and_then(|place| fill(place).then_some(place)) else {
            return self.refuse(CardOutDrop::NotFilled);
        };
        let put = put(&self.tap, frame);
        self.count(bytes, put)
    }

    /// Without a copy before that of the kernel.
    fn send(&mut self, frame: &[u8]) -> Sent {
        if let Some(why) = self.wrong_length(frame.len()) {
            return self.refuse(why);
        }
        let put = put(&self.tap, frame);
        self.count(frame.len(), put)
    }

    fn flush(&mut self) -> Flushed {
        Flushed::All
    }

    fn fates(&mut self, told: &mut dyn FnMut(Fate)) {
        self.fates.tell(told);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }

    /// What is out is counted by the interface; of one that is gone, what was put in since it was asked last is added.
    fn counts(&mut self) -> Result<SendCounts, DriverError> {
        let put = self.counts.out;
        if let Some(link) = self.card.link_counts()? {
            let by_interface = link.received.items;
            self.told = Told { by_interface, put };
        }
        Ok(SendCounts {
            out: self.told.by_interface + (put - self.told.put),
            ..self.counts
        })
    }
}

fn reason(errno: Errno) -> CardOutDrop {
    match errno {
        Errno::IO => CardOutDrop::Down,
        Errno::BADFD => CardOutDrop::Gone,
        Errno::NOBUFS | Errno::NOMEM => CardOutDrop::Device,
        _ => CardOutDrop::Other,
    }
}

#[derive(Debug)]
struct TapCard {
    card: InterfaceCard,
    mac: Option<Mac>,
}

impl Card for TapCard {
    fn name(&self) -> &str {
        self.card.name()
    }

    fn look(&mut self) -> CardState {
        let mut state = self.card.look();
        if state.link != Link::Gone {
            let Mac([rest @ .., last]) = state.mac;
            let [a, b, c, d, e] = rest;
            let beside = Mac([a, b, c, d, e, last ^ 1]);
            state.mac = self.mac.unwrap_or(beside);
        }
        state
    }

    fn link_counts(&mut self) -> Result<Option<LinkCounts>, DriverError> {
        self.card.link_counts()
    }
}
