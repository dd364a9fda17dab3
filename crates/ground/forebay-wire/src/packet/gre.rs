//! The header of GRE (RFC 2784) with key and number (RFC 2890).
//!
//! ```text
//! +0  flags: checksum 0x8000, key 0x2000, number 0x1000; version in the last 3 bits
//! +2  Ethernet type of the payload
//! +4  with the flag each: checksum and reserved (4 bytes), key (4), number (4)
//! ```

use super::PacketError;
use super::link::EtherType;

const CHECKSUM: u16 = 0x8000;
/// Of RFC 1701, which nobody should send.
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const NUMBER: u16 = 0x1000;
const VERSION: u16 = 0x0007;

/// What a packet says of itself, and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gre<'a> {
    /// What it carries.
    pub ethertype: EtherType,
    /// Which of several tunnels between two hosts.
    pub key: Option<u32>,
    /// What is in the tunnel.
    pub payload: &'a [u8],
}

impl<'a> Gre<'a> {
    /// Takes what an IP packet carries.
    ///
    /// # Errors
    /// It ends within its header, or is of another version (1 is that of PPTP).
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (&[f0, f1, e0, e1], mut rest) = take(bytes)?;
        let flags = u16::from_be_bytes([f0, f1]);
        if flags & (ROUTING | VERSION) != 0 {
            return Err(PacketError::GreVersion);
        }
        if flags & CHECKSUM != 0 {
            rest = take::<4>(rest)?.1;
        }
        let mut key = None;
        if flags & KEY != 0 {
            let (bytes, behind) = take(rest)?;
            key = Some(u32::from_be_bytes(*bytes));
            rest = behind;
        }
        if flags & NUMBER != 0 {
            rest = take::<4>(rest)?.1;
        }
        Ok(Self {
            ethertype: EtherType(u16::from_be_bytes([e0, e1])),
            key,
            payload: rest,
        })
    }
}

fn take<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), PacketError> {
    bytes.split_first_chunk().ok_or(PacketError::GreHeader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_headers() {
        let plain = Gre::parse(&[0, 0, 8, 0, b'x']).unwrap();
        assert_eq!((plain.ethertype, plain.key), (EtherType::IPV4, None));
        assert_eq!(plain.payload, b"x");
        let all = [
            0xb0, 0, 0x86, 0xdd, 1, 2, 0, 0, 0, 0, 0, 42, 0, 0, 0, 1, b'y',
        ];
        let full = Gre::parse(&all).unwrap();
        assert_eq!((full.ethertype, full.key), (EtherType::IPV6, Some(42)));
        assert_eq!(full.payload, b"y");
        for end in 0..16 {
            let error = Gre::parse(&all[..end]).unwrap_err();
            assert_eq!(error, PacketError::GreHeader, "{end}");
            assert!(error.is_short());
        }
    }

    #[test]
    fn other_versions_are_refused() {
        for flags in [[0x40, 0], [0x30, 1]] {
            let header = [flags[0], flags[1], 8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(Gre::parse(&header), Err(PacketError::GreVersion));
        }
    }
}
