//! This side's ends of a connection's two rings.

use std::os::fd::OwnedFd;

use forebay_ring::{
    Consumer, Consumers, Full, Meta, Notifier, PeerFault, Producer, Producers, RingError,
    RingSetMemory, SIDE_FDS, Waiter, record_bytes,
};

use rustix::io::Errno;

use super::copier::PieceCopier;
use super::{Room, ring_spec};

/// Descriptors that go to the side that connected: the ring that it reads, then the ring that it writes.
pub(super) const PEER_FDS: usize = 2 * SIDE_FDS;

/// Where this side writes and where it reads, with the bells of both.
#[derive(Debug)]
pub(super) struct Ends {
    out: Producer,
    out_ready: Notifier,
    pub(super) out_free: Waiter,
    input: Consumer,
    input_free: Notifier,
    pub(super) input_ready: Waiter,
    asked_for_data: bool,
    asked_for_room: bool,
}

impl Ends {
    /// Makes the memory of a connection: the listener's ends of it, and the descriptors for the other.
    pub(super) fn make(name: &str, room: Room) -> Result<(Self, Vec<OwnedFd>), RingError> {
        let spec = ring_spec(name, room);
        let (to_peer, from_peer) = (RingSetMemory::create(&spec)?, RingSetMemory::create(&spec)?);
        // This side's ends are claimed before the peer has any descriptor.
        let ends = Self::map(room, to_peer.producer_fds()?, from_peer.consumer_fds()?)?;
        let mut of_peer = to_peer.consumer_fds()?;
        of_peer.extend(from_peer.producer_fds()?);
        Ok((ends, of_peer))
    }

    /// The ends of the side that connected.
    pub(super) fn of_peer(room: Room, mut fds: Vec<OwnedFd>) -> Result<Self, RingError> {
        let out = fds.split_off(SIDE_FDS.min(fds.len()));
        Self::map(room, out, fds)
    }

    fn map(room: Room, out: Vec<OwnedFd>, input: Vec<OwnedFd>) -> Result<Self, RingError> {
        let spec = ring_spec("", room);
        let mut out = Producers::map(&spec, out)?;
        let mut input = Consumers::map(&spec, input)?;
        let (Some(producer), Some(consumer)) = (out.rings.pop(), input.rings.pop()) else {
            return Err(RingError::Descriptors {
                expected: PEER_FDS,
                found: 0,
            });
        };
        Ok(Self {
            out: producer,
            out_ready: out.data,
            out_free: out.space,
            input: consumer,
            input_free: input.space,
            input_ready: input.data,
            asked_for_data: false,
            asked_for_room: false,
        })
    }

    /// Sends a piece, made of the parts, which are `bytes` long together; `meta` says what it begins with.
    pub(super) fn put(&mut self, parts: &[&[u8]], bytes: usize, meta: Meta) -> Result<(), Full> {
        let mut loan = self.out.reserve(bytes)?;
        let mut left = &mut loan[..];
        for part in parts {
            let (to, rest) = left.split_at_mut(part.len());
            to.copy_from_slice(part);
            left = rest;
        }
        loan.commit(bytes, meta);
        self.out.publish();
        self.out_ready.notify();
        Ok(())
    }

    /// Takes the next piece, if there is one: what came with it.
    pub(super) fn take(&mut self, copier: &mut PieceCopier) -> Result<Option<Meta>, &'static str> {
        let record = match self.input.next() {
            Ok(None) => return Ok(None),
            Ok(Some(record)) => record,
            Err(RingError::Peer { fault, .. }) => return Err(fault.reason()),
            Err(_) => return Err("ring"),
        };
        let piece = self.input.view(record.position, record.len as usize);
        let taken = piece.is_some_and(|piece| !piece.is_empty() && copier.take(piece));
        if !taken {
            return Err("empty_piece");
        }
        // The copy is ours: the peer may have the place back.
        self.input.release(record.end);
        self.input_free.notify();
        Ok(Some(record.meta))
    }

    /// Whether there is a piece to take.
    pub(super) fn has_piece(&self) -> bool {
        self.input.fill_bytes() > 0
    }

    /// Whether the peer has ended its side and all of it was taken.
    pub(super) fn is_ended(&self) -> bool {
        self.input.is_closed()
    }

    /// Whether a piece of so many bytes would be taken now, or refused for a reason that waiting does not mend.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.out.free_bytes() >= record_bytes(bytes as u64) || self.out.fault().is_some()
    }

    /// Ends this side.
    pub(super) fn finish(&mut self) {
        self.out.close();
        self.out_ready.notify();
    }

    /// Asks to be woken.
    pub(super) fn ask(&mut self, for_room: bool) {
        self.input_ready.prepare();
        self.asked_for_data = true;
        if for_room {
            self.out_free.prepare();
            self.asked_for_room = true;
        }
    }

    /// Takes that back and silences the bells; where nothing was asked, there is nothing to silence.
    pub(super) fn awake(&mut self) {
        if std::mem::take(&mut self.asked_for_data) {
            self.input_ready.finish();
        }
        if std::mem::take(&mut self.asked_for_room) {
            self.out_free.finish();
        }
    }
}

/// Whether this host lacks something. What else the kernel refuses to do with a descriptor that came lies in what it is.
pub(super) fn is_want(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::NOSPC | Errno::AGAIN
    )
}

/// What is wrong with what the listener handed over, when it is the listener's fault.
pub(super) fn fault_of(error: &RingError) -> Option<&'static str> {
    match error {
        RingError::Descriptors { .. } => Some("descriptors"),
        RingError::System { errno, .. } if !is_want(*errno) => Some("descriptors"),
        RingError::Size { .. } => Some("memory_size"),
        RingError::Seals { .. } => Some("memory_not_sealed"),
        RingError::Claimed { .. } => Some("memory_claimed"),
        RingError::Peer { fault, .. } => Some(PeerFault::reason(fault)),
        RingError::Spec { .. } | RingError::System { .. } | RingError::Resume { .. } => None,
    }
}
