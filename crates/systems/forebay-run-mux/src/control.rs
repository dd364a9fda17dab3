//! What a multiplexer at work is asked and told beside its clients' door: how it stands (`forebay mux status`), and other settings (`forebay mux set`).
//!
//! The control socket keeps records apart (`SOCK_SEQPACKET`). A record has a head of 8 bytes, and behind it a text in JSON (UTF-8):
//!
//! | bytes | what |
//! |---|---|
//! | 0–3 | `FBMC` |
//! | 4–5 | version, 1, little-endian |
//! | 6 | kind: 1 request, 2 answer |
//! | 7 | 0 |
//!
//! A request has at most [`REQUEST_BYTES_MAX`] bytes, an answer at most [`ANSWER_BYTES_MAX`]. Each request has one answer; after a refusal for its user or its form the daemon ends
//! the connection. Requests:
//!
//! ```text
//! {"status":{"first":0}}                                             clients from this number on; the answer's "next" is the first that it has no room for
//! {"set":[{"of":{"client":"a"},"keys":{"rate_bps":"100M"}},          all or nothing; a value as a file has it, without quotes, or "default"
//!         {"of":{"class":0},"keys":{"policy":"token-bucket"}}]}
//! ```
//!
//! Answers: `{"status":{…}}`, `{"set":[{"of":…,"key":…,"before":…,"now":…}, …]}`, or `{"refused":{"reason":…,"text":…,"mistakes":[…]}}`.

mod ask;
mod change;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

pub use ask::{AskError, Control};
pub(crate) use change::{settings_of, settings_of_class};

/// Most bytes of a request, its head included.
pub const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Most bytes of an answer, its head included.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Clients of one answer.
pub const PAGE_CLIENTS: usize = 16;

const MAGIC: &[u8; 4] = b"FBMC";
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 8;
const REQUEST: u8 = 1;
const ANSWER: u8 = 2;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// How it stands.
    Status(Page),
    /// Other settings, all of them or none.
    Set(Vec<Change>),
}

/// A part of the list of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Number of its first client.
    pub first: u32,
}

/// Other settings of one client or class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The client or class.
    pub of: Target,
    /// Values by key, as a file has them, without quotes; `default`: what holds without the key.
    pub keys: BTreeMap<String, String>,
}

/// A client or a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A client's place, by its name.
    Client(String),
    /// A class, by its number.
    Class(u32),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(name) => write!(f, "client {name}"),
            Self::Class(number) => write!(f, "class {number}"),
        }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// How it stands.
    Status(Value),
    /// What was before, and is now.
    Set(Vec<Changed>),
    /// No, and nothing has changed.
    Refused(Refused),
}

/// A setting that was said: what it was, and what it is. `null` is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// The client or class.
    pub of: Target,
    /// The key.
    pub key: String,
    /// What it was.
    pub before: Value,
    /// What it is.
    pub now: Value,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            of,
            key,
            before,
            now,
        } = self;
        write!(f, "{of}: {key} = {now}, was {before}")
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Its user may not ask.
    NotAllowed,
    /// It is no request.
    Malformed,
    /// What it says cannot be set.
    Mistakes,
    /// Too many ask at once.
    Crowded,
}

impl Why {
    /// Its name in counts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotAllowed => "control_not_allowed",
            Self::Malformed => "control_malformed",
            Self::Mistakes => "control_mistakes",
            Self::Crowded => "control_crowded",
        }
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The reason.
    pub reason: Why,
    /// For people.
    pub text: String,
    /// All that is wrong with settings.
    pub mistakes: Vec<Mistake>,
}

impl Refused {
    /// Without mistakes in settings.
    #[must_use]
    pub fn new(reason: Why, text: impl Into<String>) -> Self {
        Self {
            reason,
            text: text.into(),
            mistakes: Vec::new(),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.mistakes
            .iter()
            .try_for_each(|mistake| write!(f, "\n{mistake}"))
    }
}

/// What is wrong with a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mistake {
    /// The client or class; empty: all of them together.
    pub of: String,
    /// The key; empty: of several keys together.
    pub key: String,
    /// The value, as it was said.
    pub value: String,
    /// What is wrong.
    pub wrong: String,
    /// What would be right.
    pub right: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            of,
            key,
            value,
            wrong,
            right,
            remedy,
        } = self;
        if !of.is_empty() {
            write!(f, "{of}: ")?;
        }
        if !key.is_empty() {
            write!(f, "{key} = {value}: ")?;
        }
        write!(f, "{wrong}\n  right:  {right}\n  remedy: {remedy}")
    }
}

/// Bytes that are no record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// It is longer than any is.
    #[error("a record of more than {most} bytes")]
    TooLong {
        /// The most of its kind.
        most: usize,
    },
    /// Its head is another protocol's, or another kind's.
    #[error("no record of this protocol")]
    Head,
    /// It is of another version.
    #[error("version {found}; {VERSION} is spoken here")]
    Version {
        /// What came.
        found: u16,
    },
    /// What stands behind the head is not what its kind has.
    #[error("{0}")]
    Body(String),
}

impl Request {
    /// Reads one.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(record: &[u8]) -> Result<Self, RecordError> {
        read(record, REQUEST, REQUEST_BYTES_MAX)
    }

    /// As it is sent.
    ///
    /// # Errors
    /// It is longer than a request may be.
    pub fn emit(&self) -> Result<Vec<u8>, RecordError> {
        write(self, REQUEST, REQUEST_BYTES_MAX)
    }
}

impl Answer {
    /// Reads one.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(record: &[u8]) -> Result<Self, RecordError> {
        read(record, ANSWER, ANSWER_BYTES_MAX)
    }

    /// As it is sent.
    ///
    /// # Errors
    /// It is longer than an answer may be.
    pub fn emit(&self) -> Result<Vec<u8>, RecordError> {
        write(self, ANSWER, ANSWER_BYTES_MAX)
    }
}

fn read<T: for<'de> Deserialize<'de>>(
    record: &[u8],
    kind: u8,
    most: usize,
) -> Result<T, RecordError> {
    if record.len() > most {
        return Err(RecordError::TooLong { most });
    }
    let Some((head, body)) = record.split_first_chunk::<HEAD_BYTES>() else {
        return Err(RecordError::Head);
    };
    if !head.starts_with(MAGIC) || head[6..] != [kind, 0] {
        return Err(RecordError::Head);
    }
    let found = u16::from_le_bytes([head[4], head[5]]);
    if found != VERSION {
        return Err(RecordError::Version { found });
    }
    serde_json::from_slice(body).map_err(|error| RecordError::Body(error.to_string()))
}

fn write(body: &impl Serialize, kind: u8, most: usize) -> Result<Vec<u8>, RecordError> {
    let mut record = MAGIC.to_vec();
    record.extend(VERSION.to_le_bytes());
    record.extend([kind, 0]);
    serde_json::to_writer(&mut record, body)
        .map_err(|error| RecordError::Body(error.to_string()))?;
    match record.len() <= most {
        true => Ok(record),
        false => Err(RecordError::TooLong { most }),
    }
}
