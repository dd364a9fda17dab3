//! An interface by packet sockets: a ring that the kernel fills, and frames past the queueing disciplines (`PACKET_QDISC_BYPASS`; packet(7)).
//!
//! What comes is visited in the ring. Of a ring of frames each is there at once (`TPACKET_V2`); a ring of blocks (`TPACKET_V3`) has them together, when a block is full or
//! its time-out is over. Nothing that this host sends on the interface comes in. A VLAN tag that the kernel took out is put back, and a check sum that a sender on this
//! host has left to a card is made.

mod receive;

use std::os::fd::{AsFd, BorrowedFd};

use forebay_link::packet::{BATCH_FRAMES_MAX, FrameBatch, Refusal, RingSize, SendPort, Stopped};
use forebay_mux::Items;
use forebay_sys::clock::monotonic_ns;

use self::receive::{of_blocks, of_frames};
use super::account::{CardOutDrop, OutDrops, SendCounts};
use super::card::InterfaceCard;
use super::fates::Fates;
use super::{
    Driver, DriverError, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Fate, Fill, Flushed, SendSide, Sent,
};

/// A card whose queue is full is given the same frame again for so long, in ns: a queue of a thousand long frames leaves a link of 1 Gb/s in 12 ms.
const BUSY_NS: u64 = 100_000_000;

/// Where the kernel puts what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketRing {
    /// A place for each frame, a multiple of 64 of them: each is there as soon as the kernel has it.
    Frames(u32),
    /// Blocks. Frames that come seldom take one each: with one a time-out, nobody may be away for longer than so many time-outs.
    Blocks(RingSize),
}

impl PacketRing {
    /// 512 blocks of 64 KiB, and the shortest time-out.
    pub const BLOCKS: Self = Self::Blocks(RingSize {
        block_bytes: 1 << 16,
        blocks: 512,
        block_timeout_ms: 1,
    });
}

/// How an interface is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketOptions {
    /// Where the kernel puts what comes.
    pub ring: PacketRing,
    /// The longest frame that comes or goes, in bytes with its header.
    pub frame_bytes_max: usize,
    /// Frames for other addresses than the interface's own come, too: clients have addresses of their own.
    pub promiscuous: bool,
}

impl Default for PacketOptions {
    /// 4,096 frames: 49 ms of 1 Gb/s in frames of 1,518 bytes.
    fn default() -> Self {
        Self {
            ring: PacketRing::Frames(4_096),
            frame_bytes_max: FRAME_BYTES_MAX,
            promiscuous: true,
        }
    }
}

/// Opens an interface of this thread's network namespace.
///
/// # Errors
/// It is not there, is down, or no Ethernet; the process may not (`CAP_NET_RAW`); memory runs out.
pub fn open(interface: &str, options: &PacketOptions) -> Result<Driver, DriverError> {
    let card = InterfaceCard::open(interface)?;
    if options.promiscuous {
        card.be_promiscuous()?;
    }
    Ok(Driver {
        receive: match options.ring {
            PacketRing::Frames(frames) => Box::new(of_frames(interface, frames, options)?),
            PacketRing::Blocks(size) => Box::new(of_blocks(interface, size, options)?),
        },
        send: Box::new(PacketSend::open(interface, options)?),
        card: Box::new(card),
        mode: match options.ring {
            PacketRing::Frames(_) => "frames",
            PacketRing::Blocks(_) => "blocks",
        },
    })
}

#[derive(Debug)]
struct PacketSend {
    port: SendPort,
    batch: FrameBatch,
    frame_bytes_max: usize,
    taken: Items,
    fates: Fates,
    out: u64,
    dropped: OutDrops,
    refused: OutDrops,
    no_room: u64,
    /// Since then the card has taken none, as its queue is full.
    busy_since_ns: Option<u64>,
}

impl PacketSend {
    fn open(interface: &str, options: &PacketOptions) -> Result<Self, DriverError> {
        Ok(Self {
            port: SendPort::open(interface)?,
            batch: FrameBatch::new(options.frame_bytes_max),
            frame_bytes_max: options.frame_bytes_max,
            taken: Items::default(),
            fates: Fates::default(),
            out: 0,
            dropped: OutDrops::default(),
            refused: OutDrops::default(),
            no_room: 0,
            busy_since_ns: None,
        })
    }

    /// Whether a frame that finds the card's queue full is kept for the next flush: one that never goes, as by a filter of the kernel, must not hold all others.
    fn is_patient(&mut self) -> bool {
        let now_ns = monotonic_ns();
        let since_ns = *self.busy_since_ns.get_or_insert(now_ns);
        now_ns.saturating_sub(since_ns) < BUSY_NS
    }

    fn refuse(&mut self, why: CardOutDrop) -> Sent {
        self.refused[why] += 1;
        Sent::Refused(why)
    }
}

impl SendSide for PacketSend {
    fn send_with(&mut self, bytes: usize, fill: Fill<'_>) -> Sent {
        if bytes > self.frame_bytes_max {
            return self.refuse(CardOutDrop::TooLong);
        }
        if bytes < FRAME_BYTES_MIN {
            return self.refuse(CardOutDrop::TooShort);
        }
        if self.batch.frames() == BATCH_FRAMES_MAX {
            self.flush();
        }
        let Some(place) = self.batch.room().and_then(|room| room.get_mut(..bytes)) else {
            self.no_room += 1;
            return Sent::NoRoom;
        };
        if !fill(place) {
            return self.refuse(CardOutDrop::NotFilled);
        }
        self.batch.push(bytes);
        self.taken.add(bytes as u32);
        Sent::Taken
    }

    fn flush(&mut self) -> Flushed {
        let (mut from, all) = (0, self.batch.frames());
        let flushed = loop {
            let sent = self.port.send(&self.batch, from..all);
            from += sent.frames;
            self.out += sent.frames as u64;
            self.fates.note(Fate::Out, sent.frames as u64);
            if sent.frames > 0 {
                self.busy_since_ns = None;
            }
            match sent.stopped {
                None => break Flushed::All,
                Some(Stopped::Full) => break Flushed::Waits,
                Some(Stopped::Busy) if self.is_patient() => break Flushed::Waits,
                Some(Stopped::Busy) => {
                    self.busy_since_ns = None;
                    self.dropped[CardOutDrop::Device] += 1;
                    let fate = Fate::Dropped(CardOutDrop::Device);
                    self.fates.note(fate, 1);
                    from += 1;
                }
                Some(Stopped::Refused(why)) => {
                    let why = reason(why);
                    self.dropped[why] += 1;
                    self.fates.note(Fate::Dropped(why), 1);
                    from += 1;
                }
            }
        };
        self.batch.remove_before(from);
        flushed
    }

    fn fates(&mut self, told: &mut dyn FnMut(Fate)) {
        self.fates.tell(told);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }

    fn counts(&mut self) -> Result<SendCounts, DriverError> {
        Ok(SendCounts {
            taken: self.taken,
            out: self.out,
            dropped: self.dropped,
            held: self.batch.frames() as u64,
            refused: self.refused,
            no_room: self.no_room,
        })
    }
}

const fn reason(refusal: Refusal) -> CardOutDrop {
    match refusal {
        Refusal::Device => CardOutDrop::Device,
        Refusal::Down => CardOutDrop::Down,
        Refusal::Gone => CardOutDrop::Gone,
        Refusal::TooLong => CardOutDrop::TooLong,
        Refusal::Other(_) => CardOutDrop::Other,
    }
}
