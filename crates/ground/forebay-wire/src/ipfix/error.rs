//! Why a message is refused, and why something is not written.

use thiserror::Error;

use super::{DATA_SET_ID_MIN, MESSAGE_BYTES_MAX, VERSION};

/// What makes bytes no IPFIX message, or a part of one none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IpfixError {
    /// It ends within its header.
    #[error("{have} bytes are shorter than the header of a message")]
    MessageHeader {
        /// Bytes that are there.
        have: usize,
    },
    /// Another version, such as NetFlow's 9.
    #[error("version {found}; {VERSION} is spoken here")]
    Version {
        /// What the header says.
        found: u16,
    },
    /// The length is below that of the header.
    #[error("a message of {bytes} bytes has no room for its header")]
    MessageLength {
        /// What the header says.
        bytes: u16,
    },
    /// It ends before its length says.
    #[error("a message of {bytes} bytes ends after {have}")]
    MessageCut {
        /// What the header says.
        bytes: u16,
        /// Bytes that are there.
        have: usize,
    },
    /// The message ends within the header of a set.
    #[error("{have} bytes behind the last set are none")]
    SetHeader {
        /// Bytes that are left of the message.
        have: usize,
    },
    /// A set is shorter than its header, or longer than the message.
    #[error("set {id} says {bytes} bytes where {have} are left of the message")]
    SetLength {
        /// Its id.
        id: u16,
        /// What its header says.
        bytes: u16,
        /// Bytes that are left of the message.
        have: usize,
    },
    /// A template with an id below those of data sets.
    #[error("template {id}: ids begin at {DATA_SET_ID_MIN}")]
    TemplateId {
        /// The id.
        id: u16,
    },
    /// The set ends within a template.
    #[error("the set ends within template {id}")]
    TemplateCut {
        /// Its id.
        id: u16,
    },
    /// Options without a scope, or with more scope fields than fields.
    #[error("template {id}: {scope} of {fields} fields are scope")]
    ScopeCount {
        /// Its id.
        id: u16,
        /// Its scope fields.
        scope: u16,
        /// All its fields.
        fields: u16,
    },
    /// A field of no bytes: with them a set would have any number of values.
    #[error("template {id}: its field {field} has no bytes")]
    EmptyField {
        /// Its id.
        id: u16,
        /// The field, from 0.
        field: u16,
    },
    /// A value ends behind its set.
    #[error("a record of template {id} ends behind its set, in field {field}")]
    RecordCut {
        /// Its template.
        id: u16,
        /// The field, from 0.
        field: u16,
    },
    /// A list ends within its header.
    #[error("{have} bytes are shorter than the header of a list")]
    ListHeader {
        /// Bytes that are there.
        have: usize,
    },
    /// The values of a list have no bytes: it would have any number of them.
    #[error("the values of a list have no bytes")]
    EmptyListValue,
    /// A list ends within a value.
    #[error("a list ends within its value {value}")]
    ListCut {
        /// The value, from 0.
        value: usize,
    },
    /// Templates beyond what the cache takes.
    #[error("the cache has its {most} templates")]
    CacheTemplates {
        /// The limit.
        most: usize,
    },
    /// Specifiers of templates beyond what the cache takes.
    #[error("template {id} does not fit: the cache takes {most} bytes of specifiers")]
    CacheBytes {
        /// The template.
        id: u16,
        /// The limit, bytes.
        most: usize,
    },
}

impl IpfixError {
    /// The name of this reason, fit for a counter.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::MessageHeader { .. } => "message_header_cut",
            Self::Version { .. } => "version",
            Self::MessageLength { .. } => "bad_message_length",
            Self::MessageCut { .. } => "message_cut",
            Self::SetHeader { .. } => "set_header_cut",
            Self::SetLength { .. } => "bad_set_length",
            Self::TemplateId { .. } => "bad_template_id",
            Self::TemplateCut { .. } => "template_cut",
            Self::ScopeCount { .. } => "bad_scope_count",
            Self::EmptyField { .. } => "empty_field",
            Self::RecordCut { .. } => "record_cut",
            Self::ListHeader { .. } => "list_header_cut",
            Self::EmptyListValue => "empty_list_value",
            Self::ListCut { .. } => "list_cut",
            Self::CacheTemplates { .. } => "cache_templates_full",
            Self::CacheBytes { .. } => "cache_bytes_full",
        }
    }
}

/// Why something is not written; the message is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// Send this message, and write it into the next one.
    #[error("{need} bytes do not fit into the {left} that are left of the message")]
    Full {
        /// Bytes that it takes here, with the header of a set where it needs one.
        need: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// It fits into no message of this size.
    #[error("{need} bytes do not fit into a message, which takes {most} at most")]
    NeverFits {
        /// Bytes that it takes in a message of its own, without the message's header.
        need: usize,
        /// Bytes of a message's sets at most, with the room that was given.
        most: usize,
    },
    /// The room has no place for a message's header.
    #[error("{have} bytes of room are shorter than the header of a message")]
    Room {
        /// Bytes of it.
        have: usize,
    },
    /// An id below those of data sets.
    #[error("template {id}: ids begin at {DATA_SET_ID_MIN}")]
    TemplateId {
        /// The id.
        id: u16,
    },
    /// No fields, which would withdraw it; a field of no bytes; no scope, or more scope than fields; more than a message has.
    #[error("template {id}: {fields} fields, {scope} of them scope, are none that a reader takes")]
    Fields {
        /// The id.
        id: u16,
        /// Its fields.
        fields: usize,
        /// Its scope fields.
        scope: usize,
    },
    /// A record of no bytes.
    #[error("a record of template {id} has no bytes")]
    EmptyRecord {
        /// Its template.
        id: u16,
    },
    /// A value of variable length beyond [`MESSAGE_BYTES_MAX`].
    #[error("a value of {bytes} bytes; {MESSAGE_BYTES_MAX} are the most")]
    ValueBytes {
        /// Its bytes.
        bytes: usize,
    },
}
