//! One client of a registry: what it has said, its offer, and what it has not taken yet.

use std::ops::Range;

use forebay_link::bytes::{ByteLink, ByteLinkError, Received};

use crate::bus::lines::LINE_BYTES_MAX;

#[derive(Debug)]
pub(super) struct Client {
    pub(super) link: Box<dyn ByteLink>,
    inbox: Vec<u8>,
    /// So many bytes of it are answered.
    answered: usize,
    /// No line ends in those between.
    looked: usize,
    /// One answer.
    outbox: Vec<u8>,
    /// So many bytes of it are taken.
    written: usize,
    /// Since when it has not been taken.
    owed_since_ns: Option<u64>,
    /// The text of its offer, or nothing.
    pub(super) offer: Vec<u8>,
    pub(super) until_ns: u64,
    pub(super) came_ns: u64,
    pub(super) heard_ns: u64,
    /// It has made no whole request yet.
    pub(super) is_stranger: bool,
}

impl Client {
    pub(super) fn new(link: Box<dyn ByteLink>, now_ns: u64) -> Self {
        Self {
            link,
            inbox: Vec::new(),
            answered: 0,
            looked: 0,
            outbox: Vec::new(),
            written: 0,
            owed_since_ns: None,
            offer: Vec::new(),
            until_ns: 0,
            came_ns: now_ns,
            heard_ns: now_ns,
            is_stranger: true,
        }
    }

    /// Memory that it takes beside its offer.
    pub(super) fn queued_bytes(&self) -> usize {
        self.inbox.capacity() + self.outbox.capacity()
    }

    /// Since when it has not taken an answer. It is not asked what else it wants.
    pub(super) fn owed_since_ns(&self) -> Option<u64> {
        self.owed_since_ns
    }

    /// Where the next line is that is to be answered.
    pub(super) fn line(&mut self) -> Option<Range<usize>> {
        let end = self.inbox[self.looked..]
            .iter()
            .position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.inbox.drain(..self.answered);
            if self.inbox.is_empty() {
                // An idle client takes no memory.
                self.inbox = Vec::new();
            }
            (self.answered, self.looked) = (0, self.inbox.len());
            return None;
        };
        let line = self.answered..self.looked + end;
        self.looked = line.end + 1;
        self.answered = self.looked;
        Some(line)
    }

    /// What it has said, to be looked at; it is given [back](Self::give_back).
    pub(super) fn take_said(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.inbox)
    }

    pub(super) fn give_back(&mut self, said: Vec<u8>) {
        self.inbox = said;
    }

    /// Takes in some of what has come; how much.
    pub(super) fn read(&mut self, now_ns: u64) -> Result<usize, &'static str> {
        if self.link.bytes().is_empty() && !self.look()? {
            return Ok(0);
        }
        self.heard_ns = now_ns;
        let bytes = self.link.bytes();
        self.inbox.extend_from_slice(bytes);
        let count = bytes.len();
        self.link.used(count);
        if self.inbox.len() > LINE_BYTES_MAX && !self.inbox[self.looked..].contains(&b'\n') {
            return Err("too_long");
        }
        Ok(count)
    }

    /// Whether more has come, which stays with the link.
    pub(super) fn look(&mut self) -> Result<bool, &'static str> {
        match self.link.receive().map_err(|error| lost(&error))? {
            Received::Nothing => Ok(false),
            Received::Ended => Err("closed"),
            Received::Some => Ok(true),
        }
    }

    /// Says the answer to a line, behind which nothing else waits.
    pub(super) fn say(&mut self, answer: Vec<u8>, now_ns: u64) -> Result<(), &'static str> {
        self.outbox = answer;
        self.owed_since_ns = Some(now_ns);
        self.write()
    }

    pub(super) fn write(&mut self) -> Result<(), &'static str> {
        while self.written < self.outbox.len() {
            let rest = &self.outbox[self.written..];
            match self.link.send(&[rest]).map_err(|error| lost(&error))? {
                0 => return Ok(()),
                count => self.written += count,
            }
        }
        self.outbox = Vec::new();
        self.written = 0;
        self.owed_since_ns = None;
        Ok(())
    }
}

/// Its name in the summary; one that just goes is not refused.
pub(super) fn lost(error: &ByteLinkError) -> &'static str {
    match error {
        ByteLinkError::Lost { .. } => "closed",
        error => {
            tracing::warn!(%error, "a client is let go");
            error.reason()
        }
    }
}
