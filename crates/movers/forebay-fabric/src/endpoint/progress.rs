//! How an end point gets on.

use std::time::{Duration, Instant};

use super::{End, Endpoint, Returned};
use forebay_wire::fabric::Hello;

use crate::error::{FabricError, Fault};
use crate::sys::{self, Completion, Event, Page, Posted};

/// When a finished end point is dropped, what it still has to send may take so long.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
const DRAIN_STEP: Duration = Duration::from_micros(100);

/// After so many looks at which nothing was complete, one looks at the connection, too.
const IDLE_LOOKS_MAX: u32 = 16;

impl Endpoint {
    pub(super) fn measure(&self, parts: &[&[u8]], body: usize) -> Result<usize, FabricError> {
        if self.end != End::Open {
            return Err(FabricError::AfterEnd);
        }
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>() + body;
        let most = self.page_bytes_max();
        if bytes > most {
            return Err(FabricError::TooLong { bytes, most });
        }
        Ok(bytes)
    }

    pub(super) fn is_ready(&mut self) -> Result<bool, FabricError> {
        if !self.connected {
            self.look();
        }
        self.may_send()
    }

    /// That the connection is gone shows when all that came before is read.
    fn may_send(&self) -> Result<bool, FabricError> {
        let is_page = self.at_hand.is_some() || !self.arrived.is_empty();
        let has_more = is_page || self.peer_ended && !self.told;
        if has_more && self.broken.is_none() && self.gone.is_some() {
            return Ok(false);
        }
        self.alive()?;
        Ok(self.connected)
    }

    pub(super) fn free_page(&mut self) -> Result<Option<Page>, FabricError> {
        if self.free_to_send.is_empty() {
            self.look();
            if !self.may_send()? {
                return Ok(None);
            }
        }
        let page = self.free_to_send.pop();
        if page.is_none() {
            self.totals.sends_without_room += 1;
        }
        Ok(page)
    }

    /// The provider did not take a send.
    pub(super) fn no_room(&mut self, code: i64) -> Result<usize, FabricError> {
        if code == -i64::from(libc::EAGAIN) {
            self.totals.sends_without_room += 1;
            self.look();
        } else {
            let fault = self.channel.fault(code);
            self.lose(fault);
        }
        self.may_send()?;
        Ok(0)
    }

    /// An error when the connection is gone or broken.
    pub(super) fn alive(&self) -> Result<(), FabricError> {
        if let Some(what) = self.broken {
            let peer = self.peer.clone();
            return Err(FabricError::Broken { peer, what });
        }
        let Some(fault) = self.gone.clone() else {
            return Ok(());
        };
        if !self.connected {
            let address = self.peer.clone();
            return Err(FabricError::Connect { address, fault });
        }
        Err(FabricError::Lost {
            peer: self.peer.clone(),
            fault,
            unconfirmed_pages: self.unconfirmed_pages(),
        })
    }

    pub(super) fn lose(&mut self, fault: Fault) {
        self.gone.get_or_insert(fault);
    }

    /// Gets on: completions, pages to post, the end to send, and at times events of the connection, which cost a system call.
    pub(super) fn look(&mut self) {
        let is_due = !self.connected || self.idle_looks >= IDLE_LOOKS_MAX;
        self.look_at(is_due);
    }

    /// Gets on, and misses nothing that has happened to the connection.
    pub(super) fn look_at_all(&mut self) {
        self.look_at(true);
    }

    fn look_at(&mut self, connection: bool) {
        if self.broken.is_some() {
            return;
        }
        if connection && self.gone.is_none() {
            self.idle_looks = 0;
            self.look_at_connection();
        }
        // Bounded: each page comes back at most once, as pages that arrive are kept until they are used.
        loop {
            let count = self.look_at_completions();
            self.post_receives();
            self.idle_looks = if count == 0 { self.idle_looks + 1 } else { 0 };
            if count == 0 || self.gone.is_none() {
                break;
            }
        }
        self.post_end();
    }

    /// Reads what has happened to the connection, until something counts.
    fn look_at_connection(&mut self) {
        loop {
            match self.channel.next_event() {
                Ok(Some(Event::Other | Event::Request { .. })) => continue,
                Ok(Some(Event::Connected { data })) => self.be_connected(&data),
                Ok(Some(Event::Shutdown)) => {
                    let fault = self.channel.fault(libc::ECONNRESET.into());
                    self.lose(fault);
                }
                Ok(Some(Event::Failed(fault))) => self.lose(fault),
                Ok(None) => {}
                Err(error) => self.fail(&error),
            }
            return;
        }
    }

    /// The connection is made; the peer's hello may have come with it.
    fn be_connected(&mut self, data: &[u8]) {
        if !data.is_empty() {
            match Hello::parse(data) {
                Ok(hello) => self.meet(hello),
                Err(what) => {
                    self.broken = Some(what);
                    return;
                }
            }
        }
        self.connected = true;
    }

    /// A call failed that the connection cannot do without.
    fn fail(&mut self, error: &FabricError) {
        let fault = error.fault().cloned();
        self.lose(fault.unwrap_or_else(|| self.channel.fault(libc::EIO.into())));
    }

    pub(super) fn look_at_completions(&mut self) -> usize {
        let mut found = std::mem::take(&mut self.found);
        let polled = self.channel.poll(|completion| found.push(completion));
        for completion in found.drain(..) {
            self.take(completion);
        }
        self.found = found;
        match polled {
            Ok(count) => count,
            Err(error) => {
                self.fail(&error);
                0
            }
        }
    }

    pub(super) fn take(&mut self, completion: Completion) {
        let Completion { what, result } = completion;
        let sent = result.is_ok();
        match (what, &result) {
            (Posted::Receive(page), Ok(bytes)) => self.arrive(page, *bytes),
            (Posted::Receive(page), Err(fault)) => {
                self.to_post.push(page);
                self.misses_a_page = true;
                if fault.errno == sys::TRUNCATED || fault.errno == libc::EMSGSIZE {
                    self.broken = Some("it sent more than a page");
                }
            }
            (Posted::Send(page), _) => {
                self.free_to_send.push(page);
                self.count(sent);
            }
            (Posted::Piece { piece, user, .. }, _) => {
                self.count(sent);
                self.returned.push_back(Returned { piece, user, sent });
            }
            (Posted::End, Ok(_)) => self.end = End::Sent,
            (Posted::End, Err(_)) => {}
        }
        if let Err(fault) = result {
            // Cancelled is what is left when a connection has gone.
            let is_rest = fault.errno == libc::ECANCELED;
            let reset = || self.channel.fault(libc::ECONNRESET.into());
            let fault = if is_rest { reset() } else { fault };
            self.lose(fault);
        }
    }

    pub(super) fn arrive(&mut self, page: Page, bytes: usize) {
        if self.misses_a_page {
            self.to_post.push(page);
        } else if self.peer_ended {
            self.broken = Some("it sent after its end");
        } else if bytes > self.config.page_bytes {
            self.broken = Some("it sent more than a page");
        } else if bytes == 0 {
            self.peer_ended = true;
            self.to_post.push(page);
        } else {
            self.totals.pages_received += 1;
            self.totals.bytes_received += bytes as u64;
            self.arrived.push_back((page, bytes));
        }
    }

    pub(super) fn count(&mut self, sent: bool) {
        if sent {
            self.totals.pages_completed += 1;
        } else {
            self.totals.pages_failed += 1;
        }
    }

    /// A connection that is gone takes no pages.
    pub(super) fn post_receives(&mut self) {
        if self.gone.is_some() {
            return;
        }
        while let Some(page) = self.to_post.pop() {
            if let Err(refused) = self.channel.post_receive(page, self.config.page_bytes) {
                self.to_post.push(refused.back);
                if refused.code != -i64::from(libc::EAGAIN) {
                    let fault = self.channel.fault(refused.code);
                    self.lose(fault);
                }
                return;
            }
        }
    }

    pub(super) fn post_end(&mut self) {
        if self.end != End::Wanted || !self.connected || self.gone.is_some() {
            return;
        }
        match self.channel.post_end() {
            Ok(()) => self.end = End::Posted,
            Err(refused) if refused.code == -i64::from(libc::EAGAIN) => {}
            Err(refused) => {
                let fault = self.channel.fault(refused.code);
                self.lose(fault);
            }
        }
    }

    /// Whether it has [`finish`](Self::finish)ed and its drop would wait until all is out of its hands.
    pub fn drains(&mut self) -> bool {
        self.connected
            && self.end != End::Open
            && self.gone.is_none()
            && self.broken.is_none()
            && !self.is_drained()
    }

    pub(super) fn drain(&mut self) {
        let begun = Instant::now();
        while self.drains() && begun.elapsed() < DRAIN_LIMIT {
            std::thread::sleep(DRAIN_STEP);
        }
    }
}
