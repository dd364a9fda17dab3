//! What can stop an emulated card, and a chain that begins with one.

use forebay_emu::card::CardConfigError;
use forebay_emu::card::board::BoardError;
use thiserror::Error;

use forebay_run::error::RunError;
use forebay_run_felix::device::DeviceError;

/// Errors of emulated cards.
#[derive(Debug, Error)]
pub enum EmuError {
    /// Its door.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What a card shall be.
    #[error("card: {0}")]
    Card(#[from] CardConfigError),
    /// A file to replay.
    #[error(
        "{}: no block begins in its first MiB; is it a file of raw blocks? See what `forebay fcheck` says of it",
        path.display()
    )]
    NoBlocks {
        /// Path of the file.
        path: std::path::PathBuf,
    },
    /// What is to be replayed is no file.
    #[error(
        "{} is {what}, and a replay goes through its file twice and more: save the blocks in a file, and name that",
        path.display()
    )]
    NoFile {
        /// Path of the file.
        path: std::path::PathBuf,
        /// What it is instead.
        what: &'static str,
    },
    /// An address at which nobody could be found.
    #[error(
        "{address}: the parts of a chain have to know each other's ports; name one, as in tcp://127.0.0.1:7200"
    )]
    AnyPort {
        /// What was given.
        address: String,
    },
    /// What is broken in a board that there is not.
    #[error("board: {0}")]
    Board(#[from] BoardError),
    /// The n-th of several addresses.
    #[error(transparent)]
    Address(#[from] forebay_link::bytes::AddressError),
    /// A DMA buffer.
    #[error("DMA buffer: {0}")]
    Ring(#[from] forebay_ring::RingError),
    /// A setting of the decoder.
    #[error("decoder: {0}")]
    Decoder(#[from] forebay_readout::OutOfRange),
    /// The file of a chain.
    #[error(transparent)]
    File(#[from] forebay_config::ConfigError),
    /// Books, files, the system.
    #[error(transparent)]
    Run(#[from] RunError),
}
