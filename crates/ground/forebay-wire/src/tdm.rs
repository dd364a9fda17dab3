//! Time-division UDP: the datagrams of senders that share one receiver's port in turns.
//!
//! ```text
//! head    +0 magic "FTDM"   +4 version 1   +5 kind   +6 bytes of the datagram u16   +8 session u64
//!         +16 sender u16    +18 start u8   +19 flags u8 (bit 0: keyed)   +20 CRC-32C of head and fields, taken with this word 0   +24 fields
//!
//! sender to receiver                                  receiver to sender
//! hello     my name, what share I want                welcome    session, index, the whole configuration; with a start when there is one
//!                                                     refuse     why not
//! probe     an exchange of clock readings             reply      when the probe came     follow up   when the reply left
//! ready     how well my clock and wake-ups are known
//! data      32 bytes of fields, then the payload      grant      send a window now (credit)
//! report    what one window was                       reported   windows whose reports have come
//! end       totals; nothing more comes                ended      totals of the other side
//!                                                     stop       the session is over
//! ```
//!
//! All numbers are big-endian. Times are ns of the receiver's time base, except those that name another. A *session* is another number for each
//! start of a receiver, so that datagrams of an earlier one, or of another receiver, are none of this one's. A *start* is another number, modulo 256, for each start of a sender in a
//! place of the session: what an earlier one left under way is not the later one's. The CRC covers head and
//! fields; the payload is held by UDP's own checksum. With a key, the last 16 bytes are a keyed hash over all bytes before them ([`TAG_BYTES`]), which
//! a holder of the key computes and checks: this module gives the bytes and the place. A datagram's length stands in its head: a cut
//! one is found by itself.

mod cursor;
mod error;
mod fields;
mod payload;
#[cfg(test)]
mod tests;

use core::fmt;

pub use error::TdmError;
pub use fields::{
    Carries, End, EndReason, FollowUp, Grant, Hello, Mode, Probe, Ready, Refusal, RefuseReason,
    Reply, Report, Reported, Stop, Welcome,
};

pub use payload::Data;

use cursor::{Put, Take};
use fields::COUNT_MAX;

/// Bytes of the head of every datagram.
pub const HEAD_BYTES: usize = 24;
/// Bytes in front of the payload of a data datagram.
pub const DATA_HEAD_BYTES: usize = HEAD_BYTES + 32;
/// Bytes of the keyed hash at the end, where a key is used.
pub const TAG_BYTES: usize = 16;
/// Most bytes of a datagram: the most that UDP over IPv4 carries.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Most bytes of a datagram that is not data, its hash included.
pub const CONTROL_BYTES_MAX: usize = 256;
/// Most bytes of a sender's name.
pub const NAME_BYTES_MAX: usize = 64;
/// Most senders of one session.
pub const SENDERS_MAX: u16 = 1024;
/// The sender's index in a datagram of one that has none yet.
pub const NO_SENDER: u16 = u16::MAX;
/// The version spoken here.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 4] = *b"FTDM";
const FLAG_KEYED: u8 = 1;
const CHECK_AT: usize = 20;

/// The kinds of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A sender asks to take part.
    Hello = 1,
    /// The receiver's configuration.
    Welcome = 2,
    /// No.
    Refuse = 3,
    /// An exchange of clock readings begins.
    Probe = 4,
    /// When it came.
    Reply = 5,
    /// When the reply left.
    FollowUp = 6,
    /// A sender knows its clock.
    Ready = 7,
    /// Payload.
    Data = 8,
    /// Send a window.
    Grant = 9,
    /// What a window was.
    Report = 10,
    /// The reports that have come.
    Reported = 11,
    /// Nothing more comes.
    End = 12,
    /// Answer to it.
    Ended = 13,
    /// The session is over.
    Stop = 14,
}

impl Kind {
    const ALL: [Self; 14] = [
        Self::Hello,
        Self::Welcome,
        Self::Refuse,
        Self::Probe,
        Self::Reply,
        Self::FollowUp,
        Self::Ready,
        Self::Data,
        Self::Grant,
        Self::Report,
        Self::Reported,
        Self::End,
        Self::Ended,
        Self::Stop,
    ];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hello => "hello",
            Self::Welcome => "welcome",
            Self::Refuse => "refuse",
            Self::Probe => "probe",
            Self::Reply => "reply",
            Self::FollowUp => "follow up",
            Self::Ready => "ready",
            Self::Data => "data",
            Self::Grant => "grant",
            Self::Report => "report",
            Self::Reported => "reported",
            Self::End => "end",
            Self::Ended => "ended",
            Self::Stop => "stop",
        })
    }
}

/// What one datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A sender asks to take part.
    Hello(Hello<'a>),
    /// The receiver's configuration.
    Welcome(Welcome),
    /// No.
    Refuse(Refusal),
    /// An exchange of clock readings begins.
    Probe(Probe),
    /// When the probe came.
    Reply(Reply),
    /// When the reply left.
    FollowUp(FollowUp),
    /// A sender knows its clock.
    Ready(Ready),
    /// Payload.
    Data(Data<'a>),
    /// Send a window.
    Grant(Grant),
    /// What a window was.
    Report(Report),
    /// The reports that have come.
    Reported(Reported),
    /// Nothing more comes.
    End(End),
    /// Answer to it.
    Ended(End),
    /// The session is over.
    Stop(Stop),
}

impl Message<'_> {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::Hello,
            Self::Welcome(_) => Kind::Welcome,
            Self::Refuse(_) => Kind::Refuse,
            Self::Probe(_) => Kind::Probe,
            Self::Reply(_) => Kind::Reply,
            Self::FollowUp(_) => Kind::FollowUp,
            Self::Ready(_) => Kind::Ready,
            Self::Data(_) => Kind::Data,
            Self::Grant(_) => Kind::Grant,
            Self::Report(_) => Kind::Report,
            Self::Reported(_) => Kind::Reported,
            Self::End(_) => Kind::End,
            Self::Ended(_) => Kind::Ended,
            Self::Stop(_) => Kind::Stop,
        }
    }
}

/// One datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The session; 0 where there is none yet.
    pub session: u64,
    /// The sender's index, from either side; [`NO_SENDER`] where it has none yet.
    pub sender: u16,
    /// Which start of the sender, as the welcome had it.
    pub start: u8,
    /// What it says.
    pub message: Message<'a>,
    /// The keyed hash at its end. It is not checked here.
    pub tag: Option<[u8; TAG_BYTES]>,
}

impl<'a> Packet<'a> {
    /// Takes a datagram apart. What the hash covers is all of `datagram` but its last [`TAG_BYTES`].
    ///
    /// # Errors
    /// It is none of this protocol, cut, damaged, or has a field that cannot be.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, TdmError> {
        let have = datagram.len();
        let Some((head, _)) = datagram.split_first_chunk::<HEAD_BYTES>() else {
            return Err(TdmError::Truncated {
                need: HEAD_BYTES,
                have,
            });
        };
        let [m0, m1, m2, m3, version, kind, ..] = *head;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(TdmError::Magic {
                found: [m0, m1, m2, m3],
            });
        }
        if version != VERSION {
            return Err(TdmError::Version { found: version });
        }
        let kind = Kind::of(kind).ok_or(TdmError::Kind { found: kind })?;
        let mut take = Take::new(kind, head.get(6..).unwrap_or_default());
        let bytes = usize::from(take.u16()?);
        let session = take.u64()?;
        let sender = take.u16()?;
        let start = take.u8()?;
        let flags = take.u8()?;
        let check = take.u32()?;
        if bytes != have {
            return Err(TdmError::Length { kind, bytes, have });
        }
        let keyed = flags & FLAG_KEYED != 0;
        let end = if keyed {
            have.saturating_sub(TAG_BYTES)
        } else {
            have
        };
        let body = datagram.get(HEAD_BYTES..end).unwrap_or_default();
        let tag = keyed
            .then(|| datagram.last_chunk::<TAG_BYTES>().copied())
            .flatten();
        let mut take = Take::new(kind, body);
        let message = match kind {
            Kind::Hello => Message::Hello(Hello::take(&mut take)?),
            Kind::Welcome => Message::Welcome(Welcome::take(&mut take)?),
            Kind::Refuse => Message::Refuse(Refusal::take(&mut take)?),
            Kind::Probe => Message::Probe(Probe::take(&mut take)?),
            Kind::Reply => Message::Reply(Reply::take(&mut take)?),
            Kind::FollowUp => Message::FollowUp(FollowUp::take(&mut take)?),
            Kind::Ready => {
                let ready = Ready::take(&mut take)?;
                take.within("offset", ready.offset, 0, COUNT_MAX)?;
                Message::Ready(ready)
            }
            Kind::Data => Message::Data(Data::take(&mut take)?),
            Kind::Grant => Message::Grant(Grant::take(&mut take)?),
            Kind::Report => {
                let report = Report::take(&mut take)?;
                take.within("first_packet", report.first_packet, 0, COUNT_MAX)?;
                take.within("payload_bytes", report.payload_bytes, 0, COUNT_MAX)?;
                Message::Report(report)
            }
            Kind::Reported => Message::Reported(Reported::take(&mut take)?),
            Kind::End => Message::End(End::take(&mut take)?),
            Kind::Ended => Message::Ended(End::take(&mut take)?),
            Kind::Stop => Message::Stop(Stop::take(&mut take)?),
        };
        // The payload of data is not a field; of all others every byte is.
        let fields = end - take.left();
        if kind != Kind::Data && take.left() != 0 {
            return Err(TdmError::Length {
                kind,
                bytes: fields + have - end,
                have,
            });
        }
        let found = checksum(datagram.get(..fields).unwrap_or_default());
        if found != check {
            return Err(TdmError::Check { found, check });
        }
        Ok(Self {
            session,
            sender,
            start,
            message,
            tag,
        })
    }

    /// Writes the datagram into `out`, without the hash that a key asks for: its place ([`TAG_BYTES`] zeroes at the end) is kept when `keyed`.
    /// Returns its bytes; `None` when it does not fit.
    #[must_use]
    pub fn emit(&self, keyed: bool, out: &mut [u8]) -> Option<usize> {
        let payload = match &self.message {
            Message::Data(data) => data.payload,
            _ => &[],
        };
        let front = self.emit_front(keyed, payload.len(), out)?;
        let tag = if keyed { TAG_BYTES } else { 0 };
        let bytes = front + payload.len() + tag;
        out.get_mut(front..front + payload.len())?
            .copy_from_slice(payload);
        out.get_mut(bytes - tag..bytes)?.fill(0);
        Some(bytes)
    }

    /// Writes head and fields alone, for a payload of so many bytes that lies elsewhere; the hash that a key asks for follows it. Returns
    /// the bytes written; `None` when they do not fit, or the datagram would be longer than [`DATAGRAM_BYTES_MAX`].
    #[must_use]
    pub fn emit_front(&self, keyed: bool, payload_bytes: usize, out: &mut [u8]) -> Option<usize> {
        let mut put = Put::new(out.get_mut(HEAD_BYTES..)?);
        match &self.message {
            Message::Hello(it) => it.put(&mut put),
            Message::Welcome(it) => it.put(&mut put),
            Message::Refuse(it) => it.put(&mut put),
            Message::Probe(it) => it.put(&mut put),
            Message::Reply(it) => it.put(&mut put),
            Message::FollowUp(it) => it.put(&mut put),
            Message::Ready(it) => it.put(&mut put),
            Message::Data(it) => it.put(&mut put),
            Message::Grant(it) => it.put(&mut put),
            Message::Report(it) => it.put(&mut put),
            Message::Reported(it) => it.put(&mut put),
            Message::End(it) | Message::Ended(it) => it.put(&mut put),
            Message::Stop(it) => it.put(&mut put),
        }
        let fields = HEAD_BYTES + put.done()?;
        let tag = if keyed { TAG_BYTES } else { 0 };
        let bytes = fields.checked_add(payload_bytes)?.checked_add(tag)?;
        let length = u16::try_from(bytes)
            .ok()
            .filter(|_| bytes <= DATAGRAM_BYTES_MAX)?;
        let mut put = Put::new(out.get_mut(..HEAD_BYTES)?);
        // Eight bytes at once: what is written in parts and read as a whole, as the check reads it, waits for the cache.
        let [version, kind] = [VERSION, self.message.kind() as u8].map(u64::from);
        let magic = u64::from(u32::from_be_bytes(MAGIC));
        put.u64(magic << 32 | version << 24 | kind << 16 | u64::from(length));
        put.u64(self.session);
        let flags = if keyed { u64::from(FLAG_KEYED) } else { 0 };
        put.u64(u64::from(self.sender) << 48 | u64::from(self.start) << 40 | flags << 32);
        // The word of the check is still 0.
        let check = crc32c::crc32c(out.get(..fields)?);
        out.get_mut(CHECK_AT..HEAD_BYTES)?
            .copy_from_slice(&check.to_be_bytes());
        Some(fields)
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.message.kind();
        write!(f, "{kind} session={:016x}", self.session)?;
        if self.sender != NO_SENDER {
            write!(f, " sender={}", self.sender)?;
        }
        match &self.message {
            Message::Data(data) => write!(
                f,
                " packet={} window={} offset={} bytes={}",
                data.packet,
                data.window,
                data.offset,
                data.payload.len()
            ),
            Message::Report(report) => write!(
                f,
                " window={} packets={} errors={}",
                report.window, report.packets, report.errors
            ),
            _ => Ok(()),
        }
    }
}

/// CRC-32C of head and fields, with the word of the check itself taken as 0.
fn checksum(bytes: &[u8]) -> u32 {
    if let Ok(head) = <&[u8; DATA_HEAD_BYTES]>::try_from(bytes) {
        // In one piece: the head of data is looked at for each packet.
        let mut head = *head;
        if let Some(check) = head.get_mut(CHECK_AT..HEAD_BYTES) {
            check.fill(0);
        }
        return crc32c::crc32c(&head);
    }
    let before = crc32c::crc32c(bytes.get(..CHECK_AT).unwrap_or_default());
    let check = crc32c::crc32c_append(before, &[0; HEAD_BYTES - CHECK_AT]);
    crc32c::crc32c_append(check, bytes.get(HEAD_BYTES..).unwrap_or_default())
}
