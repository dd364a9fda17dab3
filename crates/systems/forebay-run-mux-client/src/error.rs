//! What stops a client of the multiplexer before it begins.

use std::path::{Path, PathBuf};

use forebay_client::ClientError;
use forebay_run::error::RunError;
use forebay_sys::SysError;
use thiserror::Error;

/// Errors of a client of the multiplexer.
#[derive(Debug, Error)]
pub enum MuxClientError {
    /// It gets no place.
    #[error("the place {name} at {}: {source}", path.display())]
    Place {
        /// The place's name.
        name: String,
        /// The daemon's socket.
        path: PathBuf,
        /// Why not.
        source: Box<ClientError>,
    },
    /// The place has no address, and an IP stack needs one.
    #[error(
        "the place {name} has no IP address: give it one in the multiplexer's file (address = [\"192.0.2.1\"]), or use --raw"
    )]
    NoAddress {
        /// The place's name.
        name: String,
    },
    /// Only the echo needs no stack.
    #[error("{workload} needs the IP stack: --raw is for echo")]
    Raw {
        /// The workload.
        workload: &'static str,
    },
    /// Books, files.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The kernel refuses.
    #[error(transparent)]
    System(#[from] SysError),
}

impl MuxClientError {
    /// Of this place at the daemon's socket.
    pub(crate) fn of_place(name: &str, path: &Path, source: ClientError) -> Self {
        Self::Place {
            name: name.to_owned(),
            path: path.to_owned(),
            source: Box::new(source),
        }
    }
}
