//! Unix sockets that keep records apart (`SOCK_SEQPACKET`) and are found by a path: where two processes meet and hand descriptors over.
//!
//! Nothing here waits. The kernel tells which process the peer is ([`SeqSocket::peer`]), and that it is gone ([`Arrived::End`]), however it went.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::SysError;

/// Most descriptors that travel with one record.
pub const RECORD_FDS_MAX: usize = 16;

/// What a look at a socket found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// A record of so many bytes; what did not fit is lost.
    Record(usize),
    /// Nothing now.
    Nothing,
    /// The peer has closed its end, or is dead; a record without bytes counts as that too.
    End,
}

/// The process at the other end, as the kernel noted it when it connected, or listened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process; 0 if it is in a PID namespace that this one does not see.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// A socket on which peers come in.
#[derive(Debug)]
pub struct SeqListener {
    fd: OwnedFd,
}

impl SeqListener {
    /// Makes the socket's file and listens; at most `backlog` peers wait to be taken in.
    ///
    /// # Errors
    /// Something is at that path already, or the directory admits no file.
    pub fn bind(path: &Path, backlog: u16) -> Result<Self, SysError> {
        let (fd, address) = socket(path)?;
        rustix::net::bind(&fd, &address).map_err(fault("bind", path))?;
        rustix::net::listen(&fd, backlog.into()).map_err(fault("listen", path))?;
        Ok(Self { fd })
    }

    /// Takes the next peer in, if one has come.
    ///
    /// # Errors
    /// Descriptors run out; the peer waits on.
    pub fn accept(&self) -> Result<Option<SeqSocket>, SysError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            return match rustix::net::accept_with(&self.fd, flags) {
                Ok(fd) => Ok(Some(SeqSocket { fd })),
                Err(Errno::AGAIN) => Ok(None),
                // The caller's fault, and over.
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno) => Err(SysError::new("accept", "Unix socket", errno)),
            };
        }
    }
}

impl AsFd for SeqListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct SeqSocket {
    fd: OwnedFd,
}

impl SeqSocket {
    /// Connects. The connection is there at once; whether the listener takes it in shows later.
    ///
    /// # Errors
    /// Nobody listens there, or too many wait there already (`WouldBlock`).
    pub fn connect(path: &Path) -> Result<Self, SysError> {
        let (fd, address) = socket(path)?;
        rustix::net::connect(&fd, &address).map_err(fault("connect", path))?;
        Ok(Self { fd })
    }

    /// The process at the other end.
    ///
    /// # Errors
    /// The system does not say.
    pub fn peer(&self) -> Result<Peer, SysError> {
        // Not by a type that has no process 0.
        let mut found = libc::ucred {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let mut bytes = size_of_val(&found) as libc::socklen_t;
        // SAFETY: the kernel writes no more than `bytes` to `found`, and its length to `bytes`; both live through the call.
        let answer = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut bytes,
            )
        };
        if answer != 0 {
            let why = std::io::Error::last_os_error();
            return Err(SysError::new("getsockopt(SO_PEERCRED)", "Unix socket", why));
        }
        Ok(Peer {
            pid: found.pid.unsigned_abs(),
            uid: found.uid,
        })
    }

    /// Sends a record, with descriptors (at most [`RECORD_FDS_MAX`]). False: it was not taken now.
    ///
    /// # Errors
    /// The peer is gone, or too many descriptors are on their way.
    pub fn send(&self, record: &[u8], fds: &[BorrowedFd<'_>]) -> Result<bool, SysError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RECORD_FDS_MAX))];
        if fds.len() > RECORD_FDS_MAX {
            return Err(SysError::new(
                "sendmsg(SCM_RIGHTS)",
                "Unix socket",
                Errno::TOOBIG,
            ));
        }
        loop {
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() {
                ancillary.push(SendAncillaryMessage::ScmRights(fds));
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            return match rustix::net::sendmsg(
                &self.fd,
                &[IoSlice::new(record)],
                &mut ancillary,
                flags,
            ) {
                Ok(_) => Ok(true),
                Err(Errno::AGAIN) => Ok(false),
                Err(Errno::INTR) => continue,
                Err(errno) => Err(SysError::new("sendmsg", "Unix socket", errno)),
            };
        }
    }

    /// Bytes of records that the peer has not taken yet, with what each costs the kernel: 0 when it has taken all, or has closed its end. Descriptors that travel with
    /// such records are counted against this user's limit of open files.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn unread_bytes(&self) -> Result<u32, SysError> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the kernel writes one `int` to where it is told, and nothing else (`SIOCOUTQ`, unix(7)).
        let failed = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if failed < 0 {
            let error = std::io::Error::last_os_error();
            return Err(SysError::new("ioctl(SIOCOUTQ)", "Unix socket", error));
        }
        Ok(bytes.unsigned_abs())
    }

    /// Ends the connection and keeps this end: the peer finds the end behind what it was sent.
    pub fn shut(&self) {
        // A connection that is over already has an end.
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both);
    }

    /// Says nothing more, and goes on hearing: the peer finds the end behind what it was sent.
    pub fn end_sending(&self) {
        // As above.
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Write);
    }

    /// Takes the next record; descriptors that came with it are closed.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn receive(&self, record: &mut [u8]) -> Result<Arrived, SysError> {
        loop {
            return match rustix::net::recv(&self.fd, &mut *record, RecvFlags::DONTWAIT) {
                Ok((count, _)) => Ok(arrived(count)),
                Err(Errno::AGAIN) => Ok(Arrived::Nothing),
                Err(errno) if is_passing(errno) => continue,
                Err(errno) => Err(SysError::new("recv", "Unix socket", errno)),
            };
        }
    }

    /// Takes the next record and appends its descriptors, closed on exec, to `fds`; those that this process has no room for are lost.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn receive_with_fds(
        &self,
        record: &mut [u8],
        fds: &mut Vec<OwnedFd>,
    ) -> Result<Arrived, SysError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RECORD_FDS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let count = loop {
            let mut bytes = [IoSliceMut::new(&mut *record)];
            match rustix::net::recvmsg(&self.fd, &mut bytes, &mut ancillary, flags) {
                Ok(received) => break received.bytes,
                Err(Errno::AGAIN) => return Ok(Arrived::Nothing),
                Err(errno) if is_passing(errno) => {}
                Err(errno) => return Err(SysError::new("recvmsg", "Unix socket", errno)),
            }
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        Ok(arrived(count))
    }
}

impl AsFd for SeqSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn socket(path: &Path) -> Result<(OwnedFd, SocketAddrUnix), SysError> {
    let address = SocketAddrUnix::new(path).map_err(fault("socket", path))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(fault("socket", path))?;
    Ok((fd, address))
}

fn fault(call: &'static str, path: &Path) -> impl FnOnce(Errno) -> SysError {
    let path = path.display().to_string();
    move |errno| SysError::new(call, path, errno)
}

fn arrived(count: usize) -> Arrived {
    match count {
        0 => Arrived::End,
        count => Arrived::Record(count),
    }
}

/// A signal; or a peer that went with a record of ours unread, which the kernel says once, before the records that it had sent.
fn is_passing(errno: Errno) -> bool {
    matches!(errno, Errno::INTR | Errno::CONNRESET)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::eventfd::EventFd;

    fn met() -> (tempfile::TempDir, SeqListener, SeqSocket, SeqSocket) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("meet");
        let listener = SeqListener::bind(&path, 4).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let near = SeqSocket::connect(&path).unwrap();
        let far = listener.accept().unwrap().unwrap();
        (directory, listener, near, far)
    }

    #[test]
    fn records_stay_apart_and_the_end_shows() {
        let (_directory, _listener, near, far) = met();
        let mut record = [0; 8];
        assert_eq!(far.receive(&mut record).unwrap(), Arrived::Nothing);
        assert!(near.send(b"one", &[]).unwrap() && near.send(b"and two", &[]).unwrap());
        drop(near);
        for text in [b"one" as &[u8], b"and two"] {
            let found = far.receive(&mut record).unwrap();
            assert_eq!(found, Arrived::Record(text.len()));
            assert_eq!(&record[..text.len()], text);
        }
        assert_eq!(far.receive(&mut record).unwrap(), Arrived::End);
        assert_eq!(
            far.send(b"x", &[]).unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
    }

    #[test]
    fn what_was_said_is_heard_though_nobody_listened() {
        let (_directory, _listener, near, far) = met();
        near.send(b"unread", &[]).unwrap();
        far.send(b"answer", &[]).unwrap();
        drop(far);
        let mut record = [0; 8];
        assert_eq!(near.receive(&mut record).unwrap(), Arrived::Record(6));
        assert_eq!(near.receive(&mut record).unwrap(), Arrived::End);
    }

    #[test]
    fn descriptors_come_with_their_record() {
        let (_directory, _listener, near, far) = met();
        let event = EventFd::create().unwrap();
        near.send(b"bell", &[event.as_fd(), event.as_fd()]).unwrap();
        near.send(b"bell", &[event.as_fd()]).unwrap();
        let (mut record, mut fds) = ([0; 8], Vec::new());
        let found = far.receive_with_fds(&mut record, &mut fds).unwrap();
        assert_eq!((found, fds.len()), (Arrived::Record(4), 2));
        EventFd::from_fd(fds.remove(0)).signal();
        assert!(event.drain());
        assert_eq!(far.receive(&mut record).unwrap(), Arrived::Record(4));
        let many = vec![event.as_fd(); RECORD_FDS_MAX + 1];
        assert_eq!(
            near.send(b"many", &many).unwrap_err().kind(),
            ErrorKind::ArgumentListTooLong
        );
    }

    #[test]
    fn what_is_not_read_is_known_until_it_is_read_or_nobody_can() {
        let (_directory, _listener, near, far) = met();
        assert_eq!(far.unread_bytes().unwrap(), 0);
        far.send(b"one", &[]).unwrap();
        let one = far.unread_bytes().unwrap();
        far.send(b"two", &[]).unwrap();
        assert!(one > 0 && far.unread_bytes().unwrap() > one);
        near.shut();
        far.shut();
        assert!(far.unread_bytes().unwrap() > one, "it can be read still");
        let mut record = [0; 8];
        assert_eq!(near.receive(&mut record).unwrap(), Arrived::Record(3));
        assert_eq!(far.unread_bytes().unwrap(), one);
        near.receive(&mut record).unwrap();
        assert_eq!(near.receive(&mut record).unwrap(), Arrived::End);
        far.send(b"more", &[]).unwrap_err();
        drop(near);
        assert_eq!(far.unread_bytes().unwrap(), 0);
    }

    #[test]
    fn the_kernel_says_who_it_is() {
        let (_directory, _listener, near, far) = met();
        let us = Peer {
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
        };
        assert_eq!((near.peer().unwrap(), far.peer().unwrap()), (us, us));
    }

    #[test]
    fn a_full_backlog_and_a_dead_listener_refuse() {
        let (directory, listener, _near, _far) = met();
        let path = directory.path().join("meet");
        let waiting: Vec<_> = (0..64)
            .map_while(|_| SeqSocket::connect(&path).ok())
            .collect();
        assert!((4..64).contains(&waiting.len()), "{}", waiting.len());
        let full = SeqSocket::connect(&path).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        let twice = SeqListener::bind(&path, 4).unwrap_err();
        assert_eq!(twice.kind(), ErrorKind::AddrInUse);
        drop(listener);
        let dead = SeqSocket::connect(&path).unwrap_err();
        assert_eq!(dead.kind(), ErrorKind::ConnectionRefused);
        let missing = SeqSocket::connect(&directory.path().join("none")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }
}
