//! The header of GTP-U version 1 (3GPP TS 29.281, section 5), in datagrams to port 2152.
//!
//! ```text
//! +0   version (3 bits: 1), protocol (1 bit: 1), reserved, flags: extension 0x04, number 0x02, N-PDU 0x01
//! +1   type: 255 carries a packet
//! +2   bytes behind the first 8
//! +4   identifier of the tunnel's end
//! +8   with any flag: number (2), N-PDU (1), kind of the next extension (1)
//! +12  extensions: +0 length in units of 4 bytes, the last byte of each the kind of the next; 0: none
//! ```

use super::PacketError;

/// Port at which tunnels end.
pub const GTPU_PORT: u16 = 2152;
/// The type of a message that carries a packet.
const PACKET: u8 = 255;
const VERSION_AND_PROTOCOL: u8 = 0xf0;
const VERSION_1: u8 = 0x30;
const EXTENSION: u8 = 0x04;
const OPTIONAL: u8 = 0x07;
/// More are an attack.
const EXTENSIONS_MAX: usize = 8;

/// What a message says of itself, and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gtpu<'a> {
    /// Identifier of the tunnel's end.
    pub tunnel: u32,
    /// An IP packet; none in a message about the tunnel.
    pub packet: Option<&'a [u8]>,
}

impl<'a> Gtpu<'a> {
    /// Takes the payload of a datagram.
    ///
    /// # Errors
    /// It ends within its headers or before its length says, is of another version, or its extensions contradict themselves.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (&[flags, kind, l0, l1, t0, t1, t2, t3], rest) = bytes
            .split_first_chunk::<8>()
            .ok_or(PacketError::GtpHeader)?;
        if flags & VERSION_AND_PROTOCOL != VERSION_1 {
            return Err(PacketError::GtpVersion);
        }
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let mut body = rest.get(..length).ok_or(PacketError::GtpHeader)?;
        if flags & OPTIONAL != 0 {
            let (&[_, _, _, next], behind) = take(body)?;
            let has_extensions = flags & EXTENSION != 0;
            body = past_extensions(if has_extensions { next } else { 0 }, behind)?;
        }
        Ok(Self {
            tunnel: u32::from_be_bytes([t0, t1, t2, t3]),
            packet: (kind == PACKET).then_some(body),
        })
    }
}

/// Its length was there, so that what lacks contradicts it.
fn take(bytes: &[u8]) -> Result<(&[u8; 4], &[u8]), PacketError> {
    bytes.split_first_chunk().ok_or(PacketError::GtpExtension)
}

fn past_extensions(mut next: u8, mut body: &[u8]) -> Result<&[u8], PacketError> {
    for _ in 0..EXTENSIONS_MAX {
        if next == 0 {
            return Ok(body);
        }
        let (&[units, ..], _) = take(body)?;
        let parts = body.split_at_checked(usize::from(units) * 4);
        let (extension, rest) = parts.ok_or(PacketError::GtpExtension)?;
        next = *extension.last().ok_or(PacketError::GtpExtension)?;
        body = rest;
    }
    Err(PacketError::GtpExtension)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// A packet in tunnel 7, with the container of a 5G session (0x85) in front of it.
    const GOLDEN: [u8; 17] = [
        0x34, 255, 0, 9, 0, 0, 0, 7, 0, 0, 0, 0x85, 1, 0x10, 9, 0, b'p',
    ];

    #[test]
    fn golden_message() {
        let gtpu = Gtpu::parse(&GOLDEN).unwrap();
        assert_eq!((gtpu.tunnel, gtpu.packet), (7, Some(&b"p"[..])));
        let plain = Gtpu::parse(&[0x30, 255, 0, 1, 0, 0, 0, 8, b'q', 0]).unwrap();
        assert_eq!((plain.tunnel, plain.packet), (8, Some(&b"q"[..])));
        // An echo, whose optional fields have no extension though they say a kind.
        let echo = Gtpu::parse(&[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 1, 0, 0x85]).unwrap();
        assert_eq!(echo.packet, None);
    }

    #[test]
    fn what_is_cut_is_short_and_what_contradicts_itself_is_not() {
        for end in 0..GOLDEN.len() {
            let error = Gtpu::parse(&GOLDEN[..end]).unwrap_err();
            assert_eq!(error, PacketError::GtpHeader, "{end}");
            assert!(error.is_short());
        }
        let with = |at: usize, value: u8| {
            let mut message = GOLDEN;
            message[at] = value;
            Gtpu::parse(&message).map(|_| ())
        };
        // Version 2, and GTP' of charging.
        assert_eq!(with(0, 0x44), Err(PacketError::GtpVersion));
        assert_eq!(with(0, 0x24), Err(PacketError::GtpVersion));
        // Extensions of no length, beyond the message, and one without an end.
        assert_eq!(with(12, 0), Err(PacketError::GtpExtension));
        assert_eq!(with(12, 2), Err(PacketError::GtpExtension));
        assert_eq!(with(15, 0x85), Err(PacketError::GtpExtension));
        assert_eq!(with(3, 3), Err(PacketError::GtpExtension));
        assert!(!PacketError::GtpExtension.is_short());
        let again: Vec<u8> = [1, 0, 0, 0x85].repeat(9);
        let length = (again.len() + 4) as u8;
        let message = [&[0x34, 255, 0, length, 0, 0, 0, 7, 0, 0, 0, 0x85], &*again].concat();
        assert_eq!(Gtpu::parse(&message), Err(PacketError::GtpExtension));
    }
}
