//! Where a block lies.

/// Bytes of a block: private ones, or a view of memory that somebody else may write. Each is read once: what was checked is what is used.
pub trait Bytes: Copy {
    /// How many.
    fn len(self) -> usize;

    /// Whether there are none.
    fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The little-endian number there; none outside.
    fn u16_le(self, at: usize) -> Option<u16>;

    /// The little-endian number there; none outside.
    fn u32_le(self, at: usize) -> Option<u32>;

    /// A part of them; none outside.
    fn part(self, at: usize, bytes: usize) -> Option<Self>;

    /// Appends a copy of all of them.
    fn append_to(self, to: &mut Vec<u8>);
}

impl Bytes for &[u8] {
    #[inline]
    fn len(self) -> usize {
        <[u8]>::len(self)
    }

    #[inline]
    fn u16_le(self, at: usize) -> Option<u16> {
        let bytes = self.get(at..)?.first_chunk()?;
        Some(u16::from_le_bytes(*bytes))
    }

    #[inline]
    fn u32_le(self, at: usize) -> Option<u32> {
        let bytes = self.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    #[inline]
    fn part(self, at: usize, bytes: usize) -> Option<Self> {
        self.get(at..at.checked_add(bytes)?)
    }

    #[inline]
    fn append_to(self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }
}
