//! Sockets of this host by name (`unix(7)`, abstract names, `SOCK_SEQPACKET`): each record comes whole, the kernel says who is at the other end, and
//! that it is gone. The name is free again when its owner has died.

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, sockaddr_un, socklen_t};

/// Connections that may wait to be taken in.
const BACKLOG: c_int = 128;

/// Who is at the other end, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) pid: i32,
    pub(crate) uid: u32,
}

/// A socket that does not block.
#[derive(Debug)]
pub(crate) struct UnixSocket(OwnedFd);

/// What a read brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The other end is closed.
    End,
}

impl UnixSocket {
    pub(crate) fn listen(name: &[u8]) -> io::Result<Self> {
        let socket = Self::new()?;
        let (address, len) = address(name)?;
        let fd = socket.0.as_raw_fd();
        // SAFETY: the descriptor is open, the address as long as said.
        check(unsafe { libc::bind(fd, (&raw const address).cast(), len) })?;
        // SAFETY: the descriptor is open.
        check(unsafe { libc::listen(fd, BACKLOG) })?;
        Ok(socket)
    }

    /// Connects at once, or fails; `WouldBlock` when too many wait there.
    pub(crate) fn connect(name: &[u8]) -> io::Result<Self> {
        let socket = Self::new()?;
        let (address, len) = address(name)?;
        // SAFETY: the descriptor is open, the address as long as said.
        check(unsafe { libc::connect(socket.0.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(socket)
    }

    fn new() -> io::Result<Self> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is touched.
        let fd = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
        // SAFETY: just made, and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next one who has come.
    pub(crate) fn accept(&self) -> io::Result<Option<Self>> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let null = std::ptr::null_mut();
        // SAFETY: the descriptor is open; no address is asked for.
        let fd =
            check(unsafe { libc::accept4(self.0.as_raw_fd(), null, std::ptr::null_mut(), flags) });
        match fd {
            // SAFETY: just made, and nobody else's.
            Ok(fd) => Ok(Some(Self(unsafe { OwnedFd::from_raw_fd(fd) }))),
            Err(error) if is_nothing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn credentials(&self) -> io::Result<Credentials> {
        let mut found = libc::ucred {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let mut len = size_of::<libc::ucred>() as socklen_t;
        // SAFETY: the descriptor is open; the kernel writes `len` bytes at most.
        check(unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut len,
            )
        })?;
        Ok(Credentials {
            pid: found.pid,
            uid: found.uid,
        })
    }

    pub(crate) fn send(&self, record: &[u8]) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        // SAFETY: the descriptor is open, the record as long as said.
        let sent =
            unsafe { libc::send(fd, record.as_ptr().cast(), record.len(), libc::MSG_NOSIGNAL) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// The peer finds the end; its own end still shows here.
    pub(crate) fn end_sending(&self) {
        // SAFETY: the descriptor is open.
        unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_WR) };
    }

    /// Takes one record; what is longer than the buffer is cut.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Record> {
        let fd = self.0.as_raw_fd();
        // SAFETY: the descriptor is open, the buffer as long as said.
        let got = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        match usize::try_from(got) {
            Ok(0) => Ok(Record::End),
            Ok(bytes) => Ok(Record::Bytes(bytes)),
            Err(_) => match io::Error::last_os_error() {
                error if is_nothing(&error) => Ok(Record::Nothing),
                error if error.kind() == io::ErrorKind::ConnectionReset => Ok(Record::End),
                error => Err(error),
            },
        }
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// This process: whom a peer sees.
pub(crate) fn own_credentials() -> Credentials {
    // SAFETY: they always succeed and touch no memory.
    let (pid, uid) = unsafe { (libc::getpid(), libc::geteuid()) };
    Credentials { pid, uid }
}

fn address(name: &[u8]) -> io::Result<(sockaddr_un, socklen_t)> {
    let mut address = sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    };
    // The first byte stays zero: an abstract name.
    let room = &mut address.sun_path[1..];
    if name.len() > room.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in room.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let len = offset_of!(sockaddr_un, sun_path) + 1 + name.len();
    Ok((address, len as socklen_t))
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
