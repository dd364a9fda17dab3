//! A card in memory: what one end of an emulated cable sends, a test or a load has at the other.
//!
//! It has room for so many frames each way and no clock: a frame is at the other end when the call that sends it returns. What it has no room for is lost by name, as by a
//! card.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_mux::{Items, Mac};
use forebay_sys::eventfd::EventFd;

use super::account::{CardInDrop, CardOutDrop, InDrops, ReceiveCounts, SendCounts};
use super::fates::Fates;
use super::shared::{Desk, Landed, Landing, SharedMemory};
use super::{
    Card, CardState, Driver, DriverError, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Fate, Fill, Flushed,
    Link, LinkCounts, ReceiveSide, SendSide, Sent,
};

/// Most frames that the driver has taken, and the card not yet.
const BATCH_FRAMES_MAX: usize = 64;
const HEADER_BYTES: usize = 14;
const TAG_BYTES: usize = 4;

/// How an emulated card is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmulatedOptions {
    /// Frames that came and wait to be visited: the next one finds the ring full.
    pub receive_frames: usize,
    /// Frames that went and wait at the far end: for the next one there is no room.
    pub send_frames: usize,
    /// The longest frame that comes or goes, in bytes with its header.
    pub frame_bytes_max: usize,
    /// The longest packet at the beginning, in bytes without the Ethernet header.
    pub mtu_bytes: u32,
    /// The card's address.
    pub mac: Mac,
}

impl Default for EmulatedOptions {
    fn default() -> Self {
        Self {
            receive_frames: 1_024,
            send_frames: 1_024,
            frame_bytes_max: FRAME_BYTES_MAX,
            mtu_bytes: 1_500,
            mac: Mac([2, 0, 0, 0, 0, 1]),
        }
    }
}

#[derive(Debug)]
struct Cable {
    options: EmulatedOptions,
    link: Link,
    mtu_bytes: u32,
    is_closed: bool,
    coming: VecDeque<Vec<u8>>,
    came: u64,
    ring_full: u64,
    going: VecDeque<Vec<u8>>,
    gone_out: u64,
    /// Readable while a frame is there.
    arrived: Arc<EventFd>,
    /// Writable while there is room.
    room: Arc<EventFd>,
}

type Shared = Arc<Mutex<Cable>>;

fn lock(cable: &Mutex<Cable>) -> MutexGuard<'_, Cable> {
    cable.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The other end of an emulated cable.
#[derive(Debug, Clone)]
pub struct FarEnd {
    cable: Shared,
}

/// Makes a card, and the other end of its cable.
///
/// # Errors
/// Descriptors run out.
pub fn open(options: &EmulatedOptions) -> Result<(Driver, FarEnd), DriverError> {
    let (arrived, room) = (Arc::new(EventFd::create()?), Arc::new(EventFd::create()?));
    let cable = Arc::new(Mutex::new(Cable {
        options: *options,
        link: Link::Up,
        mtu_bytes: options.mtu_bytes,
        is_closed: false,
        coming: VecDeque::new(),
        came: 0,
        ring_full: 0,
        going: VecDeque::new(),
        gone_out: 0,
        arrived: Arc::clone(&arrived),
        room: Arc::clone(&room),
    }));
    let driver = Driver {
        receive: Box::new(EmulatedReceive {
            cable: Arc::clone(&cable),
            arrived,
            visited: Items::default(),
            dropped: InDrops::default(),
            landing: None,
        }),
        send: Box::new(EmulatedSend {
            cable: Arc::clone(&cable),
            room,
            batch: VecDeque::new(),
            fates: Fates::default(),
            frame_bytes_max: options.frame_bytes_max,
            counts: SendCounts::default(),
        }),
        card: Box::new(EmulatedCard {
            cable: Arc::clone(&cable),
        }),
        mode: "memory",
    };
    Ok((driver, FarEnd { cable }))
}

impl FarEnd {
    /// Sends a frame to the card, and says whether the cable carried it: it does so while both ends are up. What the card makes of it the card counts.
    pub fn send(&self, frame: &[u8]) -> bool {
        let mut cable = lock(&self.cable);
        if cable.link != Link::Up || cable.is_closed {
            return false;
        }
        cable.came += 1;
        if cable.coming.len() >= cable.options.receive_frames {
            cable.ring_full += 1;
        } else {
            cable.coming.push_back(frame.to_vec());
            cable.arrived.signal();
        }
        true
    }

    /// The next frame that the card has sent.
    #[must_use]
    pub fn receive(&self) -> Option<Vec<u8>> {
        let mut cable = lock(&self.cable);
        let frame = cable.going.pop_front();
        if cable.has_room() {
            cable.room.drain();
        }
        frame
    }

    /// Sets the card, or its carrier, up or down.
    pub fn set_link(&self, link: Link) {
        lock(&self.cable).link = link;
    }

    /// Has the card take packets of another length.
    pub fn set_mtu_bytes(&self, mtu_bytes: u32) {
        lock(&self.cable).mtu_bytes = mtu_bytes;
    }
}

impl Cable {
    fn has_room(&self) -> bool {
        self.going.len() < self.options.send_frames
    }

    /// Why it does not carry a frame now, and never will.
    fn refusal(&self, frame: &[u8]) -> Option<CardOutDrop> {
        let tag = if frame.get(HEADER_BYTES - 2..HEADER_BYTES) == Some(&[0x81, 0]) {
            TAG_BYTES
        } else {
            0
        };
        match self.link {
            Link::Gone => Some(CardOutDrop::Gone),
            Link::Down => Some(CardOutDrop::Down),
            Link::NoCarrier => Some(CardOutDrop::Device),
            Link::Up => (frame.len() > self.mtu_bytes as usize + HEADER_BYTES + tag)
                .then_some(CardOutDrop::TooLong),
        }
    }
}

#[derive(Debug)]
struct EmulatedReceive {
    cable: Shared,
    arrived: Arc<EventFd>,
    visited: Items,
    dropped: InDrops,
    landing: Option<Landing>,
}

impl EmulatedReceive {
    fn next(&self) -> Option<Vec<u8>> {
        let mut cable = lock(&self.cable);
        let frame = cable.coming.pop_front();
        if cable.coming.is_empty() {
            self.arrived.drain();
        }
        frame
    }
}

impl ReceiveSide for EmulatedReceive {
    fn receive(&mut self, most: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, DriverError> {
        let frame_bytes_max = lock(&self.cable).options.frame_bytes_max;
        let mut visited = 0;
        while visited < most
            && let Some(frame) = self.next()
        {
            if frame.len() > frame_bytes_max {
                self.dropped[CardInDrop::TooLong] += 1;
                continue;
            }
            visit(&frame);
            self.visited.add(frame.len() as u32);
            visited += 1;
        }
        Ok(visited)
    }

    fn share(&mut self, client_frames: u32) -> Result<Option<SharedMemory>, DriverError> {
        let frame_bytes_max = lock(&self.cable).options.frame_bytes_max;
        let (landing, memory) = Landing::make(client_frames, frame_bytes_max)?;
        self.landing = Some(landing);
        Ok(Some(memory))
    }

    fn receive_shared(&mut self, most: usize, desk: &mut dyn Desk) -> Result<usize, DriverError> {
        let Some(mut landing) = self.landing.take() else {
            return Ok(0);
        };
        let mut visited = 0;
        while visited < most {
            let landed = landing.receive(desk, |room| {
                let frame = self.next()?;
                let there = frame.len().min(room.len());
                room[..there].copy_from_slice(&frame[..there]);
                Some(there)
            });
            match landed {
                Landed::Frame(bytes) => {
                    self.visited.add(bytes);
                    visited += 1;
                }
                Landed::TooLong => self.dropped[CardInDrop::TooLong] += 1,
                Landed::Nothing => break,
            }
        }
        self.landing = Some(landing);
        Ok(visited)
    }

    fn is_ready(&mut self) -> bool {
        !lock(&self.cable).coming.is_empty()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.arrived.as_fd()
    }

    fn settle(&mut self) {}

    fn close(&mut self) {
        lock(&self.cable).is_closed = true;
    }

    fn counts(&mut self) -> Result<ReceiveCounts, DriverError> {
        let cable = lock(&self.cable);
        let mut dropped = self.dropped;
        dropped[CardInDrop::RingFull] = cable.ring_full;
        Ok(ReceiveCounts {
            came: cable.came,
            visited: self.visited,
            dropped,
            held: cable.coming.len() as u64,
            checksums_completed: 0,
        })
    }
}

#[derive(Debug)]
struct EmulatedSend {
    cable: Shared,
    room: Arc<EventFd>,
    batch: VecDeque<Vec<u8>>,
    fates: Fates,
    frame_bytes_max: usize,
    counts: SendCounts,
}

impl EmulatedSend {
    fn refuse(&mut self, why: CardOutDrop) -> Sent {
        self.counts.refused[why] += 1;
        Sent::Refused(why)
    }
}

impl SendSide for EmulatedSend {
    fn send_with(&mut self, bytes: usize, fill: Fill<'_>) -> Sent {
        if bytes > self.frame_bytes_max {
            return self.refuse(CardOutDrop::TooLong);
        }
        if bytes < FRAME_BYTES_MIN {
            return self.refuse(CardOutDrop::TooShort);
        }
        if self.batch.len() == BATCH_FRAMES_MAX && self.flush() == Flushed::Waits {
            self.counts.no_room += 1;
            return Sent::NoRoom;
        }
        let mut frame = vec![0; bytes];
        if !fill(&mut frame) {
            return self.refuse(CardOutDrop::NotFilled);
        }
        self.batch.push_back(frame);
        self.counts.taken.add(bytes as u32);
        Sent::Taken
    }

    fn flush(&mut self) -> Flushed {
        let mut cable = lock(&self.cable);
        while let Some(frame) = self.batch.front() {
            if let Some(why) = cable.refusal(frame) {
                self.counts.dropped[why] += 1;
                self.fates.note(Fate::Dropped(why), 1);
                self.batch.pop_front();
                continue;
            }
            if !cable.has_room() {
                self.room.fill();
                return Flushed::Waits;
            }
            let frame = self.batch.pop_front();
            cable.going.extend(frame);
            cable.gone_out += 1;
            self.fates.note(Fate::Out, 1);
        }
        Flushed::All
    }

    fn fates(&mut self, told: &mut dyn FnMut(Fate)) {
        self.fates.tell(told);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.room.as_fd()
    }

    fn counts(&mut self) -> Result<SendCounts, DriverError> {
        let mut counts = self.counts;
        counts.out = lock(&self.cable).gone_out;
        counts.held = self.batch.len() as u64;
        Ok(counts)
    }
}

#[derive(Debug)]
struct EmulatedCard {
    cable: Shared,
}

impl Card for EmulatedCard {
    fn name(&self) -> &'static str {
        "emulated"
    }

    fn look(&mut self) -> CardState {
        let cable = lock(&self.cable);
        if cable.link == Link::Gone {
            return CardState {
                link: Link::Gone,
                mtu_bytes: 0,
                mac: Mac([0; 6]),
            };
        }
        CardState {
            link: cable.link,
            mtu_bytes: cable.mtu_bytes,
            mac: cable.options.mac,
        }
    }

    fn link_counts(&mut self) -> Result<Option<LinkCounts>, DriverError> {
        Ok(None)
    }
}
