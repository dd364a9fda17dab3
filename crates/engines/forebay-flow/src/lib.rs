//! The engine of flow records: it is told the time and given frames, and gives records of flows; it reads no link and sends nothing.
//!
//! A [`Decoder`] makes a [`Packet`] of a captured frame, or says by a typed reason why there is none. A [`Table`] counts packets by their [`FlowKey`] in
//! memory that is made once, and ends flows by their time-outs, by TCP, or for want of room. Each flow that has ended is handed on as a [`FlowRecord`].
//! A [`filter::Filter`] may stand between both. Heavy flows may be counted elsewhere and come back exactly ([`offload`]).
//! The table keeps its books: what was taken is what the records had and what is held, in packets and octets.
//!
//! ```
//! use forebay_flow::{Config, DecodeConfig, Decoder, EndReason, Frame, LinkType, Table};
//!
//! let mut decoder = Decoder::new(&DecodeConfig::default())?;
//! let mut table = Table::new(&Config { flows: 1024, ..Config::default() })?;
//! let packet = [
//!     0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, // 10.0.0.1 to 10.0.0.2
//!     0xc3, 0x50, 0xc3, 0x51, 0, 10, 0, 0, b'h', b'i',
//! ];
//! let frame = Frame { time_ns: 1, link: Some(LinkType::RawIp), bytes: &packet, wire_bytes: 30 };
//! let packet = decoder.handle_frame(&frame).expect("a packet of UDP");
//! let mut records = Vec::new();
//! table.handle_packet(&packet, &mut |record| records.push(*record));
//! table.tick(31_000_000_000, &mut |record| records.push(*record));
//! assert_eq!((records[0].octets, records[0].end_reason), (30, EndReason::Idle));
//! assert_eq!(table.taken(), table.exported() + table.held());
//! # Ok::<(), forebay_flow::OutOfRange>(())
//! ```
#![forbid(unsafe_code)]

mod batch;
mod config;
mod decode;
pub mod filter;
mod index;
mod key;
pub mod offload;
pub mod plugins;
mod record;
mod table;
mod watch;

pub use batch::{Batch, PAYLOAD_BYTES_MAX};
pub use config::{Config, DecodeConfig, Eviction};
pub use decode::{Decoder, Frame, Packet, PacketDrop, Refused, Tunnel, TunnelKind};
pub use forebay_settings::OutOfRange;
pub use forebay_wire::packet::link::LinkType;
pub use key::FlowKey;
pub use record::{EndReason, FlowRecord, Volume};
pub use table::{Counts, Table};
pub use watch::{Watch, Way};
