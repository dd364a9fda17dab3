//! Big-endian numbers, one after the other.

use super::{Kind, TdmError};

/// Reads fields from the front.
pub(super) struct Take<'a> {
    kind: Kind,
    rest: &'a [u8],
}

impl<'a> Take<'a> {
    pub(super) const fn new(kind: Kind, rest: &'a [u8]) -> Self {
        Self { kind, rest }
    }

    /// What was not taken.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) const fn left(&self) -> usize {
        self.rest.len()
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], TdmError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(TdmError::Truncated {
            need: N,
            have: self.rest.len(),
        })?;
        self.rest = rest;
        Ok(*array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, TdmError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, TdmError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, TdmError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, TdmError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], TdmError> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(TdmError::Truncated {
                need: count,
                have: self.rest.len(),
            })?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A number that must lie within bounds.
    pub(super) fn within<T: Copy + Into<u64>>(
        &self,
        field: &'static str,
        value: T,
        least: u64,
        most: u64,
    ) -> Result<T, TdmError> {
        let found = value.into();
        if (least..=most).contains(&found) {
            Ok(value)
        } else {
            Err(self.field(field, found))
        }
    }

    pub(super) const fn field(&self, field: &'static str, found: u64) -> TdmError {
        TdmError::Field {
            kind: self.kind,
            field,
            found,
        }
    }
}

/// Writes fields one after the other; what does not fit is told at the end.
pub(super) struct Put<'a> {
    out: &'a mut [u8],
    at: usize,
    fits: bool,
}

impl<'a> Put<'a> {
    pub(super) const fn new(out: &'a mut [u8]) -> Self {
        Self {
            out,
            at: 0,
            fits: true,
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        match self.out.get_mut(self.at..self.at + bytes.len()) {
            Some(place) => place.copy_from_slice(bytes),
            None => self.fits = false,
        }
        self.at += bytes.len();
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    pub(super) fn done(self) -> Option<usize> {
        self.fits.then_some(self.at)
    }
}
