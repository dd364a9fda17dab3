//! Packet sockets with a ring of blocks that the kernel fills (`TPACKET_V3`, packet(7), `packet_mmap.rst` of the kernel's documentation).
//!
//! A [`PacketSocket`] begins closed: its filter takes nothing until [`PacketSocket::accept`]. So several sockets of one interface can
//! [`join`](PacketSocket::join) a group that shares its packets by flow before any of them has seen a packet twice.
//!
//! A [`FrameSocket`] sends frames, and takes none.

mod interface;
mod ring;
mod send;
mod socket;

pub use interface::{Interface, InterfaceState};
pub use ring::{Block, Ring, RingSize};
pub use send::FrameSocket;
pub use socket::{Group, PacketSocket, RingStatistics};
