//! What is checked, and why it could not be.

use std::io;

use forebay_readout::payload::Payload;
use forebay_readout::{Config, OutOfRange};
use forebay_wire::felix::{BlockFormat, Elink};
use thiserror::Error;

/// What is checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Format of the blocks; told by the first one when there is none.
    pub blocks: Option<BlockFormat>,
    /// Words stand in front of their data: the variant of this project alone.
    pub has_headers: bool,
    /// What chunks are held against.
    pub payload: Payload,
    /// Longest chunk that is joined of several blocks, in bytes.
    pub chunk_bytes_max: usize,
    /// E-links that are told of; all when there are none.
    pub elinks: Vec<Elink>,
    /// So many errors are kept with their places. Default 20.
    pub findings_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            blocks: None,
            has_headers: false,
            payload: Payload::Auto,
            chunk_bytes_max: Config::default().chunk_bytes_max,
            elinks: Vec::new(),
            findings_max: 20,
        }
    }
}

/// Why there is no report.
#[derive(Debug, Error)]
pub enum CheckError {
    /// It cannot be read.
    #[error("after {offset} bytes: {error}")]
    Read {
        /// Bytes read before.
        offset: u64,
        /// Why.
        error: io::Error,
    },
    /// The watcher cannot go on.
    #[error(transparent)]
    Watch(io::Error),
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// Nothing in its beginning looks like a block, or nothing in it is a block of the format that was given.
    #[error("no block of a FELIX card in {searched}; {remedy}")]
    NoBlock {
        /// Where it was looked for.
        searched: String,
        /// What can be done.
        remedy: &'static str,
    },
    /// A setting outside its range.
    #[error(transparent)]
    Config(#[from] OutOfRange),
}
