//! What can go wrong with a link, by whose fault it is.

use std::io;
use std::net::SocketAddr;

use forebay_sys::SysError;

/// A setting outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} = {value} is outside {range}")]
pub struct ConfigError {
    /// The setting, as its field is called.
    pub field: &'static str,
    /// What it was.
    pub value: u64,
    /// What it may be.
    pub range: &'static str,
}

impl ConfigError {
    pub(crate) fn check(
        field: &'static str,
        value: u64,
        allowed: std::ops::RangeInclusive<u64>,
        range: &'static str,
    ) -> Result<(), Self> {
        if allowed.contains(&value) {
            Ok(())
        } else {
            Err(Self {
                field,
                value,
                range,
            })
        }
    }
}

/// Why a link does not work.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The configuration is at fault.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The host refused something: an address in use, a limit, a missing privilege.
    #[error(transparent)]
    Resource(#[from] SysError),
    /// Receiving failed on a socket that worked before.
    #[error("receiving on {address}: {source}")]
    Receive {
        /// Where the socket listens.
        address: SocketAddr,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}
