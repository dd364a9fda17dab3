//! Receiving many datagrams per call, into an arena that outlives the process.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::layout::{Layout, SLOT_CAPACITY_BYTES};
use super::slots::Slots;
use crate::SysError;
use crate::arena::ByteArena;

/// What the kernel shall tell of each datagram beside its bytes; each costs time per datagram.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Ancillary {
    /// The sender's address.
    pub addresses: bool,
    /// Control messages: the receive stamp and the segment size of merged buffers, where the socket has them on.
    pub control: bool,
}

/// Names one batch for a successor of this process.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct BatchTag {
    /// Runs up by one per batch; the caller's book says which is accounted.
    pub batch_id: u64,
    /// The caller's number of the socket.
    pub socket: u32,
    /// Free for the caller, such as the ring position of a loan.
    pub words: [u64; 2],
}

/// Where the payloads of a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchMode {
    /// The arena's own slots; [`RecvBatch::payload`] has them.
    Scratch,
    /// Memory of the caller, one datagram.
    Direct,
}

impl BatchMode {
    pub(crate) fn word(self) -> u64 {
        match self {
            Self::Scratch => 1,
            Self::Direct => 2,
        }
    }

    pub(crate) fn of_word(word: u64) -> Option<Self> {
        [Self::Scratch, Self::Direct]
            .into_iter()
            .find(|mode| mode.word() == word)
    }
}

/// What a predecessor had received and not yet accounted when it was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adopted {
    /// The tag it gave its last receive.
    pub tag: BatchTag,
    /// Where the payloads lie.
    pub mode: BatchMode,
    /// How many datagrams the kernel had delivered.
    pub count: usize,
}

/// One received datagram, without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// Its length on the wire in bytes, even when not all of it was stored.
    pub len: usize,
    /// It was longer than its buffer; the rest is gone.
    pub truncated: bool,
    /// When the kernel took it, wall clock, if the socket stamps and control messages are on.
    pub stamp_ns: Option<u64>,
    /// Its sender, if addresses are on.
    pub from: Option<SocketAddr>,
    /// The kernel merged several datagrams of this size (the last may be shorter) into one buffer.
    pub gro_segment_bytes: Option<u16>,
}

/// Sums over datagrams.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// How many; the parts of a merged buffer count each.
    pub datagrams: u64,
    /// Their lengths on the wire, bytes of payload.
    pub bytes: u64,
    /// How many of the buffers were too long for their memory.
    pub truncated: u64,
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, more: Self) {
        self.datagrams += more.datagrams;
        self.bytes += more.bytes;
        self.truncated += more.truncated;
    }
}

/// A datagram as an emulated link delivers it, see [`RecvBatch::deliver_scratch`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Its length in bytes; longer than the buffer means truncated.
    pub len: usize,
    /// When it arrived.
    pub stamp_ns: Option<u64>,
    /// Its sender.
    pub from: Option<SocketAddr>,
}

/// `recvmmsg` with headers, addresses, stamps and scratch payloads in a shared-memory arena.
///
/// One batch serves any number of sockets, one call after another. The life of a batch:
/// `receive_*` arms the arena and calls the kernel; the caller accounts the datagrams and commits its book together
/// with the batch's number; then [`disarm`](Self::disarm) (or simply the next receive). A successor that attaches the
/// arena asks [`adopt`](Self::adopt) and compares the number with its book: what is not in the book is handled as after
/// a normal receive.
#[derive(Debug)]
pub struct RecvBatch {
    slots: Slots,
    /// Slots that `datagram` may read.
    received: usize,
    /// Leading slots whose headers the kernel may have changed since they were last reset.
    stale: usize,
}

impl RecvBatch {
    /// Creates the memfd for [`attach`](Self::attach), of [`arena_bytes`](super::arena_bytes)`(slots)` bytes.
    ///
    /// # Errors
    /// When memory or descriptors run out.
    pub fn create_arena(slots: usize) -> Result<OwnedFd, SysError> {
        ByteArena::create(super::arena_bytes(slots))
    }

    /// Claims an arena, fresh or left by a predecessor. `slots` (1 to 1,024) must be what it was created with, and
    /// `ancillary` what the predecessor used.
    ///
    /// # Errors
    /// When it has an owner, or was laid out differently.
    pub fn attach(arena: OwnedFd, slots: usize, ancillary: Ancillary) -> Result<Self, SysError> {
        let layout = Layout::of(slots);
        let arena = ByteArena::attach(arena)?;
        if !(1..=1024).contains(&slots) || arena.len() != layout.bytes {
            return Err(misfit(format!(
                "{} bytes for {slots} slots, {} needed",
                arena.len(),
                layout.bytes
            )));
        }
        let slots = Slots::new(arena, layout, ancillary);
        let control = slots.control();
        if control.is_fresh() {
            control.initialise(slots.count());
        } else if !control.fits(slots.count()) {
            return Err(misfit(format!(
                "not laid out for {} slots by this version",
                slots.count()
            )));
        }
        Ok(Self {
            stale: slots.count(),
            received: 0,
            slots,
        })
    }

    /// A batch in memory of its own, for a process without a successor.
    ///
    /// # Errors
    /// When memory or descriptors run out.
    pub fn private(slots: usize, ancillary: Ancillary) -> Result<Self, SysError> {
        Self::attach(Self::create_arena(slots)?, slots, ancillary)
    }

    /// How many datagrams one call can take.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.count()
    }

    /// Receives up to `max` datagrams into scratch slots without waiting; tells how many there were.
    ///
    /// # Errors
    /// The socket's own error; an empty queue is `Ok(0)`.
    pub fn receive_scratch(
        &mut self,
        socket: BorrowedFd<'_>,
        max: usize,
        tag: BatchTag,
    ) -> io::Result<usize> {
        let slots = max.min(self.slots.count());
        self.arm(BatchMode::Scratch, slots, tag);
        self.call_kernel(socket, slots)
    }

    /// Receives one datagram straight into `buffer`, such as memory lent by a ring; its data are `datagram(0)`.
    ///
    /// # Errors
    /// The socket's own error; an empty queue is `Ok(None)`.
    pub fn receive_into(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        tag: BatchTag,
    ) -> io::Result<Option<()>> {
        self.arm(BatchMode::Direct, 1, tag);
        self.slots
            .point_payload(0, buffer.as_mut_ptr(), buffer.len());
        let outcome = self.call_kernel(socket, 1);
        // The kernel is done with the caller's memory; the pointer must not outlive this borrow.
        self.slots.point_scratch(0);
        Ok((outcome? > 0).then_some(()))
    }

    /// Fills scratch slots from an emulated link instead of a socket: `next` writes a payload and tells what came.
    pub fn deliver_scratch(
        &mut self,
        max: usize,
        tag: BatchTag,
        mut next: impl FnMut(&mut [u8]) -> Option<Arrived>,
    ) -> usize {
        let slots = max.min(self.slots.count());
        self.arm(BatchMode::Scratch, slots, tag);
        let mut count = 0;
        while count < slots
            && let Some(arrived) = next(self.slots.scratch_mut(count))
        {
            self.slots.write_header(count, SLOT_CAPACITY_BYTES, arrived);
            count += 1;
        }
        self.finish(count)
    }

    /// As [`receive_into`](Self::receive_into), from an emulated link.
    pub fn deliver_into(
        &mut self,
        buffer: &mut [u8],
        tag: BatchTag,
        next: impl FnOnce(&mut [u8]) -> Option<Arrived>,
    ) -> Option<()> {
        self.arm(BatchMode::Direct, 1, tag);
        let arrived = next(buffer);
        if let Some(arrived) = arrived {
            self.slots.write_header(0, buffer.len(), arrived);
        }
        (self.finish(usize::from(arrived.is_some())) > 0).then_some(())
    }

    /// Says that the last batch is accounted: a successor shall not adopt it.
    pub fn disarm(&mut self) {
        self.slots.control().disarm();
        self.received = 0;
    }

    /// What a killed predecessor had received last, if it did not disarm it; at least one datagram. Its datagrams can then be read as after
    /// a receive. It stays armed until [`disarm`](Self::disarm) or the next receive, so that a crash now loses nothing.
    pub fn adopt(&mut self) -> Option<Adopted> {
        let (mode, armed, tag) = self.slots.control().armed()?;
        let armed = armed.min(self.slots.count());
        let count = self.slots.written(armed);
        self.received = count;
        (count > 0).then_some(Adopted { tag, mode, count })
    }

    /// Datagram `index` of the last receive.
    ///
    /// # Panics
    /// When `index` is not below the number received.
    #[must_use]
    pub fn datagram(&self, index: usize) -> Datagram {
        let header = &self.slots.headers()[..self.received][index];
        let control = self.slots.control_messages(index, header);
        Datagram {
            len: header.msg_len as usize,
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            stamp_ns: control.stamp_ns,
            from: self.slots.address(index, header),
            gro_segment_bytes: control.gro_segment_bytes,
        }
    }

    /// Sums over the datagrams of the last receive.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (index, header) in self.slots.headers()[..self.received].iter().enumerate() {
            let len = u64::from(header.msg_len);
            let segment = self.slots.control_messages(index, header).gro_segment_bytes;
            totals.datagrams +=
                segment.map_or(1, |segment| len.div_ceil(u64::from(segment).max(1)).max(1));
            totals.bytes += len;
            totals.truncated += u64::from(header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0);
        }
        totals
    }

    /// The bytes of datagram `index` after a scratch receive (what was stored, if truncated).
    ///
    /// # Panics
    /// When `index` is not below the number received.
    #[must_use]
    pub fn payload(&self, index: usize) -> &[u8] {
        let len = self.slots.headers()[..self.received][index].msg_len as usize;
        self.slots.scratch(index, len)
    }

    fn arm(&mut self, mode: BatchMode, slots: usize, tag: BatchTag) {
        self.slots.control().disarm();
        self.slots.reset_headers(self.stale);
        self.stale = 0;
        self.slots.control().arm(mode, slots, tag);
    }

    fn call_kernel(&mut self, socket: BorrowedFd<'_>, slots: usize) -> io::Result<usize> {
        // MSG_TRUNC as a flag asks for the length on the wire, also of what does not fit.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let headers = self.slots.headers_mut().as_mut_ptr();
        loop {
            // SAFETY: `slots` is at most the number of headers; each header's name, control and iovec pointers lead into
            // this arena (or, for slot 0, into a buffer borrowed for this call), with their true lengths.
            let count = unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    headers,
                    slots as libc::c_uint,
                    flags,
                    std::ptr::null_mut(),
                )
            };
            if let Ok(count) = usize::try_from(count) {
                return Ok(self.finish(count));
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return Ok(self.finish(0)),
                _ => {
                    self.finish(0);
                    return Err(error);
                }
            }
        }
    }

    fn finish(&mut self, count: usize) -> usize {
        // One more than came: the kernel may have touched the slot at which it stopped.
        self.stale = (count + 1).min(self.slots.count());
        self.received = count;
        if count == 0 {
            self.slots.control().disarm();
        }
        count
    }
}

fn misfit(what: String) -> SysError {
    SysError::new("attach receive arena", what, rustix::io::Errno::INVAL)
        .with_remedy("create it with RecvBatch::create_arena for the same number of slots")
}
