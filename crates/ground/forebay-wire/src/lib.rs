//! Wire and file formats: checked views and plain representations, no I/O.
//!
//! One format is one file. Each has its field ranges as constants, a view over bytes that checks once,
//! a plain `Repr` that parses and emits, a one-line `Display`, and literal bytes in its tests. No parser here panics on any
//! input, and a refusal names its reason ([`Error`]), so that every bad message can be counted under it.
//!
//! | format | modules |
//! |---|---|
//! | HADES units, messages and sub-events | [`mod@unit`], [`hadtu`], [`subevent`] |
//! | HADES list-mode data files (HLD) | [`hld`], [`hld_name`], [`hld_scan`] |
//! | the stream to a remote mover | [`mover`] |
//! | blocks of a FELIX card: E-links, subchunks, chunks of its data generator, messages about triggers; packets to its E-links | [`felix`] |
//! | messaging: messages in a buffer, and the frames around buffers | [`netio3`], [`net`] |
//! | what two ends say while they connect, over libfabric and over shared memory, and references to memory there | [`mod@fabric`], [`shm`] |
//! | frames, IP packets and datagrams, as a capture holds them | [`packet`] |
//! | packets of generated load | [`load`] |
//! | flow records to a collector, and in files | [`ipfix`] |
//! | how long a block of a capture file is, and blocks with packets | [`pcapng`] |
//! | time-division UDP, and the heaps that it may carry | [`tdm`], [`mod@heap`] |
//!
//! ```
//! use forebay_wire::hadtu::{ByteOrder, MessageWriter, Queue};
//! use forebay_wire::subevent::SubEventRepr;
//!
//! let mut writer = MessageWriter::new(ByteOrder::Big);
//! let sub = SubEventRepr { id: 0x8000, trigger_word: 0x0000_0d42, ..SubEventRepr::default() };
//! writer.push(&sub, &7_u32.to_be_bytes())?;
//! let message = writer.finish();
//!
//! let queue = Queue::new_checked(message)?;
//! for sub in queue.sub_events() {
//!     let sub = sub?;
//!     assert_eq!((sub.id(), sub.trigger_word()), (0x8000, 0x0000_0d42));
//!     assert_eq!(sub.words().collect::<Vec<_>>(), [7]);
//! }
//! # Ok::<(), forebay_wire::Error>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod error;
pub mod fabric;
pub mod felix;
pub mod hadtu;
pub mod heap;
pub mod hld;
pub mod hld_name;
pub mod hld_scan;
pub mod ipfix;
pub mod load;
pub mod mover;
pub mod net;
pub mod netio3;
pub mod packet;
mod payload;
pub mod pcap;
pub mod pcapng;
mod scan_buffer;
mod scan_item;
pub mod shm;
pub mod subevent;
pub mod tdm;
pub mod unit;

pub use error::Error;
