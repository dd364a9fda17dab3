//! Where a collector is that takes a stream, and a connection to it: TCP as it is, or with TLS in it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::fault::TlsFault;
use super::tls::{Speaks, TlsStream};
use super::trust::Trust;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// One look at whether to go on waiting.
const LOOK: Duration = Duration::from_millis(100);
/// So much of what a collector says is read in one go.
const LOOKS_MAX: usize = 8;

/// Where a collector is, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct Place {
    /// `HOST:PORT`.
    pub collector: String,
    speaks: Option<Speaks>,
}

impl Place {
    /// Over TCP as it is.
    #[must_use]
    pub fn plain(collector: &str) -> Self {
        Self {
            collector: collector.to_owned(),
            speaks: None,
        }
    }

    /// Over TLS.
    ///
    /// # Errors
    /// No authority is believed, or no certificate can have the collector's name.
    pub fn secured(collector: &str, trust: Option<&Trust>) -> io::Result<Self> {
        let trust =
            trust.ok_or_else(|| TlsFault::new("no authority is believed", "give --export-ca"))?;
        let speaks = Speaks::new(collector, trust)?;
        Ok(Self {
            collector: collector.to_owned(),
            speaks: Some(speaks),
        })
    }

    /// Connects, as long as `goes_on` says so.
    ///
    /// # Errors
    /// There is no such host, it takes no connection within 5 s, or TLS does not come about ([`TlsFault::of`]).
    pub fn dial(&self, goes_on: &dyn Fn() -> bool) -> io::Result<Stream> {
        first(&self.collector, |address| {
            let socket = TcpStream::connect_timeout(&address, CONNECT)?;
            socket.set_write_timeout(Some(LOOK))?;
            socket.set_read_timeout(Some(LOOK))?;
            match &self.speaks {
                None => Ok(Stream::Plain(socket)),
                Some(speaks) => speaks
                    .meet(socket, goes_on)
                    .map(|stream| Stream::Tls(Box::new(stream))),
            }
        })
    }
}

/// What `open` makes of the first address of a collector that it takes.
///
/// # Errors
/// The name has no address, or what `open` said of the last one.
pub fn first<T>(collector: &str, open: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in collector.to_socket_addrs()? {
        match open(address) {
            Ok(opened) => return Ok(opened),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A connection to a collector.
#[derive(Debug)]
pub enum Stream {
    /// TCP as it is.
    Plain(TcpStream),
    /// TLS in it.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Whether its calls wait, for a look each.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn set_waits(&self, waits: bool) -> io::Result<()> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.socket,
        };
        socket.set_nonblocking(!waits)
    }

    /// How much of it is taken; what is taken is on its way when nothing is left to [`flush`](Self::flush).
    ///
    /// # Errors
    /// The connection is gone, or nothing is taken for now ([`is_wait`]).
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    /// Hands to the kernel what was taken; an error where it does not take all of it for now.
    ///
    /// # Errors
    /// As of [`write`](Self::write).
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }

    /// Reads once what the collector says, which is of no use; whether it has ended its side.
    ///
    /// # Errors
    /// The connection is gone, TLS is broken, or nothing was said ([`is_wait`]).
    pub fn look(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(socket) => socket.read(&mut [0; 512]).map(|bytes| bytes == 0),
            Self::Tls(stream) => stream.look(),
        }
    }

    /// Whether a collector that was not told that anything ends has ended its side.
    ///
    /// # Errors
    /// The connection is gone, or TLS is broken.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        for _ in 0..LOOKS_MAX {
            match self.look() {
                Ok(false) => {}
                Err(error) if is_wait(&error) => break,
                ended => return ended,
            }
        }
        Ok(false)
    }

    /// Takes the last word, that nothing more comes; it is to be flushed.
    pub fn end(&mut self) {
        if let Self::Tls(stream) = self {
            stream.end();
        }
    }

    /// Ends this side.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn shut(&self) -> io::Result<()> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.socket,
        };
        socket.shutdown(Shutdown::Write)
    }
}

/// Whether a call that waits no longer would have gone on.
#[must_use]
pub fn is_wait(error: &io::Error) -> bool {
    let waits = [
        io::ErrorKind::WouldBlock,
        io::ErrorKind::TimedOut,
        io::ErrorKind::Interrupted,
    ];
    waits.contains(&error.kind())
}
