//! What can stop link readout.

use forebay_run::error::RunError;
use forebay_run_net::NetError;
use thiserror::Error;

use crate::device::DeviceError;

/// Errors of link readout.
#[derive(Debug, Error)]
pub enum ReadoutError {
    /// The card.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The n-th of several addresses.
    #[error(transparent)]
    Address(#[from] forebay_link::bytes::AddressError),
    /// A DMA buffer.
    #[error("DMA buffer: {0}")]
    Ring(#[from] forebay_ring::RingError),
    /// A setting of the decoder.
    #[error("decoder: {0}")]
    Decoder(#[from] forebay_readout::OutOfRange),
    /// Publishing.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Books, files, the system.
    #[error(transparent)]
    Run(#[from] RunError),
}
