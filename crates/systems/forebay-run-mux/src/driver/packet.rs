//! An interface by packet sockets: a ring that the kernel fills (`TPACKET_V3`), and frames past the queueing disciplines (`PACKET_QDISC_BYPASS`; packet(7)).
//!
//! What comes is visited in the ring. A block of frames is handed over when it is full or its time-out is over, so that a frame may come
//! [`PacketOptions::block_timeout_ms`] later than the kernel had it. Nothing that this host sends on the interface comes in. A VLAN tag that the kernel took out is put back,
//! and a check sum that a sender on this host has left to a card is made.

use std::os::fd::{AsFd, BorrowedFd};

use forebay_link::packet::{
    BATCH_FRAMES_MAX, Frame, FrameBatch, PacketPort, PortOptions, Refusal, RingSize, SendPort,
    Stopped,
};
use forebay_mux::Items;
use forebay_sys::clock::monotonic_ns;

use super::account::{CardInDrop, CardOutDrop, OutDrops, ReceiveCounts, SendCounts};
use super::card::InterfaceCard;
use super::checksum::complete;
use super::fates::Fates;
use super::{
    Driver, DriverError, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Fate, Flushed, ReceiveSide, SendSide,
    Sent,
};

/// The least that a frame takes in a block, in bytes: its head, its place in front, and an Ethernet header.
const PLACE_BYTES_MIN: u32 = 96;
/// A card whose queue is full is given the same frame again for so long, in ns: a queue of a thousand long frames leaves a link of 1 Gb/s in 12 ms.
const BUSY_NS: u64 = 100_000_000;

/// How an interface is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketOptions {
    /// A block of the ring, in bytes: a power of two of at least 65,536.
    pub block_bytes: u32,
    /// Blocks, 2 at least. Frames that come seldom take a block each: with one a time-out, nobody may be away for longer than so many time-outs.
    pub blocks: u32,
    /// A block with a frame is handed over after so long, in ms, 1 at least.
    pub block_timeout_ms: u32,
    /// The longest frame that comes or goes, in bytes with its header.
    pub frame_bytes_max: usize,
    /// Frames for other addresses than the interface's own come, too: clients have addresses of their own.
    pub promiscuous: bool,
}

impl Default for PacketOptions {
    /// 512 blocks of 64 KiB, and the shortest time-out.
    fn default() -> Self {
        Self {
            block_bytes: 1 << 16,
            blocks: 512,
            block_timeout_ms: 1,
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
        receive: Box::new(PacketReceive::open(interface, options)?),
        send: Box::new(PacketSend::open(interface, options)?),
        card: Box::new(card),
    })
}

#[derive(Debug)]
struct PacketReceive {
    port: PacketPort,
    frame_bytes_max: usize,
    burst_frames: usize,
    tally: Tally,
}

/// What this end counts.
#[derive(Debug, Default)]
struct Tally {
    counts: ReceiveCounts,
    /// Where a check sum is made: of frames that a sender on this host has sent alone.
    scratch: Vec<u8>,
}

impl PacketReceive {
    fn open(interface: &str, options: &PacketOptions) -> Result<Self, DriverError> {
        let ring = RingSize {
            block_bytes: options.block_bytes,
            blocks: options.blocks,
            block_timeout_ms: options.block_timeout_ms,
        };
        // Whole frames, so that one that is too long is known for what it is.
        let port_options = PortOptions {
            queues: 1,
            ring,
            snap_bytes: u32::MAX,
            promiscuous: false,
        };
        let port = PacketPort::open_shut(interface, &port_options)?.remove(0);
        port.ignore_outgoing()?;
        port.accept(u32::MAX)?;
        Ok(Self {
            port,
            frame_bytes_max: options.frame_bytes_max,
            burst_frames: (options.block_bytes / PLACE_BYTES_MIN) as usize,
            tally: Tally::default(),
        })
    }
}

impl Tally {
    /// Visits a frame, unless it is not whole or too long.
    fn take(
        &mut self,
        frame: &Frame<'_>,
        frame_bytes_max: usize,
        visit: &mut dyn FnMut(&[u8]),
    ) -> bool {
        let why = if frame.wire_bytes as usize > frame_bytes_max {
            CardInDrop::TooLong
        } else if (frame.bytes.len() as u64) < u64::from(frame.wire_bytes) {
            CardInDrop::Cut
        } else {
            self.counts.visited.add(frame.wire_bytes);
            if frame.lacks_checksum {
                self.visit_completed(frame.bytes, visit);
            } else {
                visit(frame.bytes);
            }
            return true;
        };
        self.counts.dropped[why] += 1;
        false
    }
}

impl Tally {
    fn visit_completed(&mut self, frame: &[u8], visit: &mut dyn FnMut(&[u8])) {
        self.scratch.clear();
        self.scratch.extend_from_slice(frame);
        self.counts.checksums_completed += u64::from(complete(&mut self.scratch));
        visit(&self.scratch);
    }
}

impl ReceiveSide for PacketReceive {
    fn receive(&mut self, most: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, DriverError> {
        let mut visited = 0;
        while visited < most
            && let Some(mut block) = self.port.take()
        {
            let frames = block.frames();
            let (packets, mut read) = (frames.packets(), 0);
            for frame in frames {
                let Ok(frame) = frame else {
                    // The rest of the block is not believed.
                    let lost = u64::from(packets - read);
                    self.tally.counts.dropped[CardInDrop::Disbelieved] += lost;
                    break;
                };
                read += 1;
                let taken = self.tally.take(&frame, self.frame_bytes_max, visit);
                visited += usize::from(taken);
            }
        }
        Ok(visited)
    }

    fn burst_frames(&self) -> usize {
        self.burst_frames
    }

    fn is_ready(&mut self) -> bool {
        self.port.is_ready()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }

    fn settle(&mut self) {
        // How the interface is the card says.
        let _ = self.port.state();
    }

    fn close(&mut self) {
        // A ring that cannot be shut goes on, and what it counts says so.
        let _ = self.port.close();
    }

    fn counts(&mut self) -> Result<ReceiveCounts, DriverError> {
        // What is held is read first: a frame that comes in between is not counted as one too many.
        let held = self.port.held();
        let kernel = self.port.kernel_counts()?;
        let mut counts = self.tally.counts;
        counts.held = held;
        counts.came = kernel.packets;
        counts.dropped[CardInDrop::RingFull] = kernel.drops;
        Ok(counts)
    }
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
    fn send(&mut self, frame: &[u8]) -> Sent {
        if frame.len() > self.frame_bytes_max {
            return self.refuse(CardOutDrop::TooLong);
        }
        if frame.len() < FRAME_BYTES_MIN {
            return self.refuse(CardOutDrop::TooShort);
        }
        if self.batch.frames() == BATCH_FRAMES_MAX {
            self.flush();
        }
        let Some(place) = self
            .batch
            .room()
            .and_then(|room| room.get_mut(..frame.len()))
        else {
            self.no_room += 1;
            return Sent::NoRoom;
        };
        place.copy_from_slice(frame);
        self.batch.push(frame.len());
        self.taken.add(frame.len() as u32);
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
