//! The header of UDP (RFC 768).
//!
//! ```text
//! +0  source port
//! +2  destination port
//! +4  length with this header, bytes
//! +6  checksum
//! ```

use super::PacketError;

/// Bytes of the header.
pub const UDP_HEADER_BYTES: usize = 8;

/// A checked view of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    header: &'a [u8; UDP_HEADER_BYTES],
    payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Takes what an IP packet carries; bytes behind the datagram are ignored.
    ///
    /// # Errors
    /// It is shorter than its header or its length, or the length is below that of the header.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (header, rest) = bytes.split_first_chunk().ok_or(PacketError::UdpHeader)?;
        let &[_, _, _, _, l0, l1, _, _] = header;
        // 0 stands for more than 65,535 bytes, and in captures of a sender that leaves the cutting to its network card.
        let length = match usize::from(u16::from_be_bytes([l0, l1])) {
            0 => bytes.len(),
            length => length,
        };
        let payload_bytes = length
            .checked_sub(UDP_HEADER_BYTES)
            .ok_or(PacketError::UdpLength)?;
        let payload = rest.get(..payload_bytes).ok_or(PacketError::UdpBody)?;
        Ok(Self { header, payload })
    }

    /// Port of its sender.
    #[inline]
    pub const fn source_port(&self) -> u16 {
        let &[s0, s1, ..] = self.header;
        u16::from_be_bytes([s0, s1])
    }

    /// Port of its receiver.
    #[inline]
    pub const fn destination_port(&self) -> u16 {
        let &[_, _, d0, d1, ..] = self.header;
        u16::from_be_bytes([d0, d1])
    }

    /// Its bytes.
    #[inline]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    /// Port 50000 → port 50001, "hi".
    const GOLDEN: [u8; 10] = [0xc3, 0x50, 0xc3, 0x51, 0, 10, 0, 0, b'h', b'i'];

    #[test]
    fn golden_datagram() {
        let datagram = Datagram::new_checked(&GOLDEN).unwrap();
        let ports = (datagram.source_port(), datagram.destination_port());
        assert_eq!((ports, datagram.payload()), ((50_000, 50_001), &b"hi"[..]));
    }

    #[test]
    fn its_length_counts_and_not_what_is_behind_it() {
        let with = |length: u8| {
            let mut datagram = GOLDEN;
            datagram[5] = length;
            Datagram::new_checked(&datagram).map(|datagram| datagram.payload().to_vec())
        };
        assert_eq!(with(9), Ok(b"h".to_vec()));
        assert_eq!(with(8), Ok(vec![]));
        assert_eq!(with(7), Err(PacketError::UdpLength));
        assert_eq!(with(11), Err(PacketError::UdpBody));
        assert_eq!(with(0), Ok(b"hi".to_vec()));
    }
}
