//! IPFIX: flow records on their way to a collector, and in files of them.
//!
//! RFC 7011 says how messages look, RFC 5103 how both directions of a flow stand in one record,
//! RFC 5655 that a file is messages one after the other.
//!
//! ```text
//! message    +0 version 10 u16   +2 bytes of the message u16   +4 export time, s since 1970 u32
//!            +8 sequence number u32   +12 observation domain u32   +16 sets
//! set        +0 id u16   +2 bytes of the set u16   +4 records, then at most padding
//! template   +0 id u16   +2 fields u16   +4 specifiers           (in sets of id 2; 0 fields: withdrawn)
//! options    +0 id u16   +2 fields u16   +4 scope fields u16   +6 specifiers       (in sets of id 3)
//! specifier  +0 element u16, bit 15: of an enterprise   +2 bytes u16, 65535: varies   +4 enterprise u32, if any
//! record     one value after the other, as its template has them (in sets of the template's id, from 256)
//! value      its bytes; where they vary their count before them: u8, or 255 and u16
//! ```
//!
//! The value of a `basicList` has values itself ([`BasicList`], RFC 6313). All numbers are big-endian. The sequence number counts the data records that were sent before the message, modulo 2³²
//! (section 3.1): with the records of each message a reader finds how many are lost ([`records_lost`]).
//! A writer ([`MessageWriter`]) fills the caller's buffer, and says when a record does not fit. A reader takes a [`Message`], its
//! sets, templates ([`TemplateRecords`]) and records ([`Template::records`]). Templates are kept by a [`TemplateCache`], the only part that allocates.
//!
//! ```
//! use forebay_wire::ipfix::{FieldSpec, Message, MessageWriter, SetKind, TemplateCache, elements};
//!
//! let fields = [elements::SOURCE_IPV4_ADDRESS, elements::OCTET_DELTA_COUNT].map(FieldSpec::whole);
//! let mut room = [0; 512];
//! let mut writer = MessageWriter::new(&mut room, 7, 0)?;
//! writer.push_template(256, &fields)?;
//! writer.push_record(256, |record| {
//!     record.bytes(&[192, 0, 2, 12]);
//!     record.u64(5_344_385);
//! })?;
//! let message = writer.finish(1_795_289_046);
//!
//! let mut cache = TemplateCache::new(64, 4096);
//! let message = Message::new_checked(message.bytes)?;
//! for set in message.sets() {
//!     match set.kind() {
//!         SetKind::Templates | SetKind::OptionsTemplates => {
//!             for record in set.templates() {
//!                 cache.learn(message.header().domain, record?, 0)?;
//!             }
//!         }
//!         SetKind::Data(id) => {
//!             let template = cache.template(message.header().domain, id).expect("it came first");
//!             for record in template.records(set.body()) {
//!                 let octets = record?.value(elements::OCTET_DELTA_COUNT.element);
//!                 assert_eq!(octets.and_then(|value| value.unsigned()), Some(5_344_385));
//!             }
//!         }
//!         SetKind::Reserved(_) => {}
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cache;
pub mod elements;
mod error;
mod list;
pub mod ntp;
mod record;
mod template;
#[cfg(test)]
mod tests;
mod writer;

use core::fmt;

pub use cache::{Learnt, TemplateCache};
pub use elements::{Element, ElementInfo};
pub use error::{IpfixError, WriteError};
pub use list::{BasicList, ListValues, ORDERED};
pub use record::{Record, Records, Value, Values};
pub use template::{FieldSpec, FieldSpecs, Template, TemplateRecord, TemplateRecords};
pub use writer::{Finished, MessageWriter, RecordWriter};

/// The version spoken here (section 3.1).
pub const VERSION: u16 = 10;
/// Bytes of a message's header.
pub const HEADER_BYTES: usize = 16;
/// Most bytes of a message: its length is 16 bits.
pub const MESSAGE_BYTES_MAX: usize = 65_535;
/// Bytes of a set's header.
pub const SET_HEADER_BYTES: usize = 4;
/// The lowest id of a data set, and of its template (section 3.3.2).
pub const DATA_SET_ID_MIN: u16 = 256;
/// In place of a field's length: the length stands in front of each value (section 7).
pub const VARIABLE_LENGTH: u16 = 65_535;
/// The enterprise whose elements are those of the other direction of a flow (RFC 5103, section 6.1).
pub const REVERSE_ENTERPRISE: u32 = 29_305;
/// Most bytes of an IP packet over UDP where the path's MTU is not known (section 10.3.3).
pub const PACKET_BYTES_PATH_UNKNOWN: usize = 512;

const TEMPLATE_SET_ID: u16 = 2;
const OPTIONS_TEMPLATE_SET_ID: u16 = 3;

/// Most bytes of a message over UDP, so that its packet is not cut on a path with this MTU, bytes.
#[must_use]
pub const fn udp_message_bytes_max(mtu_bytes: usize, is_ipv6: bool) -> usize {
    let headers = if is_ipv6 { 40 + 8 } else { 20 + 8 };
    let bytes = mtu_bytes.saturating_sub(headers);
    if bytes < MESSAGE_BYTES_MAX {
        bytes
    } else {
        MESSAGE_BYTES_MAX
    }
}

/// Data records that are lost between the end of one message and the next one: the sequence number that was expected (that of the
/// message before, plus its records) against the one that came. Above 2³¹ the message is an older one, or the exporter began anew.
#[must_use]
pub const fn records_lost(expected: u32, came: u32) -> u32 {
    came.wrapping_sub(expected)
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// Bytes of the message with its header.
    pub bytes: u16,
    /// When it was sent, s since 1970, modulo 2³².
    pub export_time_s: u32,
    /// Data records that were sent before it, modulo 2³².
    pub sequence: u32,
    /// Where it was observed; templates and sequence numbers are of one domain each.
    pub domain: u32,
}

impl MessageHeader {
    /// Reads a header: from a stream it tells how many bytes the message has.
    ///
    /// # Errors
    /// It is of another version, or the length is below that of the header.
    pub const fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, IpfixError> {
        let &[v0, v1, l0, l1, e0, e1, e2, e3, ..] = bytes;
        let &[.., s0, s1, s2, s3, d0, d1, d2, d3] = bytes;
        let found = u16::from_be_bytes([v0, v1]);
        if found != VERSION {
            return Err(IpfixError::Version { found });
        }
        let length = u16::from_be_bytes([l0, l1]);
        if (length as usize) < HEADER_BYTES {
            return Err(IpfixError::MessageLength { bytes: length });
        }
        Ok(Self {
            bytes: length,
            export_time_s: u32::from_be_bytes([e0, e1, e2, e3]),
            sequence: u32::from_be_bytes([s0, s1, s2, s3]),
            domain: u32::from_be_bytes([d0, d1, d2, d3]),
        })
    }

    /// Writes it.
    pub fn emit(&self, out: &mut [u8; HEADER_BYTES]) {
        out[..2].copy_from_slice(&VERSION.to_be_bytes());
        out[2..4].copy_from_slice(&self.bytes.to_be_bytes());
        out[4..8].copy_from_slice(&self.export_time_s.to_be_bytes());
        out[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        out[12..].copy_from_slice(&self.domain.to_be_bytes());
    }
}

/// A checked view of a message: its sets fill it exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    header: MessageHeader,
    sets: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Message<'a> {
    /// Takes the message at the begin of these bytes.
    ///
    /// # Errors
    /// It is of another version, shorter than it says, or its sets do not fill it. A collector discards such a message as a whole (section 9).
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, IpfixError> {
        let have = bytes.len();
        let head = bytes.first_chunk::<HEADER_BYTES>();
        let head = head.ok_or(IpfixError::MessageHeader { have })?;
        let header = MessageHeader::parse(head)?;
        let length = usize::from(header.bytes);
        let (message, rest) = bytes
            .split_at_checked(length)
            .ok_or(IpfixError::MessageCut {
                bytes: header.bytes,
                have,
            })?;
        let sets = &message[HEADER_BYTES..];
        let mut left = sets;
        while !left.is_empty() {
            (_, left) = split_set(left)?;
        }
        Ok(Self { header, sets, rest })
    }

    /// Its header.
    #[must_use]
    pub const fn header(&self) -> &MessageHeader {
        &self.header
    }

    /// Its sets, in order.
    #[must_use]
    pub const fn sets(&self) -> Sets<'a> {
        Sets { left: self.sets }
    }

    /// What is behind it: the next messages of a file or stream; in a datagram nothing should be.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MessageHeader {
            bytes,
            export_time_s,
            sequence,
            domain,
        } = self.header;
        let sets = self.sets().count();
        write!(
            f,
            "IPFIX of domain {domain}, sequence {sequence}, at {export_time_s} s: {sets} sets, {bytes} bytes"
        )
    }
}

/// What the records of a set are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    /// Templates.
    Templates,
    /// Templates with a scope.
    OptionsTemplates,
    /// Records as the template of this id has them.
    Data(u16),
    /// Nothing that is defined: to be passed over (section 3.3.2).
    Reserved(u16),
}

/// One set of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set<'a> {
    /// Its id.
    pub id: u16,
    body: &'a [u8],
}

impl<'a> Set<'a> {
    /// What its records are.
    #[must_use]
    pub const fn kind(&self) -> SetKind {
        match self.id {
            TEMPLATE_SET_ID => SetKind::Templates,
            OPTIONS_TEMPLATE_SET_ID => SetKind::OptionsTemplates,
            id if id >= DATA_SET_ID_MIN => SetKind::Data(id),
            id => SetKind::Reserved(id),
        }
    }

    /// Its records and padding: for [`Template::records`].
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Its templates; a set of another kind has none.
    #[must_use]
    pub const fn templates(&self) -> TemplateRecords<'a> {
        match self.kind() {
            SetKind::Templates => TemplateRecords::new(self.body, false),
            SetKind::OptionsTemplates => TemplateRecords::new(self.body, true),
            SetKind::Data(_) | SetKind::Reserved(_) => TemplateRecords::new(&[], false),
        }
    }
}

/// The sets of a message.
#[derive(Clone, Debug)]
pub struct Sets<'a> {
    left: &'a [u8],
}

impl<'a> Iterator for Sets<'a> {
    type Item = Set<'a>;

    fn next(&mut self) -> Option<Set<'a>> {
        let (set, left) = split_set(self.left).ok()?;
        self.left = left;
        Some(set)
    }
}

fn split_set(bytes: &[u8]) -> Result<(Set<'_>, &[u8]), IpfixError> {
    let have = bytes.len();
    let &[i0, i1, l0, l1, ..] = bytes else {
        return Err(IpfixError::SetHeader { have });
    };
    let (id, length) = (u16::from_be_bytes([i0, i1]), u16::from_be_bytes([l0, l1]));
    let bad = IpfixError::SetLength {
        id,
        bytes: length,
        have,
    };
    let (set, left) = bytes.split_at_checked(length.into()).ok_or(bad)?;
    let body = set.get(SET_HEADER_BYTES..).ok_or(bad)?;
    Ok((Set { id, body }, left))
}

/// The messages of a file (RFC 5655, section 5), to the first that is none.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    left: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Of these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, IpfixError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let message = Message::new_checked(self.left);
        self.left = message.map_or(&[], |message| message.rest);
        Some(message)
    }
}
