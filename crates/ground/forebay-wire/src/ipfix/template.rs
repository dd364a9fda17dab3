//! Templates: which values a record has, in which order (RFC 7011, section 3.4).

use super::{DATA_SET_ID_MIN, Element, ElementInfo, IpfixError, Records, VARIABLE_LENGTH};
use super::{OPTIONS_TEMPLATE_SET_ID, TEMPLATE_SET_ID};

/// Bytes of a specifier of IANA's, and of one with an enterprise.
const SPEC_BYTES: usize = 4;
const ENTERPRISE_SPEC_BYTES: usize = 8;
/// Bytes of a template's header, and of one with a scope.
const TEMPLATE_HEADER_BYTES: usize = 4;
const OPTIONS_HEADER_BYTES: usize = 6;
const ENTERPRISE_BIT: u16 = 0x8000;

/// One field of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    /// What its values are of. Of its number only 15 bits are written.
    pub element: Element,
    /// Bytes of a value, or [`VARIABLE_LENGTH`].
    pub bytes: u16,
}

impl FieldSpec {
    /// An element with all bytes that the registry gives it.
    #[must_use]
    pub const fn whole(info: ElementInfo) -> Self {
        Self {
            element: info.element,
            bytes: info.bytes,
        }
    }

    /// An element with fewer bytes: only numbers have them (section 6.2).
    #[must_use]
    pub const fn reduced(info: ElementInfo, bytes: u16) -> Self {
        Self {
            element: info.element,
            bytes,
        }
    }

    /// Whether a length stands in front of each value.
    #[must_use]
    pub const fn is_variable(self) -> bool {
        self.bytes == VARIABLE_LENGTH
    }

    /// Bytes that a value takes in a record at least.
    pub(super) const fn bytes_min(self) -> usize {
        if self.is_variable() {
            1
        } else {
            self.bytes as usize
        }
    }

    /// Its bytes, and how many of them count.
    pub(super) const fn to_bytes(self) -> ([u8; ENTERPRISE_SPEC_BYTES], usize) {
        let Element { enterprise, id } = self.element;
        let [l0, l1] = self.bytes.to_be_bytes();
        let id = id & !ENTERPRISE_BIT;
        if enterprise == 0 {
            let [i0, i1] = id.to_be_bytes();
            return ([i0, i1, l0, l1, 0, 0, 0, 0], SPEC_BYTES);
        }
        let [i0, i1] = (id | ENTERPRISE_BIT).to_be_bytes();
        let [e0, e1, e2, e3] = enterprise.to_be_bytes();
        ([i0, i1, l0, l1, e0, e1, e2, e3], ENTERPRISE_SPEC_BYTES)
    }

    /// The first of these specifiers, and the others.
    pub(super) fn split(specs: &[u8]) -> Option<(Self, &[u8])> {
        let (&[i0, i1, l0, l1], rest) = specs.split_first_chunk()?;
        let (id, bytes) = (u16::from_be_bytes([i0, i1]), u16::from_be_bytes([l0, l1]));
        let (enterprise, rest) = if id & ENTERPRISE_BIT == 0 {
            (0, rest)
        } else {
            let (enterprise, rest) = rest.split_first_chunk()?;
            (u32::from_be_bytes(*enterprise), rest)
        };
        let id = id & !ENTERPRISE_BIT;
        let element = Element { enterprise, id };
        Some((Self { element, bytes }, rest))
    }
}

/// A checked view of a template: it has fields, and each value of a record has bytes, so that a set has no more values than bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template<'a> {
    /// The id of sets with its records.
    pub id: u16,
    /// Its fields.
    pub fields: u16,
    /// How many of them, from the first, say what the others are about; 0 in a template of flows (section 3.4.2).
    pub scope_fields: u16,
    /// Bytes of its shortest record: all of them, unless a length varies.
    pub record_bytes_min: usize,
    /// Its specifiers, as they came.
    pub(super) specs: &'a [u8],
}

impl<'a> Template<'a> {
    /// Takes the specifiers of a template off these bytes.
    fn split(
        id: u16,
        fields: u16,
        scope_fields: u16,
        bytes: &'a [u8],
    ) -> Result<(Self, &'a [u8]), IpfixError> {
        let mut left = bytes;
        let mut record_bytes_min = 0;
        for field in 0..fields {
            let (spec, rest) = FieldSpec::split(left).ok_or(IpfixError::TemplateCut { id })?;
            if spec.bytes == 0 {
                return Err(IpfixError::EmptyField { id, field });
            }
            left = rest;
            record_bytes_min += spec.bytes_min();
        }
        let specs = &bytes[..bytes.len() - left.len()];
        let template = Self {
            id,
            fields,
            scope_fields,
            record_bytes_min,
            specs,
        };
        Ok((template, left))
    }

    /// Its fields, in order.
    #[must_use]
    pub const fn specs(&self) -> FieldSpecs<'a> {
        FieldSpecs { left: self.specs }
    }

    /// The records of a set with its id ([`super::Set::body`]).
    #[must_use]
    pub const fn records<'b>(&self, body: &'b [u8]) -> Records<'a, 'b> {
        Records::new(*self, body)
    }
}

/// The fields of a template.
#[derive(Clone, Debug)]
pub struct FieldSpecs<'a> {
    left: &'a [u8],
}

impl Iterator for FieldSpecs<'_> {
    type Item = FieldSpec;

    #[inline]
    fn next(&mut self) -> Option<FieldSpec> {
        let (spec, left) = FieldSpec::split(self.left)?;
        self.left = left;
        Some(spec)
    }
}

/// What a set of templates says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateRecord<'a> {
    /// Records of this form follow.
    Defined(Template<'a>),
    /// No more records of this template follow (section 8.1).
    Withdrawn(u16),
    /// No more records of any template without a scope, or of any with one.
    AllWithdrawn {
        /// Those with a scope.
        options: bool,
    },
}

/// The templates of a set, to the first that is none.
#[derive(Clone, Debug)]
pub struct TemplateRecords<'a> {
    left: &'a [u8],
    options: bool,
}

impl<'a> TemplateRecords<'a> {
    pub(super) const fn new(body: &'a [u8], options: bool) -> Self {
        Self {
            left: body,
            options,
        }
    }

    fn split(&self) -> Result<(TemplateRecord<'a>, &'a [u8]), IpfixError> {
        let &[i0, i1, f0, f1, ref rest @ ..] = self.left else {
            return Err(IpfixError::TemplateCut { id: 0 });
        };
        let (id, fields) = (u16::from_be_bytes([i0, i1]), u16::from_be_bytes([f0, f1]));
        let of_all = match self.options {
            true => OPTIONS_TEMPLATE_SET_ID,
            false => TEMPLATE_SET_ID,
        };
        match (id, fields) {
            (id, 0) if id == of_all => {
                let options = self.options;
                return Ok((TemplateRecord::AllWithdrawn { options }, rest));
            }
            (..DATA_SET_ID_MIN, _) => return Err(IpfixError::TemplateId { id }),
            (id, 0) => return Ok((TemplateRecord::Withdrawn(id), rest)),
            _ => {}
        }
        let (scope, rest) = match (self.options, rest) {
            (false, rest) => (0, rest),
            (true, &[s0, s1, ref rest @ ..]) => (u16::from_be_bytes([s0, s1]), rest),
            (true, _) => return Err(IpfixError::TemplateCut { id }),
        };
        if self.options && !(1..=fields).contains(&scope) {
            return Err(IpfixError::ScopeCount { id, scope, fields });
        }
        let (template, rest) = Template::split(id, fields, scope, rest)?;
        Ok((TemplateRecord::Defined(template), rest))
    }
}

impl<'a> Iterator for TemplateRecords<'a> {
    type Item = Result<TemplateRecord<'a>, IpfixError>;

    fn next(&mut self) -> Option<Self::Item> {
        // What is shorter than any template is padding (section 3.3.1).
        if self.left.len() < TEMPLATE_HEADER_BYTES {
            return None;
        }
        let record = self.split();
        self.left = record.map_or(&[], |(_, rest)| rest);
        Some(record.map(|(record, _)| record))
    }
}

/// Bytes that a template takes in a set.
pub(super) fn template_bytes(specs: &[FieldSpec], has_scope: bool) -> usize {
    let header = match has_scope {
        true => OPTIONS_HEADER_BYTES,
        false => TEMPLATE_HEADER_BYTES,
    };
    header + specs.iter().map(|spec| spec.to_bytes().1).sum::<usize>()
}
