//! Data records: the values of a set, as its template has them (RFC 7011, sections 3.4.3, 6 and 7).

use super::template::FieldSpecs;
use super::{Element, FieldSpec, IpfixError, Template};

/// In place of a length of one byte: two more bytes are the length (section 7).
pub(super) const LONG_LENGTH: u8 = 255;

/// The records of a set, to the first that ends behind it.
#[derive(Clone, Debug)]
pub struct Records<'t, 'a> {
    template: Template<'t>,
    left: &'a [u8],
}

impl<'t, 'a> Records<'t, 'a> {
    pub(super) const fn new(template: Template<'t>, body: &'a [u8]) -> Self {
        Self {
            template,
            left: body,
        }
    }
}

impl<'t, 'a> Iterator for Records<'t, 'a> {
    type Item = Result<Record<'t, 'a>, IpfixError>;

    fn next(&mut self) -> Option<Self::Item> {
        // What is shorter than any record is padding (section 3.3.1).
        if self.left.len() < self.template.record_bytes_min {
            return None;
        }
        let mut values = Values {
            specs: self.template.specs(),
            left: self.left,
        };
        let mut field = 0;
        while let Some(value) = values.step() {
            if value.is_none() {
                let id = self.template.id;
                self.left = &[];
                return Some(Err(IpfixError::RecordCut { id, field }));
            }
            field += 1;
        }
        let bytes = &self.left[..self.left.len() - values.left.len()];
        self.left = values.left;
        let template = self.template;
        Some(Ok(Record { template, bytes }))
    }
}

/// A checked view of a record: each of its values lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'t, 'a> {
    template: Template<'t>,
    bytes: &'a [u8],
}

impl<'t, 'a> Record<'t, 'a> {
    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its values, in order.
    #[must_use]
    pub const fn values(&self) -> Values<'t, 'a> {
        Values {
            specs: self.template.specs(),
            left: self.bytes,
        }
    }

    /// The first value of this element.
    #[must_use]
    pub fn value(&self, element: Element) -> Option<Value<'a>> {
        let mut values = self.values();
        values.find_map(|(spec, value)| (spec.element == element).then_some(value))
    }
}

/// The values of a record with what they are of.
#[derive(Clone, Debug)]
pub struct Values<'t, 'a> {
    specs: FieldSpecs<'t>,
    left: &'a [u8],
}

impl<'a> Values<'_, 'a> {
    /// The next field, and its value unless that is cut.
    #[inline]
    fn step(&mut self) -> Option<Option<(FieldSpec, Value<'a>)>> {
        let spec = self.specs.next()?;
        Some(split_value(spec, self.left).map(|(value, left)| {
            self.left = left;
            (spec, Value(value))
        }))
    }
}

impl<'a> Iterator for Values<'_, 'a> {
    type Item = (FieldSpec, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.step().flatten()
    }
}

#[inline]
pub(super) fn split_value(spec: FieldSpec, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if !spec.is_variable() {
        return bytes.split_at_checked(spec.bytes.into());
    }
    match *bytes {
        [LONG_LENGTH, l0, l1, ref rest @ ..] => {
            rest.split_at_checked(u16::from_be_bytes([l0, l1]).into())
        }
        [LONG_LENGTH, ..] | [] => None,
        [length, ref rest @ ..] => rest.split_at_checked(length.into()),
    }
}

/// The bytes of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a>(pub &'a [u8]);

impl Value<'_> {
    /// An unsigned number of one to eight bytes (sections 6.1.1 and 6.2).
    #[must_use]
    pub fn unsigned(self) -> Option<u64> {
        let mut number = [0; 8];
        let at = number.len().checked_sub(self.0.len())?;
        number[at..].copy_from_slice(self.0);
        (!self.0.is_empty()).then_some(u64::from_be_bytes(number))
    }

    /// An address of four or sixteen bytes (section 6.1.7).
    #[must_use]
    pub fn address(self) -> Option<core::net::IpAddr> {
        let four = self.0.try_into().ok().map(|bytes: [u8; 4]| bytes.into());
        four.or_else(|| self.0.try_into().ok().map(|bytes: [u8; 16]| bytes.into()))
    }
}
