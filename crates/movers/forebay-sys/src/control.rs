//! A channel between a supervisor and its stage: messages with descriptors, over a Unix socket pair.
//!
//! On the wire a message is `magic u32, body bytes u32, descriptors u32` in host order, then one byte per chunk of up to
//! 250 descriptors (each chunk rides on its byte), then the body. The peer's death is an end of file.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sockopt,
};

use crate::SysError;

/// The longest body.
pub const BODY_MAX_BYTES: usize = 1 << 20;
/// The most descriptors of one message; the process's own limit (`RLIMIT_NOFILE`) may be lower.
pub const FDS_MAX: usize = 16_384;
/// The kernel passes at most 253 at once.
const FDS_PER_CHUNK: usize = 250;
const MAGIC: u32 = 0x4642_4354;
const HEADER_BYTES: usize = 12;

/// What came from the peer.
#[derive(Debug, Default)]
pub struct Message {
    /// Its bytes.
    pub body: Vec<u8>,
    /// Its descriptors, in the order sent, closed on exec.
    pub fds: Vec<OwnedFd>,
}

/// Why a message could not be passed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The peer is gone.
    #[error("the peer of the control channel is gone")]
    PeerGone,
    /// The peer stalled within a message.
    #[error("the peer of the control channel stalled within a message")]
    Stalled,
    /// The caller's message is too large.
    #[error(
        "message of {body_bytes} bytes and {fds} descriptors, at most {BODY_MAX_BYTES} and {FDS_MAX}"
    )]
    TooLarge {
        /// Bytes of the body.
        body_bytes: usize,
        /// Descriptors.
        fds: usize,
    },
    /// The peer's bytes are not a message.
    #[error(
        "the control channel carries no message: magic {magic:#x}, {body_bytes} bytes, {fds} descriptors"
    )]
    Garbled {
        /// The first word.
        magic: u32,
        /// The second.
        body_bytes: u32,
        /// The third.
        fds: u32,
    },
    /// Descriptors were lost on their way.
    #[error(
        "{arrived} of {expected} descriptors arrived: raise the limit of open files (ulimit -n)"
    )]
    DescriptorsLost {
        /// How many a chunk announced.
        expected: usize,
        /// How many there were.
        arrived: usize,
    },
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SysError),
}

/// One end of the channel.
#[derive(Debug)]
pub struct Control {
    fd: OwnedFd,
}

impl Control {
    /// Makes both ends. Waiting for the rest of a message that has begun is limited to `stall`.
    ///
    /// # Errors
    /// When descriptors run out.
    pub fn pair(stall: Duration) -> Result<(Self, Self), SysError> {
        let (one, two) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|errno| SysError::new("socketpair", "control channel", errno))?;
        Ok((Self::from_fd(one, stall)?, Self::from_fd(two, stall)?))
    }

    /// Takes an end that was inherited.
    ///
    /// # Errors
    /// When it is not a socket.
    pub fn from_fd(fd: OwnedFd, stall: Duration) -> Result<Self, SysError> {
        for timeout in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            sockopt::set_socket_timeout(&fd, timeout, Some(stall)).map_err(|errno| {
                SysError::new("setsockopt(SO_RCVTIMEO)", "control channel", errno)
            })?;
        }
        Ok(Self { fd })
    }

    /// Takes the end that this process was started with as its standard input.
    ///
    /// # Errors
    /// When standard input is not a socket.
    pub fn from_stdin(stall: Duration) -> Result<Self, SysError> {
        let fd = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)
            .map_err(|errno| SysError::new("dup", "standard input", errno))?;
        Self::from_fd(fd, stall)
    }

    /// Gives the descriptor away, such as to a child's standard input.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the peer is gone or stalls, or the message is too large.
    pub fn send(&self, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), ControlError> {
        if body.len() > BODY_MAX_BYTES || fds.len() > FDS_MAX {
            return Err(ControlError::TooLarge {
                body_bytes: body.len(),
                fds: fds.len(),
            });
        }
        let mut header = Vec::with_capacity(HEADER_BYTES);
        for word in [MAGIC, body.len() as u32, fds.len() as u32] {
            header.extend_from_slice(&word.to_ne_bytes());
        }
        self.send_bytes(&header)?;
        for chunk in fds.chunks(FDS_PER_CHUNK) {
            self.send_chunk(chunk)?;
        }
        self.send_bytes(body)
    }

    /// Waits for a message; `None` when the peer is gone between two messages.
    ///
    /// # Errors
    /// When the peer dies or stalls within a message, sends garbage, or descriptors run out.
    pub fn receive(&self) -> Result<Option<Message>, ControlError> {
        loop {
            match self.receive_now() {
                Err(ControlError::Stalled) => self.wait_readable()?,
                answer => return answer,
            }
        }
    }

    /// Waits for the beginning of a message, or the peer's end, for at most `timeout`; tells whether it came.
    ///
    /// # Errors
    /// When the kernel refuses the call.
    pub fn poll(&self, timeout: Duration) -> Result<bool, SysError> {
        let timeout = rustix::event::Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        self.poll_fd(Some(&timeout))
    }

    fn wait_readable(&self) -> Result<(), SysError> {
        self.poll_fd(None).map(|_| ())
    }

    fn poll_fd(&self, timeout: Option<&rustix::event::Timespec>) -> Result<bool, SysError> {
        let mut fds = [rustix::event::PollFd::new(
            &self.fd,
            rustix::event::PollFlags::IN,
        )];
        match rustix::event::poll(&mut fds, timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(SysError::new("poll", "control channel", errno)),
        }
    }

    /// As [`receive`](Self::receive), but no message at all for the stall time is [`ControlError::Stalled`] too.
    fn receive_now(&self) -> Result<Option<Message>, ControlError> {
        let mut header = [0; HEADER_BYTES];
        let first = self.receive_some(&mut header)?;
        if first == 0 {
            return Ok(None);
        }
        // From here on a stall is the peer's fault, not silence.
        self.receive_bytes(&mut header[first..]).map_err(within)?;
        let [magic, body_bytes, fds] = [0, 4, 8].map(|at| {
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        });
        if magic != MAGIC || body_bytes as usize > BODY_MAX_BYTES || fds as usize > FDS_MAX {
            return Err(ControlError::Garbled {
                magic,
                body_bytes,
                fds,
            });
        }
        let mut message = Message {
            body: vec![0; body_bytes as usize],
            fds: Vec::with_capacity(fds as usize),
        };
        while message.fds.len() < fds as usize {
            let expected = (fds as usize - message.fds.len()).min(FDS_PER_CHUNK);
            self.receive_chunk(expected, &mut message.fds)
                .map_err(within)?;
        }
        self.receive_bytes(&mut message.body).map_err(within)?;
        Ok(Some(message))
    }

    fn send_bytes(&self, mut bytes: &[u8]) -> Result<(), ControlError> {
        while !bytes.is_empty() {
            match rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(fault("send", errno)),
            }
        }
        Ok(())
    }

    fn send_chunk(&self, fds: &[BorrowedFd<'_>]) -> Result<(), ControlError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_PER_CHUNK))];
        loop {
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
            match rustix::net::sendmsg(
                &self.fd,
                &[IoSlice::new(&[0])],
                &mut ancillary,
                SendFlags::NOSIGNAL,
            ) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(fault("sendmsg(SCM_RIGHTS)", errno)),
            }
        }
    }

    fn receive_some(&self, bytes: &mut [u8]) -> Result<usize, ControlError> {
        loop {
            match rustix::net::recv(&self.fd, &mut *bytes, RecvFlags::empty()) {
                Ok((count, _)) => return Ok(count),
                // A peer that died with our message unread resets the connection.
                Err(Errno::CONNRESET) => return Ok(0),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(fault("recv", errno)),
            }
        }
    }

    fn receive_bytes(&self, mut bytes: &mut [u8]) -> Result<(), ControlError> {
        while !bytes.is_empty() {
            match self.receive_some(bytes)? {
                0 => return Err(ControlError::PeerGone),
                count => bytes = &mut bytes[count..],
            }
        }
        Ok(())
    }

    fn receive_chunk(&self, expected: usize, fds: &mut Vec<OwnedFd>) -> Result<(), ControlError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_PER_CHUNK))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received = loop {
            let mut bytes = [IoSliceMut::new(&mut byte)];
            match rustix::net::recvmsg(
                &self.fd,
                &mut bytes,
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            ) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(ControlError::PeerGone),
                Err(errno) => return Err(fault("recvmsg(SCM_RIGHTS)", errno)),
                Ok(received) => break received,
            }
        };
        if received.bytes == 0 {
            return Err(ControlError::PeerGone);
        }
        let before = fds.len();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        let arrived = fds.len() - before;
        if arrived != expected || received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(ControlError::DescriptorsLost { expected, arrived });
        }
        Ok(())
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A stall within a message must not look like silence before one.
fn within(error: ControlError) -> ControlError {
    match error {
        ControlError::Stalled => SysError::new(
            "recv",
            "control channel",
            io::Error::from(io::ErrorKind::TimedOut),
        )
        .with_remedy("the peer stopped within a message")
        .into(),
        other => other,
    }
}

fn fault(call: &'static str, errno: Errno) -> ControlError {
    match errno {
        Errno::PIPE | Errno::CONNRESET => ControlError::PeerGone,
        Errno::AGAIN => ControlError::Stalled,
        Errno::TOOMANYREFS | Errno::MFILE => SysError::new(call, "control channel", errno)
            .with_remedy("raise the limit of open files (ulimit -n)")
            .into(),
        _ => SysError::new(call, "control channel", errno).into(),
    }
}
