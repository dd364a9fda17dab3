//! The headers and payload slots of a receive arena, written by the kernel.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;

use super::ancillary::{self, CONTROL_BYTES};
use super::layout::{
    CONTROL_WORDS, ControlPage, Layout, META_STRIDE_BYTES, NAME_BYTES, SLOT_CAPACITY_BYTES,
    SLOT_STRIDE_BYTES,
};
use super::recv::{Ancillary, Arrived};
use crate::arena::ByteArena;
use crate::sockaddr;

/// In a header's `msg_len`: the kernel has not written this slot. No datagram is that long.
const NOT_WRITTEN: u32 = u32::MAX;

/// An arena seen as slots; every raw pointer of the batch layer is made here.
#[derive(Debug)]
pub(crate) struct Slots {
    arena: ByteArena,
    layout: Layout,
    ancillary: Ancillary,
}

impl Slots {
    /// Takes an arena that is as large as `layout` says, and leaves what the kernel wrote.
    pub(crate) fn new(arena: ByteArena, layout: Layout, ancillary: Ancillary) -> Self {
        debug_assert_eq!(arena.len(), layout.bytes);
        let mut slots = Self {
            arena,
            layout,
            ancillary,
        };
        slots.point_headers();
        slots
    }

    pub(crate) fn count(&self) -> usize {
        self.layout.slots
    }

    /// The number of leading slots, of the first `armed`, that the kernel has written.
    pub(crate) fn written(&self, armed: usize) -> usize {
        self.headers()[..armed]
            .iter()
            .take_while(|header| header.msg_len != NOT_WRITTEN)
            .count()
    }

    pub(crate) fn control(&self) -> ControlPage<'_> {
        // SAFETY: the first page, 8-aligned, mapped while `self` lives, and reached only through these atomics.
        ControlPage(unsafe {
            std::slice::from_raw_parts(self.arena.start().cast::<AtomicU64>(), CONTROL_WORDS)
        })
    }

    pub(crate) fn headers(&self) -> &[libc::mmsghdr] {
        // SAFETY: inside the arena by `Layout`, 64-aligned, exclusive by its claim, only read while `&self` is lent; any
        // bits are a valid mmsghdr (integers and raw pointers).
        unsafe {
            std::slice::from_raw_parts(self.at(self.layout.headers).cast(), self.layout.slots)
        }
    }

    pub(crate) fn headers_mut(&mut self) -> &mut [libc::mmsghdr] {
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

    /// The first `stored` bytes of a scratch slot.
    pub(crate) fn scratch(&self, index: usize, stored: usize) -> &[u8] {
        let start = self.layout.scratch + index * SLOT_STRIDE_BYTES;
        &self.arena.bytes()[start..start + stored.min(SLOT_CAPACITY_BYTES)]
    }

    pub(crate) fn scratch_mut(&mut self, index: usize) -> &mut [u8] {
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

    pub(crate) fn point_scratch(&mut self, index: usize) {
        let start = self.at(self.layout.scratch + index * SLOT_STRIDE_BYTES);
        self.point_payload(index, start, SLOT_CAPACITY_BYTES);
    }

    pub(crate) fn point_payload(&mut self, index: usize, start: *mut u8, bytes: usize) {
        self.iovecs_mut()[index] = libc::iovec {
            iov_base: start.cast(),
            iov_len: bytes,
        };
    }

    /// Makes the first `stale` headers ready for the kernel.
    pub(crate) fn reset_headers(&mut self, stale: usize) {
        let (name, control) = (self.name_room(), self.control_room());
        for header in &mut self.headers_mut()[..stale] {
            header.msg_len = NOT_WRITTEN;
            header.msg_hdr.msg_flags = 0;
            header.msg_hdr.msg_namelen = name as libc::socklen_t;
            header.msg_hdr.msg_controllen = control as _;
        }
    }

    pub(crate) fn address(&self, index: usize, header: &libc::mmsghdr) -> Option<SocketAddr> {
        let room = self.name_room();
        (room > 0).then(|| {
            sockaddr::parse(&self.meta(index)[..room.min(header.msg_hdr.msg_namelen as usize)])
        })?
    }

    pub(crate) fn control_messages(
        &self,
        index: usize,
        header: &libc::mmsghdr,
    ) -> ancillary::Control {
        let used = self.control_room().min(header.msg_hdr.msg_controllen);
        if used == 0 {
            return ancillary::Control::default();
        }
        ancillary::parse(&self.meta(index)[NAME_BYTES..NAME_BYTES + used])
    }

    /// Writes a header as the kernel would, its length last.
    pub(crate) fn write_header(&mut self, index: usize, capacity: usize, arrived: Arrived) {
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
