//! The ring of frames that this process fills and the kernel sends (`PACKET_TX_RING`, `TPACKET_V3`; `tpacket_snd` of the kernel's `net/packet/af_packet.c`).
//!
//! A frame is written into the next place, which gets the status "to be sent"; one call has the kernel take all such places, in order. It gives each the status "is
//! being sent", and makes it free when the device is done with it. At the first one that it does not take it stops, and its own next place stays there: so what was
//! taken is told by the places, and the error of the call is of the place behind them. What was not taken is called back before the call of this process ends, and
//! no frame waits in the ring for another one.
//!
//! A place is free as soon as the frame has no owner any more (`tpacket_destruct_skb`, which `skb_orphan` calls as well). Most drivers keep the owner until the device has
//! read the frame, or copy it before they give it up (`skb_orphan_frags`). Some give it up first and read the place later: loopback (refused by
//! [`FrameSocket::ring`](super::FrameSocket::ring)), `virtio_net` without interrupts of its transmit queue, `hip04`. There a frame may go out with the bytes of one that was
//! written into its place behind it.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::MapFlags;

use super::socket::set_plain;
use crate::SysError;
use crate::mapping::{Access, Pages};
use crate::socket::set_int;
use crate::udp_batch::{SendStop, Sent};

const STATUS_OFFSET: usize = offset_of!(libc::tpacket3_hdr, tp_status);
const LENGTH_OFFSET: usize = offset_of!(libc::tpacket3_hdr, tp_len);
/// Where a frame begins in its place: behind the head, as none says an offset of its own.
const FRAME_OFFSET: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(16);
/// Places of a block, so that those of all blocks lie one behind the other.
const BLOCK_PLACES: u32 = 64;
/// Places: more than there are frames under way before the socket's buffer is full, as a frame takes at least 768 bytes of it.
const PLACES: u32 = 5 * BLOCK_PLACES;
/// The socket's buffer, which the kernel doubles.
const BUFFER_BYTES: i32 = 106_496;
/// Places are a multiple of so many bytes: those of a block are whole pages then.
const STEP_BYTES: usize = 1024;
/// Longest frame of a place: its header is copied, and the rest spans 17 pages at most, wherever in a page it begins. No kernel is built for fewer (`MAX_SKB_FRAGS`).
const FRAME_BYTES_MAX: usize = 16 * 4096 + 14;

/// The mapped ring of one socket.
#[derive(Debug)]
pub(super) struct TransmitRing {
    pages: Pages,
    place_bytes: usize,
    places: usize,
    /// The place that the kernel looks at next.
    next: usize,
    /// The last send ended at a place that the device is not done with.
    is_place_busy: bool,
}

impl TransmitRing {
    /// Has the kernel give a packet socket, which has none yet, a ring for frames of at most so many bytes.
    ///
    /// # Errors
    /// There is no memory for it, or frames are longer than 65,550 bytes.
    pub(super) fn make(
        socket: BorrowedFd<'_>,
        interface: &str,
        frame_bytes: usize,
    ) -> Result<Self, SysError> {
        let failed = |call| move |error: io::Error| SysError::new(call, interface, error);
        let option =
            |call, level, name, value| set_int(socket, level, name, value).map_err(failed(call));
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        option(
            "setsockopt(PACKET_VERSION)",
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            version,
        )?;
        option(
            "setsockopt(SO_SNDBUF)",
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            BUFFER_BYTES,
        )?;
        if frame_bytes > FRAME_BYTES_MAX {
            let error = failed("setsockopt(PACKET_TX_RING)")(io::ErrorKind::InvalidInput.into());
            return Err(error.with_remedy("a frame has 65,550 bytes at most"));
        }
        let place_bytes = place_bytes(frame_bytes);
        let request = libc::tpacket_req3 {
            tp_block_size: place_bytes as u32 * BLOCK_PLACES,
            tp_block_nr: PLACES / BLOCK_PLACES,
            tp_frame_size: place_bytes as u32,
            tp_frame_nr: PLACES,
            tp_retire_blk_tov: 0,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_plain(socket, libc::SOL_PACKET, libc::PACKET_TX_RING, &request).map_err(|error| {
            let is_memory = error.kind() == io::ErrorKind::OutOfMemory;
            let error = failed("setsockopt(PACKET_TX_RING)")(error);
            if is_memory {
                error.with_remedy("a ring of shorter frames needs less memory of the kernel")
            } else {
                error
            }
        })?;
        Self::map(socket, place_bytes, PLACES as usize)
    }

    /// Maps the ring that `socket` was given.
    fn map(socket: impl AsFd, place_bytes: usize, places: usize) -> Result<Self, SysError> {
        let bytes = place_bytes * places;
        Ok(Self {
            pages: Pages::map(socket, bytes, Access::ReadWrite, MapFlags::empty())?,
            place_bytes,
            places,
            next: 0,
            is_place_busy: false,
        })
    }

    /// Whether the last send ended at a place that the device is not done with; no wait tells when it is.
    pub(super) const fn is_place_busy(&self) -> bool {
        self.is_place_busy
    }

    /// The longest frame that has room in a place, in bytes.
    const fn frame_bytes_max(&self) -> usize {
        self.place_bytes - FRAME_OFFSET
    }

    /// The place so many behind the next one.
    #[inline]
    const fn place(&self, behind: usize) -> usize {
        let place = self.next + behind;
        if place < self.places {
            place
        } else {
            place % self.places
        }
    }

    #[inline]
    fn word(&self, place: usize, offset: usize) -> &AtomicU32 {
        let at = place * self.place_bytes + offset;
        // SAFETY: `place` is below `places` (see `place`) and `offset` within the head, so that the word lies within the mapping, which lives as long as `self`; it is
        // aligned to 4, as places are to 1024. The kernel reads and writes it as a whole.
        unsafe { AtomicU32::from_ptr(self.pages.start().add(at).cast()) }
    }

    #[inline]
    fn status(&self, place: usize) -> u32 {
        self.word(place, STATUS_OFFSET).load(Ordering::Acquire)
    }

    /// Writes a frame into a place and says that it is to be sent; whether the place was free.
    #[inline]
    fn fill(&mut self, place: usize, frame: &[u8]) -> bool {
        let busy = libc::TP_STATUS_SENDING | libc::TP_STATUS_SEND_REQUEST;
        if self.status(place) & busy != 0 {
            return false;
        }
        let at = place * self.place_bytes + FRAME_OFFSET;
        // SAFETY: the bytes lie within the place, as the frame is no longer than `frame_bytes_max` (see `send`), and the place within the mapping. No reference into the
        // place is there, as `self` is borrowed alone and lends none out. The kernel writes none of them, and a driver that gave the frame up early may still read them: that
        // spoils a frame on the wire (see the module), and no memory of this process.
        unsafe {
            let to = self.pages.start().add(at);
            std::ptr::copy_nonoverlapping(frame.as_ptr(), to, frame.len());
        }
        self.word(place, LENGTH_OFFSET)
            .store(frame.len() as u32, Ordering::Relaxed);
        self.word(place, STATUS_OFFSET)
            .store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        true
    }

    /// Sends frames of a socket, in order, until all are taken or one is not. A frame of a length that is too long is not shown to the kernel.
    pub(super) fn send_on<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        frames: impl IntoIterator<Item = &'a [u8]>,
        is_too_long: impl FnMut(usize) -> bool,
    ) -> Sent {
        self.send(frames, is_too_long, |_| {
            let flags = libc::MSG_DONTWAIT;
            // SAFETY: no memory is handed over; the frames lie in the mapping, which the kernel holds itself.
            let bytes = unsafe {
                libc::sendto(
                    socket.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    flags,
                    std::ptr::null(),
                    0,
                )
            };
            if bytes < 0 {
                Err(io::Error::last_os_error())
            } else {
                Ok(())
            }
        })
    }

    /// The same, with the call that has the kernel look at the ring.
    fn send<'a>(
        &mut self,
        frames: impl IntoIterator<Item = &'a [u8]>,
        mut is_too_long: impl FnMut(usize) -> bool,
        mut call: impl FnMut(&Self) -> io::Result<()>,
    ) -> Sent {
        let (mut filled, mut stopped, mut is_place_busy) = (0, None, false);
        for frame in frames.into_iter().take(self.places) {
            if frame.len() > self.frame_bytes_max() || is_too_long(frame.len()) {
                let error = io::Error::from_raw_os_error(libc::EMSGSIZE);
                stopped = Some(SendStop::of(error));
                break;
            }
            if !self.fill(self.place(filled), frame) {
                (stopped, is_place_busy) = (Some(SendStop::WouldBlock), true);
                break;
            }
            filled += 1;
        }
        let mut count = 0;
        while count < filled {
            let answer = call(self);
            let taken = self.take_off(filled - count);
            count += taken;
            if count == filled {
                break;
            }
            match answer {
                Err(error) => stopped = Some(SendStop::of(error)),
                Ok(()) if taken == 0 => stopped = Some(SendStop::WouldBlock),
                // Where it has taken some, it keeps back why it did not take the next one.
                Ok(()) => continue,
            }
            break;
        }
        let is_full = matches!(stopped, Some(SendStop::WouldBlock));
        self.is_place_busy = is_place_busy && count == filled;
        self.call_back(filled - count, is_full);
        Sent { count, stopped }
    }

    /// Goes past the places that the kernel has taken, of so many from the next one on.
    fn take_off(&mut self, filled: usize) -> usize {
        let left = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT;
        let is_taken = |behind: &usize| self.status(self.place(*behind)) & left == 0;
        let taken = (0..filled).take_while(is_taken).count();
        self.next = self.place(taken);
        taken
    }

    /// Frees so many places from the next one on, which the kernel has not taken. Where there is no room, the next one stays marked: a free one would make the socket
    /// ready for writing, whatever is in its buffer.
    fn call_back(&mut self, left: usize, is_full: bool) {
        for behind in 0..left {
            let status = if is_full && behind == 0 {
                libc::TP_STATUS_WRONG_FORMAT
            } else {
                libc::TP_STATUS_AVAILABLE
            };
            self.word(self.place(behind), STATUS_OFFSET)
                .store(status, Ordering::Release);
        }
    }
}

/// Bytes of a place for frames of so many bytes.
const fn place_bytes(frame_bytes: usize) -> usize {
    (FRAME_OFFSET + frame_bytes).next_multiple_of(STEP_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::sealed_memfd;

    const PLACES: usize = 8;

    /// A ring that no kernel empties.
    fn ring() -> TransmitRing {
        let fd = sealed_memfd("ring", (1024 * PLACES) as u64).unwrap();
        TransmitRing::map(fd, 1024, PLACES).unwrap()
    }

    fn set(ring: &TransmitRing, place: usize, status: u32) {
        ring.word(place, STATUS_OFFSET)
            .store(status, Ordering::Release);
    }

    /// The kernel's side of the same memory.
    #[derive(Default)]
    struct Kernel {
        next: usize,
        seen: Vec<Vec<u8>>,
    }

    impl Kernel {
        /// Takes so many frames at most, which are being sent then.
        fn take(&mut self, ring: &TransmitRing, frames: usize) {
            for _ in 0..frames {
                if ring.status(self.next) != libc::TP_STATUS_SEND_REQUEST {
                    return;
                }
                let bytes = ring.word(self.next, LENGTH_OFFSET).load(Ordering::Relaxed);
                let words = (0..bytes as usize / 4).map(|at| {
                    let word = ring.word(self.next, FRAME_OFFSET + at * 4);
                    word.load(Ordering::Relaxed)
                });
                self.seen.push(words.flat_map(u32::to_ne_bytes).collect());
                set(ring, self.next, libc::TP_STATUS_SENDING);
                self.next = (self.next + 1) % PLACES;
            }
        }
    }

    fn frames(numbers: std::ops::Range<u8>) -> Vec<Vec<u8>> {
        let frame = |number: u8| vec![number; 4 * (1 + usize::from(number % 5))];
        numbers.map(frame).collect()
    }

    fn send(
        ring: &mut TransmitRing,
        numbers: std::ops::Range<u8>,
        call: impl FnMut(&TransmitRing) -> io::Result<()>,
    ) -> (usize, Option<i32>) {
        let frames = frames(numbers);
        let sent = ring.send(frames.iter().map(Vec::as_slice), |_| false, call);
        let errno = sent.stopped.map(|stop| stop.errno().unwrap());
        (sent.count, errno)
    }

    fn error(number: i32) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(number))
    }

    #[test]
    fn frames_go_in_turn_and_places_are_free_when_they_are_sent() {
        let (mut ring, mut kernel) = (ring(), Kernel::default());
        for round in 0..20_u8 {
            let numbers = round * 5..round * 5 + 5;
            let mut take = |ring: &TransmitRing| {
                kernel.take(ring, PLACES);
                Ok(())
            };
            assert_eq!(send(&mut ring, numbers.clone(), &mut take), (5, None));
            // Five are being sent, so that three more have room.
            let more = numbers.end..numbers.end + 4;
            let full = (3, Some(libc::EAGAIN));
            assert_eq!(send(&mut ring, more, &mut take), full);
            assert!(ring.is_place_busy());
            let none = |_: &TransmitRing| panic!("nothing is there for the kernel");
            assert_eq!(send(&mut ring, 0..1, none), (0, Some(libc::EAGAIN)));
            let came = std::mem::take(&mut kernel.seen);
            assert_eq!(came, frames(numbers.start..numbers.start + 8));
            assert_eq!(ring.next, kernel.next);
            // A device says when, too.
            (0..PLACES).for_each(|place| set(&ring, place, libc::TP_STATUS_TS_SOFTWARE));
        }
    }

    #[test]
    fn a_frame_that_is_not_taken_is_called_back_with_all_behind_it() {
        let (mut ring, mut kernel) = (ring(), Kernel::default());
        let answer = send(&mut ring, 0..6, |ring| {
            kernel.take(ring, 2);
            error(libc::ENOBUFS)
        });
        assert_eq!(answer, (2, Some(libc::ENOBUFS)));
        assert_eq!((ring.next, kernel.next), (2, 2));
        (2..PLACES).for_each(|place| assert_eq!(ring.status(place), libc::TP_STATUS_AVAILABLE));
        // One that the kernel finds wrong is marked by it.
        let answer = send(&mut ring, 6..9, |ring| {
            kernel.take(ring, 1);
            set(ring, kernel.next, libc::TP_STATUS_WRONG_FORMAT);
            error(libc::EMSGSIZE)
        });
        assert_eq!(answer, (1, Some(libc::EMSGSIZE)));
        // Nothing of before is sent with the next ones.
        let answer = send(&mut ring, 9..11, |ring| {
            kernel.take(ring, PLACES);
            Ok(())
        });
        assert_eq!(answer, (2, None));
        let seen = [frames(0..2), frames(6..7), frames(9..11)].concat();
        assert_eq!(kernel.seen, seen);
    }

    #[test]
    fn a_call_that_takes_some_is_asked_again_why_not_more() {
        let (mut ring, mut kernel) = (ring(), Kernel::default());
        let mut calls = 0;
        let answer = send(&mut ring, 0..7, |ring| {
            calls += 1;
            if calls == 3 {
                return error(libc::ENETDOWN);
            }
            kernel.take(ring, 3);
            Ok(())
        });
        assert_eq!(answer, (6, Some(libc::ENETDOWN)));
        // One that takes nothing, and says nothing, has no room.
        let answer = send(&mut ring, 7..8, |_| Ok(()));
        assert_eq!(answer, (0, Some(libc::EAGAIN)));
        let answer = send(&mut ring, 7..9, |_| error(libc::EAGAIN));
        assert_eq!(answer, (0, Some(libc::EAGAIN)));
        assert!(!ring.is_place_busy());
        // Nor where a place behind is busy as well.
        set(&ring, 0, libc::TP_STATUS_SENDING);
        let answer = send(&mut ring, 7..12, |_| error(libc::EAGAIN));
        assert_eq!(answer, (0, Some(libc::EAGAIN)));
        assert!(!ring.is_place_busy());
        set(&ring, 0, libc::TP_STATUS_AVAILABLE);
        // The next place is not free for the kernel, or it would call the socket ready.
        assert_eq!(ring.status(6), libc::TP_STATUS_WRONG_FORMAT);
        assert_eq!(ring.status(7), libc::TP_STATUS_AVAILABLE);
        let answer = send(&mut ring, 7..9, |ring| {
            kernel.take(ring, 2);
            Ok(())
        });
        assert_eq!(answer, (2, None));
        assert_eq!(kernel.seen, [frames(0..6), frames(7..9)].concat());
    }

    #[test]
    fn a_frame_that_has_no_room_in_a_place_is_too_long() {
        let mut ring = ring();
        let long = vec![0; ring.frame_bytes_max() + 1];
        assert_eq!(place_bytes(ring.frame_bytes_max()), 1024);
        let mut kernel = Kernel::default();
        let frames = [&long[1..], &long, &long[1..]];
        for (longest, count) in [(usize::MAX, 1), (long.len() - 2, 0)] {
            let take = |ring: &TransmitRing| {
                kernel.take(ring, PLACES);
                Ok(())
            };
            let sent = ring.send(frames, |bytes| bytes > longest, take);
            assert_eq!(sent.count, count);
            assert_eq!(sent.stopped.unwrap().errno(), Some(libc::EMSGSIZE));
        }
        assert_eq!(kernel.seen.len(), 1);
    }
}
