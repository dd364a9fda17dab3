//! The engine of link readout: it is given the blocks that a card has written into a DMA buffer, and gives the chunks of their E-links.
//!
//! A chunk within one block is given where it lies; one that goes over several blocks is joined, and what that copies is counted. Whatever is damaged closes
//! the chunk that it concerns, which is given with a [`Status`] that says so, and is counted under its name; other E-links and later chunks do not feel it.
//!
//! What stands in chunks is held against the data generator and the trigger system ([`payload`], [`numbers`]); trigger numbers are made whole ([`unwrap`]), and
//! the chunks of one trigger are joined ([`fragments`]).
//!
//! ```
//! use forebay_readout::{Config, Decoder, Payload};
//! use forebay_wire::felix::{BlockFormat, BlockWriter, Elink, Flags};
//!
//! let format = BlockFormat::PHASE1;
//! let mut memory = [0; 1024];
//! let mut block = BlockWriter::begin(format, Elink::of_link(3).unwrap(), 0, &mut memory).unwrap();
//! block.push(b"a chunk", 0, Flags::NONE);
//! block.close();
//!
//! let mut decoder = Decoder::new(format, &Config::default())?;
//! decoder.handle_block(memory.as_slice())?;
//! let mut chunks = Vec::new();
//! let is_done = decoder.poll(memory.as_slice(), |chunk| {
//!     assert_eq!(chunk.elink.link(), 3);
//!     if let Payload::Within(bytes) = chunk.payload {
//!         chunks.push(bytes.to_vec());
//!     }
//!     true
//! });
//! assert!(is_done);
//! assert_eq!(chunks, [b"a chunk"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod account;
mod bytes;
mod config;
mod decoder;
mod error;
pub mod fragments;
pub mod numbers;
pub mod payload;
mod status;
pub mod unwrap;
pub mod validate;
mod walk;

pub use account::{Account, BlockDrop, Damage, LinkAccount, PieceDrop};
pub use bytes::Bytes;
pub use config::Config;
pub use decoder::{Chunk, Decoder, Payload};
pub use error::BlockError;
pub use forebay_settings::OutOfRange;
pub use status::Status;
pub use walk::FETCHED_BLOCKS;
