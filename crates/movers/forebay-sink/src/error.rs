//! Why a sink cannot start.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Errors of a sink's start. Later on a sink loses events by name, and goes on.
#[derive(Debug, Error)]
pub enum SinkError {
    /// The ledger is not this run's.
    #[error("ledger: {0}")]
    Ledger(#[from] forebay_ledger::LedgerError),
    /// The queue's memory or peer is wrong.
    #[error("ring: {0}")]
    Ring(#[from] forebay_ring::RingError),
    /// Files there cannot be written past the page cache, and nothing else was asked for.
    #[error("io = \"direct\": the file system of {} does not write past the page cache; remedy: io = \"buffered\", or another directory", directory.display())]
    NotDirect {
        /// Where they are to be.
        directory: PathBuf,
    },
    /// The directory of the files cannot be made.
    #[error(
        "directory = {path:?} of a sink: it cannot be made: {source}; remedy: another directory ([[sinks]], or --out), or the right to write there"
    )]
    Directory {
        /// Where files are to be.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A file or a thread cannot be made, or a file cannot be gone on with.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

impl SinkError {
    /// Makes an error of the directory.
    pub(crate) fn directory(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Directory { path, source }
    }

    /// Makes a file error.
    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }
}
