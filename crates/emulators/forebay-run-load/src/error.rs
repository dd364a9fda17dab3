//! What stops generated load before it begins.

use std::io;
use std::net::SocketAddr;

use forebay_load::ConfigError;
use forebay_run::error::RunError;
use thiserror::Error;

/// Errors of generated load, and of the echo.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Such load cannot be made.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nobody can listen there.
    #[error("listening on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Books, the system.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] forebay_sys::SysError),
}
