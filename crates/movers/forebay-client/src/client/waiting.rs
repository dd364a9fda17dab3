//! How a client waits, alone or within what else its program waits for.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use forebay_sys::seqpacket::Arrived;
use forebay_sys::wait;

use super::{Client, deadline_ns};
use crate::error::ClientError;
use crate::protocol::{Message, RECORD_BYTES_MAX};

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// A frame is there to be received.
    Frame,
    /// Buffers for frames to be sent are back, after [`SendError::Full`](crate::SendError::Full).
    Room,
    /// The time has come.
    Due,
    /// A signal was handled by this thread, or the bell rang for what was taken already: wait again.
    Early,
}

impl AsFd for Client {
    /// Readable when the daemon has rung, or is gone: see [`Client::arm`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Client {
    /// Flushes, and sleeps until a frame has come, buffers are back after [`SendError::Full`](crate::SendError::Full), the daemon is gone, or that time has come.
    ///
    /// # Errors
    /// The daemon is gone ([`ClientError::Gone`]): connect again. It has refused this client from now on, or its memory has what an honest one does not write.
    pub fn wait(&mut self, until: Instant) -> Result<Woken, ClientError> {
        self.flush();
        self.ask();
        let woken = self.sleep(until);
        self.take_back();
        woken
    }

    /// Flushes and asks to be woken, for a program that waits for more than this client: nothing is there yet, and the descriptor of this client ([`AsFd`])
    /// becomes readable when something is. Call [`Self::wait`] behind that, with a time that has come, as it takes the bell away. What is there already is told.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn arm(&mut self) -> Result<Option<Woken>, ClientError> {
        self.flush();
        self.ask();
        let found = match self.found() {
            Ok(None) => self.farewell.take().map_or(Ok(None), Err),
            other => other,
        };
        if !matches!(found, Ok(None)) {
            self.take_back();
        }
        found
    }

    fn ask(&mut self) {
        self.receiver.data.prepare();
        if self.is_full {
            // Noted here, as what is found ends `is_full`: a question that is not taken back has the daemon ring for ever.
            self.asks_for_room = true;
            self.sender.returns.prepare();
        }
    }

    fn take_back(&mut self) {
        self.receiver.data.finish();
        if std::mem::take(&mut self.asks_for_room) {
            self.sender.returns.finish();
        }
    }

    fn sleep(&mut self, until: Instant) -> Result<Woken, ClientError> {
        if let Some(found) = self.found()? {
            return Ok(found);
        }
        if let Some(farewell) = self.farewell.take() {
            return Err(farewell);
        }
        let woken = wait::sleep_until_or([self.socket.as_fd()], deadline_ns(until), 0)?;
        if matches!(woken, wait::Woken::Ready { .. }) {
            self.farewell = self.hear().err();
        }
        // What the daemon gave before it went is not lost, and why it went is told behind that.
        if let Some(found) = self.found()? {
            return Ok(found);
        }
        match (self.farewell.take(), woken) {
            (Some(farewell), _) => Err(farewell),
            (None, wait::Woken::Due { .. }) => Ok(Woken::Due),
            (None, _) => Ok(Woken::Early),
        }
    }

    /// What there is to do.
    fn found(&mut self) -> Result<Option<Woken>, ClientError> {
        if self.look()? {
            return Ok(Some(Woken::Frame));
        }
        let is_room = self.is_full && self.has_room()?;
        self.is_full &= !is_room;
        Ok(is_room.then_some(Woken::Room))
    }

    /// What the daemon says: bells, which are taken away, or a farewell.
    fn hear(&self) -> Result<(), ClientError> {
        let mut record = [0; RECORD_BYTES_MAX];
        loop {
            let bytes = match self.socket.receive(&mut record)? {
                Arrived::Nothing => return Ok(()),
                Arrived::End => return Err(ClientError::Gone),
                Arrived::Record(bytes) => bytes,
            };
            match Message::parse(&record[..bytes])? {
                Message::Bell => {}
                Message::Refusal(refusal) => return Err(ClientError::Refused(refusal)),
                other => {
                    return Err(ClientError::Unexpected {
                        expected: "a bell",
                        found: other.kind_name(),
                    });
                }
            }
        }
    }
}
