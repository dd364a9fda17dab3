//! The socket of a connection over TCP, and how it is made.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::bytes::{Address, ByteLinkError, DoorError};

/// Connections that may wait to be taken in.
const BACKLOG: i32 = 1024;
/// A peer that acknowledges nothing for so long is gone.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);
/// A silent peer is asked whether it is there after so long, and so often.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// How far a connection may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bytes) enum Reach {
    /// No further than this host's loopback.
    Loopback,
    Everywhere,
}

impl Reach {
    fn covers(self, addresses: &[SocketAddr]) -> bool {
        let here = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
        self == Self::Everywhere || addresses.iter().all(here)
    }
}

/// A socket that is connected, or is being so.
#[derive(Debug)]
pub(in crate::bytes) struct Wire {
    pub(in crate::bytes) socket: TcpStream,
    pub(in crate::bytes) peer: String,
    connected: bool,
}

impl Wire {
    /// Begins to connect to the first address that the host's name has.
    pub(in crate::bytes) fn connect(
        host: &str,
        port: u16,
        reach: Reach,
    ) -> Result<Self, ByteLinkError> {
        let peer = name(host, port);
        let refused = |source| ByteLinkError::Connect {
            address: peer.clone(),
            source,
        };
        let found = resolve(host, port).map_err(refused)?;
        if !reach.covers(&found) {
            return Err(ByteLinkError::NotSecured { address: peer });
        }
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in found {
            match begin(address) {
                Ok(socket) => {
                    return Ok(Self {
                        socket: socket.into(),
                        peer,
                        connected: false,
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(refused(last))
    }

    /// One that came.
    pub(super) fn accepted(socket: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        set_up(&SockRef::from(&socket))?;
        Ok(Self {
            socket,
            peer: format!("tcp://{peer}"),
            connected: true,
        })
    }

    /// The connection is made, or not yet, or it failed.
    pub(in crate::bytes) fn is_connected(&mut self) -> Result<bool, ByteLinkError> {
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

    pub(in crate::bytes) fn lost(&self, source: io::Error) -> ByteLinkError {
        ByteLinkError::Lost {
            peer: self.peer.clone(),
            source,
        }
    }
}

/// Listens on the first address that the host's name has; by which name.
pub(super) fn listen(
    host: &str,
    port: u16,
    reach: Reach,
) -> Result<(TcpListener, String), DoorError> {
    let address = name(host, port);
    let refused = |source: io::Error| DoorError::Listen {
        address: address.clone(),
        remedy: remedy(source.kind()),
        source,
    };
    let found = resolve(host, port).map_err(refused)?;
    if !reach.covers(&found) {
        return Err(DoorError::NotSecured { address });
    }
    let first = found.into_iter().next();
    let first = first.ok_or_else(|| {
        refused(io::Error::new(
            ErrorKind::NotFound,
            "the name has no address",
        ))
    })?;
    let listener = bind(first).map_err(refused)?;
    Ok((listener, address))
}

fn name(host: &str, port: u16) -> String {
    let host = host.into();
    Address::Tcp { host, port }.to_string()
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

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
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
