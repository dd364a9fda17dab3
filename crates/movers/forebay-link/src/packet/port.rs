//! A port: the ring of one thread, with what the kernel counted for it.
//!
//! A [`PacketPort`] has blocks of frames, each of which comes when it is full or its time is over: the least work for a frame. A [`FramePort`] has each frame at once.

use std::os::fd::{AsFd, BorrowedFd};

use forebay_sys::SysError;
use forebay_sys::packet::{
    Block, FrameRing, FrameRingSize, InterfaceState, PacketSocket, ReceiveRing, Ring, RingSize,
    Slot,
};
use forebay_sys::wait;
use thiserror::Error;

use super::block::Frames;
use super::frame::Frame;
use super::place::{self, PlaceError};

/// Kinds of interfaces that are read (`linux/if_arp.h`), and the link types of their frames (tcpdump.org/linktypes.html): 1 is Ethernet, 101 an IP packet without anything in front.
const KINDS: [(u16, i32); 4] = [(1, 1), (772, 1), (519, 101), (65_534, 101)];
const ETHERNET: i32 = 1;

/// How ports are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortOptions {
    /// So many ports share the packets of the interface, each flow in one of them, 1 at least.
    pub queues: u16,
    /// The ring of each.
    pub ring: RingSize,
    /// Of each packet at most so many first bytes are taken, 1 at least.
    pub snap_bytes: u32,
    /// The interface shall take frames that are not for it, too.
    pub promiscuous: bool,
}

/// What the kernel counted for a port since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Packets that came for it: those in blocks, and those that were lost for want of room.
    pub packets: u64,
    /// Packets that were lost as the ring was full.
    pub drops: u64,
    /// How often it was full.
    pub freezes: u64,
}

/// Why a port does not go on.
#[derive(Debug, Error)]
pub enum PacketError {
    /// The kernel refuses something.
    #[error(transparent)]
    System(#[from] SysError),
    /// Frames of such an interface are not read.
    #[error(
        "{interface} is of kind {kind} (ARPHRD_*); Ethernet, loopback and tunnels of bare IP (1, 772, 519, 65534) are read"
    )]
    Kind {
        /// Its name.
        interface: String,
        /// What it is.
        kind: u16,
    },
    /// Frames cannot be sent on such an interface.
    #[error(
        "{interface} is of kind {kind} (ARPHRD_*); frames are sent on Ethernet and loopback (1, 772)"
    )]
    NotEthernet {
        /// Its name.
        interface: String,
        /// What it is.
        kind: u16,
    },
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A block, or a frame of a [`FramePort`], is there.
    Block,
    /// The time is over, or the other descriptor is ready.
    Quiet,
    /// The interface is down: packets come again when it is up.
    Down,
    /// The interface is there no more, and none of its packets comes again.
    Gone,
}

/// A port whose frames come in blocks.
pub type PacketPort = Port<Ring>;
/// A port whose frames come each for itself, at once.
pub type FramePort = Port<FrameRing>;

/// A ring of packets of an interface.
#[derive(Debug)]
pub struct Port<R> {
    socket: PacketSocket<R>,
    link_type: i32,
    counts: KernelCounts,
    is_down: bool,
}

impl Port<Ring> {
    /// Opens ports that share the packets of an interface. No packet is in two of them.
    ///
    /// # Errors
    /// The interface is not there, is down, or of a kind that is not read; the process may not (`CAP_NET_RAW`); memory runs out.
    pub fn open(interface: &str, options: &PortOptions) -> Result<Vec<Self>, PacketError> {
        let ports = Self::open_shut(interface, options)?;
        for Self { socket, .. } in &ports {
            socket.accept(options.snap_bytes.max(1))?;
        }
        Ok(ports)
    }

    /// The same, of which none takes a packet before [`accept_by`](Self::accept_by).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_shut(interface: &str, options: &PortOptions) -> Result<Vec<Self>, PacketError> {
        let ports = (0..options.queues.max(1)).map(|_| Self::shut(interface, options.ring));
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        if ports.len() > 1 {
            let mut group = None;
            for port in &ports {
                group = Some(port.socket.join(group)?);
            }
        }
        for Self { socket, .. } in &ports {
            if options.promiscuous {
                socket.be_promiscuous()?;
            }
        }
        Ok(ports)
    }

    /// The next block, if one is there.
    pub fn take(&mut self) -> Option<PortBlock<'_>> {
        let has_tags = self.link_type == ETHERNET;
        let block = self.socket.take()?;
        Some(PortBlock { block, has_tags })
    }
}

impl Port<FrameRing> {
    /// Opens one that has all packets of an interface, and takes none before [`accept`](Self::accept).
    ///
    /// # Errors
    /// As [`PacketPort::open`].
    pub fn open_shut(interface: &str, ring: FrameRingSize) -> Result<Self, PacketError> {
        Self::shut(interface, ring)
    }

    /// Opens one that has the frames of one type of Ethernet that come in, and takes none before [`accept_addressed`](Self::accept_addressed). Its descriptor sends
    /// frames as well.
    ///
    /// # Errors
    /// As [`PacketPort::open`].
    pub fn open_of(
        interface: &str,
        ring: FrameRingSize,
        ethertype: u16,
    ) -> Result<Self, PacketError> {
        Self::over(PacketSocket::open_of(interface, ring, ethertype)?)
    }

    /// Takes frames from now on that are for the address of the interface and come from one station: from this one, or from any.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn accept_addressed(&self, from: Option<[u8; 6]>) -> Result<(), SysError> {
        self.socket.accept_addressed(from)
    }

    /// The next frame, if one is there.
    #[inline]
    pub fn take(&mut self) -> Option<PortFrame<'_>> {
        let has_tags = self.link_type == ETHERNET;
        let slot = self.socket.take()?;
        Some(PortFrame { slot, has_tags })
    }

    /// Frames that wait to be taken, from the next one on: less work than [`held`](Self::held), and the same while none is lost.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.socket.waiting()
    }
}

impl<R: ReceiveRing> Port<R> {
    /// Takes what comes in alone, and nothing that this host sends on the interface: for a single port, before it takes its first packet.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ignore_outgoing(&self) -> Result<(), SysError> {
        self.socket.ignore_outgoing()
    }

    /// Takes packets from now on, of each at most the first `snap_bytes`; 0 takes none.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn accept(&self, snap_bytes: u32) -> Result<(), SysError> {
        self.socket.accept(snap_bytes)
    }

    /// How its interface is now. What woke a wait without a block is taken from the socket, so that it can be waited for again.
    pub fn state(&mut self) -> InterfaceState {
        self.socket.clear_error();
        self.socket.interface().state(&self.socket)
    }

    /// Takes packets from now on as a socket filter of the kernel says, given by its descriptor: its value is how many bytes of one come, 0 for none. What it keeps back
    /// is in no [`KernelCounts`].
    ///
    /// # Errors
    /// It is no such program.
    pub fn accept_by(&self, program: BorrowedFd<'_>) -> Result<(), SysError> {
        self.socket.accept_by(program)
    }

    /// One that takes nothing yet.
    fn shut(interface: &str, ring: R::Size) -> Result<Self, PacketError> {
        Self::over(PacketSocket::open(interface, ring)?)
    }

    fn over(socket: PacketSocket<R>) -> Result<Self, PacketError> {
        let kind = socket.hardware_type();
        let known = KINDS.iter().find(|(known, _)| *known == kind);
        let &(_, link_type) = known.ok_or_else(|| PacketError::Kind {
            interface: socket.interface().name.clone(),
            kind,
        })?;
        Ok(Self {
            socket,
            link_type,
            counts: KernelCounts::default(),
            is_down: false,
        })
    }

    /// The link type of its frames.
    #[must_use]
    pub const fn link_type(&self) -> i32 {
        self.link_type
    }

    /// What its interface was called when it was opened.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.socket.interface().name
    }

    /// Whether a block or a frame is there.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.socket.is_ready()
    }

    /// Waits for a block or a frame, for `other`, or until `until_ns` of the monotonic clock. An interface that is down is told at the end of each wait.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait(&mut self, other: BorrowedFd<'_>, until_ns: u64) -> Result<Event, SysError> {
        if self.socket.is_ready() {
            return Ok(Event::Block);
        }
        let woken = wait::sleep_until_or([self.socket.as_fd(), other], until_ns, 0)?;
        if self.socket.is_ready() {
            return Ok(Event::Block);
        }
        if woken == (wait::Woken::Ready { index: 0 }) {
            // Without a block the socket wakes by an error alone, which would wake it again.
            self.socket.clear_error();
            self.is_down = true;
        }
        if !self.is_down {
            return Ok(Event::Quiet);
        }
        Ok(match self.socket.interface().state(&self.socket) {
            InterfaceState::Gone => Event::Gone,
            InterfaceState::Down => Event::Down,
            InterfaceState::Up => {
                self.is_down = false;
                Event::Quiet
            }
        })
    }

    /// Packets that are in the ring, by the heads of all of its blocks or frames: the kernel counts up while it fills a block.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.socket.held()
    }

    /// Asks the kernel for its counts, which has to be done before one of them is 2^32 more.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn kernel_counts(&mut self) -> Result<KernelCounts, SysError> {
        let new = self.socket.statistics()?;
        self.counts.packets += u64::from(new.packets);
        self.counts.drops += u64::from(new.drops);
        self.counts.freezes += u64::from(new.freezes);
        Ok(self.counts)
    }

    /// Takes no more packets; those that came before are in the ring, the last block of them when its time-out is over.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn close(&self) -> Result<(), SysError> {
        self.socket.shut()
    }
}

/// Readable when a block or a frame is there, and in error when the interface went down.
impl<R> AsFd for Port<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A block of frames, which is given back to the kernel when it is dropped.
#[derive(Debug)]
pub struct PortBlock<'a> {
    block: Block<'a>,
    has_tags: bool,
}

impl PortBlock<'_> {
    /// Its frames, once: tags that were put back are not put back again.
    pub fn frames(&mut self) -> Frames<'_> {
        let has_tags = std::mem::take(&mut self.has_tags);
        Frames::new(&mut self.block, has_tags)
    }
}

/// A frame in its place, which is given back to the kernel when it is dropped.
#[derive(Debug)]
pub struct PortFrame<'a> {
    slot: Slot<'a>,
    has_tags: bool,
}

impl PortFrame<'_> {
    /// The frame, once: a tag that was put back is not put back again.
    ///
    /// # Errors
    /// Its head contradicts itself.
    #[inline]
    pub fn frame(&mut self) -> Result<Frame<'_>, PlaceError> {
        let has_tags = std::mem::take(&mut self.has_tags);
        place::read(&mut self.slot, has_tags)
    }
}
