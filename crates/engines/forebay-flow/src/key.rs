//! What makes packets one flow, and the hash of it.

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

/// An address as a number, by which both versions are compared and hashed alike; one of IPv4 is that of `::ffff:a.b.c.d`.
#[inline]
pub(crate) const fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => 0xffff_0000_0000 | four.to_bits() as u128,
        IpAddr::V6(six) => six.to_bits(),
    }
}

/// What the packets of a flow have in common, as one of them had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKey {
    source: u128,
    destination: u128,
    /// Port of the sender of the packet, or of the initiator of the flow; 0 where the protocol has none.
    pub source_port: u16,
    /// Port of the receiver, 0 where the protocol has none: an echo of ICMP and its reply are one flow.
    pub destination_port: u16,
    /// Number of the VLAN; 0 without one, and where VLANs are no part of the key.
    pub vlan: u16,
    /// Number of the protocol in the IP packet.
    pub protocol: u8,
    /// Version of IP, 4 or 6.
    version: u8,
}

const _: () = assert!(size_of::<FlowKey>() == 48);

impl FlowKey {
    /// That of packets between two addresses of one version, without ports and VLAN.
    #[inline]
    pub const fn new(source: IpAddr, destination: IpAddr, protocol: u8) -> Self {
        Self {
            source: number(source),
            destination: number(destination),
            source_port: 0,
            destination_port: 0,
            vlan: 0,
            protocol,
            version: if source.is_ipv4() { 4 } else { 6 },
        }
    }

    /// With these ports, of the sender and of the receiver.
    #[must_use]
    #[inline]
    pub const fn with_ports(self, source_port: u16, destination_port: u16) -> Self {
        Self {
            source_port,
            destination_port,
            ..self
        }
    }

    /// Address of the sender of the packet, or of the initiator of the flow.
    pub fn source(&self) -> IpAddr {
        self.address(self.source)
    }

    /// Address of the receiver.
    pub fn destination(&self) -> IpAddr {
        self.address(self.destination)
    }

    /// Both addresses, as [`number`] has them.
    #[inline]
    pub(crate) const fn numbers(&self) -> (u128, u128) {
        (self.source, self.destination)
    }

    /// Version of IP, 4 or 6.
    pub const fn version(&self) -> u8 {
        self.version
    }

    /// A number that is the same for both directions, in every process: FNV-1a of 64 bits over the lower end (address as 16 bytes, one of IPv4 as `::ffff:a.b.c.d`, and port), the
    /// higher end, protocol, version of IP and VLAN, numbers in big-endian order. It is no secret, and says which packets may be of one flow, not which are.
    pub fn identity(&self) -> u64 {
        let (key, _) = self.canonical();
        let mut hash = Fnv::default();
        hash.add(&key.source.to_be_bytes());
        hash.add(&key.source_port.to_be_bytes());
        hash.add(&key.destination.to_be_bytes());
        hash.add(&key.destination_port.to_be_bytes());
        hash.add(&[key.protocol, key.version]);
        hash.add(&key.vlan.to_be_bytes());
        hash.0
    }

    fn address(&self, number: u128) -> IpAddr {
        if self.version == 4 {
            IpAddr::V4(Ipv4Addr::from_bits(number as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(number))
        }
    }

    /// The key of the opposite direction.
    #[must_use]
    #[inline]
    pub const fn turned(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..self
        }
    }

    /// The one of both directions' keys that stands for both, and whether it is the opposite one.
    #[must_use]
    #[inline]
    pub fn canonical(self) -> (Self, bool) {
        let (source, destination) = (
            (self.source, self.source_port),
            (self.destination, self.destination_port),
        );
        if source > destination {
            (self.turned(), true)
        } else {
            (self, false)
        }
    }
}

/// FNV-1a (draft-eastlake-fnv, section 2).
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Hash for FlowKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.source);
        state.write_u128(self.destination);
        let ports = u64::from(self.source_port) << 16 | u64::from(self.destination_port);
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
        let (source, destination) = ([10, 0, 0, 2].into(), [10, 0, 0, 1].into());
        FlowKey::new(source, destination, 6).with_ports(443, 50_000)
    }

    #[test]
    fn both_directions_have_one_canonical_key() {
        let key = key();
        assert_ne!(key, key.turned());
        assert_eq!(key.canonical(), (key.turned(), true));
        assert_eq!(key.turned().canonical(), (key.turned(), false));
        // Between two ports of one host, and of a port with itself.
        let own = FlowKey {
            destination: key.source,
            ..key
        };
        assert_eq!(own.canonical(), (own, false));
        let own = own.with_ports(443, 443);
        assert_eq!(own.canonical(), (own, false));
    }

    #[test]
    fn the_identity_is_that_of_both_directions_and_known() {
        let mut fnv = Fnv::default();
        fnv.add(b"foobar");
        // A vector of the draft.
        assert_eq!(fnv.0, 0x8594_4171_f739_67e8);
        let key = key();
        assert_eq!(key.identity(), key.turned().identity());
        let other = key.with_ports(443, 50_001);
        assert_ne!(key.identity(), other.identity());
    }

    #[test]
    fn addresses_have_their_version() {
        let key = key();
        assert_eq!(key.source(), IpAddr::from([10, 0, 0, 2]));
        assert_eq!(key.destination(), IpAddr::from([10, 0, 0, 1]));
        let mapped: IpAddr = "::ffff:10.0.0.2".parse().unwrap();
        let six = FlowKey::new(mapped, "2001:db8::1".parse().unwrap(), 6);
        assert_eq!((six.source(), six.version()), (mapped, 6));
        assert_eq!(six.destination().to_string(), "2001:db8::1");
        assert_eq!(six.source, key.source);
    }

    #[test]
    fn each_field_and_the_seed_change_the_hash() {
        let (base, hash) = (key(), KeyHash::new(1));
        let mut others = [base; 7];
        others[0].source ^= 1;
        others[1].source_port ^= 1;
        others[2].destination ^= 1 << 127;
        others[3].destination_port ^= 1;
        others[4].protocol ^= 1;
        others[5].version ^= 2;
        others[6].vlan ^= 1;
        for other in others {
            assert_ne!(hash.of(&base), hash.of(&other), "{other:?}");
        }
        assert_ne!(hash.of(&base), KeyHash::new(2).of(&base));
    }

    /// A multiplication by a seed of 0 makes 0 of an address.
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
                        key.source_port = flow;
                    } else {
                        key.source ^= u128::from(flow);
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
