//! A rule of the filter: which packets it matches, and what becomes of them.

use core::net::IpAddr;

use forebay_wire::packet::{SCTP, TCP, UDP};

use crate::key::{FlowKey, number};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It goes on as it is.
    Pass,
    /// It is in no record.
    Drop,
    /// Of each so many packets that the rule matches the first goes on, 1 to 1,000,000; the others are in no record.
    Sample {
        /// So many packets, one of which goes on.
        one_in: u32,
    },
    /// It goes on with so many first bytes of its frame, link header included. Its flow, octets and flags stay those of the whole packet.
    Trim {
        /// Most bytes of the frame, 0 to 262,144.
        bytes: u32,
    },
    /// It goes on as it is, and is itself written where packets are exported to.
    Export {
        /// Most bytes of the frame that are written, 0 to 262,144; none: all.
        bytes: Option<u32>,
    },
}

/// Which end of a packet a term is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Its sender.
    Source,
    /// Its receiver.
    Destination,
    /// One of both.
    Either,
}

impl Side {
    pub(super) const ALL: [Self; 3] = [Self::Source, Self::Destination, Self::Either];

    #[inline]
    fn holds<T>(self, source: T, destination: T, is_it: impl Fn(T) -> bool) -> bool {
        match self {
            Self::Source => is_it(source),
            Self::Destination => is_it(destination),
            Self::Either => is_it(source) || is_it(destination),
        }
    }
}

/// Addresses of one version of IP that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
    /// The address, and which of its bits are compared, as [`number`] has them.
    number: u128,
    mask: u128,
}

impl Prefix {
    /// The addresses whose first `bits` bits are those of `address`; its other bits are 0 afterwards. None if an address has not so many bits.
    #[must_use]
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        let most = bits_of(address);
        let shift = u32::from(most.checked_sub(bits)?);
        // Bits above an address of IPv4 are the same of all of them, and the version is compared.
        let mask = u128::MAX.checked_shl(shift).unwrap_or(0);
        let number = number(address) & mask;
        let address = match address {
            IpAddr::V4(_) => IpAddr::V4((number as u32).into()),
            IpAddr::V6(_) => IpAddr::V6(number.into()),
        };
        Some(Self {
            address,
            bits,
            number,
            mask,
        })
    }

    /// The first of the addresses.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits they have in common, 0 to 32 or 128.
    #[must_use]
    pub const fn bits(&self) -> u8 {
        self.bits
    }

    #[inline]
    const fn has(&self, number: u128) -> bool {
        (number ^ self.number) & self.mask == 0
    }
}

/// Bits of an address of its version.
pub(super) const fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The number of a protocol in an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol(pub u8);

/// What packets are matched, and what becomes of them. Terms that are there must all hold; without any, all packets match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What becomes of a packet that matches.
    pub action: Action,
    /// By side, in the order of [`Side::ALL`].
    pub(super) networks: [Option<Prefix>; 3],
    /// First and last port by side.
    pub(super) ports: [Option<(u16, u16)>; 3],
    pub(super) protocol: Option<Protocol>,
}

impl Rule {
    /// Matches all packets.
    #[must_use]
    pub const fn of_all(action: Action) -> Self {
        Self {
            action,
            networks: [None; 3],
            ports: [None; 3],
            protocol: None,
        }
    }

    /// Whether it does the same to all packets of a flow, both ways: to those that are counted below user space, too, where no rule is looked at.
    #[must_use]
    pub fn treats_flows_alike(&self) -> bool {
        let of_one_side = |side: Side| {
            self.networks[side as usize].is_some() || self.ports[side as usize].is_some()
        };
        !matches!(self.action, Action::Sample { .. } | Action::Export { .. })
            && !of_one_side(Side::Source)
            && !of_one_side(Side::Destination)
    }

    /// Whether it matches a packet with this key. Ports are of TCP, UDP and SCTP alone; those of a fragment whose first one is not known are 0.
    #[must_use]
    #[inline]
    pub fn matches(&self, key: &FlowKey) -> bool {
        self.protocol.is_none_or(|own| own.0 == key.protocol)
            && self.matches_ports(key)
            && self.matches_networks(key)
    }

    #[inline]
    fn matches_ports(&self, key: &FlowKey) -> bool {
        if self.ports == [None; 3] {
            return true;
        }
        let has_ports = matches!(key.protocol, TCP | UDP | SCTP);
        let mut terms = Side::ALL.into_iter().zip(self.ports);
        has_ports
            && terms.all(|(side, range)| {
                range.is_none_or(|(first, last)| {
                    let is_it = |port: u16| (first..=last).contains(&port);
                    side.holds(key.source_port, key.destination_port, is_it)
                })
            })
    }

    #[inline]
    fn matches_networks(&self, key: &FlowKey) -> bool {
        let (source, destination) = key.numbers();
        let mut terms = Side::ALL.into_iter().zip(&self.networks);
        terms.all(|(side, network)| {
            network.is_none_or(|network| {
                let is_of_version = network.address.is_ipv4() == (key.version() == 4);
                is_of_version && side.holds(source, destination, |number| network.has(number))
            })
        })
    }
}
