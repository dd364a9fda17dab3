//! A connection to a collector whose calls wait: what is sent is taken, or an error.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::stream::{Stream, is_wait};

/// How long a collector is waited for: to take what is sent, and to close the connection at the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a collector is waited for any longer, as far as the process that waits is concerned.
pub type GoesOn = Arc<dyn Fn() -> bool + Send + Sync>;

/// Such a connection.
pub struct Tcp {
    stream: Stream,
    goes_on: GoesOn,
}

impl Tcp {
    /// Of a connection that is there already; its calls wait for a look each.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn of(stream: Stream, goes_on: GoesOn) -> io::Result<Self> {
        stream.set_waits(true)?;
        Ok(Self { stream, goes_on })
    }

    /// Whether a wait since then goes on.
    fn waits(&self, since: Instant) -> bool {
        (self.goes_on)() && since.elapsed() < PATIENCE
    }

    /// Sends all of a message.
    ///
    /// # Errors
    /// The connection is gone, or takes nothing for as long as it is waited for.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let (mut left, mut since) = (message, Instant::now());
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => {
                    left = &left[taken..];
                    since = Instant::now();
                }
                Err(error) if is_wait(&error) && self.waits(since) => {}
                Err(error) if is_wait(&error) => return Err(gone("takes nothing")),
                Err(error) => return Err(error),
            }
        }
        self.flush()
    }

    /// Waits until the kernel has all that was taken.
    fn flush(&mut self) -> io::Result<()> {
        let since = Instant::now();
        while let Err(error) = self.stream.flush() {
            match is_wait(&error) {
                true if self.waits(since) => {}
                true => return Err(gone("takes nothing")),
                false => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until the collector closes the connection, which it does when it has read to the end.
    ///
    /// # Errors
    /// It was closed before, is gone, or is not closed for as long as that is waited for.
    pub fn finish(mut self) -> io::Result<()> {
        // A collector that has closed before the end has not read all.
        self.stream.set_waits(false)?;
        if self.stream.has_ended()? {
            return Err(gone("closed the connection before the end"));
        }
        self.stream.set_waits(true)?;
        self.stream.end();
        self.flush()?;
        self.stream.shut()?;
        let since = Instant::now();
        loop {
            match self.stream.look() {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if is_wait(&error) => {}
                Err(error) => return Err(error),
            }
            if !self.waits(since) {
                return Err(gone("does not close the connection"));
            }
        }
    }
}

fn gone(what: &str) -> io::Error {
    let text = format!("the collector {what}; what it has of the last records is not known");
    io::Error::new(io::ErrorKind::ConnectionAborted, text)
}
