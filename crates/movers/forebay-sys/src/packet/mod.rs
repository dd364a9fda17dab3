//! Packet sockets with a ring that the kernel fills (packet(7), `packet_mmap.rst` of the kernel's documentation): of blocks, which are handed over when they are full or
//! their time is over (`TPACKET_V3`), or of frames, each of which is handed over at once (`TPACKET_V2`).
//!
//! A [`PacketSocket`] begins closed: its filter takes nothing until [`PacketSocket::accept`]. So several sockets of one interface can
//! [`join`](PacketSocket::join) a group that shares its packets by flow before any of them has seen a packet twice.
//!
//! A [`FrameSocket`] sends frames, and takes none; a [`RingSocket`] is one that shares memory with the kernel for them.

mod filter;
mod frame_ring;
mod interface;
mod ring;
mod send;
mod socket;
mod transmit_ring;

pub use frame_ring::{FrameRing, FrameRingSize, Slot};
pub use interface::{Interface, InterfaceState};
pub use ring::{Block, Ring, RingSize};
pub use send::{FrameSocket, RingSocket};
pub use socket::{Group, PacketSocket, ReceiveRing, RingStatistics};
