//! Writes a message into the caller's buffer.

use super::record::LONG_LENGTH;
use super::template::template_bytes;
use super::{
    DATA_SET_ID_MIN, FieldSpec, HEADER_BYTES, MESSAGE_BYTES_MAX, MessageHeader, SET_HEADER_BYTES,
    WriteError,
};
use super::{OPTIONS_TEMPLATE_SET_ID, TEMPLATE_SET_ID};

/// Fills one message. What goes into the same kind of set, one after the other, is in one set.
///
/// It does not know the templates: whether a record is as its template says is the caller's business.
/// Sets have no padding.
#[derive(Debug)]
pub struct MessageWriter<'a> {
    room: &'a mut [u8],
    at: usize,
    set: Option<OpenSet>,
    domain: u32,
    sequence: u32,
    records: u32,
}

#[derive(Clone, Copy, Debug)]
struct OpenSet {
    id: u16,
    start: usize,
}

/// A message that is ready to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished<'a> {
    /// All of it.
    pub bytes: &'a [u8],
    /// Its data records.
    pub records: u32,
    /// The sequence number of the domain's next message.
    pub next_sequence: u32,
}

impl<'a> MessageWriter<'a> {
    /// Begins a message of a domain. It becomes no longer than the room, nor than [`MESSAGE_BYTES_MAX`]; see [`super::udp_message_bytes_max`].
    /// The sequence number is 0 in the first message of a session, and then what the one before said ([`Finished::next_sequence`]).
    ///
    /// # Errors
    /// The room is shorter than a header.
    pub fn new(room: &'a mut [u8], domain: u32, sequence: u32) -> Result<Self, WriteError> {
        let have = room.len();
        if have < HEADER_BYTES {
            return Err(WriteError::Room { have });
        }
        Ok(Self {
            room: &mut room[..have.min(MESSAGE_BYTES_MAX)],
            at: HEADER_BYTES,
            set: None,
            domain,
            sequence,
            records: 0,
        })
    }

    /// Bytes so far, with the header.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.at
    }

    /// Data records so far.
    #[must_use]
    pub const fn records(&self) -> u32 {
        self.records
    }

    /// Whether it has no set yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.at == HEADER_BYTES
    }

    /// Adds a template.
    ///
    /// # Errors
    /// The id is none, it has no fields or one of no bytes, or it does not fit.
    pub fn push_template(&mut self, id: u16, specs: &[FieldSpec]) -> Result<(), WriteError> {
        self.push_specs(TEMPLATE_SET_ID, id, None, specs)
    }

    /// Adds a template of options, whose first fields say what the others are about.
    ///
    /// # Errors
    /// As of [`Self::push_template`], or it has no scope, or more than fields.
    pub fn push_options_template(
        &mut self,
        id: u16,
        scope_fields: u16,
        specs: &[FieldSpec],
    ) -> Result<(), WriteError> {
        self.push_specs(OPTIONS_TEMPLATE_SET_ID, id, Some(scope_fields), specs)
    }

    /// Withdraws a template, with a scope or without: not over UDP (section 8.1).
    ///
    /// # Errors
    /// The id is none, or it does not fit.
    pub fn push_withdrawal(&mut self, id: u16, options: bool) -> Result<(), WriteError> {
        check_id(id)?;
        self.push_empty_template(id, options)
    }

    /// Withdraws all templates with a scope, or all without.
    ///
    /// # Errors
    /// It does not fit.
    pub fn push_withdrawal_of_all(&mut self, options: bool) -> Result<(), WriteError> {
        self.push_empty_template(set_id(options), options)
    }

    /// Adds a record of a template.
    ///
    /// # Errors
    /// The id is none, the record has no bytes, or it does not fit.
    #[inline]
    pub fn push_record(
        &mut self,
        template_id: u16,
        write: impl FnOnce(&mut RecordWriter<'_>),
    ) -> Result<(), WriteError> {
        check_id(template_id)?;
        let header = self.header_bytes(template_id);
        let start = (self.at + header).min(self.room.len());
        let mut record = RecordWriter {
            room: &mut self.room[start..],
            at: 0,
            value_too_long: None,
        };
        write(&mut record);
        let (bytes, value_too_long) = (record.at, record.value_too_long);
        if let Some(bytes) = value_too_long {
            return Err(WriteError::ValueBytes { bytes });
        }
        if bytes == 0 {
            return Err(WriteError::EmptyRecord { id: template_id });
        }
        self.reserve(header + bytes, bytes)?;
        self.open(template_id);
        self.advance(bytes);
        self.records += 1;
        Ok(())
    }

    /// Ends the message, with the time at which it is sent, s since 1970, modulo 2³².
    #[must_use]
    pub fn finish(self, export_time_s: u32) -> Finished<'a> {
        let Self {
            room,
            at,
            domain,
            sequence,
            records,
            ..
        } = self;
        let header = MessageHeader {
            bytes: at as u16,
            export_time_s,
            sequence,
            domain,
        };
        if let Some(head) = room.first_chunk_mut() {
            header.emit(head);
        }
        Finished {
            bytes: &room[..at],
            records,
            next_sequence: sequence.wrapping_add(records),
        }
    }

    fn push_specs(
        &mut self,
        set: u16,
        id: u16,
        scope_fields: Option<u16>,
        specs: &[FieldSpec],
    ) -> Result<(), WriteError> {
        check_id(id)?;
        let bytes = template_bytes(specs, scope_fields.is_some());
        let scope = scope_fields.map_or(0, usize::from);
        let has_bytes = !specs.is_empty() && specs.iter().all(|spec| spec.bytes > 0);
        let scope_fits = scope_fields.is_none() || (1..=specs.len()).contains(&scope);
        let fields = u16::try_from(specs.len()).ok();
        let (Some(count), true, true) = (fields, has_bytes, scope_fits) else {
            let fields = specs.len();
            return Err(WriteError::Fields { id, fields, scope });
        };
        self.reserve(self.header_bytes(set) + bytes, bytes)?;
        self.open(set);
        self.put(&id.to_be_bytes());
        self.put(&count.to_be_bytes());
        if let Some(scope) = scope_fields {
            self.put(&scope.to_be_bytes());
        }
        for spec in specs {
            let (bytes, count) = spec.to_bytes();
            self.put(&bytes[..count]);
        }
        Ok(())
    }

    fn push_empty_template(&mut self, id: u16, options: bool) -> Result<(), WriteError> {
        let set = set_id(options);
        self.reserve(self.header_bytes(set) + 4, 4)?;
        self.open(set);
        self.put(&id.to_be_bytes());
        self.put(&[0, 0]);
        Ok(())
    }

    /// Bytes of the set's header that something in a set of this id needs first.
    #[inline]
    fn header_bytes(&self, set: u16) -> usize {
        match self.set {
            Some(open) if open.id == set => 0,
            _ => SET_HEADER_BYTES,
        }
    }

    /// Whether so many bytes fit here, and if not, whether they would in another message, behind the header of their set.
    #[inline]
    const fn reserve(&self, need: usize, alone: usize) -> Result<(), WriteError> {
        let left = self.room.len() - self.at;
        let (most, alone) = (self.room.len() - HEADER_BYTES, alone + SET_HEADER_BYTES);
        if need <= left {
            Ok(())
        } else if alone > most {
            Err(WriteError::NeverFits { need: alone, most })
        } else {
            Err(WriteError::Full { need, left })
        }
    }

    /// Begins a set, unless the last one is of the same id.
    #[inline]
    fn open(&mut self, id: u16) {
        if self.header_bytes(id) > 0 {
            let start = self.at;
            self.set = Some(OpenSet { id, start });
            self.room[start..start + 2].copy_from_slice(&id.to_be_bytes());
            self.advance(SET_HEADER_BYTES);
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.room[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len());
    }

    /// Counts bytes that were written, in the length of their set as well.
    #[inline]
    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        if let Some(OpenSet { start, .. }) = self.set {
            let length = (self.at - start) as u16;
            self.room[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

const fn set_id(options: bool) -> u16 {
    if options {
        OPTIONS_TEMPLATE_SET_ID
    } else {
        TEMPLATE_SET_ID
    }
}

const fn check_id(id: u16) -> Result<(), WriteError> {
    if id < DATA_SET_ID_MIN {
        return Err(WriteError::TemplateId { id });
    }
    Ok(())
}

/// Writes the values of one record, in the order of its template.
#[derive(Debug)]
pub struct RecordWriter<'a> {
    room: &'a mut [u8],
    at: usize,
    value_too_long: Option<usize>,
}

impl RecordWriter<'_> {
    /// A value of a fixed length; what does not fit is counted, and told when the record is complete.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        if let Some(place) = self.room.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }

    /// A number of one byte.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    /// A number of two bytes.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    /// A number of four bytes.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    /// A number of eight bytes.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    /// A value of variable length (section 7), with its length: one byte, three from 255 on.
    #[inline]
    pub fn variable(&mut self, bytes: &[u8]) {
        let Ok(length) = u16::try_from(bytes.len()) else {
            self.value_too_long = Some(bytes.len());
            return;
        };
        match u8::try_from(length) {
            Ok(length) if length < LONG_LENGTH => self.u8(length),
            _ => {
                self.u8(LONG_LENGTH);
                self.u16(length);
            }
        }
        self.bytes(bytes);
    }
}
