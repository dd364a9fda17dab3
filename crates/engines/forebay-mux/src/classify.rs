//! Which client a frame is for.
//!
//! Rules that fix the same fields, with prefixes of the same length, share one hash table: a frame is looked up once in each table, those that fix more bits
//! first, and the first that has it wins (tuple space search: Srinivasan, Suri and Varghese, SIGCOMM 1999). So the cost is that of the *kinds* of rules: 64
//! clients with an exact address each are one look-up, as 2 are. Two rules that fix equally many bits and can take the same frame are refused, both named.
//!
//! Frames to a group go to the clients that asked for it, whatever rules say. Questions for an address (ARP requests, neighbour solicitations) go to the
//! responder; those to a group to the clients that asked for the group, too.

mod rule;
mod seen;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use foldhash::fast::FixedState;
use forebay_ledger::reasons;

use self::seen::Seen;
use crate::client::{ClientId, ClientSet};
use crate::mac::Mac;

pub use self::rule::{Prefix, RULES_MAX, Rule, RuleError, VLAN_MAX};

reasons! {
    /// Why a frame is for no client.
    pub enum FrameDrop {
        /// Its headers are not whole, or contradict each other.
        Malformed = "malformed",
        /// No rule takes it.
        Unmatched = "unmatched",
        /// It is a fragment, which has no ports, and no rule takes it without.
        Fragment = "fragment",
        /// It is for a group that no client asked for.
        GroupNotAsked = "group_not_asked",
    }
}

/// Which multicast groups a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Multicast {
    /// None of them.
    #[default]
    Nothing,
    /// All of them.
    All,
    /// These, by their addresses in Ethernet.
    Groups(Vec<Mac>),
}

/// What a client asks for beside what its rules take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The client.
    pub client: ClientId,
    /// Frames of this VLAN alone, 1 to 4094; without it frames of each VLAN, and those without a tag.
    pub vlan: Option<u16>,
    /// Frames to all stations.
    pub broadcast: bool,
    /// Frames to groups of stations.
    pub multicast: Multicast,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is for one client.
    Client(ClientId),
    /// It is a question to one station: for the responder alone.
    Responder,
    /// It is for several.
    Group {
        /// It is a question: for the responder, too.
        is_question: bool,
        /// Clients that get it; none only where it is a question.
        clients: ClientSet,
    },
    /// It is for no client.
    Dropped(FrameDrop),
}

/// The fields that rules of one table fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    mac: bool,
    vlan: bool,
    /// Version of the addresses, 0 without.
    version: u8,
    source_mask: u128,
    destination_mask: u128,
    protocol: bool,
    source_port: bool,
    destination_port: bool,
}

/// What the rules of a table differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: u128,
    destination: u128,
    /// Address of Ethernet, and protocol.
    mac_protocol: u64,
    /// VLAN and ports.
    vlan_ports: u64,
}

#[inline]
const fn key(mac: u64, vlan: u16, addresses: (u128, u128), protocol: u8, ports: (u16, u16)) -> Key {
    Key {
        source: addresses.0,
        destination: addresses.1,
        mac_protocol: mac << 8 | protocol as u64,
        vlan_ports: (vlan as u64) << 32 | (ports.0 as u64) << 16 | ports.1 as u64,
    }
}

impl Shape {
    fn of(rule: &Rule) -> Self {
        let mask = |prefix: Option<Prefix>| prefix.map_or(0, Prefix::mask);
        Self {
            mac: rule.destination_mac.is_some(),
            vlan: rule.vlan.is_some(),
            version: rule.source.or(rule.destination).map_or(0, Prefix::version),
            source_mask: mask(rule.source),
            destination_mask: mask(rule.destination),
            protocol: rule.protocol.is_some(),
            source_port: rule.source_port.is_some(),
            destination_port: rule.destination_port.is_some(),
        }
    }

    /// Where a rule of this shape would stand that takes this frame; nowhere if the frame lacks a field.
    #[inline]
    fn key_of(&self, seen: &Seen) -> Option<Key> {
        let mac = if self.mac {
            seen.destination_mac.number()
        } else {
            0
        };
        let vlan = if self.vlan { seen.vlan? } else { 0 };
        let addresses = if self.version == 0 {
            (0, 0)
        } else {
            let of = seen.addresses.filter(|of| of.version == self.version)?;
            (
                of.source & self.source_mask,
                of.destination & self.destination_mask,
            )
        };
        let protocol = if self.protocol { seen.protocol? } else { 0 };
        let ports = if self.source_port || self.destination_port {
            seen.ports?
        } else {
            (0, 0)
        };
        let source_port = if self.source_port { ports.0 } else { 0 };
        let destination_port = if self.destination_port { ports.1 } else { 0 };
        Some(key(
            mac,
            vlan,
            addresses,
            protocol,
            (source_port, destination_port),
        ))
    }
}

fn key_of_rule(rule: &Rule) -> Key {
    key(
        rule.destination_mac.map_or(0, Mac::number),
        rule.vlan.unwrap_or(0),
        (
            rule.source.map_or(0, Prefix::number),
            rule.destination.map_or(0, Prefix::number),
        ),
        rule.protocol.unwrap_or(0),
        (
            rule.source_port.unwrap_or(0),
            rule.destination_port.unwrap_or(0),
        ),
    )
}

/// Rules of one shape.
#[derive(Clone, Debug)]
struct Table {
    shape: Shape,
    bits: u32,
    clients: HashMap<Key, ClientId, FixedState>,
}

/// Clients that asked for a group, all VLANs together and each by its own.
#[derive(Clone, Debug, Default)]
struct Askers {
    any: ClientSet,
    of_vlan: Vec<(u16, ClientId)>,
}

impl Askers {
    fn add(&mut self, wish: &Wish) {
        match wish.vlan {
            None => self.any.insert(wish.client),
            Some(vlan) => self.of_vlan.push((vlan, wish.client)),
        }
    }

    fn in_vlan(&self, vlan: Option<u16>) -> ClientSet {
        let mut clients = self.any;
        let of_vlan = self.of_vlan.iter().filter(|(of, _)| Some(*of) == vlan);
        of_vlan.for_each(|(_, client)| clients.insert(*client));
        clients
    }
}

/// Rules and wishes, ready for frames. When they change a new one is made; 256 clients with a rule each take it less than a millisecond.
#[derive(Clone, Debug)]
pub struct Classifier {
    tables: Vec<Table>,
    broadcast: Askers,
    multicast: Askers,
    groups: HashMap<u64, Askers, FixedState>,
}

impl Classifier {
    /// Takes rules in any order, and what clients ask for.
    ///
    /// # Errors
    /// A rule or a wish makes no sense, or two rules take the same frame and neither is more specific.
    pub fn new(rules: &[Rule], wishes: &[Wish]) -> Result<Self, RuleError> {
        if rules.len() > RULES_MAX {
            return Err(RuleError::TooMany { rules: rules.len() });
        }
        rules.iter().try_for_each(Rule::check)?;
        refuse_ties(rules)?;
        let mut classifier = Self {
            tables: tables(rules),
            broadcast: Askers::default(),
            multicast: Askers::default(),
            groups: HashMap::default(),
        };
        let mut known = ClientSet::EMPTY;
        for wish in wishes {
            if known.contains(wish.client) {
                return Err(RuleError::AskedTwice {
                    client: wish.client,
                });
            }
            known.insert(wish.client);
            classifier.add_wish(wish)?;
        }
        Ok(classifier)
    }

    fn add_wish(&mut self, wish: &Wish) -> Result<(), RuleError> {
        if let Some(vlan) = wish.vlan.filter(|vlan| !(1..=VLAN_MAX).contains(vlan)) {
            return Err(RuleError::Vlan { vlan });
        }
        if wish.broadcast {
            self.broadcast.add(wish);
        }
        match &wish.multicast {
            Multicast::Nothing => {}
            Multicast::All => self.multicast.add(wish),
            Multicast::Groups(groups) => {
                for &mac in groups {
                    if !mac.is_group() || mac == Mac::BROADCAST {
                        let client = wish.client;
                        return Err(RuleError::NoGroup { client, mac });
                    }
                    self.groups.entry(mac.number()).or_default().add(wish);
                }
            }
        }
        Ok(())
    }

    /// Says which client a frame is for. It counts nothing: the caller that acts on it counts.
    #[must_use]
    #[inline]
    pub fn classify(&self, frame: &[u8]) -> Verdict {
        let Ok(seen) = Seen::of(frame) else {
            return Verdict::Dropped(FrameDrop::Malformed);
        };
        if seen.destination_mac.is_group() {
            return self.to_group(&seen);
        }
        if seen.is_question {
            return Verdict::Responder;
        }
        match self.client_of(&seen) {
            Some(client) => Verdict::Client(client),
            None if seen.is_fragment => Verdict::Dropped(FrameDrop::Fragment),
            None => Verdict::Dropped(FrameDrop::Unmatched),
        }
    }

    #[inline]
    fn client_of(&self, seen: &Seen) -> Option<ClientId> {
        self.tables.iter().find_map(|table| {
            let key = table.shape.key_of(seen)?;
            table.clients.get(&key).copied()
        })
    }

    fn to_group(&self, seen: &Seen) -> Verdict {
        let clients = if seen.destination_mac == Mac::BROADCAST {
            self.broadcast.in_vlan(seen.vlan)
        } else {
            let mut clients = self.multicast.in_vlan(seen.vlan);
            if let Some(group) = self.groups.get(&seen.destination_mac.number()) {
                group
                    .in_vlan(seen.vlan)
                    .iter()
                    .for_each(|client| clients.insert(client));
            }
            clients
        };
        let is_question = seen.is_question;
        if clients.is_empty() && !is_question {
            return Verdict::Dropped(FrameDrop::GroupNotAsked);
        }
        Verdict::Group {
            is_question,
            clients,
        }
    }
}

/// Rules that fix equally many bits must not meet.
fn refuse_ties(rules: &[Rule]) -> Result<(), RuleError> {
    let mut by_bits: HashMap<u32, Vec<&Rule>, FixedState> = HashMap::default();
    for second in rules {
        let bits = second.specificity_bits();
        let equals = by_bits.entry(bits).or_default();
        if let Some(&&first) = equals.iter().find(|first| first.meets(second)) {
            let second = *second;
            return Err(RuleError::Tie {
                first,
                second,
                bits,
            });
        }
        equals.push(second);
    }
    Ok(())
}

/// Rules by their shapes, those that fix more bits first.
fn tables(rules: &[Rule]) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for rule in rules {
        let (shape, key) = (Shape::of(rule), key_of_rule(rule));
        if let Some(table) = tables.iter_mut().find(|table| table.shape == shape) {
            table.clients.insert(key, rule.client);
            continue;
        }
        tables.push(Table {
            shape,
            bits: rule.specificity_bits(),
            clients: HashMap::from_iter([(key, rule.client)]),
        });
    }
    tables.sort_by_key(|table| core::cmp::Reverse(table.bits));
    tables
}
