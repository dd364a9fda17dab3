//! What plugins found of a flow: the values of their columns, as bytes, one after the other.

use std::borrow::Cow;
use std::sync::Arc;

use super::column::{Column, Kind};
use super::kind::PluginKind;

/// In place of a length: there is no value.
const ABSENT: u16 = u16::MAX;
/// A value has less bytes than that.
const VALUE_BYTES_MAX: usize = 4096;
/// Bytes of the set of plugins in front of the values.
const SET_BYTES: usize = 2;

/// The values of one flow; empty where no plugin has found anything. A copy costs no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Option<Arc<[u8]>>);

impl Fields {
    /// Which plugins have found something: a bit for each of [`PluginKind::ALL`], the first is the lowest.
    #[must_use]
    pub fn set(&self) -> u16 {
        let set = self.0.as_deref().and_then(<[u8]>::first_chunk);
        set.map_or(0, |set| u16::from_be_bytes(*set))
    }

    /// All values, with their columns.
    pub fn values(&self) -> impl Iterator<Item = (&'static Column, Option<Value<'_>>)> {
        let bytes = self.0.as_deref().unwrap_or_default();
        let mut left = bytes.get(SET_BYTES..).unwrap_or_default();
        columns(self.set()).map(move |column| (column, split(&mut left)))
    }
}

/// The columns of a set of plugins.
pub(crate) fn columns(set: u16) -> impl Iterator<Item = &'static Column> {
    let kinds = PluginKind::ALL.into_iter();
    let kinds = kinds.filter(move |kind| set & bit(*kind) != 0);
    kinds.flat_map(|kind| kind.columns())
}

impl PluginKind {
    /// The columns of a set of plugins, as [`Fields::set`] has it.
    pub fn columns_of(set: u16) -> impl Iterator<Item = &'static Column> {
        columns(set)
    }
}

const fn bit(kind: PluginKind) -> u16 {
    1 << kind as u16
}

fn split<'a>(left: &mut &'a [u8]) -> Option<Value<'a>> {
    let (length, rest) = left.split_first_chunk()?;
    *left = rest;
    let length = match u16::from_be_bytes(*length) {
        ABSENT => return None,
        length => usize::from(length),
    };
    let (value, rest) = rest.split_at_checked(length)?;
    *left = rest;
    Some(Value(value))
}

/// A value: of a number its big-endian bytes, of a list those of its numbers one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a>(&'a [u8]);

impl<'a> Value<'a> {
    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// A number of up to eight bytes.
    #[must_use]
    pub fn unsigned(self) -> u64 {
        self.0
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// A number with a fraction.
    #[must_use]
    pub fn float(self) -> f64 {
        f64::from_bits(self.unsigned())
    }

    /// A text.
    #[must_use]
    pub fn text(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.0)
    }

    /// The numbers of a list of such with so many bytes each.
    pub fn unsigneds(self, bytes: u16) -> impl Iterator<Item = u64> + use<'a> {
        let each = self.0.chunks_exact(usize::from(bytes.max(1)));
        each.map(|bytes| Value(bytes).unsigned())
    }
}

/// Writes the fields of one flow.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    row: &'a mut Vec<u8>,
    set: u16,
    /// Values of the plugin at work.
    values: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(row: &'a mut Vec<u8>) -> Self {
        row.clear();
        row.extend([0; SET_BYTES]);
        Self {
            row,
            set: 0,
            values: 0,
        }
    }

    pub(super) fn begin(&mut self, _kind: PluginKind) {
        self.values = 0;
    }

    /// A plugin that wrote something is of the set.
    pub(super) fn end(&mut self, kind: PluginKind) {
        if self.values > 0 {
            debug_assert_eq!(self.values, kind.columns().len(), "{kind}");
            self.set |= bit(kind);
        }
    }

    pub(super) fn finish(self) -> Fields {
        if self.set == 0 {
            return Fields(None);
        }
        self.row[..SET_BYTES].copy_from_slice(&self.set.to_be_bytes());
        Fields(Some(Arc::from(&self.row[..])))
    }

    /// Any bytes; of too many the first.
    pub(super) fn octets(&mut self, bytes: &[u8]) {
        let bytes = bytes.get(..VALUE_BYTES_MAX).unwrap_or(bytes);
        let length = bytes.len() as u16;
        self.row.extend(length.to_be_bytes());
        self.row.extend_from_slice(bytes);
        self.values += 1;
    }

    pub(super) fn absent(&mut self) {
        self.row.extend(ABSENT.to_be_bytes());
        self.values += 1;
    }

    /// A text: what is no UTF-8 is replaced (U+FFFD). An empty one is none.
    pub(super) fn text(&mut self, bytes: &[u8]) {
        match bytes {
            [] => self.absent(),
            some => self.octets(String::from_utf8_lossy(some).as_bytes()),
        }
    }

    pub(super) fn u8(&mut self, value: impl Into<Option<u8>>) {
        self.number(value.into().map(u8::to_be_bytes));
    }

    pub(super) fn u16(&mut self, value: impl Into<Option<u16>>) {
        self.number(value.into().map(u16::to_be_bytes));
    }

    pub(super) fn u32(&mut self, value: impl Into<Option<u32>>) {
        self.number(value.into().map(u32::to_be_bytes));
    }

    pub(super) fn u64(&mut self, value: impl Into<Option<u64>>) {
        self.number(value.into().map(u64::to_be_bytes));
    }

    pub(super) fn float(&mut self, value: impl Into<Option<f64>>) {
        self.number(value.into().map(f64::to_be_bytes));
    }

    fn number<const N: usize>(&mut self, bytes: Option<[u8; N]>) {
        match bytes {
            Some(bytes) => self.octets(&bytes),
            None => self.absent(),
        }
    }

    /// A list of numbers.
    pub(super) fn list<const N: usize>(&mut self, numbers: impl Iterator<Item = [u8; N]>) {
        let at = self.row.len();
        self.row.extend([0; 2]);
        numbers
            .take(VALUE_BYTES_MAX / N)
            .for_each(|number| self.row.extend(number));
        let length = (self.row.len() - at - 2) as u16;
        self.row[at..at + 2].copy_from_slice(&length.to_be_bytes());
        self.values += 1;
    }
}

impl Kind {
    /// Bytes of a number, or of each number of a list; 0 of texts and octets.
    #[must_use]
    pub const fn number_bytes(self) -> u16 {
        match self {
            Self::Unsigned(bytes) | Self::Unsigneds(bytes) => bytes,
            Self::Float => 8,
            Self::Signeds => 1,
            Self::Text | Self::Octets => 0,
        }
    }
}
