//! The half that frames come from, by a ring of either kind.

use std::os::fd::{AsFd, BorrowedFd};

use forebay_link::packet::{
    Frame, FramePort, FrameRingSize, PacketPort, Port, PortOptions, RingSize,
};
use forebay_sys::packet::ReceiveRing;

use super::PacketOptions;
use crate::account::{CardInDrop, ReceiveCounts};
use crate::checksum::complete;
use crate::{DriverError, ReceiveSide};

/// The least that a frame takes in a block, in bytes: its head, its place in front, and an Ethernet header.
const PLACE_BYTES_MIN: u32 = 96;
/// The longest frame that a ring has whole, in bytes.
const FRAME_BYTES_MAX: u32 = 1 << 16;

/// An interface with a ring of frames.
pub(super) fn of_frames(
    interface: &str,
    frames: u32,
    options: &PacketOptions,
) -> Result<PacketReceive<FramePort>, DriverError> {
    let frame_bytes = u32::try_from(options.frame_bytes_max).unwrap_or(u32::MAX);
    let size = FrameRingSize {
        frame_bytes: frame_bytes.clamp(1, FRAME_BYTES_MAX),
        frames,
    };
    let port = FramePort::open_shut(interface, size)?;
    begin(&port)?;
    Ok(PacketReceive::new(port, options, 0))
}

/// An interface with a ring of blocks.
pub(super) fn of_blocks(
    interface: &str,
    ring: RingSize,
    options: &PacketOptions,
) -> Result<PacketReceive<PacketPort>, DriverError> {
    let port_options = PortOptions {
        queues: 1,
        ring,
        snap_bytes: u32::MAX,
        promiscuous: false,
    };
    let port = PacketPort::open_shut(interface, &port_options)?.remove(0);
    begin(&port)?;
    let burst_frames = ring.block_bytes / PLACE_BYTES_MIN;
    Ok(PacketReceive::new(port, options, burst_frames as usize))
}

/// Takes frames from now on, with all that there is of each, so that one that is too long is known for what it is.
fn begin<R: ReceiveRing>(port: &Port<R>) -> Result<(), DriverError> {
    port.ignore_outgoing()?;
    Ok(port.accept(u32::MAX)?)
}

#[derive(Debug)]
pub(super) struct PacketReceive<P> {
    port: P,
    burst_frames: usize,
    is_closed: bool,
    tally: Tally,
}

/// What this end counts.
#[derive(Debug, Default)]
struct Tally {
    frame_bytes_max: usize,
    counts: ReceiveCounts,
    /// Where a check sum is made: of frames that a sender on this host has sent alone.
    scratch: Vec<u8>,
}

/// A port by whichever ring.
trait Visited: Send + std::fmt::Debug + AsFd {
    type Ring: ReceiveRing;
    fn port(&mut self) -> &mut Port<Self::Ring>;

    /// Takes so many frames, or up to a burst more; how many were visited.
    fn take(&mut self, most: usize, tally: &mut Tally, visit: &mut dyn FnMut(&[u8])) -> usize;

    /// Frames that the kernel has handed over and that were not read: while more come, by a short look where that makes a difference.
    fn held(&self, is_closed: bool) -> u64;
}

impl<P> PacketReceive<P> {
    fn new(port: P, options: &PacketOptions, burst_frames: usize) -> Self {
        Self {
            port,
            burst_frames,
            is_closed: false,
            tally: Tally {
                frame_bytes_max: options.frame_bytes_max,
                ..Tally::default()
            },
        }
    }
}

impl Tally {
    /// Visits a frame, unless it is not whole or too long.
    #[inline]
    fn take(&mut self, frame: &Frame<'_>, visit: &mut dyn FnMut(&[u8])) -> bool {
        let why = if frame.wire_bytes as usize > self.frame_bytes_max {
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

    fn visit_completed(&mut self, frame: &[u8], visit: &mut dyn FnMut(&[u8])) {
        self.scratch.clear();
        self.scratch.extend_from_slice(frame);
        self.counts.checksums_completed += u64::from(complete(&mut self.scratch));
        visit(&self.scratch);
    }

    fn disbelieve(&mut self, frames: u64) {
        self.counts.dropped[CardInDrop::Disbelieved] += frames;
    }
}

impl Visited for FramePort {
    type Ring = forebay_sys::packet::FrameRing;

    fn port(&mut self) -> &mut Self {
        self
    }

    fn take(&mut self, most: usize, tally: &mut Tally, visit: &mut dyn FnMut(&[u8])) -> usize {
        let mut visited = 0;
        for _ in 0..most {
            let Some(mut place) = FramePort::take(self) else {
                break;
            };
            match place.frame() {
                Ok(frame) => visited += usize::from(tally.take(&frame, visit)),
                Err(_) => tally.disbelieve(1),
            }
        }
        visited
    }

    fn held(&self, is_closed: bool) -> u64 {
        if is_closed {
            Port::held(self)
        } else {
            self.waiting()
        }
    }
}

impl Visited for PacketPort {
    type Ring = forebay_sys::packet::Ring;

    fn port(&mut self) -> &mut Self {
        self
    }

    fn take(&mut self, most: usize, tally: &mut Tally, visit: &mut dyn FnMut(&[u8])) -> usize {
        let (mut visited, mut taken) = (0, 0);
        while taken < most
            && let Some(mut block) = PacketPort::take(self)
        {
            let frames = block.frames();
            let packets = frames.packets();
            taken += packets as usize;
            for (read, frame) in (0..packets).zip(frames) {
                let Ok(frame) = frame else {
                    // The rest of the block is not believed.
                    tally.disbelieve(u64::from(packets - read));
                    break;
                };
                visited += usize::from(tally.take(&frame, visit));
            }
        }
        visited
    }

    fn held(&self, _: bool) -> u64 {
        Port::held(self)
    }
}

impl<P: Visited> ReceiveSide for PacketReceive<P> {
    fn receive(&mut self, most: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, DriverError> {
        Ok(self.port.take(most, &mut self.tally, visit))
    }

    fn burst_frames(&self) -> usize {
        self.burst_frames
    }

    fn is_ready(&mut self) -> bool {
        self.port.port().is_ready()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }

    fn settle(&mut self) {
        // How the interface is the card says.
        let _ = self.port.port().state();
    }

    fn close(&mut self) {
        // A ring that cannot be shut goes on, and what it counts says so.
        self.is_closed = self.port.port().close().is_ok();
    }

    fn counts(&mut self) -> Result<ReceiveCounts, DriverError> {
        // What is held is read first: a frame that comes in between is not counted as one too many.
        let held = self.port.held(self.is_closed);
        let kernel = self.port.port().kernel_counts()?;
        let mut counts = self.tally.counts;
        counts.held = held;
        counts.came = kernel.packets;
        counts.dropped[CardInDrop::RingFull] = kernel.drops;
        Ok(counts)
    }
}
