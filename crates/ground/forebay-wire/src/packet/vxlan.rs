//! The header of VXLAN (RFC 7348, section 5), in datagrams to port 4789.
//!
//! ```text
//! +0  flags: 0x08 the network's number holds
//! +4  number of the network (24 bits), reserved (8)
//! +8  an Ethernet frame
//! ```

use super::PacketError;

/// Port at which tunnels end.
pub const VXLAN_PORT: u16 = 4789;
/// Bytes of the header.
pub const VXLAN_HEADER_BYTES: usize = 8;
const HAS_NETWORK: u8 = 0x08;

/// What a datagram says of itself, and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan<'a> {
    /// Number of the network, 24 bits.
    pub network: u32,
    /// An Ethernet frame.
    pub frame: &'a [u8],
}

impl<'a> Vxlan<'a> {
    /// Takes the payload of a datagram.
    ///
    /// # Errors
    /// It is shorter than its header, or the network's number does not hold.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (&[flags, _, _, _, n0, n1, n2, _], frame) = bytes
            .split_first_chunk::<VXLAN_HEADER_BYTES>()
            .ok_or(PacketError::VxlanHeader)?;
        if flags & HAS_NETWORK == 0 {
            return Err(PacketError::VxlanFlags);
        }
        Ok(Self {
            network: u32::from_be_bytes([0, n0, n1, n2]),
            frame,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_header() {
        let bytes = [8, 0, 0, 0, 1, 2, 3, 0, b'f'];
        let vxlan = Vxlan::parse(&bytes).unwrap();
        assert_eq!((vxlan.network, vxlan.frame), (0x01_0203, &b"f"[..]));
        for end in 0..VXLAN_HEADER_BYTES {
            let error = Vxlan::parse(&bytes[..end]).unwrap_err();
            assert_eq!(error, PacketError::VxlanHeader);
            assert!(error.is_short());
        }
        let error = Vxlan::parse(&[0x80, 0, 0, 0, 1, 2, 3, 0]).unwrap_err();
        assert_eq!(error, PacketError::VxlanFlags);
        assert!(!error.is_short());
    }
}
