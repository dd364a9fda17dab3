//! Why a driver does not go on.

use forebay_link::packet::PacketError;
use forebay_sys::SysError;

/// Why a driver cannot be opened, or does not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The kernel refuses something.
    #[error(transparent)]
    System(#[from] SysError),
    /// The interface is none that a packet socket reads or sends on.
    #[error(transparent)]
    Packet(#[from] PacketError),
}
