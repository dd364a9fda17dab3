//! Reads numbers and parts from bytes, as far as there are any.

/// What is left of some bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(part)
    }

    pub(super) fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (part, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*part)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.chunk().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_be_bytes)
    }

    pub(super) fn u24(&mut self) -> Option<usize> {
        let [a, b, c] = self.chunk()?;
        Some(usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_be_bytes)
    }

    /// A part behind its length of one byte.
    pub(super) fn part8(&mut self) -> Option<Self> {
        let bytes = self.u8()?;
        self.take(bytes.into()).map(Self)
    }

    /// A part behind its length of two bytes.
    pub(super) fn part16(&mut self) -> Option<Self> {
        let bytes = self.u16()?;
        self.take(bytes.into()).map(Self)
    }

    /// A number of QUIC, of one to eight bytes (RFC 9000, section 16).
    pub(super) fn varint(&mut self) -> Option<u64> {
        let first = self.u8()?;
        let more = self.take((1 << (first >> 6)) - 1)?;
        let begin = u64::from(first & 0x3f);
        Some(more.iter().fold(begin, |n, byte| n << 8 | u64::from(*byte)))
    }

    /// A length of QUIC that is one of these bytes.
    pub(super) fn var_length(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }
}
