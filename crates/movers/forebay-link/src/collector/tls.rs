//! A connection to a collector over TLS 1.2 or 1.3 (RFC 7011, sections 10.4 and 11): the side that connects.
//!
//! The collector proves that it is the host that was named; the probe proves its own name when it has a certificate and is asked for it.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use forebay_sys::clock;
use rustls::{ClientConnection, ProtocolVersion};
use rustls_pki_types::ServerName;

use super::fault::TlsFault;
use super::stream::is_wait;
use super::trust::Trust;

/// How long a hand-shake may take, in ns.
const MEET_NS: u64 = 5_000_000_000;
/// A collector that talks on is listened to so often for why it takes nothing more.
const LAST_LOOKS: usize = 64;
/// Of TLS 1.3 the side that connects is the first one to be ready. That the other one has accepted it shows in the first thing that it says, which is waited for so
/// long, in ns: what is sent to one that does not accept it is lost.
const ACCEPT_NS: u64 = 1_000_000_000;

/// How a collector is spoken to over TLS. A copy of it costs nothing.
#[derive(Clone, Debug)]
pub(super) struct Speaks {
    trust: Trust,
    /// The name or number that stands in the collector's certificate.
    host: ServerName<'static>,
}

/// The name that a certificate of this collector, `HOST:PORT`, has; none if none can have it.
#[must_use]
pub fn host_of(collector: &str) -> Option<ServerName<'static>> {
    let (host, _) = collector.rsplit_once(':')?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    ServerName::try_from(bare.unwrap_or(host).to_owned()).ok()
}

impl Speaks {
    /// To the collector `HOST:PORT`.
    pub(super) fn new(collector: &str, trust: &Trust) -> io::Result<Self> {
        let host = host_of(collector).ok_or_else(|| {
            TlsFault::new(
                "its host can stand in no certificate",
                "give a name of DNS or a number",
            )
        })?;
        let trust = trust.clone();
        Ok(Self { trust, host })
    }

    /// Both sides prove their names, over a connection whose calls wait for a look each, as long as `goes_on` says so.
    pub(super) fn meet(
        &self,
        socket: TcpStream,
        goes_on: &dyn Fn() -> bool,
    ) -> io::Result<TlsStream> {
        let session = ClientConnection::new(self.trust.config.clone(), self.host.clone());
        let session = session.map_err(TlsFault::from)?;
        let mut stream = TlsStream { socket, session };
        let until_ns = clock::monotonic_ns() + MEET_NS;
        while stream.session.is_handshaking() {
            // Also of one that says a little now and then.
            if !goes_on() || clock::monotonic_ns() >= until_ns {
                return Err(TlsFault::unmet("says too little").into());
            }
            match stream.step() {
                Err(error) if !is_wait(&error) => return Err(error),
                _ => {}
            }
        }
        stream.accepted(&|| goes_on() && clock::monotonic_ns() < until_ns)?;
        Ok(stream)
    }
}

/// A connection on which both sides know each other.
#[derive(Debug)]
pub struct TlsStream {
    pub(super) socket: TcpStream,
    session: ClientConnection,
}

impl TlsStream {
    /// The next part of the hand-shake.
    fn step(&mut self) -> io::Result<()> {
        self.flush()?;
        if self.session.is_handshaking() && self.look()? {
            return Err(TlsFault::unmet("ended the connection").into());
        }
        Ok(())
    }

    /// Waits for what the other side says when it has accepted this one.
    fn accepted(&mut self, goes_on: &dyn Fn() -> bool) -> io::Result<()> {
        // What is left of the hand-shake.
        while let Err(error) = self.flush() {
            if !is_wait(&error) || !goes_on() {
                return Err(error);
            }
        }
        if self.session.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
            return Ok(());
        }
        let until_ns = clock::monotonic_ns() + ACCEPT_NS;
        while self.session.tls13_tickets_received() == 0
            && clock::monotonic_ns() < until_ns
            && goes_on()
        {
            match self.look() {
                Ok(false) => {}
                Ok(true) => return Err(TlsFault::unmet("ended the connection").into()),
                Err(error) if is_wait(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Encrypts what there is room for: how much that was. Nothing while something encrypted waits to be sent.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let taken = self.session.writer().write(bytes)?;
        match self.flush() {
            Err(error) if !is_wait(&error) => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends what is encrypted; an error where the socket does not take all of it for now.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_wait(&error) => return Err(error),
                Err(error) => return Err(self.last_word().unwrap_or(error)),
            }
        }
        Ok(())
    }

    /// What a collector that takes nothing more has said about it.
    fn last_word(&mut self) -> Option<io::Error> {
        for _ in 0..LAST_LOOKS {
            match self.look() {
                Ok(false) => {}
                Ok(true) => return None,
                Err(error) => return TlsFault::of(&error).is_some().then_some(error),
            }
        }
        None
    }

    /// Reads once what the collector says, which is for TLS alone; whether it has ended its side.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        if self.session.read_tls(&mut self.socket)? == 0 {
            return Ok(true);
        }
        let state = match self.session.process_new_packets() {
            Ok(state) => state,
            Err(error) => {
                // The collector is told why, as far as that is possible.
                let _ = self.session.write_tls(&mut self.socket);
                return Err(TlsFault::from(error).into());
            }
        };
        let mut unread = [0; 512];
        let mut left = state.plaintext_bytes_to_read();
        while left > 0 {
            let read = self.session.reader().read(&mut unread)?;
            left = if read == 0 {
                0
            } else {
                left.saturating_sub(read)
            };
        }
        Ok(state.peer_has_closed())
    }

    /// Says that nothing more comes.
    pub(super) fn end(&mut self) {
        self.session.send_close_notify();
    }
}
