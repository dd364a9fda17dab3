//! Frames of this process onto a live interface.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use forebay_sys::SysError;
use forebay_sys::clock::monotonic_ns;
use forebay_sys::packet::{FrameSocket, Interface, RingSocket};
use forebay_sys::udp_batch::{Outgoing, SendBatch, SendStop};
use forebay_sys::wait::{self, Woken};
use rustix::io::Errno;

use super::port::PacketError;

/// Most frames of a batch.
pub const BATCH_FRAMES_MAX: usize = 64;
/// Kinds of interfaces that take Ethernet frames (`linux/if_arp.h`): Ethernet and loopback.
const KINDS: [u16; 2] = [1, 772];
/// A place of a ring that the device is not done with is looked at again so much later, in ns.
const PLACE_NS: u64 = 1_000_000;

/// Frames that are to be sent, one after the other, each in a place of the same size.
#[derive(Debug)]
pub struct FrameBatch {
    bytes: Box<[u8]>,
    place_bytes: usize,
    lengths: Vec<usize>,
}

impl FrameBatch {
    /// Room for [`BATCH_FRAMES_MAX`] frames of at most so many bytes, 1 at least.
    #[must_use]
    pub fn new(frame_bytes_max: usize) -> Self {
        let place_bytes = frame_bytes_max.max(1);
        Self {
            bytes: vec![0; place_bytes * BATCH_FRAMES_MAX].into(),
            place_bytes,
            lengths: Vec::with_capacity(BATCH_FRAMES_MAX),
        }
    }

    /// The place of the next frame, which [`push`](Self::push) takes in; none when the batch is full.
    #[inline]
    pub fn room(&mut self) -> Option<&mut [u8]> {
        let start = self.lengths.len() * self.place_bytes;
        self.bytes.get_mut(start..start + self.place_bytes)
    }

    /// Takes in the first `bytes` of the next place as a frame; of a full batch nothing changes.
    #[inline]
    pub fn push(&mut self, bytes: usize) {
        if self.lengths.len() < BATCH_FRAMES_MAX {
            self.lengths.push(bytes.min(self.place_bytes));
        }
    }

    /// Frames in it.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.lengths.len()
    }

    /// A frame, from 0; nothing where there is none.
    #[must_use]
    #[inline]
    pub fn frame(&self, at: usize) -> &[u8] {
        let start = at * self.place_bytes;
        let bytes = self.lengths.get(at).copied().unwrap_or(0);
        self.bytes.get(start..start + bytes).unwrap_or_default()
    }

    /// Takes out all frames in front of this one, which becomes the first.
    pub fn remove_before(&mut self, at: usize) {
        let at = at.min(self.lengths.len());
        let end = self.lengths.len() * self.place_bytes;
        self.bytes.copy_within(at * self.place_bytes..end, 0);
        self.lengths.drain(..at);
    }
}

/// Why the kernel gave a frame up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The device did not take it, as it has no carrier (`ENOBUFS`).
    Device,
    /// The interface is down (`ENETDOWN`).
    Down,
    /// The interface is there no more, and takes no frame again (`ENXIO`, `ENODEV`).
    Gone,
    /// It is longer than the interface takes (`EMSGSIZE`).
    TooLong,
    /// Another one, with the number of the kernel's error (errno(3)).
    Other(i32),
}

/// Why a send ended before its last frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// There is no room now, and nothing was given up: [`SendPort::wait_room`] tells when there is.
    Full,
    /// The device's queue is full, or the kernel lacks memory (`ENOBUFS` of a device with a carrier): the frame behind those that were taken was not sent, and may
    /// be sent again a moment later. No wait tells when; one that is too late may be given up as well.
    Busy,
    /// The frame behind those that were taken was given up, and was not sent.
    Refused(Refusal),
}

/// What became of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentFrames {
    /// Frames that the kernel took, the first ones.
    pub frames: usize,
    /// Why not all of them.
    pub stopped: Option<Stopped>,
}

/// How frames come to the kernel.
#[derive(Debug)]
enum Way {
    /// It is told where they are, and copies them (`sendmmsg`).
    Calls(FrameSocket, SendBatch),
    /// They are copied into memory that it shares, and takes them from (`PACKET_TX_RING`).
    Ring(RingSocket),
}

/// Sends frames on an interface. The kernel says of each frame whether it took it; what becomes of it then on the wire, it does not.
///
/// One that sends [through a ring](Self::through_ring) says the same of each frame, with two exceptions. Where a hook of netfilter at the egress of the interface takes a
/// frame for itself, `sendmmsg` is told that it was not sent, and the ring that it was. Where the interface lies upon another one (macvlan, bridge, VLAN), the other one's
/// queueing discipline may drop a frame, and keep its memory for a while: then the ring says that it was sent.
///
/// A ring is for a driver that keeps a frame's owner until the device has read it, or copies the frame before. `virtio_net` without interrupts of its transmit queue and
/// `hip04` do not: they may send the bytes of a later frame, and nobody is told. Loopback does not either, and is refused.
///
/// It spares no copy: here the frames of a batch are copied into the ring by this process, otherwise by the kernel. Where a frame is handed to another owner, as on a
/// virtual cable, the kernel copies it a second time (`skb_orphan_frags`): 0.58 to 0.61 M frames in a second of CPU time with the ring, and 0.62 to 0.66 M without it
/// (`cargo bench --bench packet_send`; frames of 1,400 and 128 bytes; 2 virtual CPUs of an AMD EPYC, load 9, 2026-11-28).
#[derive(Debug)]
pub struct SendPort {
    way: Way,
}

impl SendPort {
    /// Opens one.
    ///
    /// # Errors
    /// The interface is not there, is down, or does not take Ethernet frames; the process may not (`CAP_NET_RAW`).
    pub fn open(interface: &str) -> Result<Self, PacketError> {
        let socket = FrameSocket::open(interface)?;
        let kind = socket.hardware_type();
        if !KINDS.contains(&kind) {
            return Err(PacketError::NotEthernet {
                interface: interface.to_owned(),
                kind,
            });
        }
        let way = Way::Calls(socket, SendBatch::new(BATCH_FRAMES_MAX));
        Ok(Self { way })
    }

    /// The same one, which sends through a ring from now on, of frames of at most so many bytes; to it longer ones are too long. One that has a ring keeps it.
    ///
    /// # Errors
    /// There is no memory for the ring, frames are longer than 65,550 bytes, or the interface is loopback.
    pub fn through_ring(self, frame_bytes_max: usize) -> Result<Self, PacketError> {
        let ring = match self.way {
            Way::Calls(socket, _) => socket.ring(frame_bytes_max)?,
            Way::Ring(ring) => ring,
        };
        let way = Way::Ring(ring);
        Ok(Self { way })
    }

    /// The longest packet that its interface takes now, in bytes without the Ethernet header.
    ///
    /// # Errors
    /// The interface is there no more.
    pub fn mtu_bytes(&self) -> Result<u32, SysError> {
        self.interface().mtu_bytes(self)
    }

    /// Its interface.
    #[must_use]
    pub const fn interface(&self) -> &Interface {
        match &self.way {
            Way::Calls(socket, _) => socket.interface(),
            Way::Ring(ring) => ring.interface(),
        }
    }

    /// Sends these frames of a batch, in order, without waiting, until all are sent or one is not taken.
    #[inline]
    pub fn send(&mut self, batch: &FrameBatch, which: Range<usize>) -> SentFrames {
        let there = which.start..which.end.min(batch.frames());
        let sent = match &mut self.way {
            Way::Ring(ring) => ring.send(there.map(|at| batch.frame(at))),
            Way::Calls(socket, calls) => {
                let mut outgoing = [Outgoing::connected(&[]); BATCH_FRAMES_MAX];
                let mut frames = 0;
                for (to, at) in outgoing.iter_mut().zip(there) {
                    to.payload = batch.frame(at);
                    frames += 1;
                }
                calls.send(socket.as_fd(), &outgoing[..frames])
            }
        };
        SentFrames {
            frames: sent.count,
            stopped: sent.stopped.map(|stop| self.stopped(&stop)),
        }
    }

    fn stopped(&self, stop: &SendStop) -> Stopped {
        let number = match stop {
            SendStop::WouldBlock => return Stopped::Full,
            other => other.errno().unwrap_or(0),
        };
        Stopped::Refused(match Errno::from_raw_os_error(number) {
            Errno::NOBUFS if self.interface().has_carrier(self) => return Stopped::Busy,
            Errno::NOBUFS => Refusal::Device,
            Errno::NETDOWN => Refusal::Down,
            Errno::NXIO | Errno::NODEV => Refusal::Gone,
            Errno::MSGSIZE => Refusal::TooLong,
            _ => Refusal::Other(number),
        })
    }

    /// Waits for room, for `other`, or until `until_ns` of the monotonic clock. Of a ring whose next place the device is not done with nothing tells when it is: it is
    /// waited for 1 ms at most.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait_room(&self, other: BorrowedFd<'_>, until_ns: u64) -> Result<Woken, SysError> {
        match &self.way {
            Way::Ring(ring) if ring.is_place_busy() => {
                let until_ns = until_ns.min(monotonic_ns() + PLACE_NS);
                let woken = wait::sleep_until_or([other], until_ns, 0)?;
                Ok(match woken {
                    Woken::Ready { .. } => Woken::Ready { index: 1 },
                    other => other,
                })
            }
            _ => wait::sleep_until_room(self.as_fd(), other, until_ns),
        }
    }
}

/// Ready for writing when the kernel has room for a frame.
impl AsFd for SendPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.way {
            Way::Calls(socket, _) => socket.as_fd(),
            Way::Ring(ring) => ring.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(batch: &mut FrameBatch, frames: usize) {
        for number in 0..frames {
            let room = batch.room().unwrap();
            room.fill(number as u8);
            batch.push(1 + number % 4);
        }
    }

    #[test]
    fn a_batch_has_its_frames_in_order_and_no_more_than_fit() {
        let mut batch = FrameBatch::new(4);
        fill(&mut batch, BATCH_FRAMES_MAX);
        assert!(batch.room().is_none());
        batch.push(3);
        assert_eq!(batch.frames(), BATCH_FRAMES_MAX);
        assert_eq!(batch.frame(6), [6; 3]);
        assert!(batch.frame(BATCH_FRAMES_MAX).is_empty());
        batch.remove_before(62);
        assert_eq!(batch.frames(), 2);
        assert_eq!(
            (batch.frame(0), batch.frame(1)),
            (&[62; 3][..], &[63; 4][..])
        );
        batch.room().unwrap().fill(9);
        batch.push(100);
        assert_eq!(batch.frame(2), [9; 4]);
        batch.remove_before(100);
        assert_eq!(batch.frames(), 0);
    }
}
