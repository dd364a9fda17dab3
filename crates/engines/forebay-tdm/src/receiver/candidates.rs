//! Senders that have said hello and have not answered yet.
//!
//! A place is given to a sender that answers, not to a hello: anybody can say hello, also in the name of an address that is not its own, and would keep places from those
//! that come. So the first welcome names no place ([`NO_SENDER`](forebay_wire::tdm::NO_SENDER)); what its reader says next proves that it was read, and gets one.

use std::collections::VecDeque;
use std::net::SocketAddr;

use forebay_wire::tdm::{Carries, Hello};

/// Hellos that may wait for an answer. Of a flood the oldest are forgotten; their senders say hello again.
pub(super) const CANDIDATES_MAX: usize = 512;

/// One that was welcomed and has no place.
#[derive(Debug)]
pub(super) struct Candidate {
    from: SocketAddr,
    start: u8,
    nonce: u64,
    share: u16,
    packet_bytes_max: u16,
    carries: Carries,
    name: String,
}

impl Candidate {
    /// What it said.
    pub(super) fn hello(&self) -> Hello<'_> {
        Hello {
            nonce: self.nonce,
            share: self.share,
            packet_bytes_max: self.packet_bytes_max,
            carries: self.carries,
            name: &self.name,
        }
    }
}

/// All of them, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    waiting: VecDeque<Candidate>,
    next: u8,
    forgotten: u64,
}

impl Candidates {
    /// Keeps a hello; gives the start that its welcome has, by which its answer is known.
    pub(super) fn add(&mut self, from: SocketAddr, hello: &Hello<'_>) -> u8 {
        let same = |it: &&Candidate| (it.from, it.nonce) == (from, hello.nonce);
        if let Some(known) = self.waiting.iter().find(same) {
            return known.start;
        }
        if self.waiting.len() >= CANDIDATES_MAX {
            self.waiting.pop_front();
            self.forgotten += 1;
        }
        let start = self.next;
        self.next = start.wrapping_add(1);
        self.waiting.push_back(Candidate {
            from,
            start,
            nonce: hello.nonce,
            share: hello.share,
            packet_bytes_max: hello.packet_bytes_max,
            carries: hello.carries,
            name: hello.name.to_owned(),
        });
        start
    }

    /// The one that answers, which is none any more.
    pub(super) fn take(&mut self, from: SocketAddr, start: u8) -> Option<Candidate> {
        let same = |it: &Candidate| (it.from, it.start) == (from, start);
        // Of two with one number the later one is meant: the other one waits for long.
        let at = self.waiting.iter().rposition(same)?;
        self.waiting.remove(at)
    }

    /// Hellos that nobody has followed up so far.
    pub(super) fn unanswered(&self) -> u64 {
        self.forgotten + self.waiting.len() as u64
    }
}
