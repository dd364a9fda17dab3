//! Movers of bytes: UDP sockets, captures and their emulated twin; connections that carry bytes in order.
//!
//! A receiver stage is written once, over [`DatagramSource`]: in the field it reads [`udp::UdpPort`]s, in tests
//! [`emulated::EmulatedPort`]s, which lose, repeat, reorder and damage by a seed and in virtual time. Both fill the
//! same [`RecvBatch`], whose headers lie in shared memory and outlive a killed receiver. Captured traffic comes from
//! [`pcap::Capture`], and that of a live interface from [`packet::PacketPort`].
//!
//! This crate moves and counts; it does not look into payloads and decides nothing.
//!
//! ```
//! use forebay_link::{Ancillary, BatchTag, DatagramSource, RecvBatch};
//! use forebay_link::emulated::{Config, EmulatedPort};
//!
//! let mut port = EmulatedPort::new(Config::default()).unwrap();
//! let mut batch = RecvBatch::private(8, Ancillary::default()).unwrap();
//! port.offer(1_000, b"sub-events");
//! port.advance(2_000);
//! assert_eq!(port.receive_scratch(&mut batch, 8, BatchTag::default()).unwrap(), 1);
//! assert_eq!(batch.payload(0), b"sub-events");
//! ```
#![forbid(unsafe_code)]

pub mod bytes;
pub mod collector;
pub mod emulated;
mod error;
pub mod gather;
pub mod packet;
pub mod pcap;
mod source;
pub mod udp;

pub use error::{ConfigError, LinkError};
pub use forebay_sys::socket::{DropCounter, Shortfall};
pub use forebay_sys::udp_batch::{
    Adopted, Ancillary, BatchMode, BatchTag, Datagram, RecvBatch, SLOT_CAPACITY_BYTES, Totals,
    arena_bytes,
};
pub use source::{BufferFill, DatagramSource, Drops};
