//! The `[[sources]]` blocks: who sends, on which port, told apart how.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use forebay_evb::SOURCES_MAX;
use forebay_run::config::block::Block;

use crate::config::elinks;
use crate::plan::{SourceKey, SourcePlan};
use crate::presets;

/// Ports and sources of a file.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) ports: Vec<SocketAddr>,
    pub(super) sources: Vec<SourcePlan>,
    /// Where E-links are published.
    pub(super) publishers: Vec<String>,
    /// Lines of the blocks that use a name, and a key on a port.
    pub(super) by_name: HashMap<String, usize>,
    pub(super) by_key: HashMap<(usize, SourceKey), usize>,
}

/// One source before it has a name and a port of the plan.
#[derive(Debug, Clone, Copy)]
struct Draft {
    port: u16,
    key: SourceKey,
}

/// All sources; their queues are filled in later, when it is known how many there are.
pub(super) fn read(blocks: &[Block<'_, '_>], receiver: &Block<'_, '_>) -> Sources {
    let bind = receiver
        .address("bind")
        .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut all = Sources::default();
    for (index, block) in blocks.iter().enumerate() {
        if block.has("elinks") {
            all.add_elinks(block, index);
            continue;
        }
        elinks::idle(block);
        let bind = block.address("bind").unwrap_or(bind);
        let drafts = drafts(block);
        if !all.has_room(block, drafts.len()) {
            return all;
        }
        all.add(block, index, bind, &drafts);
    }
    all
}

impl Sources {
    /// Whether so many sources more are not too many.
    pub(super) fn has_room(&self, block: &Block<'_, '_>, more: usize) -> bool {
        let sources = self.sources.len() + more;
        if sources > SOURCES_MAX {
            block.complain_whole(
                &format!("with this block there are {sources} sources"),
                &format!("at most {SOURCES_MAX} sources in all blocks"),
                "give the others a builder of their own",
            );
        }
        sources <= SOURCES_MAX
    }

    /// Adds the sources of one block; `ring_bytes` holds the block's number until the queues are filled in.
    fn add(&mut self, block: &Block<'_, '_>, index: usize, bind: IpAddr, drafts: &[Draft]) {
        let given = block.name("name");
        // Port 0 is any free port: one for all of a block told apart by a key, one for each source else.
        let mut shared = None;
        for (number, draft) in drafts.iter().enumerate() {
            let name = match &given {
                None => format!("source{}", self.sources.len()),
                Some(name) if drafts.len() == 1 => name.clone(),
                Some(name) => format!("{name}{number}"),
            };
            let address = SocketAddr::new(bind, draft.port);
            let port = match shared.filter(|_| draft.key != SourceKey::Port) {
                Some(port) => port,
                None => self.port(block, address),
            };
            shared = Some(port);
            self.claim(block, &name, port, draft.key);
            self.sources.push(SourcePlan {
                name,
                port,
                key: draft.key,
                ring_bytes: index as u64,
            });
        }
    }

    /// Index of the port, new or known.
    fn port(&mut self, block: &Block<'_, '_>, address: SocketAddr) -> usize {
        let known = self
            .ports
            .iter()
            .position(|port| *port == address && address.port() != 0);
        if let Some(port) = known {
            return port;
        }
        let other = self
            .ports
            .iter()
            .find(|port| port.port() == address.port() && address.port() != 0);
        if let Some(other) = other {
            let wrong = format!(
                "port {} is received on {} already",
                address.port(),
                other.ip()
            );
            block.complain_whole(
                &wrong,
                "each port number on one address",
                "choose another port, or bind to \"0.0.0.0\"",
            );
        }
        self.ports.push(address);
        self.ports.len() - 1
    }

    /// Notes a name that is taken.
    pub(super) fn claim_name(&mut self, block: &Block<'_, '_>, name: &str) {
        if let Some(other) = self.by_name.insert(name.to_owned(), block.line()) {
            let wrong = format!("a source of the block of line {other} is called {name} too");
            block.complain(
                "name",
                &wrong,
                "a name that no other source has",
                "choose another name",
            );
        }
    }

    /// Notes a name or a key that is taken.
    fn claim(&mut self, block: &Block<'_, '_>, name: &str, port: usize, key: SourceKey) {
        self.claim_name(block, name);
        let line = block.line();
        let number = self.ports[port].port();
        let alone = self.by_key.get(&(port, SourceKey::Port)).copied();
        // E-links have no port. Of several blocks the first one is named, whatever the order of the map.
        let is_there = |(other, key): &(usize, SourceKey)| {
            *other == port && !matches!(key, SourceKey::Elink(_))
        };
        let others = self.by_key.iter().filter(|(key, _)| is_there(key));
        let others = others.map(|(_, line)| *line).min();
        let clash = if key == SourceKey::Port {
            others
        } else {
            alone
        };
        if let Some(other) = clash {
            let wrong = format!("port {number} is used by the block of line {other} already");
            let right =
                "a port for each source, or sub_event_ids or senders in every block of the port";
            block.complain_whole(
                &wrong,
                right,
                "choose other ports, or say what tells the sources apart",
            );
        }
        if let Some(other) = self.by_key.insert((port, key), line)
            && clash.is_none()
        {
            let (name, what) = match key {
                SourceKey::SubEventId(id) => ("sub_event_ids", format!("id {id:#x}")),
                SourceKey::Sender(sender) => ("senders", format!("sender {sender}")),
                SourceKey::Port => ("port", format!("port {number}")),
                SourceKey::Elink(tag) => ("elinks", format!("E-link {tag:#x}")),
            };
            let wrong =
                format!("{what} on port {number} belongs to the block of line {other} already");
            block.complain(
                name,
                &wrong,
                "each source once",
                "take it out of one of the blocks",
            );
        }
    }
}

/// The sources of one block.
fn drafts(block: &Block<'_, '_>) -> Vec<Draft> {
    let ways: Vec<&str> = ["base_port", "ports", "port"]
        .into_iter()
        .filter(|key| block.has(key))
        .collect();
    let right = "base_port with count, or ports, or port";
    match ways.as_slice() {
        ["base_port"] => row_of_ports(block),
        ["ports"] => list_of_ports(block),
        [_] => one_port(block),
        [] => {
            block.complain_whole(
                "it does not say on which port",
                right,
                "add base_port = 50000",
            );
            Vec::new()
        }
        [first, second, ..] => {
            let wrong = format!("{first} says on which ports already");
            block.complain(
                second,
                &wrong,
                &format!("one of {right}"),
                "take one of them out",
            );
            Vec::new()
        }
    }
}

fn row_of_ports(block: &Block<'_, '_>) -> Vec<Draft> {
    no_keys(block, "each source has a port of its own");
    let (Some(base), count) = (
        block.integer("base_port"),
        block.integer("count").unwrap_or(1),
    ) else {
        return Vec::new();
    };
    if base == 0 {
        return vec![
            Draft {
                port: 0,
                key: SourceKey::Port
            };
            count as usize
        ];
    }
    let last = base + count - 1;
    if last > u64::from(u16::MAX) {
        let wrong = format!("the last of {count} ports would be {last}");
        let right = format!("at most {} with this count", 65_536 - count);
        block.complain(
            "base_port",
            &wrong,
            &right,
            &format!("write {} or less", 65_536 - count),
        );
        return Vec::new();
    }
    let ports = (base..=last).filter_map(|port| u16::try_from(port).ok());
    ports
        .map(|port| Draft {
            port,
            key: SourceKey::Port,
        })
        .collect()
}

fn list_of_ports(block: &Block<'_, '_>) -> Vec<Draft> {
    no_keys(block, "each source has a port of its own");
    block.idle("count", "ports names each");
    let ports = block.integers("ports").unwrap_or_default();
    let ports = ports
        .into_iter()
        .filter_map(|port| u16::try_from(port).ok());
    ports
        .map(|port| Draft {
            port,
            key: SourceKey::Port,
        })
        .collect()
}

fn no_keys(block: &Block<'_, '_>, because: &str) {
    block.idle("sub_event_ids", because);
    block.idle("senders", because);
}

fn one_port(block: &Block<'_, '_>) -> Vec<Draft> {
    block.idle(
        "count",
        "a port is of one source, or of those of sub_event_ids or senders",
    );
    let Some(port) = block
        .integer("port")
        .and_then(|port| u16::try_from(port).ok())
    else {
        return Vec::new();
    };
    let draft = |key| Draft { port, key };
    match (block.has("sub_event_ids"), block.has("senders")) {
        (false, false) => vec![draft(SourceKey::Port)],
        (true, false) => {
            let ids = block.integers("sub_event_ids").unwrap_or_default();
            let ids = ids.into_iter().filter_map(|id| u32::try_from(id).ok());
            ids.map(|id| draft(SourceKey::SubEventId(id))).collect()
        }
        (false, true) => {
            let senders = block.sockets("senders").unwrap_or_default();
            senders
                .into_iter()
                .map(|sender| draft(SourceKey::Sender(sender)))
                .collect()
        }
        (true, true) => {
            let wrong = "sub_event_ids tells the sources apart already";
            block.complain(
                "senders",
                wrong,
                "one of sub_event_ids and senders",
                "take one of them out",
            );
            Vec::new()
        }
    }
}

/// Gives each source its queue: that of its block, of the receiver, or a share of what all may take.
pub(super) fn fill_queues(
    sources: &mut [SourcePlan],
    blocks: &[Block<'_, '_>],
    receiver: &Block<'_, '_>,
) {
    let share = presets::ring_bytes(sources.len());
    let general = receiver.integer("queue_bytes").unwrap_or(share);
    let sizes: Vec<u64> = blocks
        .iter()
        .map(|block| block.integer("queue_bytes").unwrap_or(general))
        .collect();
    for source in sources {
        source.ring_bytes = sizes
            .get(source.ring_bytes as usize)
            .copied()
            .unwrap_or(general);
    }
}
