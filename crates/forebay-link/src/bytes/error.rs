//! What can go wrong with a connection, by whose fault it is.

use std::io;

use forebay_fabric::{Blame, FabricError};
use forebay_sys::SysError;
use thiserror::Error;

/// Why a connection is over, or was never made.
#[derive(Debug, Error)]
pub enum ByteLinkError {
    /// Nobody listens there, or it cannot be reached.
    #[error("connecting to {address}: {source}")]
    Connect {
        /// Whereto.
        address: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The peer is gone without having ended its side, or the network between.
    #[error("the connection to {peer} is lost: {source}")]
    Lost {
        /// Who.
        peer: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The peer broke the rules of the link itself.
    #[error("{peer} broke the link: {what}")]
    Broken {
        /// Who.
        peer: String,
        /// What was wrong.
        what: &'static str,
    },
    /// The host has not what is needed: memory, descriptors.
    #[error(transparent)]
    Resource(#[from] SysError),
    /// More than a piece may have: the caller's mistake.
    #[error("{bytes} bytes at once; a piece has at most {most}")]
    TooLong {
        /// Bytes.
        bytes: usize,
        /// Most.
        most: usize,
    },
    /// The library, the provider, or what is at the other end of it.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

impl ByteLinkError {
    /// Whether it will be the same at every attempt: what is missing here, or wrong with an address, is no matter of time.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::TooLong { .. } => true,
            Self::Fabric(FabricError::Call { .. }) => false,
            Self::Fabric(error) => error.blame() != Blame::Peer,
            Self::Connect { .. } | Self::Lost { .. } | Self::Broken { .. } | Self::Resource(_) => {
                false
            }
        }
    }

    /// Its name in counters.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "not_connected",
            Self::Lost { .. } => "connection_lost",
            Self::Broken { .. } => "link_broken",
            Self::Resource(_) => "resource",
            Self::TooLong { .. } => "too_long",
            Self::Fabric(error) => error.reason(),
        }
    }
}

/// Why nobody can come in.
#[derive(Debug, Error)]
pub enum DoorError {
    /// The address cannot be had.
    #[error("listening on {address}: {source}{remedy}")]
    Listen {
        /// Where.
        address: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
        /// What to do, or nothing.
        remedy: &'static str,
    },
    /// Taking one in failed.
    #[error("taking a connection in on {address}: {source}")]
    Accept {
        /// Where.
        address: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The host has not what is needed.
    #[error(transparent)]
    Resource(#[from] SysError),
    /// The library, the provider, or what is at the other end of it.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}
