//! A socket that others connect to, and its file, which goes with it.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use forebay_sys::SysError;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::seqpacket::{SeqListener, SeqSocket};

use crate::error::MuxError;

/// So long nobody is taken in when descriptors have run out.
const SHUT_NS: u64 = 50_000_000;

/// A socket that others connect to.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: SeqListener,
    path: PathBuf,
    /// The socket's file: what another process puts in its place is left alone.
    file: Option<FileId>,
    /// The socket, and connections that are waited for.
    waits: Poller,
    /// The kernel could take nobody in: the socket is not waited for until then, as connections that wait there would wake the daemon without end.
    shut_until_ns: Option<u64>,
}

impl Listener {
    /// Listens, with so many connections that may wait, and with these permissions of its file. The file of a process that is dead is removed.
    pub(crate) fn open(path: &Path, backlog: u16, mode: u32) -> Result<Self, MuxError> {
        let socket = match SeqListener::bind(path, backlog) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                clear(path)?;
                SeqListener::bind(path, backlog)?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(error
                    .with_remedy("its directory is not there: make it, or name another path (keys mux.socket and mux.control)")
                    .into());
            }
            bound => bound?,
        };
        let waits = Poller::create(1)?;
        waits.add(&socket, 0, Interest::Readable, Trigger::Level)?;
        let listener = Self {
            socket,
            path: path.into(),
            file: FileId::of(path),
            waits,
            shut_until_ns: None,
        };
        fs::set_permissions(path, Permissions::from_mode(mode))
            .map_err(|error| refused(path, "chmod", error))?;
        Ok(listener)
    }

    /// The next connection, if one waits and some are taken in now.
    ///
    /// # Errors
    /// The kernel takes nobody in: none is taken in for a while.
    pub(crate) fn accept(&mut self, now_ns: u64) -> Result<Option<SeqSocket>, SysError> {
        if self.shut_until_ns.is_some() {
            return Ok(None);
        }
        let accepted = self.socket.accept();
        if accepted.is_err() && self.waits.remove(&self.socket).is_ok() {
            self.shut_until_ns = Some(now_ns + SHUT_NS);
        }
        accepted
    }

    /// Takes in again, if it is time.
    pub(crate) fn open_again(&mut self, now_ns: u64) {
        if self.shut_until_ns.is_none_or(|until_ns| now_ns < until_ns) {
            return;
        }
        let (interest, trigger) = (Interest::Readable, Trigger::Level);
        let added = self.waits.add(&self.socket, 0, interest, trigger);
        self.shut_until_ns = added.err().map(|_| now_ns + SHUT_NS);
    }

    /// When it takes in again, if it does not now.
    pub(crate) const fn shut_until_ns(&self) -> Option<u64> {
        self.shut_until_ns
    }

    /// Waits for this connection, too.
    pub(crate) fn wait_for(&self, connection: &SeqSocket) -> Result<(), SysError> {
        self.waits
            .add(connection, 0, Interest::Readable, Trigger::Level)
    }

    /// Waits for it no longer.
    pub(crate) fn forget(&self, connection: &SeqSocket) {
        // It goes out of the poller with its last descriptor at the latest.
        let _ = self.waits.remove(connection);
    }
}

/// Readable when a connection comes, or one that is waited for has something.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waits.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.file.is_some() && FileId::of(&self.path) == self.file {
            // Where it is gone already, there is nothing to do.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn refused(path: &Path, call: &'static str, error: std::io::Error) -> SysError {
    SysError::new(call, path.display().to_string(), error)
}

/// Removes the socket of a process that is dead; and nothing else that lies there.
fn clear(path: &Path) -> Result<(), MuxError> {
    let found = fs::symlink_metadata(path).map_err(|error| refused(path, "lstat", error))?;
    if !found.file_type().is_socket() {
        return Err(MuxError::NoSocket { path: path.into() });
    }
    let is_dead =
        SeqSocket::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    if !is_dead {
        return Err(MuxError::InUse { path: path.into() });
    }
    let removed = fs::remove_file(path);
    Ok(removed.map_err(|error| refused(path, "unlink", error))?)
}

/// Which file it is, whatever it is called: its device and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Of the file at this path, if one is there.
    fn of(path: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
        })
    }
}
