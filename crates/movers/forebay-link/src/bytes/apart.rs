//! Bytes that stay in the sender's memory, and are read there.

use forebay_ring::View;

/// Ranges of memory that a piece may be made of, beside its own bytes.
pub const PARTS_MAX: usize = 4;

/// The end of a piece, which lies in the memory of the peer's: read-only, and only while it is at hand.
///
/// An honest peer does not change it meanwhile. Another one may: what is read twice need not be the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Apart<'a> {
    parts: [Option<View<'a>>; PARTS_MAX],
    len: usize,
}

impl<'a> Apart<'a> {
    /// Adds a range; what is beyond the [`PARTS_MAX`]th is not taken.
    pub(super) fn push(&mut self, part: View<'a>) {
        if let Some(place) = self.parts.iter_mut().find(|place| place.is_none()) {
            self.len += part.len();
            *place = Some(part);
        }
    }

    /// Bytes of all parts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = View<'a>> {
        self.parts.into_iter().flatten()
    }

    /// Appends a copy of all of it.
    pub fn copy_to(&self, to: &mut Vec<u8>) {
        to.reserve(self.len);
        self.parts().for_each(|part| part.append_to(to));
    }
}
