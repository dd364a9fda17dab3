//! The Address Resolution Protocol for IPv4 over Ethernet (RFC 826).
//!
//! ```text
//! +0   hardware, 1 for Ethernet        +8   sender's Ethernet address
//! +2   protocol, 0x0800 for IPv4       +14  sender's IPv4 address
//! +4   bytes of a hardware address: 6  +18  target's Ethernet address
//! +5   bytes of an address: 4          +24  target's IPv4 address
//! +6   operation, 1 to ask, 2 to answer
//! ```

use core::net::Ipv4Addr;

use crate::mac::Mac;

/// Bytes of a packet.
pub(crate) const ARP_BYTES: usize = 28;
const ETHERNET_AND_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];
const REPLY: [u8; 2] = [0, 2];

/// A packet whose length is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a>(&'a [u8; ARP_BYTES]);

impl<'a> Packet<'a> {
    /// Takes what a frame carries; bytes behind the packet fill up a short frame.
    pub(crate) fn new_checked(bytes: &'a [u8]) -> Option<Self> {
        bytes.first_chunk().map(Self)
    }

    /// Whether it is of Ethernet and IPv4.
    pub(crate) fn is_ipv4(self) -> bool {
        self.0.starts_with(&ETHERNET_AND_IPV4)
    }

    /// Whether it asks for an address of IPv4.
    pub(crate) fn is_request(self) -> bool {
        self.is_ipv4() && self.field(6) == REQUEST
    }

    /// Those of the sender and of the target, if they are of IPv4.
    pub(crate) fn addresses(self) -> Option<(Ipv4Addr, Ipv4Addr)> {
        let of = || (self.field(14).into(), self.field(24).into());
        self.is_ipv4().then(of)
    }

    /// The sender's address of Ethernet.
    pub(crate) fn sender(self) -> Mac {
        Mac(self.field(8))
    }

    fn field<const N: usize>(self, at: usize) -> [u8; N] {
        let mut field = [0; N];
        field
            .iter_mut()
            .zip(&self.0[at..])
            .for_each(|(to, from)| *to = *from);
        field
    }

    /// The answer that its target is at `mac`.
    pub(crate) fn answer(self, mac: Mac) -> [u8; ARP_BYTES] {
        let mut answer = [0; ARP_BYTES];
        answer[..6].copy_from_slice(&ETHERNET_AND_IPV4);
        answer[6..8].copy_from_slice(&REPLY);
        answer[8..14].copy_from_slice(&mac.0);
        answer[14..18].copy_from_slice(&self.0[24..]);
        answer[18..28].copy_from_slice(&self.0[8..18]);
        answer
    }
}
