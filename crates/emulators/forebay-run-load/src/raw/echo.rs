//! The far end of frames: what comes for the interface goes back to the station that sent it, with both addresses changed over.

use std::os::fd::{AsFd, BorrowedFd};

use forebay_ledger::Leak;
use forebay_link::packet::{BATCH_FRAMES_MAX, FrameBatch, FramePort, KernelCounts};
use forebay_sys::socket::raise_send_buffer;
use forebay_sys::udp_batch::{Outgoing, SendBatch};
use forebay_wire::packet::link::turn_round;

use super::{BUFFER_BYTES, Fault, Place, ROUNDS, RawPlan, ring_counts};
use crate::LoadError;
use crate::books::{EchoCounts, EchoDrop};
use crate::echo::{ECHO, RING, send_back};
use crate::end::RingCounts;

/// Bytes of a VLAN tag, which is put back in front of what comes with one.
const TAG_BYTES: usize = 4;

/// An echo of frames.
pub(crate) struct RawEcho {
    pub(crate) place: Place,
    port: FramePort,
    out: SendBatch,
    batch: FrameBatch,
    counts: EchoCounts,
    taken: u64,
    kernel: KernelCounts,
    is_shut: bool,
    is_down: bool,
}

impl RawEcho {
    pub(crate) fn open(plan: &RawPlan) -> Result<Self, LoadError> {
        let place = Place::find(plan)?;
        let frame_bytes_max = place.frame_bytes_max() + TAG_BYTES;
        let port = place.port(None, 1, frame_bytes_max)?;
        raise_send_buffer(&port, BUFFER_BYTES)?;
        Ok(Self {
            place,
            port,
            out: SendBatch::new(BATCH_FRAMES_MAX),
            batch: FrameBatch::new(frame_bytes_max),
            counts: EchoCounts::default(),
            taken: 0,
            kernel: KernelCounts::default(),
            is_shut: false,
            is_down: false,
        })
    }

    /// Sends back what came; why frames come no more, once.
    pub(crate) fn turn(&mut self, leak: &mut Leak) -> Option<Fault> {
        for round in 0..ROUNDS {
            let taken = self.take(leak);
            self.send();
            if taken == 0 && round == 0 {
                return self.look();
            }
            self.is_down = false;
            if taken < BATCH_FRAMES_MAX {
                break;
            }
        }
        None
    }

    fn look(&mut self) -> Option<Fault> {
        let fault = Fault::of(&mut self.port);
        let was_down = std::mem::replace(&mut self.is_down, fault.is_some());
        fault.filter(|fault| !was_down || matches!(fault, Fault::Gone(_)))
    }

    /// Takes frames into the batch: how many there were.
    fn take(&mut self, leak: &mut Leak) -> usize {
        let mut taken = 0;
        while taken < BATCH_FRAMES_MAX
            && let Some(mut place) = self.port.take()
        {
            taken += 1;
            if leak.take(RING) {
                continue;
            }
            self.taken += 1;
            let (bytes, wire_bytes) = match place.frame() {
                Ok(frame) => (frame.bytes, frame.wire_bytes as usize),
                Err(_) => (&[][..], 1),
            };
            self.counts.came.add(wire_bytes);
            if leak.take(ECHO) {
                continue;
            }
            if !into(&mut self.batch, bytes, wire_bytes) {
                self.counts.lose(EchoDrop::Cut, wire_bytes);
            }
        }
        taken
    }

    fn send(&mut self) {
        let frames = self.batch.frames();
        let all = (0..frames).map(|at| Outgoing::connected(self.batch.frame(at)));
        let outgoing: Vec<Outgoing<'_>> = all.collect();
        let socket = self.port.as_fd();
        send_back(&mut self.out, socket, &outgoing, &mut self.counts);
        self.batch.remove_before(frames);
    }

    /// Takes no more frames, and sends back those that came before.
    pub(crate) fn shut(&mut self, leak: &mut Leak) {
        self.is_shut = self.port.close().is_ok();
        while self.is_shut && self.take(leak) > 0 {
            self.send();
        }
    }

    pub(crate) const fn counts(&self) -> EchoCounts {
        self.counts
    }

    pub(crate) fn ring(&mut self) -> RingCounts {
        let Self {
            port,
            kernel,
            taken,
            is_shut,
            ..
        } = self;
        ring_counts(port, kernel, *taken, *is_shut)
    }
}

/// Takes a whole frame into a batch, with its addresses changed over: whether it is one.
fn into(batch: &mut FrameBatch, bytes: &[u8], wire_bytes: usize) -> bool {
    let room = batch.room().and_then(|room| room.get_mut(..bytes.len()));
    let Some(room) = room.filter(|_| bytes.len() == wire_bytes) else {
        return false;
    };
    room.copy_from_slice(bytes);
    let is_frame = turn_round(room);
    if is_frame {
        batch.push(bytes.len());
    }
    is_frame
}

impl AsFd for RawEcho {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_frames_alone_are_turned_round() {
        let mut batch = FrameBatch::new(20);
        assert!(into(&mut batch, b"ttttttffffffTYdata", 18));
        for (frame, wire_bytes) in [
            (&b"ttttttfffff"[..], 11),
            (b"ttttttffffffTY", 15),
            (b"", 1),
            (&[7; 21], 21),
        ] {
            assert!(!into(&mut batch, frame, wire_bytes), "{frame:?}");
        }
        assert_eq!(batch.frames(), 1);
        assert_eq!(batch.frame(0), b"ffffffttttttTYdata");
    }
}
