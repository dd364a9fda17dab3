//! The Address Resolution Protocol for IPv4 over Ethernet (RFC 826).
//!
//! ```text
//! +0   hardware, 1 for Ethernet        +8   sender's Ethernet address
//! +2   protocol, 0x0800 for IPv4       +14  sender's IPv4 address
//! +4   bytes of a hardware address: 6  +18  target's Ethernet address
//! +5   bytes of an address: 4          +24  target's IPv4 address
//! +6   operation, 1 to ask, 2 to answer
//! ```

use core::fmt;
use core::net::Ipv4Addr;
use core::ops::Range;

/// Bytes of a packet.
pub const ARP_BYTES: usize = 28;
/// The operation that asks.
pub const REQUEST: u16 = 1;
/// The operation that answers.
pub const REPLY: u16 = 2;

/// Hardware and protocol, with the lengths of their addresses.
const ETHERNET_AND_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
const OPERATION: Range<usize> = 6..8;
const SENDER_MAC: Range<usize> = 8..14;
const SENDER: Range<usize> = 14..18;
const TARGET_MAC: Range<usize> = 18..24;
const TARGET: Range<usize> = 24..28;

/// Why a packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArpError {
    /// It ends too early.
    #[error("an ARP packet of {0} bytes, {ARP_BYTES} expected")]
    Short(usize),
    /// It is of other addresses.
    #[error(
        "an ARP packet of hardware {hardware} with addresses of {hardware_bytes} bytes and protocol {protocol:#06x} with {protocol_bytes}, 1 (Ethernet) with 6 and 0x0800 (IPv4) with 4 expected"
    )]
    Kind {
        /// The kind of its hardware addresses.
        hardware: u16,
        /// The EtherType of its protocol addresses.
        protocol: u16,
        /// Bytes of a hardware address.
        hardware_bytes: u8,
        /// Bytes of a protocol address.
        protocol_bytes: u8,
    },
}

/// What a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpRepr {
    /// [`REQUEST`], [`REPLY`] or another one.
    pub operation: u16,
    /// The sender's Ethernet address.
    pub sender_mac: [u8; 6],
    /// The sender's address.
    pub sender: Ipv4Addr,
    /// The target's Ethernet address; of a question it says nothing.
    pub target_mac: [u8; 6],
    /// The target's address.
    pub target: Ipv4Addr,
}

impl ArpRepr {
    /// Reads what a frame carries; bytes behind the packet fill up a short frame.
    ///
    /// # Errors
    /// It is too short, or not of Ethernet and IPv4.
    pub fn parse(bytes: &[u8]) -> Result<Self, ArpError> {
        let packet: &[u8; ARP_BYTES] = bytes.first_chunk().ok_or(ArpError::Short(bytes.len()))?;
        if !packet.starts_with(&ETHERNET_AND_IPV4) {
            let &[h0, h1, p0, p1, hardware_bytes, protocol_bytes, ..] = packet;
            return Err(ArpError::Kind {
                hardware: u16::from_be_bytes([h0, h1]),
                protocol: u16::from_be_bytes([p0, p1]),
                hardware_bytes,
                protocol_bytes,
            });
        }
        Ok(Self {
            operation: u16::from_be_bytes(field(packet, OPERATION)),
            sender_mac: field(packet, SENDER_MAC),
            sender: field(packet, SENDER).into(),
            target_mac: field(packet, TARGET_MAC),
            target: field(packet, TARGET).into(),
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; ARP_BYTES] {
        let mut packet = [0; ARP_BYTES];
        packet[..OPERATION.start].copy_from_slice(&ETHERNET_AND_IPV4);
        packet[OPERATION].copy_from_slice(&self.operation.to_be_bytes());
        packet[SENDER_MAC].copy_from_slice(&self.sender_mac);
        packet[SENDER].copy_from_slice(&self.sender.octets());
        packet[TARGET_MAC].copy_from_slice(&self.target_mac);
        packet[TARGET].copy_from_slice(&self.target.octets());
        packet
    }

    /// The answer to it: its target is at `mac`.
    #[must_use]
    pub const fn answered_by(&self, mac: [u8; 6]) -> Self {
        Self {
            operation: REPLY,
            sender_mac: mac,
            sender: self.target,
            target_mac: self.sender_mac,
            target: self.sender,
        }
    }
}

impl fmt::Display for ArpRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sender, target, .. } = self;
        match self.operation {
            REQUEST => write!(f, "ARP: {sender} asks for {target}"),
            REPLY => write!(f, "ARP: {sender} answers {target}"),
            other => write!(f, "ARP: operation {other} of {sender} for {target}"),
        }
    }
}

fn field<const N: usize>(packet: &[u8; ARP_BYTES], range: Range<usize>) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&packet[range]);
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString as _;

    const REPR: ArpRepr = ArpRepr {
        operation: REQUEST,
        sender_mac: [2, 0, 0, 0, 0, 9],
        sender: Ipv4Addr::new(10, 0, 0, 9),
        target_mac: [0; 6],
        target: Ipv4Addr::new(10, 0, 0, 1),
    };
    /// Written by hand after the packet format of RFC 826.
    const GOLDEN: [u8; ARP_BYTES] = [
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1,
    ];
    const GOLDEN_ANSWER: [u8; ARP_BYTES] = [
        0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 2, 0, 0, 0, 0, 9, 10, 0, 0, 9,
    ];

    #[test]
    fn golden_question_and_answer() {
        assert_eq!(ArpRepr::parse(&GOLDEN), Ok(REPR));
        assert_eq!(REPR.emit(), GOLDEN);
        let answer = REPR.answered_by([2, 0, 0, 0, 0, 1]);
        assert_eq!(answer.emit(), GOLDEN_ANSWER);
        assert_eq!(ArpRepr::parse(&GOLDEN_ANSWER), Ok(answer));
        assert_eq!(REPR.to_string(), "ARP: 10.0.0.9 asks for 10.0.0.1");
        assert_eq!(answer.to_string(), "ARP: 10.0.0.1 answers 10.0.0.9");
    }

    #[test]
    fn a_refusal_says_what_came() {
        for end in 0..ARP_BYTES {
            assert_eq!(ArpRepr::parse(&GOLDEN[..end]), Err(ArpError::Short(end)));
        }
        for at in 0..6 {
            let mut other = GOLDEN;
            other[at] ^= 0x10;
            let error = ArpRepr::parse(&other).unwrap_err();
            assert!(matches!(error, ArpError::Kind { .. }), "{at}: {error}");
        }
        let mut other = GOLDEN;
        (other[1], other[2]) = (6, 0x86);
        let error = ArpRepr::parse(&other).unwrap_err();
        assert_eq!(
            error,
            ArpError::Kind {
                hardware: 6,
                protocol: 0x8600,
                hardware_bytes: 6,
                protocol_bytes: 4,
            }
        );
        // What is wrong with the lengths alone is said as that.
        let mut other = GOLDEN;
        (other[4], other[5]) = (8, 16);
        let said = ArpRepr::parse(&other).unwrap_err().to_string();
        assert!(said.contains("of 8 bytes"), "{said}");
        assert!(said.contains("0x0800 with 16, 1"), "{said}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_come_out_as_they_went_in(
            is_ours: bool,
            mut bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            if is_ours && bytes.len() > 6 {
                bytes[..6].copy_from_slice(&ETHERNET_AND_IPV4);
            }
            match ArpRepr::parse(&bytes) {
                Ok(repr) => prop_assert_eq!(&repr.emit()[..], &bytes[..ARP_BYTES]),
                Err(ArpError::Short(length)) => prop_assert!(length == bytes.len() && length < ARP_BYTES),
                Err(ArpError::Kind { .. }) => prop_assert_ne!(&bytes[..6], &ETHERNET_AND_IPV4[..]),
            }
        }
    }
}
