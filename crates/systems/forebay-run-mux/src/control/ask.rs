//! The end that asks.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_sys::SysError;
use forebay_sys::clock::monotonic_ns;
use forebay_sys::seqpacket::{Arrived, SeqSocket};
use forebay_sys::wait;
use serde_json::Value;
use thiserror::Error;

use super::{ANSWER_BYTES_MAX, Answer, Change, Changed, Page, RecordError, Refused, Request};

/// An answer is waited for so long: longer than the daemon closes its books.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection that finds as many before it as may wait is tried again after so long, in ns.
const AGAIN_NS: u64 = 10_000_000;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum AskError {
    /// Its file is for other users.
    #[error("{}: this user may not ask; the multiplexer's own user and root may, and those of mux.control_uid in its file", path.display())]
    NotAllowed {
        /// The control socket.
        path: PathBuf,
    },
    /// Nobody listens there, or the socket cannot be used.
    #[error("{}: {source}; is a multiplexer running, and is this its control socket (key mux.control)?", path.display())]
    Connect {
        /// The control socket.
        path: PathBuf,
        /// What the kernel said.
        source: SysError,
    },
    /// The kernel refuses.
    #[error(transparent)]
    System(#[from] SysError),
    /// The daemon ended the connection, or said nothing in time.
    #[error("{}: the multiplexer {what}", path.display())]
    Silent {
        /// The control socket.
        path: PathBuf,
        /// What it did.
        what: &'static str,
    },
    /// What is asked is longer than a request may be.
    #[error("{}: {source}: say less at once", path.display())]
    Request {
        /// The control socket.
        path: PathBuf,
        /// What is wrong.
        source: RecordError,
    },
    /// What came is no answer.
    #[error("{}: {source}; is this the control socket (key mux.control) and not that of clients, and of this version?", path.display())]
    Record {
        /// The control socket.
        path: PathBuf,
        /// What is wrong.
        source: RecordError,
    },
    /// It says no.
    #[error("{}", .0)]
    Refused(Refused),
}

/// A connection to the control socket of a multiplexer.
#[derive(Debug)]
pub struct Control {
    socket: SeqSocket,
    path: PathBuf,
}

impl Control {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there, or this user may not.
    pub fn connect(path: &Path) -> Result<Self, AskError> {
        let path = path.to_path_buf();
        let until_ns = monotonic_ns() + PATIENCE.as_nanos() as u64;
        loop {
            match SeqSocket::connect(&path) {
                Ok(socket) => return Ok(Self { socket, path }),
                // Others ask at the same time, and those that wait to be taken in are as many as may be.
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && monotonic_ns() < until_ns =>
                {
                    wait::sleep_until_or([], monotonic_ns() + AGAIN_NS, 0)?;
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    return Err(AskError::NotAllowed { path });
                }
                Err(source) => return Err(AskError::Connect { path, source }),
            }
        }
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// There is none within 10 s, or it is a refusal.
    pub fn ask(&self, request: &Request) -> Result<Answer, AskError> {
        let record = request.emit().map_err(|source| AskError::Request {
            path: self.path.clone(),
            source,
        })?;
        // A refusal may be here before a word was said.
        let said = self.socket.send(&record, &[]);
        let until_ns = monotonic_ns() + PATIENCE.as_nanos() as u64;
        let mut answer = vec![0; ANSWER_BYTES_MAX + 1];
        let bytes = loop {
            match self.socket.receive(&mut answer)? {
                Arrived::Record(bytes) => break bytes,
                Arrived::End => {
                    said?;
                    return Err(self.silent("ended the connection"));
                }
                Arrived::Nothing if monotonic_ns() >= until_ns => {
                    return Err(self.silent("has not answered within 10 s"));
                }
                Arrived::Nothing => {
                    wait::sleep_until_or([self.socket.as_fd()], until_ns, 0)?;
                }
            }
        };
        match Answer::parse(&answer[..bytes]) {
            Ok(Answer::Refused(refused)) => Err(AskError::Refused(refused)),
            Ok(answer) => Ok(answer),
            Err(source) => Err(self.wrong(source)),
        }
    }

    /// How the multiplexer stands, with all of its clients.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn status(&self) -> Result<Value, AskError> {
        let mut first = 0;
        let mut whole: Option<Value> = None;
        loop {
            let Answer::Status(mut page) = self.ask(&Request::Status(Page { first }))? else {
                return Err(self.silent("answered something else"));
            };
            let next = page["next"]
                .as_u64()
                .and_then(|next| u32::try_from(next).ok());
            let clients = page["clients"].take();
            let all = whole.get_or_insert(page);
            match (&mut all["clients"], clients) {
                (Value::Array(all), Value::Array(more)) => all.extend(more),
                (all, more) => *all = more,
            }
            match next {
                Some(next) if next > first => first = next,
                _ => break,
            }
        }
        let mut whole = whole.unwrap_or_default();
        if let Some(whole) = whole.as_object_mut() {
            whole.remove("next");
        }
        Ok(whole)
    }

    /// Sets all of it, or nothing.
    ///
    /// # Errors
    /// As [`Self::ask`]; a refusal has all that is wrong.
    pub fn set(&self, changes: Vec<Change>) -> Result<Vec<Changed>, AskError> {
        match self.ask(&Request::Set(changes))? {
            Answer::Set(changed) => Ok(changed),
            _ => Err(self.silent("answered something else")),
        }
    }

    fn silent(&self, what: &'static str) -> AskError {
        let path = self.path.clone();
        AskError::Silent { path, what }
    }

    fn wrong(&self, source: RecordError) -> AskError {
        let path = self.path.clone();
        AskError::Record { path, source }
    }
}
