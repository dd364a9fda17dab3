//! The common header of SCTP and its chunks (RFC 9260, section 3).
//!
//! ```text
//! +0   source port
//! +2   destination port
//! +4   verification tag
//! +8   checksum
//! +12  chunks: +0 type, +1 flags, +2 length with these 4 bytes; filled up to a multiple of 4
//! ```

use super::PacketError;

/// Bytes of the common header.
pub const SCTP_HEADER_BYTES: usize = 12;
/// Bytes in front of each chunk.
const CHUNK_HEADER_BYTES: usize = 4;

/// A checked view of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    header: &'a [u8; SCTP_HEADER_BYTES],
    chunks: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Takes what an IP packet carries.
    ///
    /// # Errors
    /// It is shorter than its common header.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (header, chunks) = bytes.split_first_chunk().ok_or(PacketError::SctpHeader)?;
        Ok(Self { header, chunks })
    }

    /// Port of its sender.
    #[inline]
    pub const fn source_port(&self) -> u16 {
        u16::from_be_bytes([self.header[0], self.header[1]])
    }

    /// Port of its receiver.
    #[inline]
    pub const fn destination_port(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// What its receiver knows the association by.
    #[inline]
    pub const fn verification_tag(&self) -> u32 {
        let &[_, _, _, _, t0, t1, t2, t3, ..] = self.header;
        u32::from_be_bytes([t0, t1, t2, t3])
    }

    /// Its chunks, to the first that contradicts itself or is not whole.
    pub const fn chunks(&self) -> Chunks<'a> {
        Chunks(self.chunks)
    }
}

/// A chunk of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Its type: 0 has data, 1 begins an association, 7 ends it, 6 breaks it off.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// What it carries, without what it is filled up with.
    pub value: &'a [u8],
}

/// Chunks one by one.
#[derive(Clone, Debug)]
pub struct Chunks<'a>(&'a [u8]);

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        let bytes = core::mem::take(&mut self.0);
        let (&[kind, flags, l0, l1], _) = bytes.split_first_chunk::<CHUNK_HEADER_BYTES>()?;
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let value = bytes.get(CHUNK_HEADER_BYTES..length)?;
        // The last one may come without its padding.
        self.0 = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Chunk { kind, flags, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Port 36412 → port 36412 (S1AP): a chunk of 3 bytes with data, and one that ends.
    const GOLDEN: [u8; 24] = [
        0x8e, 0x3c, 0x8e, 0x3d, 1, 2, 3, 4, 0, 0, 0, 0, //
        0, 3, 0, 7, b'a', b'b', b'c', 0, 14, 0, 0, 4,
    ];

    fn chunks(bytes: &[u8]) -> Vec<(u8, u8, usize)> {
        let packet = Packet::new_checked(bytes).unwrap();
        let chunks = packet.chunks();
        chunks
            .map(|chunk| (chunk.kind, chunk.flags, chunk.value.len()))
            .collect()
    }

    #[test]
    fn golden_packet() {
        let packet = Packet::new_checked(&GOLDEN).unwrap();
        let ports = (packet.source_port(), packet.destination_port());
        assert_eq!(ports, (36_412, 36_413));
        assert_eq!(packet.verification_tag(), 0x0102_0304);
        assert_eq!(chunks(&GOLDEN), [(0, 3, 3), (14, 0, 0)]);
        let first = packet.chunks().next().unwrap();
        assert_eq!(first.value, b"abc");
    }

    #[test]
    fn chunks_end_where_they_contradict_themselves() {
        for end in 0..SCTP_HEADER_BYTES {
            let error = Packet::new_checked(&GOLDEN[..end]).unwrap_err();
            assert_eq!(error, PacketError::SctpHeader);
            assert!(error.is_short());
        }
        assert_eq!(chunks(&GOLDEN[..19]), [(0, 3, 3)], "without padding");
        assert_eq!(chunks(&GOLDEN[..18]), []);
        for length in [0, 3, 200] {
            let mut packet = GOLDEN;
            packet[15] = length;
            assert_eq!(chunks(&packet), [], "{length}");
        }
    }
}
