//! Packets of a live interface, from rings that the kernel fills; and frames onto one.
//!
//! ```text
//! interface ─▶ kernel: share by flow ─▶ ring of port 0 ─▶ blocks ─▶ frames
//!                                    ─▶ ring of port 1 ─▶ …
//! ```
//!
//! [`PacketPort::open`] makes as many ports as shall read, each for a thread of its own. Frames lie in the ring and are valid until their
//! block is given back: nothing is copied, but the 12 bytes of both addresses where the kernel had taken a VLAN tag out of a frame, which is put
//! back. A [`FramePort`] is one whose frames do not wait for a block: for those that answer. What the kernel counted, and lost for want of room, is in [`PacketPort::kernel_counts`].
//!
//! Packets are what the kernel hands to such sockets: with GRO or LRO switched on at the interface, several that came on the wire may be one here. Both
//! directions of an interface are seen; of loopback the one that comes in alone, as all of its packets are in both.
//!
//! A [`SendPort`] sends frames, and says of each whether the kernel took it.

mod block;
mod frame;
mod place;
mod port;
mod send;

pub use block::{Frames, RingError};
pub use forebay_sys::packet::{FrameRingSize, InterfaceState, RingSize};
pub use frame::Frame;
pub use place::PlaceError;
pub use port::{
    Event, FramePort, KernelCounts, PacketError, PacketPort, Port, PortBlock, PortFrame,
    PortOptions,
};
pub use send::{BATCH_FRAMES_MAX, FrameBatch, Refusal, SendPort, SentFrames, Stopped};
