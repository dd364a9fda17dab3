//! Blocks of a FELIX card, and what stands in them.
//!
//! A block has one size, belongs to one E-link and is tiled by subchunks. Each subchunk has a word, its *trailer*, that says how long it is and which
//! part of a chunk; a chunk that does not fit goes on in the next block of its E-link.
//!
//! ```text
//! block     u16 E-link and sequence number | u16 marker | subchunks up to the last byte        (little-endian)
//! subchunk  data | zeros up to the size of a trailer | trailer
//! trailer   31..29 kind  28 truncated  27 error  26 CRC error  25 busy  15..0 bytes of data    (32 bits)
//!           15..13 kind  12 truncated  11 error  10 CRC error            9..0 bytes of data    (16 bits)
//! ```
//!
//! Since the trailer follows its data, a block is read from its end. Sources: `flxdefs.h`, `FlxTrailerFormat.h`, `FlxParser.cpp` and `fcheck.cpp` of ftools
//! (Apache-2.0), which accept what [`BlockWriter`] writes.
//!
//! [`Layout::Headers32`] is a variant of this project alone: the same 32-bit word stands in front of its data, and a block is read from its beginning. Newer
//! firmware has subchunk headers too, but their layout is not public: this is not it.
//!
//! In the other direction messages to E-links go in packets of 32 bytes: [`PacketWriter`] makes them, [`FromHostDecoder`] reads them.

mod block;
pub mod board;
mod elink;
mod from_host;
mod generated;
mod l1id;
mod subchunk;
mod ttc;
mod writer;

pub use block::{BLOCK_BYTES_MAX, BLOCK_HEAD_BYTES, BlockFormat, BlockFormatError, BlockHead};
pub use elink::{DMA_BUFFERS_MAX, ELINKS, Elink, Fid};
pub use from_host::{
    FromHostAccount, FromHostDecoder, FromHostLoss, FromHostLost, OddLength, PACKET_BYTES,
    PACKET_PAYLOAD_BYTES, PacketFormat, PacketHead, PacketWriter, Pieces, Taken, packets_of,
};
pub use generated::{GENERATED_HEAD_BYTES, Generated, GeneratedError};
pub use l1id::L1idField;
pub use subchunk::{Flags, Kind, Layout, Subchunk};
pub use ttc::{TTC_MESSAGE_BYTES, TtcError, TtcMessage};
pub use writer::BlockWriter;
