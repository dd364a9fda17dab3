//! What a client and the daemon say to each other beside shared memory: one record each way at first, and bells.
//!
//! All numbers are little-endian. A record begins with a head of 8 bytes, and is exactly as long as its head says:
//!
//! | bytes | what |
//! |---|---|
//! | 0–3 | `FBMX` |
//! | 4–5 | version, 1 |
//! | 6 | kind: 1 hello, 2 welcome, 3 refusal, 4 bell |
//! | 7 | count |
//!
//! *Hello* (client): the name of the place that it wants, as many bytes as the count says, 1 to 32 of `a`–`z`, `A`–`Z`, `0`–`9`, `-`, `_`, `.`.
//!
//! *Welcome* (daemon), with ten descriptors: the receiver's of the pool in which frames come, then the sender's of the pool in which they go.
//!
//! | bytes | what |
//! |---|---|
//! | 8–13 | Ethernet address of the client, of one station |
//! | 14–15 | its VLAN, 1 to 4094; 0: none of its own |
//! | 16–19 | MTU of the link, 68 to 65,536 bytes, without the frame's header |
//! | 20–23, 24–27 | frames of the receive pool, 1 to 2^20, and bytes of each, a multiple of 64 up to 2^20 |
//! | 28–31, 32–35 | the same of the transmit pool |
//! | 36 | number of the client |
//! | 37–39 | 0 |
//! | 40– | addresses, as many as the count says, up to 8, of 17 bytes: version, 4 or 6, and the address, that of version 4 with 12 zeroes behind it |
//!
//! *Refusal* (daemon): byte 8 is the reason, then a text, as many bytes as the count says, up to 200, of UTF-8 without control characters. The daemon ends
//! the connection behind it.
//!
//! *Bell* (daemon), with the count 0: the client has asked to be woken, and something is there. It does not come over the pools' own bells, as a client could
//! have the daemon wait at them; the client rings there.

mod parse;
#[cfg(test)]
mod tests;

use core::fmt;
use core::net::IpAddr;

use forebay_ring::FramePoolSpec;
use thiserror::Error;

/// Most bytes of a record.
pub const RECORD_BYTES_MAX: usize = 256;
/// Most bytes of a name.
pub const NAME_BYTES_MAX: usize = 32;
/// Most bytes of a refusal's text.
pub const TEXT_BYTES_MAX: usize = 200;
/// Most addresses of a client.
pub const ADDRESSES_MAX: usize = 8;
/// Descriptors that come with a welcome.
pub const WELCOME_FDS: usize = 2 * forebay_ring::SIDE_FDS;
/// Most frames of a pool.
pub const POOL_FRAMES_MAX: u32 = 1 << 20;
/// Most bytes of a frame of a pool.
pub const FRAME_BYTES_MAX: u32 = 1 << 20;
/// Least and most MTU of a link, in bytes.
pub const MTU_BYTES: core::ops::RangeInclusive<u32> = 68..=65_536;
/// Bytes of an Ethernet header, which the MTU does not count.
pub const HEADER_BYTES: usize = 14;

const MAGIC: &[u8; 4] = b"FBMX";
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 8;
const WELCOME_BYTES: usize = 40;
const ADDRESS_BYTES: usize = 17;

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REFUSAL: u8 = 3;
const BELL: u8 = 4;

/// The name of a client's place, as the daemon's file has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(String);

impl Name {
    /// Takes a name.
    ///
    /// # Errors
    /// It is empty, too long, or has other characters than names have.
    pub fn new(name: &str) -> Result<Self, MessageError> {
        let is_of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_of_a_name) {
            Ok(Self(name.to_owned()))
        } else {
            Err(MessageError::Name)
        }
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The shape of a pool of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Frames, 1 to [`POOL_FRAMES_MAX`].
    pub frames: u32,
    /// Bytes of each, a multiple of 64 up to [`FRAME_BYTES_MAX`].
    pub frame_bytes: u32,
}

impl PoolShape {
    /// The pool's spec, under this name.
    #[must_use]
    pub fn spec(self, name: &str) -> FramePoolSpec {
        FramePoolSpec {
            name: name.into(),
            frames: self.frames,
            frame_bytes: self.frame_bytes,
        }
    }

    /// Whether it is within its limits.
    #[must_use]
    pub const fn is_admitted(self) -> bool {
        let (frames, bytes) = (self.frames, self.frame_bytes);
        frames >= 1
            && frames <= POOL_FRAMES_MAX
            && bytes >= 64
            && bytes <= FRAME_BYTES_MAX
            && bytes.is_multiple_of(64)
    }
}

/// What a client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Its number.
    pub client: u8,
    /// Its Ethernet address, which its frames must name as their sender.
    pub mac: [u8; 6],
    /// Its VLAN, 1 to 4094, if it has one.
    pub vlan: Option<u16>,
    /// MTU of the link in bytes: a frame has 14 more at most, and 4 more for a VLAN tag.
    pub mtu_bytes: u32,
    /// The pool in which frames come.
    pub receive: PoolShape,
    /// The pool in which frames go.
    pub transmit: PoolShape,
    /// Its addresses, at most [`ADDRESSES_MAX`], for which the daemon answers.
    pub addresses: Vec<IpAddr>,
}

/// Why a daemon refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// What it was told is no hello, or one of another version.
    Malformed = 1,
    /// No place of that name is for the user that asks.
    NotAllowed = 2,
    /// The place has a client already.
    Taken = 3,
    /// Too many others have connected and said nothing.
    Crowded = 4,
    /// The daemon lacks memory or descriptors.
    Resource = 5,
    /// The client has lied, and was disconnected.
    Faults = 6,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Malformed,
        Self::NotAllowed,
        Self::Taken,
        Self::Crowded,
        Self::Resource,
        Self::Faults,
    ];

    /// Its name in counts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NotAllowed => "not_allowed",
            Self::Taken => "taken",
            Self::Crowded => "crowded",
            Self::Resource => "resource",
            Self::Faults => "faults",
        }
    }
}

/// A refusal: the reason, and a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// What people are told; at most [`TEXT_BYTES_MAX`] bytes without control characters.
    text: String,
}

impl Refusal {
    /// With as much of the text as can be sent.
    #[must_use]
    pub fn new(reason: Reason, text: &str) -> Self {
        let shown = |character: char| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        };
        let mut kept = String::new();
        for character in text.chars().map(shown) {
            if kept.len() + character.len_utf8() > TEXT_BYTES_MAX {
                break;
            }
            kept.push(character);
        }
        Self { reason, text: kept }
    }

    /// What people are told.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.reason.name())
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A client wants a place.
    Hello(Name),
    /// It has it.
    Welcome(Welcome),
    /// It does not get it, or has lost it.
    Refusal(Refusal),
    /// Something is there for a client that sleeps.
    Bell,
}

/// Bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// It is shorter than a head, or its head is another protocol's.
    #[error("no record of this protocol")]
    Head,
    /// It is of another version.
    #[error("version {found}; {VERSION} is spoken here")]
    Version {
        /// What came.
        found: u16,
    },
    /// There is no such kind.
    #[error("a record of kind {found}; 1 to 4 are known")]
    Kind {
        /// What came.
        found: u8,
    },
    /// It is not as long as its head says.
    #[error("a record of {found} bytes; by its head it has {expected}")]
    Length {
        /// By its head.
        expected: usize,
        /// What came.
        found: usize,
    },
    /// Its count is beyond what its kind has.
    #[error("a count of {found}; at most {most}")]
    Count {
        /// What came.
        found: usize,
        /// The most of its kind.
        most: usize,
    },
    /// A name that is none.
    #[error("a name has 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.'")]
    Name,
    /// A field of a welcome has a value that cannot be.
    #[error("{field} is {found}, which cannot be")]
    Field {
        /// The field.
        field: &'static str,
        /// What came.
        found: u64,
    },
    /// There is no such reason.
    #[error("a refusal for reason {found}; 1 to 6 are known")]
    Reason {
        /// What came.
        found: u8,
    },
    /// A text that is not UTF-8, or has control characters.
    #[error("a text with characters that people cannot read")]
    Text,
}
