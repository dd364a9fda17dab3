//! Over TCP.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::{Address, ByteLink, ByteLinkError, Door, DoorError, FDS_MAX, Received};

/// Room for what was received at the least: so much comes in one system call.
const ROOM_BYTES_MIN: usize = 256 << 10;
/// Room for what a stranger says of himself: anybody may connect.
const STRANGER_ROOM_BYTES: usize = 4 << 10;
/// Connections that may wait to be taken in.
const BACKLOG: i32 = 1024;
/// A peer that acknowledges nothing for so long is gone.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);
/// A silent peer is asked whether it is there after so long, and so often.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Parts of a `send` that go into one system call; the others go into the next.
const PARTS_MAX: usize = 16;

/// A connection over TCP, or one that is being made.
#[derive(Debug)]
pub struct TcpLink {
    socket: TcpStream,
    peer: String,
    connected: bool,
    memory: Vec<u8>,
    from: usize,
    to: usize,
}

impl TcpLink {
    /// Begins to connect to the first address that the host's name has.
    ///
    /// # Errors
    /// The name is unknown, or the system refuses at once.
    pub fn connect(host: &str, port: u16) -> Result<Self, ByteLinkError> {
        let name = Address::Tcp {
            host: host.into(),
            port,
        }
        .to_string();
        let refused = |source| ByteLinkError::Connect {
            address: name.clone(),
            source,
        };
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in resolve(host, port).map_err(refused)? {
            match begin(address) {
                Ok(socket) => return Ok(Self::new(socket.into(), name, false)),
                Err(error) => last = error,
            }
        }
        Err(refused(last))
    }

    fn new(socket: TcpStream, peer: String, connected: bool) -> Self {
        Self {
            socket,
            peer,
            connected,
            memory: vec![0; STRANGER_ROOM_BYTES],
            from: 0,
            to: 0,
        }
    }

    /// The connection is made, or not yet, or it failed.
    fn is_connected(&mut self) -> Result<bool, ByteLinkError> {
        if self.connected {
            return Ok(true);
        }
        let refused = |source| ByteLinkError::Connect {
            address: self.peer.clone(),
            source,
        };
        if let Some(error) = self.socket.take_error().map_err(refused)? {
            return Err(refused(error));
        }
        match self.socket.peer_addr() {
            Ok(_) => self.connected = true,
            Err(error) if error.kind() == ErrorKind::NotConnected => {}
            Err(error) => return Err(refused(error)),
        }
        Ok(self.connected)
    }

    fn lost(&self, source: io::Error) -> ByteLinkError {
        ByteLinkError::Lost {
            peer: self.peer.clone(),
            source,
        }
    }

    /// Brings what is unused to the front when less than half is left behind it.
    fn make_room(&mut self) {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        } else if self.to == self.memory.len()
            || self.memory.len() - self.to < self.memory.len() / 2
        {
            self.memory.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
    }
}

impl ByteLink for TcpLink {
    fn send(&mut self, parts: &[&[u8]]) -> Result<usize, ByteLinkError> {
        if !self.is_connected()? {
            return Ok(0);
        }
        let mut slices = [IoSlice::new(&[]); PARTS_MAX];
        let count = parts.len().min(PARTS_MAX);
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        loop {
            return match (&self.socket).write_vectored(&slices[..count]) {
                Ok(taken) => Ok(taken),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(self.lost(error)),
            };
        }
    }

    fn receive(&mut self) -> Result<Received, ByteLinkError> {
        if !self.is_connected()? {
            return Ok(Received::Nothing);
        }
        self.make_room();
        loop {
            let room = &mut self.memory[self.to..];
            if room.is_empty() {
                return Ok(Received::Nothing);
            }
            return match (&self.socket).read(room) {
                Ok(0) => Ok(Received::Ended),
                Ok(count) => {
                    self.to += count;
                    Ok(Received::Some)
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::Nothing),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(self.lost(error)),
            };
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.from..self.to]
    }

    fn used(&mut self, count: usize) {
        self.from = (self.from + count).min(self.to);
    }

    fn expect(&mut self, bytes_max: usize) -> Result<(), ByteLinkError> {
        // Twice, so that a frame's beginning is seldom moved to the front.
        let wanted = bytes_max.saturating_mul(2).max(ROOM_BYTES_MIN);
        if wanted > self.memory.len() {
            self.memory.resize(wanted, 0);
        }
        Ok(())
    }

    fn finish(&mut self) {
        // A connection that is gone has ended already.
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }

    fn arm(&mut self, _for_room: bool) -> Result<bool, ByteLinkError> {
        Ok(true)
    }

    fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX] {
        [Some(self.socket.as_fd()), None]
    }

    fn room_is_writable(&self) -> bool {
        true
    }

    fn peer(&self) -> &str {
        &self.peer
    }
}

/// Where TCP connections come in.
#[derive(Debug)]
pub struct TcpDoor {
    listener: TcpListener,
    address: String,
}

impl TcpDoor {
    /// Listens on the first address that the host's name has.
    ///
    /// # Errors
    /// The name is unknown, or the address in use or not of this host.
    pub fn listen(host: &str, port: u16) -> Result<Self, DoorError> {
        let address = Address::Tcp {
            host: host.into(),
            port,
        }
        .to_string();
        let refused = |source: io::Error| DoorError::Listen {
            address: address.clone(),
            remedy: remedy(source.kind()),
            source,
        };
        let found = resolve(host, port).map_err(refused)?;
        let first = found.into_iter().next();
        let first = first.ok_or_else(|| {
            refused(io::Error::new(
                ErrorKind::NotFound,
                "the name has no address",
            ))
        })?;
        let listener = open(first).map_err(refused)?;
        Ok(Self { listener, address })
    }
}

impl Door for TcpDoor {
    fn accept(&mut self) -> Result<Option<Box<dyn ByteLink>>, DoorError> {
        loop {
            let refused = |source| DoorError::Accept {
                address: self.address.clone(),
                source,
            };
            return match self.listener.accept() {
                Ok((socket, peer)) => {
                    socket.set_nonblocking(true).map_err(refused)?;
                    set_up(&SockRef::from(&socket)).map_err(refused)?;
                    let name = format!("tcp://{peer}");
                    Ok(Some(Box::new(TcpLink::new(socket, name, true))))
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => Ok(None),
                    // The caller's fault, and over.
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => continue,
                    _ => Err(refused(error)),
                },
            };
        }
    }

    fn address(&self) -> Result<Address, DoorError> {
        let found = self.listener.local_addr();
        let found = found.map_err(|source| DoorError::Accept {
            address: self.address.clone(),
            source,
        })?;
        Ok(Address::Tcp {
            host: found.ip().to_string(),
            port: found.port(),
        })
    }

    fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX] {
        [Some(self.listener.as_fd()), None]
    }
}

fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(number) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(number, port)]);
    }
    Ok((host, port).to_socket_addrs()?.collect())
}

fn stream(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))
}

fn begin(address: SocketAddr) -> io::Result<Socket> {
    let socket = stream(address)?;
    set_up(&SockRef::from(&socket))?;
    match socket.connect(&address.into()) {
        Ok(()) => Ok(socket),
        // It goes on by itself.
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => Ok(socket),
        Err(error) => Err(error),
    }
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = stream(address)?;
    // A listener that was ended a moment ago leaves connections behind that would hold the port.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Frames go out at once, and a peer that vanishes is noticed.
fn set_up(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE);
    socket.set_tcp_keepalive(&keepalive)
}

fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AddrInUse => "; `ss -tlnp` shows who has it, and port 0 takes any free one",
        ErrorKind::AddrNotAvailable => "; `ip address` shows the addresses of this host",
        ErrorKind::PermissionDenied => "; ports below 1024 need a privilege",
        _ => "",
    }
}
