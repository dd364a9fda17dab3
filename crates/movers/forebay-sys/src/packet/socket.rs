//! The socket of a ring: what it takes, how it shares with others, and what the kernel counts of it.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::filter::{addressed, limit};
use super::frame_ring::{FrameRing, Slot};
use super::interface::{Interface, InterfaceState};
use super::ring::{Block, Ring};
use crate::SysError;
use crate::socket::set_int;
use crate::wait;

/// Bytes in front of each frame that the kernel leaves free: a VLAN tag fits, which the kernel has taken out of the frame.
const HEADROOM_BYTES: i32 = 4;

/// What the kernel counted since it was last asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingStatistics {
    /// Packets that the filter let in: those in blocks, and those that found no room.
    pub packets: u32,
    /// Of these, the ones that found no room.
    pub drops: u32,
    /// How often the ring was full, and the kernel waited for a block.
    pub freezes: u32,
}

/// Sockets that share the packets of an interface, each flow in one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group(u16);

/// A ring that the kernel fills: of blocks ([`Ring`]), or of frames ([`FrameRing`]).
pub trait ReceiveRing: Sized {
    /// How large it is.
    type Size: Copy;
    /// The version of the kernel's rings (`PACKET_VERSION`).
    const VERSION: i32;

    /// Has the kernel give the socket a ring, and maps it.
    ///
    /// # Errors
    /// The size is none, or memory runs out.
    fn make(socket: BorrowedFd<'_>, size: Self::Size) -> Result<Self, SysError>;

    /// Whether something was handed over that is next.
    fn is_ready(&self) -> bool;

    /// Packets that are in the ring and were not given back, by what the kernel has written there. A ring of blocks has those of the block as well that is being filled.
    fn held(&self) -> u64;
}

/// A packet socket of one interface with its ring.
#[derive(Debug)]
pub struct PacketSocket<R = Ring> {
    // The ring is unmapped before the socket is closed.
    ring: R,
    fd: OwnedFd,
    interface: Interface,
    hardware_type: u16,
}

/// `PACKET_FANOUT_FLAG_IGNORE_OUTGOING` of `linux/if_packet.h`, since Linux 5.11.
const FANOUT_IGNORE_OUTGOING: u32 = 0x4000;

impl<R: ReceiveRing> PacketSocket<R> {
    /// Opens one that takes nothing yet. Of loopback, packets are taken as they come in alone, as each of them goes out, too.
    ///
    /// # Errors
    /// The interface is not there or down, the process may not (`CAP_NET_RAW`), the size is none, or memory runs out.
    pub fn open(interface: &str, size: R::Size) -> Result<Self, SysError> {
        Self::open_for(interface, size, libc::ETH_P_ALL as u16, "reading")
    }

    /// Opens one for packets of one type of Ethernet that come in, which takes nothing yet: it costs those of other types nothing. It may send frames as well.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_of(interface: &str, size: R::Size, ethertype: u16) -> Result<Self, SysError> {
        Self::open_for(interface, size, ethertype, "sending and reading")
    }

    fn open_for(
        interface: &str,
        size: R::Size,
        protocol: u16,
        doing: &str,
    ) -> Result<Self, SysError> {
        let fd = open_socket(interface, doing)?;
        let found = Interface::find(fd.as_fd(), interface)?;
        let option = |name: &'static str, number, value| {
            set_int(fd.as_fd(), libc::SOL_PACKET, number, value)
                .map_err(|error| SysError::new(name, interface, error))
        };
        option(
            "setsockopt(PACKET_VERSION)",
            libc::PACKET_VERSION,
            R::VERSION,
        )?;
        option(
            "setsockopt(PACKET_RESERVE)",
            libc::PACKET_RESERVE,
            HEADROOM_BYTES,
        )?;
        if found.is_loopback {
            option(
                "setsockopt(PACKET_IGNORE_OUTGOING)",
                libc::PACKET_IGNORE_OUTGOING,
                1,
            )?;
        }
        let ring = R::make(fd.as_fd(), size)?;
        limit(fd.as_fd(), 0)
            .map_err(|error| SysError::new("setsockopt(SO_ATTACH_FILTER)", interface, error))?;
        is_up(fd.as_fd(), &found)?;
        let hardware_type = bind(fd.as_fd(), found.index, protocol)
            .map_err(|error| SysError::new("bind", interface, error))?;
        Ok(Self {
            ring,
            fd,
            interface: found,
            hardware_type,
        })
    }

    /// The interface.
    #[must_use]
    pub const fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The kind of its frames (`ARPHRD_*`, `linux/if_arp.h`).
    #[must_use]
    pub const fn hardware_type(&self) -> u16 {
        self.hardware_type
    }

    /// Has the interface take all frames that it sees, as long as this socket is open.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn be_promiscuous(&self) -> Result<(), SysError> {
        be_promiscuous(self.fd.as_fd(), &self.interface)
    }

    /// Shares the interface's packets with the sockets of `group`, or begins one. Both directions of a flow, and all fragments of a packet,
    /// go to one socket (`PACKET_FANOUT_HASH`); one that is full loses its packets, and no other takes them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn join(&self, group: Option<Group>) -> Result<Group, SysError> {
        // The group takes the place of its sockets' own hooks, and does not ask them what they ignore.
        let ignored = if self.interface.is_loopback {
            FANOUT_IGNORE_OUTGOING
        } else {
            0
        };
        let kind = libc::PACKET_FANOUT_HASH | ignored;
        let wanted = match group {
            Some(Group(id)) => u32::from(id) | kind << 16,
            None => (kind | libc::PACKET_FANOUT_FLAG_UNIQUEID) << 16,
        };
        let failed = |call| move |error| SysError::new(call, &*self.interface.name, error);
        let fd = self.fd.as_fd();
        set_int(
            fd,
            libc::SOL_PACKET,
            libc::PACKET_FANOUT,
            wanted.cast_signed(),
        )
        .map_err(failed("setsockopt(PACKET_FANOUT)"))?;
        let is: i32 = read_plain(fd, libc::SOL_PACKET, libc::PACKET_FANOUT)
            .map_err(failed("getsockopt(PACKET_FANOUT)"))?;
        Ok(Group(is as u16))
    }

    /// Takes what comes in alone, and nothing that this host sends on the interface, whichever process sends it (`PACKET_IGNORE_OUTGOING`, Linux 4.20). Not for one that has
    /// joined a group.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ignore_outgoing(&self) -> Result<(), SysError> {
        let option = libc::PACKET_IGNORE_OUTGOING;
        set_int(self.fd.as_fd(), libc::SOL_PACKET, option, 1).map_err(|error| {
            let interface = &*self.interface.name;
            SysError::new("setsockopt(PACKET_IGNORE_OUTGOING)", interface, error)
        })
    }

    /// Takes packets from now on, of each at most the first `snap_bytes`; 0 takes none. Ones that are under way may still come by the limit before.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn accept(&self, snap_bytes: u32) -> Result<(), SysError> {
        limit(self.fd.as_fd(), snap_bytes).map_err(|error| {
            SysError::new("setsockopt(SO_ATTACH_FILTER)", &*self.interface.name, error)
        })
    }

    /// Takes frames of Ethernet from now on that are for the address of the interface and come from one station: from this one, or from any. None to a group, and none
    /// for others, which an interface may see as well.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn accept_addressed(&self, from: Option<[u8; 6]>) -> Result<(), SysError> {
        addressed(self.fd.as_fd(), from).map_err(|error| {
            SysError::new("setsockopt(SO_ATTACH_FILTER)", &*self.interface.name, error)
        })
    }

    /// Takes packets from now on as a program of the kernel says (`BPF_PROG_TYPE_SOCKET_FILTER`): its value is how many bytes of one come, 0 for none.
    ///
    /// # Errors
    /// It is no such program.
    pub fn accept_by(&self, program: BorrowedFd<'_>) -> Result<(), SysError> {
        let number = program.as_raw_fd();
        set_int(
            self.fd.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_BPF,
            number,
        )
        .map_err(|error| SysError::new("setsockopt(SO_ATTACH_BPF)", &*self.interface.name, error))
    }

    /// Takes nothing any more; what is under way has come when this returns. Blocks that are not full yet are handed over by their time-out.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn shut(&self) -> Result<(), SysError> {
        self.accept(0)?;
        wait::for_programs();
        Ok(())
    }

    /// Whether a block or a frame is there.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ring.is_ready()
    }

    /// Packets that are in the ring, all of which is looked at.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.ring.held()
    }

    /// What the kernel counted since this was last asked: it begins anew with each answer, so that nobody else may ask.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn statistics(&self) -> Result<RingStatistics, SysError> {
        // Rings of frames have the same without its last word, which stays 0.
        let said: libc::tpacket_stats_v3 =
            read_plain(self.fd.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS).map_err(
                |error| {
                    SysError::new(
                        "getsockopt(PACKET_STATISTICS)",
                        &*self.interface.name,
                        error,
                    )
                },
            )?;
        Ok(RingStatistics {
            packets: said.tp_packets,
            drops: said.tp_drops,
            freezes: said.tp_freeze_q_cnt,
        })
    }

    /// Takes the error that lies at the socket, as when its interface went down, so that it can be waited for again.
    pub fn clear_error(&self) {
        // What it is the state of the interface tells.
        let _ = rustix::net::sockopt::socket_error(&self.fd);
    }
}

impl PacketSocket<Ring> {
    /// The next block, if there is one.
    pub fn take(&mut self) -> Option<Block<'_>> {
        self.ring.take()
    }
}

impl PacketSocket<FrameRing> {
    /// The next frame, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<Slot<'_>> {
        self.ring.take()
    }

    /// Frames that wait to be taken.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.ring.waiting()
    }
}

/// Readable when a block or a frame is there, and in error when the interface went down.
impl<R> AsFd for PacketSocket<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opened without a protocol, it gets no packet before it is bound; `doing` is what the capability is told to be for.
pub(super) fn open_socket(interface: &str, doing: &str) -> Result<OwnedFd, SysError> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is handed over.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        let error = SysError::new(
            "socket(AF_PACKET)",
            interface,
            std::io::Error::last_os_error(),
        );
        return Err(match error.kind() {
            std::io::ErrorKind::PermissionDenied => error.with_remedy(format!(
                "{doing} packets of an interface needs the capability CAP_NET_RAW: be root, or `setcap cap_net_raw+ep` the program",
            )),
            _ => error,
        });
    }
    // SAFETY: the kernel has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds the socket to packets of a protocol, or with 0 to none, and tells the kind of the interface.
pub(super) fn bind(fd: BorrowedFd<'_>, index: u32, protocol: u16) -> std::io::Result<u16> {
    // SAFETY: `sockaddr_ll` is plain memory, of which all zeroes are a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index.cast_signed();
    let mut bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes of `address`, which is that large.
    let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), bytes) };
    if bound != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel writes at most `bytes` bytes to `address`, which is that large.
    let told =
        unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &raw mut bytes) };
    if told != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(address.sll_hatype)
}

/// Has an interface take all frames that it sees, as long as the packet socket is open.
pub(super) fn be_promiscuous(fd: BorrowedFd<'_>, interface: &Interface) -> Result<(), SysError> {
    let request = libc::packet_mreq {
        mr_ifindex: interface.index.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let option = libc::PACKET_ADD_MEMBERSHIP;
    set_plain(fd, libc::SOL_PACKET, option, &request).map_err(|error| {
        SysError::new("setsockopt(PACKET_ADD_MEMBERSHIP)", &*interface.name, error)
    })
}

/// An interface that is down is told at once: what begins now would wait for packets that do not come, or send none.
pub(super) fn is_up(fd: BorrowedFd<'_>, interface: &Interface) -> Result<(), SysError> {
    if interface.state(fd) == InterfaceState::Up {
        return Ok(());
    }
    let name = &*interface.name;
    let error = SysError::new("bind", name, rustix::io::Errno::NETDOWN);
    Err(error.with_remedy(format!("`ip link set {name} up`")))
}

/// Hands over a plain structure of the kernel's.
pub(super) fn set_plain<T: Copy>(
    fd: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &T,
) -> std::io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `value` has, which lives through the call.
    let answer = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if answer != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Numbers alone, of which any bits are a value.
trait Plain: Copy {}
impl Plain for i32 {}
impl Plain for libc::tpacket_stats_v3 {}

fn read_plain<T: Plain>(fd: BorrowedFd<'_>, level: i32, name: i32) -> std::io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to `value`, which is that large.
    let answer = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if answer != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: zeroed before, and any bits are a value of `T`.
    Ok(unsafe { value.assume_init() })
}
