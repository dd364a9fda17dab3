//! A socket that others connect to, and its file, which goes with it.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use forebay_sys::SysError;
use forebay_sys::seqpacket::{SeqListener, SeqSocket};

use crate::error::MuxError;

/// A socket that others connect to.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: SeqListener,
    path: PathBuf,
    /// The socket's file: what another process puts in its place is left alone.
    file: Option<FileId>,
}

impl Listener {
    /// Listens, with so many connections that may wait, and with these permissions of its file. The file of a process that is dead is removed.
    pub(crate) fn open(path: &Path, backlog: u16, mode: u32) -> Result<Self, MuxError> {
        let socket = match SeqListener::bind(path, backlog) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                clear(path)?;
                SeqListener::bind(path, backlog)?
            }
            bound => bound?,
        };
        let listener = Self {
            socket,
            path: path.into(),
            file: FileId::of(path),
        };
        fs::set_permissions(path, Permissions::from_mode(mode))
            .map_err(|error| refused(path, "chmod", error))?;
        Ok(listener)
    }

    /// The next connection, if one waits.
    pub(crate) fn accept(&self) -> Result<Option<SeqSocket>, SysError> {
        self.socket.accept()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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
