//! What frames carry.

use core::fmt;

use super::{
    BUFFER_BYTES_MAX, BUFFER_COUNT_MAX, DATA_FIELDS_BYTES, ENTRIES_MAX, ENTRY_BYTES, Frame,
    HEAD_BYTES, Head, Kind, NetError, SUBSCRIBE_FIELDS_BYTES,
};

/// What the side that connects wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// To get the messages of tags from a publisher.
    Subscriber = 1,
    /// To send messages to a receiver.
    Sender = 2,
}

/// How the sender fares with a subscriber that is too slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Slow {
    /// Waits for it, for a bounded time.
    #[default]
    Block = 0,
    /// Drops what is new.
    DropNewest = 1,
    /// Drops what has waited longest.
    DropOldest = 2,
    /// Ends the connection.
    Disconnect = 3,
}

/// Why a connection or a subscription is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Refusal {
    /// It takes no more connections.
    Busy = 1,
    /// Nothing of this role is served here.
    Role = 2,
    /// It ends.
    Ending = 3,
    /// More subscriptions than it keeps.
    TooMany = 4,
}

impl Refusal {
    pub(super) const ALL: [Self; 4] = [Self::Busy, Self::Role, Self::Ending, Self::TooMany];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Role => "role",
            Self::Ending => "ending",
            Self::TooMany => "too_many",
        }
    }
}

/// The side that connects, and what it can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What it wants.
    pub role: Role,
    /// What shall happen when it is too slow; of no meaning for a sender.
    pub slow: Slow,
    /// Payload of the largest message that a buffer of its takes, in bytes.
    pub buffer_bytes: u32,
    /// Most buffers on their way that it sends or takes.
    pub buffer_count: u32,
    /// Which end point it is; the same in each of its connections.
    pub identity: u64,
}

/// What was agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Stands in every buffer of this connection.
    pub epoch: u64,
    /// Payload of the largest message that a buffer takes, in bytes: the smaller limit of both.
    pub buffer_bytes: u32,
    /// Most buffers on their way: the smaller limit of both.
    pub buffer_count: u32,
    /// Whether the side that listens sends messages to a sender, too.
    pub answers: bool,
}

/// Tags of a subscription: those that equal `tag` where `mask` has ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The bits asked for.
    pub tag: u64,
    /// The bits that count; all ones for one tag.
    pub mask: u64,
}

impl Entry {
    /// One tag.
    #[must_use]
    pub const fn one(tag: u64) -> Self {
        Self {
            tag,
            mask: u64::MAX,
        }
    }

    /// Whether it asks for this tag.
    #[inline]
    #[must_use]
    pub const fn matches(&self, tag: u64) -> bool {
        (self.tag ^ tag) & self.mask == 0
    }
}

/// Subscriptions to begin or to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Stands in the answer.
    pub request: u32,
    /// Whether to begin; else to end.
    pub begin: bool,
    entries: &'a [u8],
}

impl Subscribe<'_> {
    /// What it is about.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry> {
        self.entries
            .chunks_exact(ENTRY_BYTES as usize)
            .map(|entry| Entry {
                tag: u64_at(entry, 0),
                mask: u64_at(entry, 8),
            })
    }

    /// Entries that a frame of so many bytes has room for.
    #[must_use]
    pub const fn entries_in(frame_bytes: usize) -> usize {
        let room = frame_bytes.saturating_sub(HEAD_BYTES + SUBSCRIBE_FIELDS_BYTES as usize);
        let entries = room / ENTRY_BYTES as usize;
        if entries < ENTRIES_MAX {
            entries
        } else {
            ENTRIES_MAX
        }
    }

    /// Writes the frame for up to [`ENTRIES_MAX`] entries; more are left out.
    #[must_use]
    pub fn to_frame(request: u32, begin: bool, entries: &[Entry]) -> alloc::vec::Vec<u8> {
        let entries = &entries[..entries.len().min(ENTRIES_MAX)];
        let body_bytes = SUBSCRIBE_FIELDS_BYTES + ENTRY_BYTES * entries.len() as u32;
        let mut out = alloc::vec::Vec::with_capacity(HEAD_BYTES + body_bytes as usize);
        out.extend_from_slice(
            &Head {
                kind: Kind::Subscribe,
                body_bytes,
            }
            .emit(),
        );
        out.extend_from_slice(&request.to_le_bytes());
        out.extend_from_slice(&u32::from(begin).to_le_bytes());
        write_entries(&mut out, entries);
        out
    }

    /// Adds entries to a frame of the same request, up to `entries_max` in it: how many went in. None do when it is another frame.
    pub fn extend_frame(
        frame: &mut alloc::vec::Vec<u8>,
        request: u32,
        begin: bool,
        entries: &[Entry],
        entries_max: usize,
    ) -> usize {
        let Ok(Some((Frame::Subscribe(there), _))) = Frame::parse(frame, 0) else {
            return 0;
        };
        if (there.request, there.begin) != (request, begin) {
            return 0;
        }
        let have = there.entries.len() / ENTRY_BYTES as usize;
        let room = entries_max.min(ENTRIES_MAX).saturating_sub(have);
        let entries = &entries[..entries.len().min(room)];
        let head = Head {
            kind: Kind::Subscribe,
            body_bytes: SUBSCRIBE_FIELDS_BYTES + ENTRY_BYTES * (have + entries.len()) as u32,
        };
        frame[..HEAD_BYTES].copy_from_slice(&head.emit());
        write_entries(frame, entries);
        entries.len()
    }
}

fn write_entries(out: &mut alloc::vec::Vec<u8>, entries: &[Entry]) {
    for entry in entries {
        out.extend_from_slice(&entry.tag.to_le_bytes());
        out.extend_from_slice(&entry.mask.to_le_bytes());
    }
}

/// The fields in front of a buffer's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFields {
    /// The connection's.
    pub epoch: u64,
    /// Number of the buffer.
    pub sequence: u64,
    /// Messages up to the buffer's end.
    pub messages_total: u64,
    /// Bytes of their payloads.
    pub bytes_total: u64,
    /// Messages in the buffer.
    pub messages: u32,
    /// Bytes of messages that follow, heads included.
    pub bytes: u32,
}

impl DataFields {
    /// Head and fields of the frame; the buffer's messages follow. Of more bytes than a frame can have the head says as many as there can be, which no peer
    /// takes.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEAD_BYTES + DATA_FIELDS_BYTES] {
        let head = Head {
            kind: Kind::Data,
            body_bytes: (DATA_FIELDS_BYTES as u32).saturating_add(self.bytes),
        };
        let mut out = [0; HEAD_BYTES + DATA_FIELDS_BYTES];
        out[..HEAD_BYTES].copy_from_slice(&head.emit());
        let words = [
            self.epoch,
            self.sequence,
            self.messages_total,
            self.bytes_total,
        ];
        for (place, word) in out[HEAD_BYTES..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let words = [self.messages, self.bytes];
        for (place, word) in out[HEAD_BYTES + 32..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// `have` is the number of bytes that follow the fields.
    pub(super) fn of_body(body: &[u8], have: usize) -> Result<Self, NetError> {
        let fields = Self {
            epoch: u64_at(body, 0),
            sequence: u64_at(body, 8),
            messages_total: u64_at(body, 16),
            bytes_total: u64_at(body, 24),
            messages: u32_at(body, 32),
            bytes: u32_at(body, 36),
        };
        let wrong = |field, found| NetError::Field {
            kind: Kind::Data,
            field,
            found,
        };
        if fields.bytes as usize != have {
            return Err(wrong("bytes", fields.bytes.into()));
        }
        if fields.messages == 0 || u64::from(fields.messages) > fields.messages_total {
            return Err(wrong("messages", fields.messages.into()));
        }
        Ok(fields)
    }
}

/// What one side counted over the whole connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Buffers.
    pub buffers: u64,
    /// End: messages sent. Farewell: messages taken.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// End: messages that the peer was too slow for. Farewell: messages that were broken.
    pub messages_dropped: u64,
    /// Bytes of their payloads, as far as they are known.
    pub bytes_dropped: u64,
}

/// What a receiver says while messages come. Each number counts from the connection's begin and never falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// Buffers before this number are given back: their memory may be filled again.
    pub buffers: u64,
    /// Messages of which it is known at the receiver what became of them: they have taken effect, or are lost by a name in its books.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}

impl Credit {
    pub(super) fn of_body(body: &[u8]) -> Self {
        Self {
            buffers: u64_at(body, 0),
            messages: u64_at(body, 8),
            bytes: u64_at(body, 16),
        }
    }

    pub(super) fn body(&self) -> alloc::vec::Vec<u8> {
        let words = [self.buffers, self.messages, self.bytes];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl<'a> Subscribe<'a> {
    pub(super) fn of_body(body: &'a [u8]) -> Result<Self, NetError> {
        let wrong = |field, found: u64| NetError::Field {
            kind: Kind::Subscribe,
            field,
            found,
        };
        let entries = body
            .get(SUBSCRIBE_FIELDS_BYTES as usize..)
            .unwrap_or_default();
        if !entries.len().is_multiple_of(ENTRY_BYTES as usize) {
            return Err(wrong("entries' bytes", entries.len() as u64));
        }
        let begin = match u32_at(body, 4) {
            0 => false,
            1 => true,
            other => return Err(wrong("begin", other.into())),
        };
        Ok(Self {
            request: u32_at(body, 0),
            begin,
            entries,
        })
    }
}

impl Totals {
    pub(super) fn of_body(body: &[u8]) -> Self {
        Self {
            buffers: u64_at(body, 0),
            messages: u64_at(body, 8),
            bytes: u64_at(body, 16),
            messages_dropped: u64_at(body, 24),
            bytes_dropped: u64_at(body, 32),
        }
    }

    pub(super) fn body(&self) -> alloc::vec::Vec<u8> {
        let words = [
            self.buffers,
            self.messages,
            self.bytes,
            self.messages_dropped,
            self.bytes_dropped,
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl fmt::Display for DataFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sequence,
            messages,
            bytes,
            ..
        } = self;
        write!(f, "buffer {sequence}: {messages} messages, {bytes} bytes")
    }
}

impl Hello {
    pub(super) fn of_body(body: &[u8]) -> Result<Self, NetError> {
        let (buffer_bytes, buffer_count) = limits(Kind::Hello, body, 0)?;
        let role = match u32_at(body, 16) {
            1 => Role::Subscriber,
            2 => Role::Sender,
            other => return Err(wrong(Kind::Hello, "role", other)),
        };
        let slow = match u32_at(body, 20) {
            0 => Slow::Block,
            1 => Slow::DropNewest,
            2 => Slow::DropOldest,
            3 => Slow::Disconnect,
            other => return Err(wrong(Kind::Hello, "slow", other)),
        };
        Ok(Self {
            role,
            slow,
            buffer_bytes,
            buffer_count,
            identity: u64_at(body, 8),
        })
    }

    pub(super) fn body(&self) -> alloc::vec::Vec<u8> {
        let mut body = two(self.buffer_bytes, self.buffer_count);
        body.extend_from_slice(&self.identity.to_le_bytes());
        body.extend(two(self.role as u32, self.slow as u32));
        body
    }
}

impl Welcome {
    pub(super) fn of_body(body: &[u8]) -> Result<Self, NetError> {
        let (buffer_bytes, buffer_count) = limits(Kind::Welcome, body, 8)?;
        let answers = match u32_at(body, 16) {
            0 => false,
            1 => true,
            other => return Err(wrong(Kind::Welcome, "answers", other)),
        };
        Ok(Self {
            epoch: u64_at(body, 0),
            buffer_bytes,
            buffer_count,
            answers,
        })
    }

    pub(super) fn body(&self) -> alloc::vec::Vec<u8> {
        let mut body = self.epoch.to_le_bytes().to_vec();
        body.extend(two(self.buffer_bytes, self.buffer_count));
        body.extend(u32::from(self.answers).to_le_bytes());
        body
    }
}

/// Size and number of buffers, neither of them nothing nor beyond its limit.
fn limits(kind: Kind, body: &[u8], at: usize) -> Result<(u32, u32), NetError> {
    let (bytes, count) = (u32_at(body, at), u32_at(body, at + 4));
    if !(1..=BUFFER_BYTES_MAX).contains(&bytes) {
        return Err(wrong(kind, "buffer_bytes", bytes));
    }
    if !(1..=BUFFER_COUNT_MAX).contains(&count) {
        return Err(wrong(kind, "buffer_count", count));
    }
    Ok((bytes, count))
}

fn wrong(kind: Kind, field: &'static str, found: u32) -> NetError {
    NetError::Field {
        kind,
        field,
        found: found.into(),
    }
}

pub(super) fn two(a: u32, b: u32) -> alloc::vec::Vec<u8> {
    [a.to_le_bytes(), b.to_le_bytes()].concat()
}

pub(super) fn u64_at(body: &[u8], at: usize) -> u64 {
    body.get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

pub(super) fn u32_at(body: &[u8], at: usize) -> u32 {
    body.get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}
