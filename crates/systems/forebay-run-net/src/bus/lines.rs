//! What is said to a registry and by it: one JSON object on each line.

use std::io::{self, ErrorKind};
use std::time::Instant;

use forebay_link::bytes::{self, Address, ByteLink, ByteLinkError, Received, Security, Terms};
use forebay_sys::SysError;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{EXCHANGE_LIMIT, Offer};
use crate::hub::Hub;

/// Longest line: an offer of all tags that it may have.
pub(super) const LINE_BYTES_MAX: usize = 4 << 20;
/// A page of offers has so many bytes at the most, or one offer. As many clients as there may be take less memory with one page each than the registry has
/// for them: a client of which no more is kept pays for no other.
pub(super) const PAGE_BYTES_MAX: usize = 64 << 10;
/// Longest answer, a page: a client takes no more of a registry that goes on and on.
const ANSWER_BYTES_MAX: usize = LINE_BYTES_MAX + (4 << 10);
/// All offers of a bus together, in bytes of their lines: a registry keeps no more of them.
pub(super) const OFFERS_BYTES_MAX: usize = 128 << 20;
/// What is found on a bus takes so many bytes of memory at the most: as many as a registry may keep for as many clients as it may have.
pub(super) const FOUND_BYTES_MAX: usize = OFFERS_BYTES_MAX + (1 << 20);

/// What a registry is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Keeps this connection's offer for another lease.
    Announce(Offer),
    /// Asks for all offers, of which the answer may have only the first.
    Find,
    /// Asks for those behind a page.
    FindAfter(u64),
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// The offer is kept.
    Kept,
    /// All offers that are left.
    Offers(Vec<Offer>),
    /// The next ones, and there are more behind `last`.
    Page {
        /// At least one.
        offers: Vec<Offer>,
        /// Rises from page to page.
        last: u64,
    },
    /// What was said cannot be served.
    Refused(String),
}

/// A client's connection to a registry.
#[derive(Debug)]
pub(super) struct Client {
    link: Box<dyn ByteLink>,
    hub: Hub,
}

impl Client {
    pub(super) fn connect(place: &Address, security: &Security) -> Result<Self, BusError> {
        let terms = Terms {
            security: security.clone(),
            ..Terms::default()
        };
        let link = bytes::connect(place, terms)?;
        let hub = Hub::new()?;
        hub.add(&*link, true)?;
        Ok(Self { link, hub })
    }

    /// Says one thing and reads the answer to it.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Answer, BusError> {
        let until = Instant::now() + EXCHANGE_LIMIT;
        let mut line = serde_json::to_vec(request).map_err(io::Error::from)?;
        line.push(b'\n');
        let mut unsaid = line.as_slice();
        let mut answer = Vec::new();
        while answer.last() != Some(&b'\n') {
            if !unsaid.is_empty() {
                let taken = self.link.send(&[unsaid])?;
                unsaid = &unsaid[taken..];
            }
            match self.link.receive()? {
                Received::Some => {
                    let bytes = self.link.bytes();
                    answer.extend_from_slice(bytes);
                    let count = bytes.len();
                    self.link.used(count);
                }
                Received::Nothing => self.wait(until, !unsaid.is_empty())?,
                Received::Ended => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            }
            if answer.len() > ANSWER_BYTES_MAX {
                return Err(io::Error::from(ErrorKind::InvalidData).into());
            }
        }
        Ok(serde_json::from_slice(&answer).map_err(io::Error::from)?)
    }

    fn wait(&mut self, until: Instant, for_room: bool) -> Result<(), BusError> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::from(ErrorKind::TimedOut).into());
        }
        self.hub.change(&*self.link, for_room)?;
        if self.link.arm(for_room)? {
            self.hub.sleep(left)?;
        }
        self.link.disarm();
        Ok(())
    }
}

/// Why a bus does not work.
#[derive(Debug, Error)]
pub(super) enum BusError {
    /// The system, or what was said.
    #[error(transparent)]
    System(#[from] io::Error),
    /// Its descriptors.
    #[error(transparent)]
    Resource(#[from] SysError),
    /// The connection.
    #[error(transparent)]
    Link(#[from] ByteLinkError),
    /// The registry's own words.
    #[error("{0}")]
    Refused(String),
}

impl BusError {
    /// What kind the system says it is; none when the error says itself what to do.
    pub(super) fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::System(error) => Some(error.kind()),
            Self::Link(
                ByteLinkError::Connect { source, .. } | ByteLinkError::Lost { source, .. },
            ) => Some(source.kind()),
            Self::Resource(_) | Self::Link(_) | Self::Refused(_) => None,
        }
    }
}
