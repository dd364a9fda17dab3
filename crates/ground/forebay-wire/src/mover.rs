//! The mover's stream: built events from an event builder to a remote writer of files, over TCP.
//!
//! ```text
//! frame   +0 magic "FB"   +2 version 1   +3 kind   +4 body bytes u32   +8 body
//!
//! sender → mover                                   mover → sender
//! hello     name, and from where it can send       welcome   how far the mover has the stream
//! block     events of one run, with checksum       ack       the same, after each write
//! end       the sender's totals                    farewell  the mover's totals
//!                                                  refuse    why not
//! ```
//!
//! All numbers are little-endian. A *position* is a place in the sender's stream; it only grows, and each block says where it
//! begins and ends, so that nothing is lost or taken twice across a restart of either side. Every length is bounded
//! before anything is allocated for it.

mod error;
mod refusal;

use core::fmt;

pub use error::MoverError;
pub use refusal::Refusal;

/// Bytes of the head of every frame.
pub const HEAD_BYTES: usize = 8;
/// Bytes of the fields in front of a block's events.
pub const BLOCK_FIELDS_BYTES: usize = 48;
/// Most bytes of events in one block.
pub const BLOCK_BYTES_MAX: u32 = 64 << 20;
/// Longest name of a run, in bytes.
pub const RUN_ID_BYTES_MAX: usize = 64;
/// Longest name of a sink, in bytes.
pub const SINK_BYTES_MAX: usize = 32;
/// The version spoken here.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 2] = *b"FB";
const HELLO_BYTES: usize = 128;
const POSITION_BYTES: usize = 8;
const TOTALS_BYTES: usize = 40;

mod place {
    use core::ops::Range;

    pub(super) const BODY_BYTES: Range<usize> = 4..8;
    pub(super) const RUN_ID: Range<usize> = 32..96;
    pub(super) const SINK: Range<usize> = 96..128;
    pub(super) const RUN_ID_LENGTH: usize = 24;
    pub(super) const SINK_LENGTH: usize = 25;
}

/// The kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// First frame of a sender.
    Hello = 1,
    /// Answer to it: go on from here.
    Welcome = 2,
    /// The other answer: no; the connection ends.
    Refuse = 3,
    /// Events.
    Block = 4,
    /// How far the mover has them.
    Ack = 5,
    /// Nothing more comes.
    End = 6,
    /// Answer to it; the connection ends.
    Farewell = 7,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Hello,
        Self::Welcome,
        Self::Refuse,
        Self::Block,
        Self::Ack,
        Self::End,
        Self::Farewell,
    ];

    /// Least and most bytes of a body.
    const fn body_bytes(self) -> (usize, usize) {
        match self {
            Self::Hello => (HELLO_BYTES, HELLO_BYTES),
            Self::Welcome | Self::Refuse | Self::Ack => (POSITION_BYTES, POSITION_BYTES),
            Self::End | Self::Farewell => (TOTALS_BYTES, TOTALS_BYTES),
            Self::Block => (
                BLOCK_FIELDS_BYTES + 1,
                BLOCK_FIELDS_BYTES + BLOCK_BYTES_MAX as usize,
            ),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hello => "hello",
            Self::Welcome => "welcome",
            Self::Refuse => "refuse",
            Self::Block => "block",
            Self::Ack => "ack",
            Self::End => "end",
            Self::Farewell => "farewell",
        })
    }
}

/// The sender, and what it still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Name of the run.
    pub run_id: &'a str,
    /// Name of the sink in it.
    pub sink: &'a str,
    /// The oldest place in the stream that the sender can begin at.
    pub position: u64,
    /// Events before that place.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The fields in front of a block's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFields {
    /// Where in the stream it begins: where the one before ended.
    pub begin: u64,
    /// Where it ends.
    pub end: u64,
    /// Events of the stream up to its end, as the sender counts them.
    pub events_total: u64,
    /// Their bytes.
    pub bytes_total: u64,
    /// Run number of its events: one file.
    pub run: u32,
    /// Events in it.
    pub events: u32,
    /// CRC-32 (IEEE 802.3) of its events' bytes.
    pub crc32: u32,
    /// Bytes of its events.
    pub bytes: u32,
}

/// What one side counted over the whole stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Where the stream ends.
    pub position: u64,
    /// End: events sent and acknowledged. Farewell: events taken.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
    /// End: events given up unsent. Farewell: events dropped by the mover.
    pub events_lost: u64,
    /// Their bytes.
    pub bytes_lost: u64,
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// First frame of a sender.
    Hello(Hello<'a>),
    /// The mover has the stream up to this position.
    Welcome(u64),
    /// The mover goes no further; a number that is not known here stands for itself.
    Refuse(Result<Refusal, u32>),
    /// Events: whole ones, of one run.
    Block(BlockFields, &'a [u8]),
    /// The mover has written the stream up to this position.
    Ack(u64),
    /// The sender's totals.
    End(Totals),
    /// The mover's totals.
    Farewell(Totals),
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What follows.
    pub kind: Kind,
    /// Bytes of it.
    pub body_bytes: u32,
}

impl Head {
    /// Reads a head and holds its length against the limits of its kind.
    ///
    /// # Errors
    /// It is none, or its length is out of bounds.
    pub fn parse(head: &[u8; HEAD_BYTES]) -> Result<Self, MoverError> {
        let [m0, m1, version, kind, b0, b1, b2, b3] = *head;
        if [m0, m1] != MAGIC {
            return Err(MoverError::Magic { found: [m0, m1] });
        }
        if version != VERSION {
            return Err(MoverError::Version { found: version });
        }
        let mut known = Kind::ALL.into_iter();
        let kind = known
            .find(|known| *known as u8 == kind)
            .ok_or(MoverError::Kind { found: kind })?;
        let body_bytes = u32::from_le_bytes([b0, b1, b2, b3]);
        let (least, most) = kind.body_bytes();
        if !(least..=most).contains(&(body_bytes as usize)) {
            return Err(MoverError::Length { kind, body_bytes });
        }
        Ok(Self { kind, body_bytes })
    }

    /// Writes the head.
    #[must_use]
    pub fn emit(&self) -> [u8; HEAD_BYTES] {
        let mut head = [MAGIC[0], MAGIC[1], VERSION, self.kind as u8, 0, 0, 0, 0];
        head[place::BODY_BYTES].copy_from_slice(&self.body_bytes.to_le_bytes());
        head
    }

    /// Bytes of the whole frame.
    #[must_use]
    pub const fn frame_bytes(&self) -> usize {
        HEAD_BYTES + self.body_bytes as usize
    }
}

impl<'a> Frame<'a> {
    /// Reads the frame at the front of `buffer`: the frame and its bytes, or `None` while it is not whole.
    ///
    /// # Errors
    /// The bytes are no frame; a wrong head is found before its body has come.
    pub fn parse(buffer: &'a [u8]) -> Result<Option<(Self, usize)>, MoverError> {
        let Some(head) = buffer.first_chunk() else {
            // Garbage is refused as soon as it shows.
            let wrong = buffer
                .iter()
                .zip(&MAGIC)
                .any(|(found, magic)| found != magic);
            let found = [0, 1].map(|at| buffer.get(at).copied().unwrap_or(0));
            return if wrong {
                Err(MoverError::Magic { found })
            } else {
                Ok(None)
            };
        };
        let head = Head::parse(head)?;
        match buffer.get(HEAD_BYTES..head.frame_bytes()) {
            Some(body) => Ok(Some((Self::of_body(head.kind, body)?, head.frame_bytes()))),
            None => Ok(None),
        }
    }

    /// `body` has the length that its kind asks for.
    fn of_body(kind: Kind, body: &'a [u8]) -> Result<Self, MoverError> {
        let word = |at: usize| u64_at(body, at);
        let totals = Totals {
            position: word(0),
            events: word(8),
            bytes: word(16),
            events_lost: word(24),
            bytes_lost: word(32),
        };
        Ok(match kind {
            Kind::Hello => Self::Hello(Hello::of_body(body)?),
            Kind::Welcome => Self::Welcome(word(0)),
            Kind::Ack => Self::Ack(word(0)),
            Kind::Refuse => {
                let code = u32_at(body, 0);
                let mut known = Refusal::ALL.into_iter();
                Self::Refuse(known.find(|known| *known as u32 == code).ok_or(code))
            }
            Kind::Block => {
                let (fields, events) = body.split_at(BLOCK_FIELDS_BYTES.min(body.len()));
                Self::Block(BlockFields::of_body(fields, events.len())?, events)
            }
            Kind::End => Self::End(totals),
            Kind::Farewell => Self::Farewell(totals),
        })
    }

    /// Writes a frame other than a block, whose events the sender has elsewhere.
    #[must_use]
    pub fn emit(&self) -> alloc::vec::Vec<u8> {
        let (kind, body) = match self {
            Self::Hello(hello) => (Kind::Hello, hello.body()),
            Self::Welcome(position) => (Kind::Welcome, position.to_le_bytes().to_vec()),
            Self::Ack(position) => (Kind::Ack, position.to_le_bytes().to_vec()),
            Self::Refuse(reason) => {
                let code = reason.map_or_else(|code| code, |known| known as u32);
                (Kind::Refuse, u64::from(code).to_le_bytes().to_vec())
            }
            Self::End(totals) => (Kind::End, totals.body()),
            Self::Farewell(totals) => (Kind::Farewell, totals.body()),
            Self::Block(fields, events) => {
                let mut body = fields.emit()[HEAD_BYTES..].to_vec();
                body.extend_from_slice(events);
                (Kind::Block, body)
            }
        };
        let head = Head {
            kind,
            body_bytes: body.len() as u32,
        };
        [&head.emit()[..], &body].concat()
    }
}

impl<'a> Hello<'a> {
    fn of_body(body: &'a [u8]) -> Result<Self, MoverError> {
        let length = |at: usize| body.get(at).copied().map_or(0, usize::from);
        let text = |range: core::ops::Range<usize>, length: usize| {
            let bytes = body.get(range).and_then(|field| field.get(..length));
            let text = bytes.and_then(|bytes| core::str::from_utf8(bytes).ok());
            text.filter(|text| is_name(text)).ok_or(MoverError::Name)
        };
        Ok(Self {
            run_id: text(place::RUN_ID, length(place::RUN_ID_LENGTH))?,
            sink: text(place::SINK, length(place::SINK_LENGTH))?,
            position: u64_at(body, 0),
            events: u64_at(body, 8),
            bytes: u64_at(body, 16),
        })
    }

    /// Whether a mover will take both names.
    #[must_use]
    pub fn has_good_names(&self) -> bool {
        let fits = |name: &str, most: usize| is_name(name) && name.len() <= most;
        fits(self.run_id, RUN_ID_BYTES_MAX) && fits(self.sink, SINK_BYTES_MAX)
    }

    fn body(&self) -> alloc::vec::Vec<u8> {
        let mut body = alloc::vec![0; HELLO_BYTES];
        for (at, word) in [self.position, self.events, self.bytes]
            .into_iter()
            .enumerate()
        {
            body[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let names = [
            (self.run_id, place::RUN_ID, place::RUN_ID_LENGTH),
            (self.sink, place::SINK, place::SINK_LENGTH),
        ];
        for (name, range, length) in names {
            // Too long a name is written cut, which no mover takes for another one: its length says so.
            let cut = name.len().min(range.len());
            body[length] = u8::try_from(name.len()).unwrap_or(u8::MAX);
            body[range][..cut].copy_from_slice(&name.as_bytes()[..cut]);
        }
        body
    }
}

/// A name may become part of a file's name: nothing in it leads out of a directory.
fn is_name(text: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(sign)
}

impl BlockFields {
    /// `have` is the number of bytes that follow the fields.
    fn of_body(body: &[u8], have: usize) -> Result<Self, MoverError> {
        let fields = Self {
            begin: u64_at(body, 0),
            end: u64_at(body, 8),
            events_total: u64_at(body, 16),
            bytes_total: u64_at(body, 24),
            run: u32_at(body, 32),
            events: u32_at(body, 36),
            crc32: u32_at(body, 40),
            bytes: u32_at(body, 44),
        };
        let Self {
            begin,
            end,
            events,
            bytes,
            ..
        } = fields;
        if begin >= end || events == 0 || bytes as usize != have {
            return Err(MoverError::Range {
                begin,
                end,
                events,
                bytes,
            });
        }
        Ok(fields)
    }

    /// Head and fields of the block; its events follow.
    #[must_use]
    pub fn emit(&self) -> [u8; HEAD_BYTES + BLOCK_FIELDS_BYTES] {
        let head = Head {
            kind: Kind::Block,
            body_bytes: BLOCK_FIELDS_BYTES as u32 + self.bytes,
        };
        let mut out = [0; HEAD_BYTES + BLOCK_FIELDS_BYTES];
        out[..HEAD_BYTES].copy_from_slice(&head.emit());
        let words = [self.begin, self.end, self.events_total, self.bytes_total];
        for (place, word) in out[HEAD_BYTES..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let words = [self.run, self.events, self.crc32, self.bytes];
        for (place, word) in out[HEAD_BYTES + 32..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }
}

impl fmt::Display for BlockFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            begin,
            end,
            run,
            events,
            bytes,
            ..
        } = self;
        write!(
            f,
            "block {begin}..{end}: {events} events, {bytes} bytes of run {run}"
        )
    }
}

impl Totals {
    fn body(&self) -> alloc::vec::Vec<u8> {
        let words = [
            self.position,
            self.events,
            self.bytes,
            self.events_lost,
            self.bytes_lost,
        ];
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }
}

/// 0 where the bytes end; lengths were checked by kind before.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests;
