//! Watchers, which are shown what passes.

use std::io;

use forebay_readout::{BlockError, Status};
use forebay_wire::felix::{BlockHead, Elink, Subchunk};

/// A block, as it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its first byte in the file.
    pub offset: u64,
    /// Its head, of which nothing is true when the marker is wrong.
    pub head: BlockHead,
    /// Its subchunks, and where their data is in it; none when it is damaged.
    pub subchunks: &'a [(usize, Subchunk)],
    /// What is wrong with it as a whole.
    pub error: Option<BlockError>,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A watcher, which is shown what passes.
pub trait Watch {
    /// Whether blocks are still to be shown; of the E-links that were asked for alone.
    fn wants_blocks(&self) -> bool {
        false
    }

    /// A block.
    ///
    /// # Errors
    /// It cannot go on: the check ends.
    fn block(&mut self, _seen: &Seen<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Whether chunks are still to be shown.
    fn wants_chunks(&self) -> bool {
        false
    }

    /// A chunk of the block at `offset`, or that ended there.
    ///
    /// # Errors
    /// It cannot go on: the check ends.
    fn chunk(&mut self, _offset: u64, _elink: Elink, _is: Status, _chunk: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// So many bytes were read in all, which is told about every MiB.
    fn read(&mut self, _bytes: u64) {}
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Watch for Quiet {}
