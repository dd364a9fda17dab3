//! What makes packets one flow, and the hash of it.

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv6Addr};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

/// An address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndPoint {
    /// The address; one of IPv4 as `::ffff:a.b.c.d`.
    pub address: [u8; 16],
    /// The port; 0 where the protocol has none.
    pub port: u16,
}

impl EndPoint {
    /// An address of either version, and a port.
    #[inline]
    pub fn new(address: IpAddr, port: u16) -> Self {
        let address = match address {
            IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
            IpAddr::V6(six) => six.octets(),
        };
        Self { address, port }
    }
}

/// What the packets of a flow have in common, as one of them had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKey {
    /// The sender of the packet, or the initiator of the flow. Of ICMP the port is 0.
    pub source: EndPoint,
    /// The receiver. Of ICMP the port is the type times 256, plus the code.
    pub destination: EndPoint,
    /// Number of the protocol in the IP packet.
    pub protocol: u8,
    /// Version of IP, 4 or 6.
    pub version: u8,
    /// Number of the VLAN; 0 without one, and where VLANs are no part of the key.
    pub vlan: u16,
}

const _: () = assert!(size_of::<FlowKey>() == 40);

impl FlowKey {
    /// Address of the sender, of the version that the packet had.
    pub fn source_address(&self) -> IpAddr {
        self.address(self.source)
    }

    /// Address of the receiver, of the version that the packet had.
    pub fn destination_address(&self) -> IpAddr {
        self.address(self.destination)
    }

    fn address(&self, end: EndPoint) -> IpAddr {
        let six = Ipv6Addr::from(end.address);
        let four = six.to_ipv4_mapped().filter(|_| self.version == 4);
        four.map_or(IpAddr::V6(six), IpAddr::V4)
    }

    /// The key of the opposite direction.
    #[must_use]
    #[inline]
    pub const fn turned(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            ..self
        }
    }

    /// The one of both directions' keys that stands for both, and whether it is the opposite one.
    #[must_use]
    #[inline]
    pub fn canonical(self) -> (Self, bool) {
        if self.source > self.destination {
            (self.turned(), true)
        } else {
            (self, false)
        }
    }
}

impl Hash for FlowKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(u128::from_ne_bytes(self.source.address));
        state.write_u128(u128::from_ne_bytes(self.destination.address));
        let ports = u64::from(self.source.port) << 16 | u64::from(self.destination.port);
        let kind = u64::from(self.vlan) << 16 | u64::from(self.protocol) << 8;
        state.write_u64(ports << 32 | kind | u64::from(self.version));
    }
}

/// A seeded hash.
#[derive(Debug)]
pub(crate) struct KeyHash {
    seed: u64,
    shared: SharedSeed,
}

impl KeyHash {
    pub(crate) fn new(seed: u64) -> Self {
        // It begins with a multiplication by it, and of 0 and of all ones one gets the same again.
        let mixed = (seed ^ 0x243f_6a88_85a3_08d3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seed = match mixed {
            0 | u64::MAX => 0x1319_8a2e_0370_7344,
            mixed => mixed,
        };
        Self {
            seed,
            shared: SharedSeed::from_u64(seed.rotate_left(32)),
        }
    }

    #[inline]
    pub(crate) fn of(&self, key: &impl Hash) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        key.hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> FlowKey {
        FlowKey {
            source: EndPoint::new([10, 0, 0, 2].into(), 443),
            destination: EndPoint::new([10, 0, 0, 1].into(), 50_000),
            protocol: 6,
            version: 4,
            vlan: 0,
        }
    }

    #[test]
    fn both_directions_have_one_canonical_key() {
        let key = key();
        assert_ne!(key, key.turned());
        assert_eq!(key.canonical(), (key.turned(), true));
        assert_eq!(key.turned().canonical(), (key.turned(), false));
        // Between two ports of one host, and of a port with itself.
        let mut own = key;
        own.destination.address = own.source.address;
        assert_eq!(own.canonical(), (own, false));
        own.destination.port = own.source.port;
        assert_eq!(own.canonical(), (own, false));
    }

    #[test]
    fn addresses_have_their_version() {
        let mut key = key();
        assert_eq!(key.source_address(), IpAddr::from([10, 0, 0, 2]));
        assert_eq!(key.destination_address(), IpAddr::from([10, 0, 0, 1]));
        key.version = 6;
        assert!(key.source_address().is_ipv6());
    }

    #[test]
    fn each_field_and_the_seed_change_the_hash() {
        let (base, hash) = (key(), KeyHash::new(1));
        let mut others = [base; 7];
        others[0].source.address[15] ^= 1;
        others[1].source.port ^= 1;
        others[2].destination.address[0] ^= 1;
        others[3].destination.port ^= 1;
        others[4].protocol ^= 1;
        others[5].version ^= 2;
        others[6].vlan ^= 1;
        for other in others {
            assert_ne!(hash.of(&base), hash.of(&other), "{other:?}");
        }
        assert_ne!(hash.of(&base), KeyHash::new(2).of(&base));
    }

    /// The first half of an IPv4 address is 0, which a multiplication by a seed of 0 would make of the rest as well.
    #[test]
    fn keys_that_differ_in_an_address_or_a_port_are_spread_whatever_the_seed() {
        // The fifth is mixed to 0.
        for seed in [0, 1, 7, u64::MAX, 0x243f_6a88_85a3_08d3] {
            let hash = KeyHash::new(seed);
            for (shift, by_port) in [(0, false), (0, true), (32, false), (48, true)] {
                let mut rows = [0_u16; 8192];
                for flow in 0..8192_u16 {
                    let mut key = key();
                    if by_port {
                        key.source.port = flow;
                    } else {
                        key.source.address[14..].copy_from_slice(&flow.to_be_bytes());
                    }
                    rows[(hash.of(&key) >> shift) as usize & 8191] += 1;
                }
                // Of as many balls as bins: 8 in one has a chance of 1 in 10, 12 of 1 in 100,000.
                let most = rows.iter().max().unwrap();
                assert!(*most < 12, "{seed} {shift} {by_port} {most}");
            }
        }
    }
}
