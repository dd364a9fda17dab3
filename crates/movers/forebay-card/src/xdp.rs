//! An interface past the kernel's stack (AF_XDP): its one queue, in and out, with a copy in the kernel or without one.
//!
//! While it is open, nothing of the interface comes to the host's own stack. Frames are taken out of the ring by the dozen and visited in a copy, so that the other half may
//! send meanwhile, from within a visit, too: ring and memory are one for both. Nothing says of a frame that its check sum was left to a card, as a virtual cable does: it is known
//! by what stands in its place. Where clients read what comes, no frame is taken out of its buffer.

mod shared;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_mux::Items;
use forebay_sys::driver_stats::receive_queues;
use forebay_sys::{SysError, wait};
use forebay_xdp::{Mode, NotSent, Port, Redirect};

pub use forebay_xdp::{Copying, PortConfig};
use shared::PortBuffers;

use super::account::{CardInDrop, CardOutDrop, InDrops, ReceiveCounts, SendCounts};
use super::card::InterfaceCard;
use super::checksum::complete_begun;
use super::shared::{Desk, Landed, SharedMemory};
use super::{
    Card, CardState, Driver, DriverError, FRAME_BYTES_MAX, Fate, Fill, Flushed, LinkCounts,
    ReceiveSide, SendSide, Sent,
};

/// Frames that are taken out of the ring at once.
const BATCH_FRAMES: usize = 64;
const QUEUE: u32 = 0;
const HEADER_BYTES: usize = 14;
const TAG_BYTES: usize = 4;

/// How an interface is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpOptions {
    /// Buffers, rings, and whether there is a copy in the kernel.
    pub port: PortConfig,
    /// The longest frame that comes or goes, in bytes with its header.
    pub frame_bytes_max: usize,
    /// Frames come where clients read, with so many buffers for them: then [`ReceiveSide::share`] gives that memory, and [`ReceiveSide::receive_shared`] the frames.
    pub shared_frames: Option<u32>,
    /// Frames for other addresses than the interface's own come, too: clients have addresses of their own.
    pub promiscuous: bool,
    /// Check sums that a sender on this host has begun are made: for virtual cables. On a wire there are none, and 1 frame in 65,536 is looked at in vain.
    pub complete_checksums: bool,
}

impl Default for XdpOptions {
    fn default() -> Self {
        Self {
            port: PortConfig::default(),
            frame_bytes_max: FRAME_BYTES_MAX,
            shared_frames: None,
            promiscuous: true,
            complete_checksums: true,
        }
    }
}

/// Opens an interface of this thread's network namespace, and has all of its frames come here.
///
/// # Errors
/// It is not there, has several queues or another program; the process may not; the binary has no program for the kernel; frames are longer than a buffer that clients read.
pub fn open(interface: &str, options: &XdpOptions) -> Result<Driver, DriverError> {
    let mut card = InterfaceCard::open(interface)?;
    if let Some(has) = receive_queues(interface)?.filter(|has| *has != 1) {
        let interface = interface.to_owned();
        return Err(DriverError::Queues { interface, has });
    }
    if options.promiscuous {
        card.be_promiscuous()?;
    }
    let redirect = Redirect::attach(interface)?;
    let (port, landing) = match options.shared_frames {
        None => (Port::open(interface, QUEUE, &options.port)?, None),
        Some(frames) => {
            let (port, landing) = PortBuffers::open(interface, frames, options)?;
            (port, Some(landing))
        }
    };
    redirect.steer(&port)?;
    let descriptor = || {
        let shared = port.as_fd().try_clone_to_owned();
        shared.map_err(|error| SysError::new("dup", interface, error))
    };
    let (incoming, outgoing) = (descriptor()?, descriptor()?);
    let mode = match (redirect.mode(), port.is_zero_copy()) {
        (Mode::Native, true) => "native, zero copy",
        (Mode::Native, false) => "native, copy",
        (Mode::Generic, _) => "generic, copy",
    };
    let mtu_bytes = Arc::new(AtomicU32::new(card.look().mtu_bytes));
    let port = Arc::new(Mutex::new(port));
    Ok(Driver {
        receive: Box::new(XdpReceive {
            port: Arc::clone(&port),
            redirect,
            descriptor: incoming,
            staged: Staged::default(),
            landing,
            frame_bytes_max: options.frame_bytes_max,
            completes: options.complete_checksums,
            visited: Items::default(),
            dropped: InDrops::default(),
            checksums_completed: 0,
        }),
        send: Box::new(XdpSend {
            port,
            descriptor: outgoing,
            mtu_bytes: Arc::clone(&mtu_bytes),
            frame_bytes_max: options.frame_bytes_max,
            counts: SendCounts::default(),
            told: Told::default(),
        }),
        card: Box::new(XdpCard { card, mtu_bytes }),
        mode,
    })
}

fn lock(port: &Mutex<Port>) -> MutexGuard<'_, Port> {
    port.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frames that were taken out of the ring, one behind the other.
#[derive(Debug, Default)]
struct Staged {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

#[derive(Debug)]
struct XdpReceive {
    port: Arc<Mutex<Port>>,
    redirect: Redirect,
    descriptor: OwnedFd,
    staged: Staged,
    landing: Option<PortBuffers>,
    frame_bytes_max: usize,
    completes: bool,
    visited: Items,
    dropped: InDrops,
    checksums_completed: u64,
}

impl XdpReceive {
    /// Takes so many frames out of the ring at most; how many.
    fn stage(&mut self, most: usize) -> usize {
        let (staged, frame_bytes_max) = (&mut self.staged, self.frame_bytes_max);
        staged.bytes.clear();
        staged.lengths.clear();
        let dropped = &mut self.dropped[CardInDrop::TooLong];
        let mut port = lock(&self.port);
        let mut taken = 0;
        if port.look() == 0 {
            return taken;
        }
        port.receive(most.min(BATCH_FRAMES) as u32, |frame| {
            taken += 1;
            if frame.len() > frame_bytes_max {
                *dropped += 1;
                return;
            }
            staged.bytes.extend_from_slice(frame);
            staged.lengths.push(frame.len());
        });
        taken
    }

    fn visit_staged(&mut self, visit: &mut dyn FnMut(&[u8])) -> usize {
        let mut rest = &mut self.staged.bytes[..];
        for length in &self.staged.lengths {
            let Some((frame, behind)) = rest.split_at_mut_checked(*length) else {
                break;
            };
            rest = behind;
            if self.completes {
                self.checksums_completed += u64::from(complete_begun(frame));
            }
            self.visited.add(*length as u32);
            visit(frame);
        }
        self.staged.lengths.len()
    }
}

impl ReceiveSide for XdpReceive {
    fn receive(&mut self, most: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, DriverError> {
        let (mut visited, mut taken) = (0, 0);
        while taken < most {
            let staged = self.stage(most - taken);
            if staged == 0 {
                break;
            }
            taken += staged;
            visited += self.visit_staged(visit);
        }
        Ok(visited)
    }

    fn share(&mut self, client_frames: u32) -> Result<Option<SharedMemory>, DriverError> {
        let landing = self.landing.as_ref();
        let landing = landing.filter(|landing| landing.client_frames() == client_frames);
        landing.map(PortBuffers::memory).transpose()
    }

    fn receive_shared(&mut self, most: usize, desk: &mut dyn Desk) -> Result<usize, DriverError> {
        let Some(landing) = &mut self.landing else {
            return Ok(0);
        };
        let (mut visited, mut taken) = (0, 0);
        loop {
            let came = landing.take(&self.port, (most - taken).min(BATCH_FRAMES));
            taken += came;
            for _ in 0..came {
                let landed = landing.land(desk, self.frame_bytes_max, |frame| {
                    if self.completes {
                        self.checksums_completed += u64::from(complete_begun(frame));
                    }
                });
                match landed {
                    Landed::Frame(bytes) => {
                        self.visited.add(bytes);
                        visited += 1;
                    }
                    Landed::TooLong => self.dropped[CardInDrop::TooLong] += 1,
                    Landed::Nothing => {}
                }
            }
            landing.lend(&self.port, desk);
            if came == 0 {
                return Ok(visited);
            }
        }
    }

    fn is_ready(&mut self) -> bool {
        lock(&self.port).look() > 0
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    fn settle(&mut self) {}

    fn close(&mut self) {
        self.redirect.detach();
        wait::for_programs();
    }

    fn counts(&mut self) -> Result<ReceiveCounts, DriverError> {
        // What is held is read first: a frame that comes in between is not counted as one too many.
        let port = lock(&self.port);
        let held = port.held();
        let lost = port.statistics()?;
        let mut dropped = self.dropped;
        dropped[CardInDrop::RingFull] = lost.ring_full;
        dropped[CardInDrop::NoBuffer] = lost.dropped;
        dropped[CardInDrop::Disbelieved] = port.counts().disbelieved;
        Ok(ReceiveCounts {
            came: self.redirect.steered(QUEUE)?.redirected.frames,
            visited: self.visited,
            dropped,
            held,
            checksums_completed: self.checksums_completed,
        })
    }
}

#[derive(Debug)]
struct XdpSend {
    port: Arc<Mutex<Port>>,
    descriptor: OwnedFd,
    mtu_bytes: Arc<AtomicU32>,
    frame_bytes_max: usize,
    counts: SendCounts,
    told: Told,
}

/// Frames whose fate was told.
#[derive(Debug, Default)]
struct Told {
    out: u64,
    refused: u64,
}

/// Whether it has a VLAN tag, which the interface takes besides its longest packet.
fn is_tagged(frame: &[u8]) -> bool {
    frame.get(HEADER_BYTES - 2..HEADER_BYTES) == Some(&[0x81, 0])
}

impl SendSide for XdpSend {
    /// Such a socket gives the interface whatever it has: what is too long would be lost on the way.
    fn send_with(&mut self, bytes: usize, fill: Fill<'_>) -> Sent {
        let untagged_max = self.mtu_bytes.load(Ordering::Relaxed) as usize + HEADER_BYTES;
        let bytes_max = self.frame_bytes_max.min(untagged_max + TAG_BYTES);
        let mut is_too_long = bytes > bytes_max;
        let sent = match is_too_long {
            true => Err(NotSent::Unfilled),
            false => lock(&self.port).send_with(bytes, &mut |place| {
                let is_filled = fill(place);
                is_too_long = is_filled && bytes > untagged_max && !is_tagged(place);
                is_filled && !is_too_long
            }),
        };
        let sent = match sent {
            Ok(()) => Sent::Taken,
            Err(NotSent::Full) => Sent::NoRoom,
            Err(NotSent::Unfilled) if !is_too_long => Sent::Refused(CardOutDrop::NotFilled),
            Err(NotSent::Length { least_bytes, .. }) if bytes < least_bytes => {
                Sent::Refused(CardOutDrop::TooShort)
            }
            Err(NotSent::Length { .. } | NotSent::Unfilled) => Sent::Refused(CardOutDrop::TooLong),
        };
        match sent {
            Sent::Taken => self.counts.taken.add(bytes as u32),
            Sent::NoRoom => self.counts.no_room += 1,
            Sent::Refused(why) => self.counts.refused[why] += 1,
        }
        sent
    }

    /// While the interface is down, what was taken waits; it goes by the first flush after it is up again.
    fn flush(&mut self) -> Flushed {
        match lock(&self.port).flush() {
            Ok(0) => Flushed::All,
            Ok(_) | Err(_) => Flushed::Waits,
        }
    }

    /// A frame is out when the kernel gives its buffer back. Of one that it would not send it says the number alone: such ones are told behind the others.
    fn fates(&mut self, told: &mut dyn FnMut(Fate)) {
        if self.told.out + self.told.refused == self.counts.taken.items {
            return;
        }
        let port = lock(&self.port);
        let out = port.counts().completed + port.buffers().completed;
        // What cannot be read now is told later.
        let refused = port
            .statistics()
            .map_or(self.told.refused, |it| it.invalid_send);
        drop(port);
        (self.told.out..out).for_each(|_| told(Fate::Out));
        let dropped = Fate::Dropped(CardOutDrop::Other);
        (self.told.refused..refused).for_each(|_| told(dropped));
        self.told = Told { out, refused };
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// What is out is what the kernel gave the buffers of back: handed to the interface, or given up there. What it would not send is in `dropped`.
    fn counts(&mut self) -> Result<SendCounts, DriverError> {
        let port = lock(&self.port);
        let (buffers, refused) = (port.buffers(), port.statistics()?.invalid_send);
        let mut counts = self.counts;
        counts.out = port.counts().completed + buffers.completed;
        // The kernel does not give the buffer of such a frame back.
        counts.held = (buffers.send + buffers.kernel_sending).saturating_sub(refused);
        counts.dropped[CardOutDrop::Other] = refused;
        Ok(counts)
    }
}

#[derive(Debug)]
struct XdpCard {
    card: InterfaceCard,
    /// For the half that sends.
    mtu_bytes: Arc<AtomicU32>,
}

impl Card for XdpCard {
    fn name(&self) -> &str {
        self.card.name()
    }

    fn look(&mut self) -> CardState {
        let state = self.card.look();
        self.mtu_bytes.store(state.mtu_bytes, Ordering::Relaxed);
        state
    }

    fn link_counts(&mut self) -> Result<Option<LinkCounts>, DriverError> {
        self.card.link_counts()
    }
}
