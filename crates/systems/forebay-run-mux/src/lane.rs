//! What one client shares with the daemon: a pool of frames that come, one of frames that go, and its connection.
//!
//! Frames of the receive pool have the numbers of the engine's buffers, so that the engine alone knows which of them the client has, and judges what it says of
//! them; the memory of a frame that was never given is not there. The pool of a client that shares has the memory into which the driver receives, with the same numbers:
//! it is told where a frame lies. What a client hands over to be sent is copied out once, when the engine has found nothing wrong
//! with where it says that it lies; the copy has the place of its buffer, and stays until the card has it. What a trusted client hands over stays where it is until the driver
//! copies it: of that the sender's address alone is read before, and again in the driver's copy. Where it lies is what the engine has checked, and is not read again.

use std::collections::TryReserveError;
use std::error::Error;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forebay_client::protocol::{Message, PoolShape};
use forebay_mux::buffers::BufferId;
use forebay_mux::transmit::Packet;
use forebay_mux::{Source, SourceLimits, descriptor};
use forebay_ring::{BareReceiver, BareSender, Descriptor, FramePoolMemory, RingError, View};
use forebay_sys::seqpacket::{Arrived, SeqSocket};

/// Copies of packets, each at the place of its buffer.
#[derive(Debug)]
struct Copies {
    bytes: Vec<u8>,
    /// How long each copy is, in bytes: 0 where there is none.
    lengths: Vec<u32>,
    frame_bytes: usize,
}

impl Copies {
    /// Room for all of them, none of which is used yet.
    ///
    /// # Errors
    /// There is not as much memory.
    fn new(shape: PoolShape) -> Result<Self, TryReserveError> {
        let (mut bytes, mut lengths) = (Vec::new(), Vec::new());
        bytes.try_reserve_exact(room_bytes(shape))?;
        lengths.try_reserve_exact(shape.frames as usize)?;
        lengths.resize(shape.frames as usize, 0);
        Ok(Self {
            bytes,
            lengths,
            frame_bytes: shape.frame_bytes as usize,
        })
    }

    /// Has a packet copied to the place of its buffer. Where that fails, no packet is there.
    #[inline]
    fn fill(
        &mut self,
        buffer: u32,
        bytes: u32,
        copy: impl FnOnce(&mut [u8]) -> bool,
    ) -> Option<&[u8]> {
        let length = self.lengths.get_mut(buffer as usize)?;
        let at = buffer as usize * self.frame_bytes;
        let end = at + self.frame_bytes;
        if self.bytes.len() < end {
            // Within the room that was asked for: buffers are used from the first one on.
            self.bytes.resize(end, 0);
        }
        let room = self.bytes.get_mut(at..)?.get_mut(..bytes as usize)?;
        *length = if copy(room) { bytes } else { 0 };
        (*length > 0).then_some(room)
    }

    #[inline]
    fn of(&self, buffer: u32, bytes: u32) -> Option<&[u8]> {
        let length = *self.lengths.get(buffer as usize)?;
        let at = buffer as usize * self.frame_bytes;
        let copy = self.bytes.get(at..)?.get(..bytes as usize)?;
        (length == bytes).then_some(copy)
    }
}

/// Bytes of all frames of a pool.
const fn room_bytes(shape: PoolShape) -> usize {
    shape.frames as usize * shape.frame_bytes as usize
}

/// A client that is there.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) socket: SeqSocket,
    sender: BareSender,
    receiver: BareReceiver,
    outgoing: Outgoing,
    bell_record: Vec<u8>,
    /// Frames were given since the last bell.
    is_given: bool,
    /// Buffers went back since the last bell.
    is_returned: bool,
    /// It has asked for a bell, and has not been rung for.
    needs_bell: bool,
    /// Its frames lie where the driver has received them.
    is_sharing: bool,
    /// Packets and numbers of buffers that were taken from it.
    pub(crate) taken: u64,
    /// It does not take what it is given: as much is on its way as the ring has room for.
    pub(crate) is_stuck: bool,
}

/// This side's ends of both pools.
#[derive(Debug)]
pub(crate) struct Ends {
    sender: BareSender,
    receiver: BareReceiver,
    outgoing: Outgoing,
    is_sharing: bool,
}

/// Where packets of a client wait to be sent.
#[derive(Debug)]
enum Outgoing {
    /// In copies, by the numbers of its buffers.
    Copied(Copies),
    /// In its own memory: it is trusted, and may name this sender.
    Left(SourceLimits),
}

/// A packet that waits to be sent, for the driver to copy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting<'a> {
    /// A copy.
    Copied(&'a [u8]),
    /// Where its client can change it, and the sender that it may name.
    Left(View<'a>, SourceLimits),
}

impl Ends {
    /// Makes the memory of a client: this side's ends, and the descriptors for the client. Of one that is trusted it is said which sender it may name, and it has no copies; of one that shares
    /// what reads the memory in which frames come, whose shape is that of the receive pool.
    ///
    /// # Errors
    /// Memory or descriptors are lacking.
    pub(crate) fn make(
        receive: PoolShape,
        transmit: PoolShape,
        trusted: Option<SourceLimits>,
        shared: Option<BorrowedFd<'_>>,
    ) -> Result<(Self, Vec<OwnedFd>), Box<dyn Error>> {
        let (receive, sent) = (receive.spec("mux"), transmit.spec("mux"));
        let down = match shared {
            Some(frames) => FramePoolMemory::create_over(&receive, frames.try_clone_to_owned()?)?,
            None => FramePoolMemory::create(&receive)?,
        };
        let up = FramePoolMemory::create(&sent)?;
        let map_down = match shared {
            Some(_) => BareSender::map_over,
            None => BareSender::map,
        };
        // This side's ends are claimed before the client has any descriptor.
        let ends = Self {
            sender: map_down(&receive, down.sender_fds()?)?,
            is_sharing: shared.is_some(),
            receiver: BareReceiver::map(&sent, up.receiver_fds()?)?,
            outgoing: match trusted {
                Some(limits) => Outgoing::Left(limits),
                None => Outgoing::Copied(Copies::new(transmit)?),
            },
        };
        let mut fds = down.receiver_fds()?;
        fds.extend(up.sender_fds()?);
        Ok((ends, fds))
    }
}

impl Lane {
    /// A client at the other end of these.
    pub(crate) fn new(socket: SeqSocket, ends: Ends) -> Self {
        Self {
            sender: ends.sender,
            receiver: ends.receiver,
            outgoing: ends.outgoing,
            bell_record: Message::Bell.emit(),
            socket,
            is_given: false,
            is_returned: false,
            needs_bell: false,
            is_sharing: ends.is_sharing,
            taken: 0,
            is_stuck: false,
        }
    }

    /// What wakes the daemon when this client has sent something, by its edge: it is never read, as the client could have that wait.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.receiver.data.as_fd()
    }

    /// Asks to be woken.
    pub(crate) fn ask(&self) {
        self.receiver.data.prepare();
    }

    /// Takes that back.
    pub(crate) fn awake(&self) {
        self.receiver.data.finish_unread();
    }

    /// Whether the client has gone. What it says on the socket behind its hello is an end as well.
    pub(crate) fn is_gone(&self) -> bool {
        let mut record = [0; 1];
        !matches!(self.socket.receive(&mut record), Ok(Arrived::Nothing))
    }

    /// Makes a frame the client's, in the buffer of this number: a copy of it, or, if the client shares, what the driver received there from this byte on.
    #[inline]
    pub(crate) fn give(&mut self, buffer: BufferId, frame: &[u8], landed_at: Option<u32>) {
        let sent = match landed_at.filter(|_| self.is_sharing) {
            None => self.sender.send(buffer.0, frame, 0),
            Some(offset) => self.sender.send_in_place(Descriptor {
                frame: buffer.0,
                offset,
                len: frame.len() as u32,
                tag: 0,
            }),
        };
        self.is_stuck |= sent.is_err();
        self.is_given = true;
    }

    /// The numbers of buffers that the client says it gives back.
    pub(crate) fn given_back(&mut self, numbers: &mut Vec<BufferId>) -> Result<(), RingError> {
        let number = |said| BufferId(u32::try_from(said).unwrap_or(u32::MAX));
        let before = numbers.len();
        let read = self.sender.reclaim(|said| numbers.push(number(said)));
        self.taken += (numbers.len() - before) as u64;
        read
    }

    /// The next packet that it hands over, as it says.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Descriptor>, RingError> {
        let next = self.receiver.next();
        self.taken += u64::from(matches!(next, Ok(Some(_))));
        next
    }

    /// Copies a packet out of the client's memory, unless the client is trusted, and says which sender it names.
    #[inline]
    pub(crate) fn take(&mut self, of: descriptor::Descriptor) -> Option<Source> {
        let view = view(&self.receiver, of.buffer, of.offset, of.length)?;
        match &mut self.outgoing {
            Outgoing::Copied(copies) => {
                let fill = |to: &mut [u8]| view.copy_to(0, to);
                Source::of_frame(copies.fill(of.buffer, of.length, fill)?)
            }
            Outgoing::Left(_) => Some(Source::of(view.array(6)?, || view.array(14))),
        }
    }

    /// A packet that waits; nothing where there is none.
    #[inline]
    pub(crate) fn waiting(&self, packet: &Packet) -> Option<Waiting<'_>> {
        let Packet {
            buffer,
            offset,
            bytes,
            ..
        } = *packet;
        match &self.outgoing {
            Outgoing::Copied(copies) => copies.of(buffer, bytes).map(Waiting::Copied),
            Outgoing::Left(limits) => {
                view(&self.receiver, buffer, offset, bytes).map(|view| Waiting::Left(view, *limits))
            }
        }
    }

    /// Gives a buffer back to the client.
    #[inline]
    pub(crate) fn free(&mut self, buffer: u32) {
        self.receiver.free(buffer);
        self.is_returned = true;
    }

    /// Shows the client what happened since the last time, and rings once if it sleeps: whether it did. A client that has not heard older bells is not rung for
    /// again, and wakes by those.
    pub(crate) fn flush(&mut self) -> bool {
        let mut is_asked = false;
        if std::mem::take(&mut self.is_given) {
            self.sender.publish();
            is_asked |= self.sender.data.is_asked();
        }
        if std::mem::take(&mut self.is_returned) {
            self.receiver.publish();
            is_asked |= self.receiver.returns.is_asked();
        }
        self.needs_bell |= is_asked;
        if !self.needs_bell {
            return false;
        }
        // Where the kernel lacks memory for a bell, it is rung the next time.
        let rung = self.socket.send(&self.bell_record, &[]);
        self.needs_bell = rung.is_err();
        rung.unwrap_or(false)
    }
}

/// The bytes of a packet in its client's memory, which can change at any time.
#[inline]
fn view(receiver: &BareReceiver, frame: u32, offset: u32, len: u32) -> Option<View<'_>> {
    receiver.view(&Descriptor {
        frame,
        offset,
        len,
        tag: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn shape(frames: u32, frame_bytes: u32) -> PoolShape {
        PoolShape {
            frames,
            frame_bytes,
        }
    }

    #[test]
    fn the_largest_pool_has_room_for_all_its_copies() {
        assert_eq!(room_bytes(shape(65_536, 65_536)), 1 << 32);
    }

    #[test]
    fn copies_for_which_there_is_no_memory_are_refused() {
        let refused = Copies::new(shape(u32::MAX, 1 << 31)).unwrap_err();
        assert!(!refused.to_string().is_empty());
    }

    #[test]
    fn copies_stay_where_they_are_as_others_come() {
        let mut copies = Copies::new(shape(3, 64)).unwrap();
        for buffer in [2, 0, 1] {
            let filled = copies.fill(buffer, 64, |to| {
                to.fill(buffer as u8);
                true
            });
            assert!(filled.is_some());
        }
        for buffer in 0..3 {
            assert_eq!(copies.of(buffer, 64), Some(&[buffer as u8; 64][..]));
        }
    }

    #[test]
    fn a_packet_that_was_not_copied_is_not_there() {
        let mut copies = Copies::new(shape(2, 64)).unwrap();
        let filled = copies.fill(1, 20, |to| {
            to.fill(7);
            true
        });
        assert_eq!(filled, Some(&[7; 20][..]));
        assert_eq!(copies.of(1, 20), Some(&[7; 20][..]));
        assert_eq!(copies.of(1, 21), None);
        assert_eq!(copies.of(0, 20), None);
        assert_eq!(copies.fill(1, 20, |_| false), None);
        assert_eq!(copies.of(1, 20), None);
        assert_eq!(copies.fill(2, 20, |_| true), None);
    }
}
