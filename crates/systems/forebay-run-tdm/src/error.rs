//! What can stop a session, and whose fault it is.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_run::error::RunError;
use forebay_run::whole_file::BeginError;
use forebay_tdm::plan::PlanError;
use thiserror::Error;

/// Errors of time-division UDP.
#[derive(Debug, Error)]
pub enum TdmError {
    /// The host refuses something.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] forebay_sys::SysError),
    /// Configuration: no plan works.
    #[error("there is no plan: {0}")]
    Plan(#[from] PlanError),
    /// A file cannot be read or written.
    #[error("{what} {}: {source}", .path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Configuration: a file that cannot be begun.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// Configuration: a file that an option names cannot be read.
    #[error("{option} {}: {source}; {remedy}", .path.display())]
    Unread {
        /// Path of the file.
        path: PathBuf,
        /// What asked for it.
        option: &'static str,
        /// Why not.
        source: io::Error,
        /// What would be right.
        remedy: &'static str,
    },
    /// Messages cannot be received, or handed on.
    #[error("{what} {address}: {source}")]
    Messages {
        /// What was tried.
        what: &'static str,
        /// Where.
        address: String,
        /// Why not.
        source: Box<forebay_run_net::NetError>,
    },
    /// Configuration: no address of messages.
    #[error("{address} is no address of messages: {source}")]
    Address {
        /// What was given.
        address: String,
        /// Why it is none.
        source: forebay_run_net::AddressError,
    },
    /// Configuration: bytes have no boundaries, and messages have.
    #[error(
        "{name} sends bytes, and messages go to {address}: start it with --heaps and an address as --input, or write its bytes to a directory (--output DIR)"
    )]
    NoHeaps {
        /// The sender.
        name: String,
        /// Where messages should go.
        address: String,
    },
    /// Configuration: the key is too short.
    #[error("--key {}: the key has {bytes} bytes, at least {least} are needed; make one in a file of its own, `head -c 32 /dev/urandom > NEW-FILE`, and give it to receiver and senders", .path.display())]
    Key {
        /// Where it is.
        path: PathBuf,
        /// How long it is.
        bytes: usize,
        /// How long it must be.
        least: usize,
    },
    /// Configuration: other hosts come to it, and there is no key.
    #[error(
        "other hosts come to --bind {bind}, and without a key whoever does may send: give --key FILE to the receiver and to its senders (`head -c 32 /dev/urandom > FILE` makes one), or --no-key, if everybody there may"
    )]
    NoKey {
        /// Where it was to listen.
        bind: SocketAddr,
    },
    /// Configuration: a name that cannot be.
    #[error("the name {name:?} {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Configuration: one stream has one reader.
    #[error(
        "{senders} senders cannot be written to standard output: give a directory (--output DIR)"
    )]
    OneStream {
        /// Senders that are planned.
        senders: u16,
    },
}

impl TdmError {
    pub(super) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }
}

/// Reads the key that a file holds.
///
/// # Errors
/// It cannot be read, or is too short.
pub fn read_key(path: &std::path::Path) -> Result<forebay_tdm::key::Key, TdmError> {
    let bytes = std::fs::read(path).map_err(|source| TdmError::Unread {
        path: path.to_path_buf(),
        option: "--key",
        source,
        remedy: "give a file that can be read, the same at receiver and senders; `head -c 32 /dev/urandom > FILE` makes one",
    })?;
    // A line's end that an editor added is none of it.
    let key = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    forebay_tdm::key::Key::new(key).ok_or_else(|| TdmError::Key {
        path: path.to_path_buf(),
        bytes: key.len(),
        least: forebay_tdm::key::KEY_BYTES_MIN,
    })
}
