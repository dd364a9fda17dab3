//! The header of ICMP (RFC 792) and of ICMPv6 (RFC 4443), which have the same form.
//!
//! ```text
//! +0  type
//! +1  code
//! +2  checksum
//! +4  what the type says: of an echo its identifier and number
//! ```

use super::PacketError;

/// Bytes of the header.
pub const ICMP_HEADER_BYTES: usize = 8;

/// A checked view of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    header: &'a [u8; ICMP_HEADER_BYTES],
    payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// Takes what an IP packet carries.
    ///
    /// # Errors
    /// It is shorter than its header.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (header, payload) = bytes.split_first_chunk().ok_or(PacketError::IcmpHeader)?;
        Ok(Self { header, payload })
    }

    /// Its type: 8 and 0 are an echo and its answer in ICMP, 128 and 129 in ICMPv6.
    #[inline]
    pub const fn kind(&self) -> u8 {
        self.header[0]
    }

    /// Its code within the type.
    #[inline]
    pub const fn code(&self) -> u8 {
        self.header[1]
    }

    /// The identifier of an echo.
    #[inline]
    pub const fn identifier(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }

    /// What is behind the header: of an error the begin of the packet that it is about.
    #[inline]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_echo() {
        let echo = [8, 1, 0xf7, 0xff, 0x12, 0x34, 0, 1, b'h', b'i'];
        let message = Message::new_checked(&echo).unwrap();
        let said = (message.kind(), message.code(), message.identifier());
        assert_eq!(said, (8, 1, 0x1234));
        assert_eq!(message.payload(), b"hi");
        for end in 0..ICMP_HEADER_BYTES {
            let error = Message::new_checked(&echo[..end]).unwrap_err();
            assert_eq!(error, PacketError::IcmpHeader);
            assert!(error.is_short());
        }
    }
}
