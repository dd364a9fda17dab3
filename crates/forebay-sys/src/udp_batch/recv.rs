//! Receiving many datagrams per call, into an arena that outlives the process.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use super::ancillary::{self, CONTROL_BYTES};
use super::layout::{
    CONTROL_WORDS, ControlPage, Layout, META_STRIDE_BYTES, NAME_BYTES, SLOT_CAPACITY_BYTES,
    SLOT_STRIDE_BYTES,
};
use crate::arena::ByteArena;
use crate::{SysError, sockaddr};

/// In a header's `msg_len`: the kernel has not written this slot. No datagram is that long.
const NOT_WRITTEN: u32 = u32::MAX;

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
    /// Who sent it, if addresses are on.
    pub from: Option<SocketAddr>,
    /// The kernel merged several datagrams of this size (the last may be shorter) into one buffer.
    pub gro_segment_bytes: Option<u16>,
}

/// A datagram as an emulated link delivers it, see [`RecvBatch::deliver_scratch`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Its length in bytes; longer than the buffer means truncated.
    pub len: usize,
    /// When it arrived.
    pub stamp_ns: Option<u64>,
    /// Who sent it.
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
    arena: ByteArena,
    layout: Layout,
    ancillary: Ancillary,
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
        let mut batch = Self {
            arena,
            layout,
            ancillary,
            received: 0,
            stale: slots,
        };
        if batch.control().is_fresh() {
            batch.control().initialise(slots);
        } else if !batch.control().fits(slots) {
            return Err(misfit(format!(
                "not laid out for {slots} slots by this version"
            )));
        }
        batch.point_headers();
        Ok(batch)
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
        self.layout.slots
    }

    /// Another descriptor of the arena, for whoever keeps it alive beyond this process.
    ///
    /// # Errors
    /// When descriptors run out.
    pub fn share_arena(&self) -> Result<OwnedFd, SysError> {
        self.arena.share_fd()
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
        let slots = max.min(self.layout.slots);
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
        self.point_payload(0, buffer.as_mut_ptr(), buffer.len());
        let outcome = self.call_kernel(socket, 1);
        // The kernel is done with the caller's memory; the pointer must not outlive this borrow.
        self.point_scratch(0);
        Ok((outcome? > 0).then_some(()))
    }

    /// Fills scratch slots from an emulated link instead of a socket: `next` writes a payload and tells what came.
    pub fn deliver_scratch(
        &mut self,
        max: usize,
        tag: BatchTag,
        mut next: impl FnMut(&mut [u8]) -> Option<Arrived>,
    ) -> usize {
        let slots = max.min(self.layout.slots);
        self.arm(BatchMode::Scratch, slots, tag);
        let mut count = 0;
        while count < slots
            && let Some(arrived) = next(self.scratch_mut(count))
        {
            self.write_header(count, SLOT_CAPACITY_BYTES, arrived);
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
            self.write_header(0, buffer.len(), arrived);
        }
        (self.finish(usize::from(arrived.is_some())) > 0).then_some(())
    }

    /// Says that the last batch is accounted: a successor shall not adopt it.
    pub fn disarm(&mut self) {
        self.control().disarm();
        self.received = 0;
    }

    /// What a killed predecessor had received last, if it did not disarm it. Its datagrams can then be read as after
    /// a receive. It stays armed until [`disarm`](Self::disarm) or the next receive, so that a crash now loses nothing.
    pub fn adopt(&mut self) -> Option<Adopted> {
        let (mode, armed, tag) = self.control().armed()?;
        let armed = armed.min(self.layout.slots);
        let count = self.headers()[..armed]
            .iter()
            .take_while(|header| header.msg_len != NOT_WRITTEN)
            .count();
        self.received = count;
        Some(Adopted { tag, mode, count })
    }

    /// Datagram `index` of the last receive.
    ///
    /// # Panics
    /// When `index` is not below the number received.
    #[must_use]
    pub fn datagram(&self, index: usize) -> Datagram {
        let header = &self.headers()[..self.received][index];
        let control = self.control_bytes(index, header);
        Datagram {
            len: header.msg_len as usize,
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            stamp_ns: control.stamp_ns,
            from: self.address(index, header),
            gro_segment_bytes: control.gro_segment_bytes,
        }
    }

    /// The bytes of datagram `index` after a scratch receive (what was stored, if truncated).
    ///
    /// # Panics
    /// When `index` is not below the number received.
    #[must_use]
    pub fn payload(&self, index: usize) -> &[u8] {
        let stored =
            (self.headers()[..self.received][index].msg_len as usize).min(SLOT_CAPACITY_BYTES);
        let start = self.layout.scratch + index * SLOT_STRIDE_BYTES;
        &self.arena.bytes()[start..start + stored]
    }

    fn arm(&mut self, mode: BatchMode, slots: usize, tag: BatchTag) {
        self.control().disarm();
        self.reset_headers();
        self.control().arm(mode, slots, tag);
    }

    fn call_kernel(&mut self, socket: BorrowedFd<'_>, slots: usize) -> io::Result<usize> {
        // MSG_TRUNC as a flag asks for the length on the wire, also of what does not fit.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let headers = self.headers_mut().as_mut_ptr();
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
        self.stale = (count + 1).min(self.layout.slots);
        self.received = count;
        if count == 0 {
            self.control().disarm();
        }
        count
    }

    fn control(&self) -> ControlPage<'_> {
        // SAFETY: the first page, 8-aligned, mapped while `self` lives, and reached only through these atomics.
        ControlPage(unsafe {
            std::slice::from_raw_parts(self.arena.start().cast::<AtomicU64>(), CONTROL_WORDS)
        })
    }

    fn headers(&self) -> &[libc::mmsghdr] {
        // SAFETY: inside the arena by `Layout`, 64-aligned, exclusive by its claim, only read while `&self` is lent; any
        // bits are a valid mmsghdr (integers and raw pointers).
        unsafe {
            std::slice::from_raw_parts(self.at(self.layout.headers).cast(), self.layout.slots)
        }
    }

    fn headers_mut(&mut self) -> &mut [libc::mmsghdr] {
        // SAFETY: as in `headers`, and `&mut self` makes it the only reference.
        unsafe {
            std::slice::from_raw_parts_mut(self.at(self.layout.headers).cast(), self.layout.slots)
        }
    }

    fn iovecs_mut(&mut self) -> &mut [libc::iovec] {
        // SAFETY: inside the arena by `Layout`, 16-aligned, exclusive by its claim and `&mut self`; any bits are valid.
        unsafe {
            std::slice::from_raw_parts_mut(self.at(self.layout.iovecs).cast(), self.layout.slots)
        }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.arena.len());
        self.arena.start().wrapping_add(offset)
    }

    fn scratch_mut(&mut self, index: usize) -> &mut [u8] {
        let start = self.layout.scratch + index * SLOT_STRIDE_BYTES;
        &mut self.arena.bytes_mut()[start..start + SLOT_CAPACITY_BYTES]
    }

    fn meta(&self, index: usize) -> &[u8] {
        let start = self.layout.meta + index * META_STRIDE_BYTES;
        &self.arena.bytes()[start..start + NAME_BYTES + CONTROL_BYTES]
    }

    fn name_room(&self) -> usize {
        if self.ancillary.addresses {
            sockaddr::SOCKADDR_BYTES
        } else {
            0
        }
    }

    fn control_room(&self) -> usize {
        if self.ancillary.control {
            CONTROL_BYTES
        } else {
            0
        }
    }

    /// Sets every pointer anew (a predecessor's are of its own address space) and leaves what the kernel wrote.
    fn point_headers(&mut self) {
        let (names, controls) = (self.name_room() > 0, self.control_room() > 0);
        for index in 0..self.layout.slots {
            let meta = self.at(self.layout.meta + index * META_STRIDE_BYTES);
            let iovec: *mut libc::iovec = &raw mut self.iovecs_mut()[index];
            let header = &mut self.headers_mut()[index].msg_hdr;
            header.msg_name = if names {
                meta.cast()
            } else {
                std::ptr::null_mut()
            };
            header.msg_control = if controls {
                meta.wrapping_add(NAME_BYTES).cast()
            } else {
                std::ptr::null_mut()
            };
            header.msg_iov = iovec;
            header.msg_iovlen = 1;
            self.point_scratch(index);
        }
    }

    fn point_scratch(&mut self, index: usize) {
        let start = self.at(self.layout.scratch + index * SLOT_STRIDE_BYTES);
        self.point_payload(index, start, SLOT_CAPACITY_BYTES);
    }

    fn point_payload(&mut self, index: usize, start: *mut u8, bytes: usize) {
        self.iovecs_mut()[index] = libc::iovec {
            iov_base: start.cast(),
            iov_len: bytes,
        };
    }

    fn reset_headers(&mut self) {
        let (stale, name, control) = (self.stale, self.name_room(), self.control_room());
        for header in &mut self.headers_mut()[..stale] {
            header.msg_len = NOT_WRITTEN;
            header.msg_hdr.msg_flags = 0;
            header.msg_hdr.msg_namelen = name as libc::socklen_t;
            header.msg_hdr.msg_controllen = control as _;
        }
        self.stale = 0;
    }

    fn address(&self, index: usize, header: &libc::mmsghdr) -> Option<SocketAddr> {
        let room = self.name_room();
        (room > 0).then(|| {
            sockaddr::parse(&self.meta(index)[..room.min(header.msg_hdr.msg_namelen as usize)])
        })?
    }

    fn control_bytes(&self, index: usize, header: &libc::mmsghdr) -> ancillary::Control {
        let used = self.control_room().min(header.msg_hdr.msg_controllen);
        if used == 0 {
            return ancillary::Control::default();
        }
        ancillary::parse(&self.meta(index)[NAME_BYTES..NAME_BYTES + used])
    }

    /// Writes a header as the kernel would, its length last.
    fn write_header(&mut self, index: usize, capacity: usize, arrived: Arrived) {
        let (names, controls) = (self.ancillary.addresses, self.ancillary.control);
        let start = self.layout.meta + index * META_STRIDE_BYTES;
        let meta = &mut self.arena.bytes_mut()[start..start + NAME_BYTES + CONTROL_BYTES];
        let mut name = [0; sockaddr::SOCKADDR_BYTES];
        let name_len = arrived
            .from
            .filter(|_| names)
            .map_or(0, |from| sockaddr::emit(from, &mut name));
        meta[..name.len()].copy_from_slice(&name);
        let stamp = arrived.stamp_ns.filter(|_| controls);
        let control_len = stamp.map_or(0, |stamp| {
            ancillary::emit_stamp(stamp, &mut meta[NAME_BYTES..])
        });
        let header = &mut self.headers_mut()[index];
        header.msg_hdr.msg_namelen = name_len as libc::socklen_t;
        header.msg_hdr.msg_controllen = control_len as _;
        header.msg_hdr.msg_flags = if arrived.len > capacity {
            libc::MSG_TRUNC
        } else {
            0
        };
        header.msg_len = u32::try_from(arrived.len).unwrap_or(NOT_WRITTEN - 1);
    }
}

fn misfit(what: String) -> SysError {
    SysError::new("attach receive arena", what, rustix::io::Errno::INVAL)
        .with_remedy("create it with RecvBatch::create_arena for the same number of slots")
}
