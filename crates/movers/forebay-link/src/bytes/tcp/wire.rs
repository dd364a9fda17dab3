//! The socket of a connection over TCP, and how it is made.

use std::collections::VecDeque;
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

/// The addresses of a host's name: each attempt to connect takes the next one, and when all were tried the name is looked up anew.
#[derive(Debug, Default)]
pub struct Round {
    left: VecDeque<SocketAddr>,
    addresses: usize,
}

impl Round {
    /// These addresses; else they are those that the name has.
    #[must_use]
    pub fn of(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        let left: VecDeque<_> = addresses.into_iter().collect();
        Self {
            addresses: left.len(),
            left,
        }
    }

    /// The addresses that a host's name has now. That may take long where a name server does not answer.
    ///
    /// # Errors
    /// The name is unknown, or nobody answers.
    pub fn look_up(host: &str, port: u16) -> Result<Self, ByteLinkError> {
        let found = resolve(host, port).map_err(|source| ByteLinkError::Connect {
            address: name(host, port),
            source,
        })?;
        Ok(Self::of(found))
    }

    /// Whether all addresses were tried, or none is known yet.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// How many the name has.
    #[must_use]
    pub fn addresses(&self) -> usize {
        self.addresses
    }

    /// The next one on which an attempt begins.
    fn begin(&mut self) -> Result<(Socket, SocketAddr), (io::Error, Option<SocketAddr>)> {
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        let mut tried = None;
        while let Some(address) = self.left.pop_front() {
            tried = Some(address);
            match begin(address) {
                Ok(socket) => return Ok((socket, address)),
                Err(error) => last = error,
            }
        }
        Err((last, tried))
    }
}

/// A socket that is connected, or is being so.
#[derive(Debug)]
pub(in crate::bytes) struct Wire {
    pub(in crate::bytes) socket: TcpStream,
    pub(in crate::bytes) peer: String,
    connected: bool,
    /// Which of a name's addresses it is, for people.
    tried: String,
}

impl Wire {
    /// Begins to connect to the next address of the round.
    pub(in crate::bytes) fn connect(
        host: &str,
        port: u16,
        reach: Reach,
        round: &mut Round,
    ) -> Result<Self, ByteLinkError> {
        let peer = name(host, port);
        let refused = |source, address: String| ByteLinkError::Connect { address, source };
        if round.is_over() {
            *round = Round::look_up(host, port)?;
        }
        if !reach.covers(round.left.make_contiguous()) {
            return Err(ByteLinkError::NotSecured { address: peer });
        }
        match round.begin() {
            Ok((socket, address)) => Ok(Self {
                socket: socket.into(),
                connected: false,
                tried: tried(&peer, host, address),
                peer,
            }),
            Err((error, Some(address))) => Err(refused(error, tried(&peer, host, address))),
            Err((error, None)) => Err(refused(error, peer)),
        }
    }

    /// One that came.
    pub(super) fn accepted(socket: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        set_up(&SockRef::from(&socket))?;
        Ok(Self {
            socket,
            peer: format!("tcp://{peer}"),
            connected: true,
            tried: String::new(),
        })
    }

    /// The connection is made, or not yet, or it failed.
    pub(in crate::bytes) fn is_connected(&mut self) -> Result<bool, ByteLinkError> {
        if self.connected {
            return Ok(true);
        }
        let refused = |source| ByteLinkError::Connect {
            address: self.tried.clone(),
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

/// Where an attempt went, when the name does not say it.
fn tried(peer: &str, host: &str, address: SocketAddr) -> String {
    match host.parse::<IpAddr>() {
        Ok(_) => peer.to_owned(),
        Err(_) => format!("{peer} ({})", address.ip()),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::time::Instant;

    use super::*;

    /// Whether an attempt came to a connection.
    fn outcome(wire: &mut Wire) -> Result<(), ByteLinkError> {
        let until = Instant::now() + Duration::from_secs(20);
        while !wire.is_connected()? {
            assert!(Instant::now() < until, "nothing came of the attempt");
            std::thread::yield_now();
        }
        Ok(())
    }

    /// A name is beyond this host when one of its addresses is.
    #[test]
    fn a_name_is_here_when_all_of_its_addresses_are() {
        let here = [
            "127.0.0.1:1",
            "127.3.2.1:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
        ];
        let away = [
            "10.1.2.3:1",
            "[::ffff:10.1.2.3]:1",
            "[fe80::1]:1",
            "0.0.0.0:1",
        ];
        let of = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        assert!(Reach::Loopback.covers(&of(&here)));
        for place in 0..=here.len() {
            for one in away {
                let mut name = of(&here);
                name.insert(place, one.parse().unwrap());
                assert!(!Reach::Loopback.covers(&name), "{name:?}");
                assert!(Reach::Everywhere.covers(&name));
                let mut round = Round::of(name);
                let refused = Wire::connect("far.example", 1, Reach::Loopback, &mut round);
                let refused = refused.err();
                assert!(
                    matches!(refused, Some(ByteLinkError::NotSecured { .. })),
                    "{refused:?}"
                );
            }
        }
    }

    #[test]
    fn each_attempt_takes_the_next_address_and_then_the_name_is_looked_up_anew() {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = door.local_addr().unwrap();
        let port = there.port();
        // Nobody listens on this port of the first one.
        let away = SocketAddr::from(([127, 9, 8, 7], port));
        let mut round = Round::of([away, there]);
        let attempt = |round: &mut Round| {
            let mut wire = Wire::connect("localhost", port, Reach::Loopback, round)?;
            outcome(&mut wire)
        };
        let refused = attempt(&mut round).unwrap_err().to_string();
        assert!(
            refused.contains("localhost") && refused.contains("127.9.8.7"),
            "{refused}"
        );
        assert!(!round.is_over());
        attempt(&mut round).unwrap();
        assert!(round.is_over());
        // What the system knows of the name.
        let _ = attempt(&mut round);
        let known = resolve("localhost", port).unwrap();
        assert_eq!(round.addresses(), known.len());
        assert_eq!(round.left.len(), known.len() - 1);
    }
}
