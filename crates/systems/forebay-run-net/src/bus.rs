//! Which end point publishes what, and where: a directory of files, or a registry.
//!
//! A publisher announces an [`Offer`] and renews it; one that has died renews nothing, and its offer vanishes when its lease is over. A subscriber
//! looks at all offers now and then. Both do so in a thread of their own, so that a bus that is slow or away holds up no message.
//!
//! * `dir:PATH`: a file of JSON lines for each publisher, as the field's own bus has it; on a file system that all of them see.
//! * `tcp://HOST:PORT`: a [`Registry`], which is asked and told in JSON lines, over TLS where messages are.

mod announcer;
mod directory;
mod finder;
mod lines;
mod registry;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use forebay_msg::Entry;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use announcer::Announcer;
pub use finder::Finder;
pub use lines::{Answer, Request};
pub use registry::{Registry, RegistrySummary};

use crate::Address;

/// An offer that is not renewed for so long is over.
pub const LEASE: Duration = Duration::from_secs(5);
/// So often it is renewed, and so often all offers are looked at.
const BEAT: Duration = Duration::from_millis(1000);
/// Longest time that one exchange with a registry may take.
const EXCHANGE_LIMIT: Duration = Duration::from_secs(2);
/// How long a thread of a bus sleeps at once: an order to end costs this much.
const NAP: Duration = Duration::from_millis(20);
/// Longest name of a publisher, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Most patterns of one offer.
const TAGS_MAX: usize = 65_536;
/// Bytes of memory of an offer beside its texts and patterns: its place in a list that grows by doubling, and what an allocator adds.
const OFFER_COST_BYTES: usize = 512;

/// What a publisher offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// The publisher's name.
    pub name: String,
    /// Where it listens.
    pub address: String,
    /// Its tags: those that equal `tag` where `mask` has ones.
    pub tags: Vec<Tags>,
    /// The host it runs on, for people.
    pub host: String,
    /// Its process there, for people.
    pub pid: u32,
}

/// A pattern of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tags {
    /// The bits.
    pub tag: u64,
    /// The bits that count; all ones for one tag.
    pub mask: u64,
}

/// What is wrong with an offer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OfferError {
    /// Its name is empty, too long, or has other characters.
    #[error("{0:?} is no name of 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.'")]
    Name(String),
    /// Its address is none.
    #[error(transparent)]
    Address(#[from] super::AddressError),
    /// Too many patterns.
    #[error("{0} patterns of tags; at most {TAGS_MAX}")]
    Tags(usize),
}

impl Offer {
    /// An offer of this process.
    #[must_use]
    pub fn new(name: &str, address: &Address, entries: &[Entry]) -> Self {
        let tags = entries.iter().map(|entry| Tags {
            tag: entry.tag,
            mask: entry.mask,
        });
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
        Self {
            name: name.to_owned(),
            address: address.to_string(),
            tags: tags.collect(),
            host: host.unwrap_or_default().trim().to_owned(),
            pid: std::process::id(),
        }
    }

    /// Holds it against the limits; where it listens.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check(&self) -> Result<Address, OfferError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let name = &self.name;
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) {
            return Err(OfferError::Name(
                name.chars().take(NAME_BYTES_MAX).collect(),
            ));
        }
        if self.tags.len() > TAGS_MAX {
            return Err(OfferError::Tags(self.tags.len()));
        }
        Ok(self.address.parse()?)
    }

    /// Takes no more memory than it needs.
    fn shrink(&mut self) {
        self.tags.shrink_to_fit();
    }

    /// Bytes of memory, when it is shrunk: fewer than those of its line, but for what every offer costs.
    fn bytes(&self) -> usize {
        let texts = self.name.capacity() + self.address.capacity() + self.host.capacity();
        OFFER_COST_BYTES + self.tags.capacity() * size_of::<Tags>() + texts
    }

    /// Whether it has a tag that one of `entries` asks for.
    #[must_use]
    pub fn has_any(&self, entries: &[Entry]) -> bool {
        let meet =
            |tags: &Tags, entry: &Entry| (tags.tag ^ entry.tag) & tags.mask & entry.mask == 0;
        self.tags
            .iter()
            .any(|tags| entries.iter().any(|entry| meet(tags, entry)))
    }
}

/// Where offers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bus {
    /// A file for each publisher.
    Directory(PathBuf),
    /// The address of a registry, of TCP.
    Registry(Address),
}

impl FromStr for Bus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("dir:").filter(|path| !path.is_empty()) {
            return Ok(Self::Directory(path.into()));
        }
        match text.parse() {
            Ok(place @ Address::Tcp { .. }) => Ok(Self::Registry(place)),
            _ => Err("it is no bus; write dir:/path/of/a/directory or tcp://HOST:PORT".into()),
        }
    }
}

impl fmt::Display for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "dir:{}", path.display()),
            Self::Registry(place) => place.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn a_bus_comes_back_from_its_text() {
        for text in [
            "dir:/run/bus",
            "tcp://[::1]:7000",
            "tcp://bus.example.org:7000",
        ] {
            assert_eq!(text.parse::<Bus>().unwrap().to_string(), text);
        }
        for text in ["", "dir:", "/run/bus", "shm://bus", "tcp://host"] {
            assert!(
                text.parse::<Bus>().unwrap_err().contains("dir:/path"),
                "{text}"
            );
        }
    }

    #[test]
    fn offers_meet_what_is_asked_for() {
        let address = "tcp://10.0.0.1:7100".parse().unwrap();
        let offer = Offer::new(
            "a",
            &address,
            &[
                Entry::one(0x1042),
                Entry {
                    tag: 0x2000,
                    mask: 0xf000,
                },
            ],
        );
        assert_eq!(offer.check(), Ok(address));
        for (tag, mask, meets) in [
            (0x1042, u64::MAX, true),
            (0x1043, u64::MAX, false),
            (0x2abc, u64::MAX, true),
            (0x1000, 0xf000, true),
            (0x3000, 0xf000, false),
            (0, 0, true),
        ] {
            assert_eq!(
                offer.has_any(&[Entry { tag, mask }]),
                meets,
                "{tag:x}/{mask:x}"
            );
        }
    }

    #[test]
    fn an_offer_that_is_none_is_named() {
        let good = Offer::new("a", &"shm://b".parse().unwrap(), &[]);
        let with = |change: fn(&mut Offer)| {
            let mut offer = good.clone();
            change(&mut offer);
            offer.check().unwrap_err()
        };
        assert!(matches!(
            with(|offer| offer.name = "../x".into()),
            OfferError::Name(_)
        ));
        assert!(matches!(
            with(|offer| offer.name = "x".repeat(65)),
            OfferError::Name(_)
        ));
        assert!(matches!(
            with(|offer| offer.address = "ftp://x".into()),
            OfferError::Address(_)
        ));
        let many = with(|offer| offer.tags = vec![Tags { tag: 0, mask: 0 }; TAGS_MAX + 1]);
        assert!(matches!(many, OfferError::Tags(65_537)));
    }
}
