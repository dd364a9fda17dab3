//! One connection: a request, its answer, and what the client still sends. Nothing here waits.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use super::door::Counts;
use super::page::{Cut, answer};
use super::{EXCHANGE_LIMIT, REQUEST_BYTES_MAX, Shown};

/// What is read and thrown away of a request that was refused, so that the client sees the answer.
const REFUSED_BYTES_MAX: usize = 64 << 10;

/// How far it is; what comes first makes room first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It has its answer: closing on what it still sends would throw that away on its way.
    Draining,
    Reading,
    Writing,
}

pub(super) struct Exchange {
    stream: TcpStream,
    since: Instant,
    stage: Stage,
    head: Vec<u8>,
    answer: Vec<u8>,
    /// Bytes of the answer that were sent.
    sent: usize,
    /// Bytes that came after it.
    drained: usize,
}

impl Exchange {
    pub(super) fn new(stream: TcpStream, now: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            since: now,
            stage: Stage::Reading,
            head: Vec::new(),
            answer: Vec::new(),
            sent: 0,
            drained: 0,
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    /// When its time is over.
    pub(super) fn deadline(&self) -> Instant {
        self.since + EXCHANGE_LIMIT
    }

    /// Goes on as far as it can without waiting; false when it is over.
    pub(super) fn turn(&mut self, shown: &Shown, counts: &Counts) -> bool {
        loop {
            let gone_on = match self.stage {
                Stage::Reading => self.read(shown, counts),
                Stage::Writing => self.write(),
                Stage::Draining => self.drain(),
            };
            match gone_on {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Its place or its time is over: one that has not asked is told, as far as that does not wait.
    pub(super) fn dismiss(&mut self, shown: &Shown, counts: &Counts) {
        if self.stage == Stage::Reading {
            self.reply(Err(Cut::TooSlow), shown, counts);
            let _ = self.write();
        }
    }

    /// Reads up to the empty line.
    fn read(&mut self, shown: &Shown, counts: &Counts) -> io::Result<bool> {
        let mut piece = [0; 1024];
        let request = match self.stream.read(&mut piece)? {
            0 => Err(Cut::Gone),
            count => {
                self.head.extend_from_slice(&piece[..count]);
                match (is_whole(&self.head), self.head.len()) {
                    (true, _) => Ok(()),
                    (false, REQUEST_BYTES_MAX..) => Err(Cut::TooLong),
                    (false, _) => return Ok(true),
                }
            }
        };
        self.reply(request, shown, counts);
        Ok(true)
    }

    fn reply(&mut self, request: Result<(), Cut>, shown: &Shown, counts: &Counts) {
        let head = std::mem::take(&mut self.head);
        self.answer = answer(request.map(|()| head.as_slice()), shown, counts);
        self.stage = Stage::Writing;
    }

    fn write(&mut self) -> io::Result<bool> {
        let rest = &self.answer[self.sent..];
        if rest.is_empty() {
            self.stage = Stage::Draining;
            return self.stream.shutdown(Shutdown::Write).map(|()| true);
        }
        let count = self.stream.write(rest)?;
        self.sent += count;
        Ok(count > 0)
    }

    fn drain(&mut self) -> io::Result<bool> {
        let mut piece = [0; 4096];
        let count = self.stream.read(&mut piece)?;
        self.drained += count;
        Ok(count > 0 && self.drained < REFUSED_BYTES_MAX)
    }
}

fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n")
}
