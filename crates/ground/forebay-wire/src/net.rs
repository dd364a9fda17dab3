//! The frames of a messaging connection: buffers of messages, and what both sides say about them.
//!
//! ```text
//! frame   +0 magic "FN"   +2 version 2   +3 kind   +4 body bytes u32   +8 body
//!
//! connecting side                  listening side
//! hello      role, limits          welcome      epoch, limits       refuse   why not
//!
//! receiving side                   sending side
//! subscribe  tags to begin or end  subscribed   answer to it
//! credit     what was given back   data         a buffer of messages, with the totals up to its end
//! leave      wants no more         end          its totals; nothing more comes
//! farewell   its totals                     let go     its totals; the receiver was too slow
//!
//! either: alive, when there was nothing else to say
//! ```
//!
//! A subscriber connects to its publisher, a sender to its receiver. A receiver that *answers* sends messages, too: then each side is both.
//! All numbers are little-endian. The *epoch* is another one for each
//! connection, so that a frame of an earlier one is none of this one's; the *sequence* counts buffers from 0. Totals count from the
//! connection's begin, so that a gap, a repetition and a truncation are found and sized at the very next buffer. A body's length is
//! held against its limit before anything is allocated for it. Messages inside a buffer: [`netio3`](crate::netio3).

mod error;
mod fields;

use core::fmt;

pub use error::NetError;
pub use fields::{
    Credit, DataFields, Entry, Hello, Refusal, Role, Slow, Subscribe, Totals, Welcome,
};
use fields::{two, u32_at};

/// Bytes of the head of every frame.
pub const HEAD_BYTES: usize = 8;
/// Bytes of the fields in front of a buffer's messages.
pub const DATA_FIELDS_BYTES: usize = 40;
/// Most bytes of messages in one buffer.
pub const BUFFER_BYTES_MAX: u32 = 64 << 20;
/// Most buffers on their way on one connection.
pub const BUFFER_COUNT_MAX: u32 = 65_536;
/// Most entries of one subscribe frame; more go in further frames.
pub const ENTRIES_MAX: usize = 4_096;
/// The version spoken here.
pub const VERSION: u8 = 2;

const MAGIC: [u8; 2] = *b"FN";
const HELLO_BYTES: u32 = 24;
const WELCOME_BYTES: u32 = 20;
const REFUSE_BYTES: u32 = 4;
const SUBSCRIBE_FIELDS_BYTES: u32 = 8;
const ENTRY_BYTES: u32 = 16;
const SUBSCRIBED_BYTES: u32 = 8;
const CREDIT_BYTES: u32 = 24;
const TOTALS_BYTES: u32 = 40;

/// The kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// First frame of the side that connects.
    Hello = 1,
    /// Answer to it: go on.
    Welcome = 2,
    /// The other answer: no; the connection ends.
    Refuse = 3,
    /// Tags to begin or to end.
    Subscribe = 4,
    /// Answer to it.
    Subscribed = 5,
    /// A buffer of messages.
    Data = 6,
    /// Buffers given back, and what is confirmed.
    Credit = 7,
    /// Nothing more comes.
    End = 8,
    /// Answer to it; the connection ends.
    Farewell = 9,
    /// Still there.
    Alive = 10,
    /// The receiver wants no more: the sender ends.
    Leave = 11,
    /// The receiver is too slow; the connection ends.
    LetGo = 12,
}

impl Kind {
    const ALL: [Self; 12] = [
        Self::Hello,
        Self::Welcome,
        Self::Refuse,
        Self::Subscribe,
        Self::Subscribed,
        Self::Data,
        Self::Credit,
        Self::End,
        Self::Farewell,
        Self::Alive,
        Self::Leave,
        Self::LetGo,
    ];

    /// Least and most bytes of a body.
    const fn body_bytes(self) -> (u32, u32) {
        match self {
            Self::Hello => (HELLO_BYTES, HELLO_BYTES),
            Self::Welcome => (WELCOME_BYTES, WELCOME_BYTES),
            Self::Refuse => (REFUSE_BYTES, REFUSE_BYTES),
            Self::Subscribe => (
                SUBSCRIBE_FIELDS_BYTES + ENTRY_BYTES,
                SUBSCRIBE_FIELDS_BYTES + ENTRY_BYTES * ENTRIES_MAX as u32,
            ),
            Self::Subscribed => (SUBSCRIBED_BYTES, SUBSCRIBED_BYTES),
            Self::Data => (
                DATA_FIELDS_BYTES as u32 + 1,
                DATA_FIELDS_BYTES as u32 + BUFFER_BYTES_MAX,
            ),
            Self::Credit => (CREDIT_BYTES, CREDIT_BYTES),
            Self::End | Self::Farewell | Self::LetGo => (TOTALS_BYTES, TOTALS_BYTES),
            Self::Alive | Self::Leave => (0, 0),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hello => "hello",
            Self::Welcome => "welcome",
            Self::Refuse => "refuse",
            Self::Subscribe => "subscribe",
            Self::Subscribed => "subscribed",
            Self::Data => "data",
            Self::Credit => "credit",
            Self::End => "end",
            Self::Farewell => "farewell",
            Self::Alive => "alive",
            Self::Leave => "leave",
            Self::LetGo => "let go",
        })
    }
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// First frame of the side that connects.
    Hello(Hello),
    /// What was agreed.
    Welcome(Welcome),
    /// The connection ends; a number that is not known here stands for itself.
    Refuse(Result<Refusal, u32>),
    /// Subscriptions to begin or to end.
    Subscribe(Subscribe<'a>),
    /// Answer to the request of this number; none when it was carried out.
    Subscribed(u32, Option<Result<Refusal, u32>>),
    /// A buffer of messages.
    Data(DataFields, &'a [u8]),
    /// Buffers given back, and what is confirmed.
    Credit(Credit),
    /// The sender's totals.
    End(Totals),
    /// The receiver's totals.
    Farewell(Totals),
    /// Still there.
    Alive,
    /// The receiver wants no more.
    Leave,
    /// The totals of a sender that lets its receiver go, as it is too slow.
    LetGo(Totals),
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
    /// Reads a head and holds its length against the limits of its kind, and of a buffer against `buffer_bytes`.
    ///
    /// # Errors
    /// It is none, or its length is out of bounds.
    #[inline]
    pub fn parse(head: &[u8; HEAD_BYTES], buffer_bytes: u32) -> Result<Self, NetError> {
        let [m0, m1, version, kind, b0, b1, b2, b3] = *head;
        if [m0, m1] != MAGIC {
            return Err(NetError::Magic { found: [m0, m1] });
        }
        if version != VERSION {
            return Err(NetError::Version { found: version });
        }
        let known = Kind::ALL.into_iter().find(|known| *known as u8 == kind);
        let kind = known.ok_or(NetError::Kind { found: kind })?;
        let body_bytes = u32::from_le_bytes([b0, b1, b2, b3]);
        let (least, mut most) = kind.body_bytes();
        if kind == Kind::Data {
            most = DATA_FIELDS_BYTES as u32 + buffer_bytes.min(BUFFER_BYTES_MAX);
        }
        if !(least..=most).contains(&body_bytes) {
            return Err(NetError::Length {
                kind,
                body_bytes,
                least,
                most,
            });
        }
        Ok(Self { kind, body_bytes })
    }

    /// Writes the head.
    #[must_use]
    pub fn emit(&self) -> [u8; HEAD_BYTES] {
        let [b0, b1, b2, b3] = self.body_bytes.to_le_bytes();
        [MAGIC[0], MAGIC[1], VERSION, self.kind as u8, b0, b1, b2, b3]
    }

    /// Bytes of the whole frame.
    #[must_use]
    pub const fn frame_bytes(&self) -> usize {
        HEAD_BYTES + self.body_bytes as usize
    }
}

impl<'a> Frame<'a> {
    /// Reads the frame at the front of `bytes`: the frame and its bytes, or `None` while it is not whole. No buffer of messages may be
    /// longer than `buffer_bytes`.
    ///
    /// # Errors
    /// The bytes are no frame; a wrong head is found before its body has come.
    pub fn parse(bytes: &'a [u8], buffer_bytes: u32) -> Result<Option<(Self, usize)>, NetError> {
        let Some(head) = bytes.first_chunk() else {
            // Garbage is refused as soon as it shows.
            let wrong = bytes
                .iter()
                .zip(&MAGIC)
                .any(|(found, magic)| found != magic);
            let found = [0, 1].map(|at| bytes.get(at).copied().unwrap_or(0));
            return if wrong {
                Err(NetError::Magic { found })
            } else {
                Ok(None)
            };
        };
        let head = Head::parse(head, buffer_bytes)?;
        match bytes.get(HEAD_BYTES..head.frame_bytes()) {
            Some(body) => Ok(Some((Self::of_body(head.kind, body)?, head.frame_bytes()))),
            None => Ok(None),
        }
    }

    /// Reads a frame whose last `elsewhere` bytes are not here: a buffer of messages, which ends within `bytes` otherwise. Its fields, and the bytes
    /// of messages that are here.
    ///
    /// # Errors
    /// The bytes are no such frame, or not the whole rest of it.
    pub fn parse_apart(
        bytes: &'a [u8],
        elsewhere: usize,
        buffer_bytes: u32,
    ) -> Result<(DataFields, &'a [u8]), NetError> {
        let cut = NetError::Field {
            kind: Kind::Data,
            field: "bytes elsewhere",
            found: elsewhere as u64,
        };
        let (head, body) = bytes.split_first_chunk().ok_or(cut)?;
        let head = Head::parse(head, buffer_bytes)?;
        let whole = body.len().checked_add(elsewhere);
        if head.kind != Kind::Data || whole != Some(head.body_bytes as usize) {
            return Err(cut);
        }
        let (fields, messages) = body.split_at_checked(DATA_FIELDS_BYTES).ok_or(cut)?;
        let fields = DataFields::of_body(fields, messages.len() + elsewhere)?;
        Ok((fields, messages))
    }

    /// `body` has a length that its kind allows.
    fn of_body(kind: Kind, body: &'a [u8]) -> Result<Self, NetError> {
        let refusal = |code: u32| {
            let known = Refusal::ALL.into_iter().find(|known| *known as u32 == code);
            known.ok_or(code)
        };
        Ok(match kind {
            Kind::Hello => Self::Hello(Hello::of_body(body)?),
            Kind::Welcome => Self::Welcome(Welcome::of_body(body)?),
            Kind::Refuse => Self::Refuse(refusal(u32_at(body, 0))),
            Kind::Subscribe => Self::Subscribe(Subscribe::of_body(body)?),
            Kind::Subscribed => {
                let code = u32_at(body, 4);
                Self::Subscribed(u32_at(body, 0), (code != 0).then(|| refusal(code)))
            }
            Kind::Data => {
                let (fields, messages) = body.split_at(DATA_FIELDS_BYTES.min(body.len()));
                Self::Data(DataFields::of_body(fields, messages.len())?, messages)
            }
            Kind::Credit => Self::Credit(Credit::of_body(body)),
            Kind::End => Self::End(Totals::of_body(body)),
            Kind::Farewell => Self::Farewell(Totals::of_body(body)),
            Kind::Alive => Self::Alive,
            Kind::Leave => Self::Leave,
            Kind::LetGo => Self::LetGo(Totals::of_body(body)),
        })
    }

    /// Which kind it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::Hello,
            Self::Welcome(_) => Kind::Welcome,
            Self::Refuse(_) => Kind::Refuse,
            Self::Subscribe(_) => Kind::Subscribe,
            Self::Subscribed(..) => Kind::Subscribed,
            Self::Data(..) => Kind::Data,
            Self::Credit(_) => Kind::Credit,
            Self::End(_) => Kind::End,
            Self::Farewell(_) => Kind::Farewell,
            Self::Alive => Kind::Alive,
            Self::Leave => Kind::Leave,
            Self::LetGo(_) => Kind::LetGo,
        }
    }

    /// Writes a frame.
    #[must_use]
    pub fn emit(&self) -> alloc::vec::Vec<u8> {
        let code =
            |refusal: &Result<Refusal, u32>| refusal.map_or_else(|code| code, |known| known as u32);
        let body = match self {
            Self::Hello(hello) => hello.body(),
            Self::Welcome(welcome) => welcome.body(),
            Self::Refuse(refusal) => code(refusal).to_le_bytes().to_vec(),
            Self::Subscribe(subscribe) => {
                let entries: alloc::vec::Vec<_> = subscribe.entries().collect();
                return Subscribe::to_frame(subscribe.request, subscribe.begin, &entries);
            }
            Self::Subscribed(request, refusal) => two(*request, refusal.as_ref().map_or(0, code)),
            Self::Data(fields, messages) => {
                return [&fields.to_bytes()[..], messages].concat();
            }
            Self::Credit(credit) => credit.body(),
            Self::End(totals) | Self::Farewell(totals) | Self::LetGo(totals) => totals.body(),
            Self::Alive | Self::Leave => alloc::vec::Vec::new(),
        };
        let kind = self.kind();
        let body_bytes = body.len() as u32;
        [&Head { kind, body_bytes }.emit()[..], &body].concat()
    }
}

#[cfg(test)]
mod tests;
