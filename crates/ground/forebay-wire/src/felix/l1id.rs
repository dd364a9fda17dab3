//! Where a chunk says its trigger number.

/// Bytes of a chunk that hold low bits of its trigger number, little-endian: detectors differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L1idField {
    /// Of its first byte in the chunk.
    pub offset: usize,
    /// How many, 1 to 4.
    pub bytes: usize,
}

impl L1idField {
    /// The bits that a chunk says; none when it ends before them, or where the field is longer than a number.
    #[inline]
    #[must_use]
    pub fn low_bits(self, chunk: &[u8]) -> Option<u32> {
        let mut word = [0; 4];
        let end = self.offset.checked_add(self.bytes)?;
        let said = chunk.get(self.offset..end)?;
        word.get_mut(..self.bytes)?.copy_from_slice(said);
        Some(u32::from_le_bytes(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_fields() {
        let chunk = [0xaa, 1, 2, 3, 4, 5];
        for (offset, bytes, low_bits) in [
            (0, 1, Some(0xaa)),
            (1, 2, Some(0x0201)),
            (1, 3, Some(0x03_0201)),
            (2, 4, Some(0x0504_0302)),
            (3, 4, None),
            (6, 1, None),
            (1, 5, None),
            (usize::MAX, 1, None),
        ] {
            let field = L1idField { offset, bytes };
            assert_eq!(field.low_bits(&chunk), low_bits, "{field:?}");
        }
    }
}
