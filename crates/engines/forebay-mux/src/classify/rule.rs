//! What a rule says, and whether a list of rules can stand.

use core::fmt;
use core::net::IpAddr;

use forebay_wire::packet::{TCP, UDP};
use thiserror::Error;

use crate::client::ClientId;
use crate::mac::Mac;

/// Most rules of one classifier.
pub const RULES_MAX: usize = 4096;
/// Largest number of a VLAN (IEEE 802.1Q, table 9-2); 0 is none, and 4095 is reserved.
pub const VLAN_MAX: u16 = 4094;

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// All addresses that have the first `bits` bits of this one.
    ///
    /// # Errors
    /// There are more of them than the address has, or bits behind them are set.
    pub fn new(address: IpAddr, bits: u8) -> Result<Self, RuleError> {
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = Self { address, bits };
        if bits > most || number(address) & !prefix.mask() != 0 {
            return Err(RuleError::Prefix {
                address,
                bits,
                most,
            });
        }
        Ok(prefix)
    }

    /// This address alone.
    #[must_use]
    pub const fn exact(address: IpAddr) -> Self {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Self { address, bits }
    }

    /// The lowest of them.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// How many bits they have in common.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.bits
    }

    pub(super) const fn version(self) -> u8 {
        version(self.address)
    }

    pub(super) fn mask(self) -> u128 {
        mask(self.version(), self.bits)
    }

    pub(super) const fn number(self) -> u128 {
        number(self.address)
    }

    /// Whether some address has both.
    fn meets(self, other: Self) -> bool {
        let mask = self.mask() & other.mask();
        self.version() == other.version() && self.number() & mask == other.number() & mask
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

pub(super) const fn version(address: IpAddr) -> u8 {
    if address.is_ipv4() { 4 } else { 6 }
}

pub(super) const fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => four.to_bits() as u128,
        IpAddr::V6(six) => six.to_bits(),
    }
}

/// The first `bits` bits of an address of this version.
fn mask(version: u8, bits: u8) -> u128 {
    let width: u32 = if version == 4 { 32 } else { 128 };
    let all = u128::MAX >> (128 - width);
    let behind = width.saturating_sub(bits.into());
    all & u128::MAX.checked_shl(behind).unwrap_or(0)
}

/// Which frames are for a client: all that is set must hold of a frame. What is not set may be as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The client that gets them.
    pub client: ClientId,
    /// Destination of the frame; no group.
    pub destination_mac: Option<Mac>,
    /// Number of the outermost VLAN tag, 1 to 4094. A rule without it takes frames of each VLAN, and those without a tag.
    pub vlan: Option<u16>,
    /// Sender's address of the IP packet, or of an ARP packet.
    pub source: Option<Prefix>,
    /// Receiver's address of the IP packet, or of an ARP packet.
    pub destination: Option<Prefix>,
    /// Protocol in the IP packet.
    pub protocol: Option<u8>,
    /// Sender's port. Fragments have no ports, the first one as little as the others, so that a packet goes to one client as a whole.
    pub source_port: Option<u16>,
    /// Receiver's port, as above.
    pub destination_port: Option<u16>,
}

impl Rule {
    /// A rule that says nothing yet.
    #[must_use]
    pub const fn of(client: ClientId) -> Self {
        Self {
            client,
            destination_mac: None,
            vlan: None,
            source: None,
            destination: None,
            protocol: None,
            source_port: None,
            destination_port: None,
        }
    }

    /// How many bits of a frame's headers it fixes: the rule that fixes more goes first.
    #[must_use]
    pub fn specificity_bits(&self) -> u32 {
        let prefix = |prefix: Option<Prefix>| prefix.map_or(0, |prefix| prefix.bits.into());
        let set = |is_set: bool, bits: u32| if is_set { bits } else { 0 };
        set(self.destination_mac.is_some(), 48)
            + set(self.vlan.is_some(), 12)
            + prefix(self.source)
            + prefix(self.destination)
            + set(self.protocol.is_some(), 8)
            + set(self.source_port.is_some(), 16)
            + set(self.destination_port.is_some(), 16)
    }

    pub(super) fn check(&self) -> Result<(), RuleError> {
        let rule = *self;
        if rule == Self::of(rule.client) {
            return Err(RuleError::Empty {
                client: rule.client,
            });
        }
        if rule.destination_mac.is_some_and(Mac::is_group) {
            return Err(RuleError::Group { rule });
        }
        if let Some(vlan) = rule.vlan.filter(|vlan| !(1..=VLAN_MAX).contains(vlan)) {
            return Err(RuleError::Vlan { vlan });
        }
        let versions = rule.source.zip(rule.destination);
        if versions.is_some_and(|(source, destination)| source.version() != destination.version()) {
            return Err(RuleError::Versions { rule });
        }
        let has_port = rule.source_port.or(rule.destination_port).is_some();
        if has_port && !matches!(rule.protocol, Some(TCP | UDP)) {
            return Err(RuleError::PortOfWhat { rule });
        }
        Ok(())
    }

    /// Whether a frame can be as both say.
    pub(super) fn meets(&self, other: &Self) -> bool {
        fn agree<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
            one.zip(other).is_none_or(|(one, other)| one == other)
        }
        let prefixes = |one: Option<Prefix>, other: Option<Prefix>| {
            one.zip(other).is_none_or(|(one, other)| one.meets(other))
        };
        let version = |rule: &Self| rule.source.or(rule.destination).map(Prefix::version);
        agree(self.destination_mac, other.destination_mac)
            && agree(self.vlan, other.vlan)
            && agree(version(self), version(other))
            && prefixes(self.source, other.source)
            && prefixes(self.destination, other.destination)
            && agree(self.protocol, other.protocol)
            && agree(self.source_port, other.source_port)
            && agree(self.destination_port, other.destination_port)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn word<T: fmt::Display>(
            f: &mut fmt::Formatter<'_>,
            name: &str,
            value: Option<T>,
        ) -> fmt::Result {
            value.map_or(Ok(()), |value| write!(f, "{name} {value} "))
        }
        word(f, "mac", self.destination_mac)?;
        word(f, "vlan", self.vlan)?;
        word(f, "source", self.source)?;
        word(f, "destination", self.destination)?;
        word(f, "protocol", self.protocol)?;
        word(f, "source-port", self.source_port)?;
        word(f, "destination-port", self.destination_port)?;
        write!(f, "to {}", self.client)
    }
}

/// Why rules or wishes cannot stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// A rule would take every frame.
    #[error("a rule to {client} says nothing of a frame: name what is for it")]
    Empty {
        /// The client of the rule.
        client: ClientId,
    },
    /// A rule names a group of stations.
    #[error("'{rule}' names a group: let the client ask for the group instead")]
    Group {
        /// The rule.
        rule: Rule,
    },
    /// A client asks for a group under the address of one station.
    #[error("{client} asks for the group {mac}, which is the address of one station")]
    NoGroup {
        /// The client.
        client: ClientId,
        /// The address.
        mac: Mac,
    },
    /// A number that no VLAN has.
    #[error("VLAN {vlan}; it must be from 1 to 4094")]
    Vlan {
        /// The number.
        vlan: u16,
    },
    /// A prefix that is none.
    #[error("{address}/{bits} is no prefix: at most {most} bits, and none set behind them")]
    Prefix {
        /// The address.
        address: IpAddr,
        /// Bits in common.
        bits: u8,
        /// Bits of the address.
        most: u8,
    },
    /// Addresses of two versions in one rule.
    #[error("'{rule}' has addresses of two versions of IP: no packet has both")]
    Versions {
        /// The rule.
        rule: Rule,
    },
    /// A port without the protocol that it is of.
    #[error("'{rule}' has a port: it needs protocol 6 (TCP) or 17 (UDP)")]
    PortOfWhat {
        /// The rule.
        rule: Rule,
    },
    /// Two rules that take the same frame, neither more specific than the other.
    #[error(
        "'{first}' and '{second}' both take some frame and fix {bits} bits each: make one of them more specific"
    )]
    Tie {
        /// The one that comes first.
        first: Rule,
        /// The other.
        second: Rule,
        /// Bits that both fix.
        bits: u32,
    },
    /// Too many rules.
    #[error("{rules} rules; at most {RULES_MAX}")]
    TooMany {
        /// How many there are.
        rules: usize,
    },
    /// A client says twice which groups it asks for.
    #[error("{client} says twice which groups it asks for")]
    AskedTwice {
        /// The client.
        client: ClientId,
    },
}

impl RuleError {
    /// The clients of what cannot stand, in the order in which they are named.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientId> {
        match self {
            Self::Empty { client } | Self::NoGroup { client, .. } | Self::AskedTwice { client } => {
                vec![*client]
            }
            Self::Group { rule } | Self::Versions { rule } | Self::PortOfWhat { rule } => {
                vec![rule.client]
            }
            Self::Tie { first, second, .. } => vec![first.client, second.client],
            Self::Vlan { .. } | Self::Prefix { .. } | Self::TooMany { .. } => Vec::new(),
        }
    }
}
