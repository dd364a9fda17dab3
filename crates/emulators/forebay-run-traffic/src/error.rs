//! What stops emulated traffic.

use std::io;
use std::path::PathBuf;

use forebay_run::error::RunError;
use forebay_run::whole_file::BeginError;
use forebay_traffic::ProfileError;
use thiserror::Error;

/// Errors of emulated traffic.
#[derive(Debug, Error)]
pub enum TrafficError {
    /// The profile is not there.
    #[error("opening the profile {}: {source}", path.display())]
    Unopened {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The profile is none.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// An output cannot be begun.
    #[error(transparent)]
    Output(#[from] BeginError),
    /// An output cannot be written.
    #[error("writing {}: {source}", path.display())]
    Unwritten {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Books, the system.
    #[error(transparent)]
    Run(#[from] RunError),
}
