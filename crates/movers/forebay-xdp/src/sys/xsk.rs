//! Sockets for frames past the kernel's stack (AF_XDP: `Documentation/networking/af_xdp.rst`, `linux/if_xdp.h`): their calls, and the memory of their rings.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::mapping::Mapping;
use super::umem::Umem;
use super::{ElementAttributes, Map, UPDATE, address, bpf, failed, owned};
use crate::abi::Plain;
use crate::error::XdpError;

const MMAP_OFFSETS: i32 = 1;
const UMEM_REG: i32 = 4;
const STATISTICS: i32 = 7;
const OPTIONS: i32 = 8;
const IS_ZERO_COPY: u32 = 1;
/// The kernel sleeps until it is called.
const NEED_WAKEUP: u32 = 1;

/// Flags of bind.
pub(crate) mod flag {
    pub(crate) const COPY: u16 = 1 << 1;
    pub(crate) const ZERO_COPY: u16 = 1 << 2;
    pub(crate) const NEED_WAKEUP: u16 = 1 << 3;
    /// A frame may be in several buffers (Linux 6.6).
    pub(crate) const PIECES: u16 = 1 << 4;
}

/// A further piece of the frame follows.
pub(crate) const CONTINUED: u32 = 1;

/// A place of a ring that is about a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) options: u32,
}

const _: () = assert!(size_of::<Descriptor>() == 16);

// SAFETY: three integers without padding, as is checked above.
unsafe impl Plain for Descriptor {
    const ZERO: Self = Self {
        address: 0,
        length: 0,
        options: 0,
    };
}

// SAFETY: an integer.
unsafe impl Plain for u64 {
    const ZERO: Self = 0;
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RingOffsets {
    producer: u64,
    consumer: u64,
    places: u64,
    flags: u64,
}

/// In the kernel's order.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Offsets {
    receive: RingOffsets,
    send: RingOffsets,
    fill: RingOffsets,
    completion: RingOffsets,
}

#[repr(C)]
struct Region {
    start: u64,
    bytes: u64,
    buffer_bytes: u32,
    headroom: u32,
    flags: u32,
    metadata_bytes: u32,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RawStatistics {
    pub(crate) dropped: u64,
    pub(crate) invalid_fill: u64,
    pub(crate) invalid_send: u64,
    pub(crate) ring_full: u64,
    pub(crate) fill_empty: u64,
    pub(crate) send_empty: u64,
}

#[repr(C)]
struct Address {
    family: u16,
    flags: u16,
    interface: u32,
    queue: u32,
    shared: u32,
}

/// The rings of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Frames that came: descriptors.
    Receive,
    /// Frames that go: descriptors.
    Send,
    /// Buffers for frames that come: addresses.
    Fill,
    /// Buffers of frames that went: addresses.
    Completion,
}

impl Which {
    /// The option that makes it.
    const fn option(self) -> i32 {
        match self {
            Self::Receive => 2,
            Self::Send => 3,
            Self::Fill => 5,
            Self::Completion => 6,
        }
    }

    /// Where the file has it.
    const fn place(self) -> i64 {
        match self {
            Self::Receive => 0,
            Self::Send => 0x8000_0000,
            Self::Fill => 0x1_0000_0000,
            Self::Completion => 0x1_8000_0000,
        }
    }

    const fn of(self, offsets: &Offsets) -> RingOffsets {
        match self {
            Self::Receive => offsets.receive,
            Self::Send => offsets.send,
            Self::Fill => offsets.fill,
            Self::Completion => offsets.completion,
        }
    }

    const fn place_bytes(self) -> usize {
        match self {
            Self::Receive | Self::Send => size_of::<Descriptor>(),
            Self::Fill | Self::Completion => size_of::<u64>(),
        }
    }
}

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
}

impl Socket {
    pub(crate) fn open() -> io::Result<Self> {
        // SAFETY: a call with numbers.
        let descriptor =
            unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            descriptor: owned(descriptor),
        })
    }

    fn set<T>(&self, option: i32, value: &T) -> io::Result<()> {
        // SAFETY: the kernel reads as many bytes as the value has.
        let result = unsafe {
            libc::setsockopt(
                self.descriptor.as_raw_fd(),
                libc::SOL_XDP,
                option,
                std::ptr::from_ref(value).cast(),
                size_of::<T>() as u32,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// `T` is integers alone.
    fn value<T: Default>(&self, option: i32) -> io::Result<T> {
        let mut value = T::default();
        let mut bytes = size_of::<T>() as u32;
        // SAFETY: the kernel writes at most as many bytes as the value has, and any are valid in it.
        let result = unsafe {
            libc::getsockopt(
                self.descriptor.as_raw_fd(),
                libc::SOL_XDP,
                option,
                (&raw mut value).cast(),
                &raw mut bytes,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(value)
    }

    /// Gives the kernel the memory for frames, which must outlive the socket. The kernel locks it.
    pub(crate) fn register(&self, umem: &Umem) -> io::Result<()> {
        let (start, bytes) = umem.region();
        let region = Region {
            start,
            bytes,
            buffer_bytes: umem.buffer_bytes() as u32,
            headroom: 0,
            flags: 0,
            metadata_bytes: 0,
        };
        self.set(UMEM_REG, &region)
    }

    /// Makes a ring of so many places, a power of two, and maps it.
    pub(crate) fn ring(&self, which: Which, entries: u32) -> io::Result<RingMemory> {
        self.set(which.option(), &entries)?;
        let offsets = which.of(&self.value::<Offsets>(MMAP_OFFSETS)?);
        let bytes = offsets.places as usize + entries as usize * which.place_bytes();
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let mapping = Mapping::of_file(self.descriptor.as_raw_fd(), which.place(), bytes, both);
        let mapping = mapping.ok_or_else(io::Error::last_os_error)?;
        Ok(RingMemory {
            mapping,
            offsets,
            entries,
        })
    }

    /// Binds it to a queue of an interface.
    pub(crate) fn bind(&self, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
        let address = Address {
            family: libc::AF_XDP as u16,
            flags,
            interface,
            queue,
            shared: 0,
        };
        // SAFETY: the kernel reads as many bytes as the address has.
        let result = unsafe {
            libc::bind(
                self.descriptor.as_raw_fd(),
                std::ptr::from_ref(&address).cast(),
                size_of::<Address>() as u32,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Whether the driver reads and writes the memory for frames itself.
    pub(crate) fn is_zero_copy(&self) -> io::Result<bool> {
        Ok(self.value::<u32>(OPTIONS)? & IS_ZERO_COPY != 0)
    }

    pub(crate) fn statistics(&self) -> io::Result<RawStatistics> {
        self.value(STATISTICS)
    }

    /// Has the kernel look for frames to send.
    pub(crate) fn wake_sender(&self) -> io::Result<()> {
        // SAFETY: a call without a buffer and without an address.
        let result = unsafe {
            libc::sendto(
                self.descriptor.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Has the kernel look for buffers to fill.
    pub(crate) fn wake_receiver(&self) -> io::Result<()> {
        // SAFETY: a call without a buffer and without an address.
        let result = unsafe {
            libc::recvfrom(
                self.descriptor.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Map {
    /// Puts a socket at a place of a map of sockets.
    pub(crate) fn set_socket(&self, queue: u32, socket: &Socket) -> Result<(), XdpError> {
        assert_eq!(self.spec.kind, super::MapKind::Sockets);
        let (key, value) = ([queue], [socket.descriptor.as_raw_fd()]);
        let mut attributes = ElementAttributes {
            map: self.number() as u32,
            key: address(&key),
            value: address(&value),
            ..ElementAttributes::default()
        };
        // SAFETY: keys and values of such a map have 4 bytes each.
        unsafe { bpf(UPDATE, &mut attributes) }
            .map_err(failed("bpf(BPF_MAP_UPDATE_ELEM)", self.spec.name))?;
        Ok(())
    }
}

/// The memory of a ring: two counters, flags, and a power of two of places.
#[derive(Debug)]
pub(crate) struct RingMemory {
    mapping: Mapping,
    offsets: RingOffsets,
    entries: u32,
}

impl RingMemory {
    pub(crate) const fn entries(&self) -> u32 {
        self.entries
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        let offset = offset as usize;
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.mapping.bytes());
        // SAFETY: within the mapping and aligned, as is checked above; it lives as long as this borrow, and the kernel writes the word as a whole.
        unsafe {
            self.mapping
                .start()
                .add(offset)
                .cast::<AtomicU32>()
                .as_ref()
        }
    }

    /// Places that were written since it was made, modulo 2^32.
    pub(crate) fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    /// Places that were read since it was made, modulo 2^32.
    pub(crate) fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    /// Whether the kernel is to be called for it to look here.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    fn place<T: Plain>(&self, number: u32) -> *mut T {
        let index = (number & (self.entries - 1)) as usize;
        let offset = self.offsets.places as usize + index * size_of::<T>();
        assert!(offset.is_multiple_of(align_of::<T>()));
        assert!(offset + size_of::<T>() <= self.mapping.bytes());
        // SAFETY: within the mapping, as is checked above.
        unsafe { self.mapping.start().add(offset).cast().as_ptr() }
    }

    /// Reads the place of a number, which the other side does not write meanwhile.
    pub(crate) fn read<T: Plain>(&self, number: u32) -> T {
        // SAFETY: `place` is within the mapping and aligned, and a `Plain` may have any bytes.
        unsafe { self.place::<T>(number).read_volatile() }
    }

    /// Writes the place of a number, which the other side does not read meanwhile.
    pub(crate) fn write<T: Plain>(&self, number: u32, value: T) {
        // SAFETY: `place` is within the mapping and aligned; no reference into the places is ever made.
        unsafe { self.place::<T>(number).write_volatile(value) }
    }

    /// One that no kernel has, whose counters begin here.
    #[cfg(test)]
    pub(crate) fn alone(entries: u32, begin: u32, place_bytes: usize) -> Self {
        let memory = Self {
            mapping: Mapping::anonymous(256 + entries as usize * place_bytes).unwrap(),
            offsets: RingOffsets {
                producer: 0,
                consumer: 64,
                places: 256,
                flags: 128,
            },
            entries,
        };
        memory.producer().store(begin, Ordering::Relaxed);
        memory.consumer().store(begin, Ordering::Relaxed);
        memory
    }
}

const _: () = {
    assert!(size_of::<Offsets>() == 128 && offset_of!(Offsets, fill) == 64);
    assert!(size_of::<Region>() == 32 && size_of::<Address>() == 16);
    assert!(size_of::<RawStatistics>() == 48);
};
