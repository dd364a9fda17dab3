//! The `[[sources]]` blocks: which source sends, on which port, told apart how.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use forebay_config::Block;
use forebay_evb::SOURCES_MAX;
use forebay_run_net::Address;
use forebay_settings::settings;

use crate::config::elinks;
use crate::plan::stages::SOURCE_QUEUE_BYTES;
use crate::plan::{ReceiverPlan, SourceKey, SourcePlan};
use crate::presets;

settings! {
    /// Who sends. A block is one source or several alike: on ports of their own (`base_port` with `count`, or `ports`), or together on one `port`, told apart by `sub_event_ids` or `senders`; or they are the `elinks` of a link readout.
    pub struct SourceSettings in [[sources]] {
        /// Name in accounts and reports; a block of several numbers them from 0. Unnamed blocks are numbered through.
        name: Option<String> => "`\"source\"`",
        /// How many, on ports one after the other; with `base_port`.
        count: usize [1..=1024] = 1,
        /// First port. 0: any free ports.
        base_port: Option<u16> [0..=65535] => "—",
        /// A port for each source, when they do not follow each other.
        ports: Vec<u16> [1..=65535] = Vec::new() => "—",
        /// One port: of one source, or of all sources of `sub_event_ids` or `senders`. 0: any free port.
        port: Option<u16> [0..=65535] => "—",
        /// Sources on `port` told apart by the id of the first sub-event in a message.
        sub_event_ids: Vec<u32> [0..=0xffff_ffff] = Vec::new() => "—",
        /// Sources on `port` told apart by the sender's address and port.
        senders: Vec<SocketAddr> = Vec::new() => "—",
        /// E-links of link readout, each of them a source: `forebay tohost` publishes their chunks at `address`.
        elinks: Vec<u16> [0..=2047] = Vec::new() => "—",
        /// Where they are published.
        address: Option<Address> => "required with elinks",
        /// With elinks: the detector in their fids, as to-host is told.
        detector: u8 [0..=255] = 0,
        /// With elinks: the connector in their fids, as to-host is told.
        connector: u16 [0..=65535] = 0,
        /// Address to listen on.
        bind: Option<IpAddr> => "that of [receiver]",
        /// Queue of each source of the block.
        queue_bytes: Option<u64> [pow2 SOURCE_QUEUE_BYTES] => "that of [receiver]",
    }
}

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
pub(super) fn read(blocks: &[(SourceSettings, Block<'_, '_>)], receiver: &ReceiverPlan) -> Sources {
    let mut all = Sources::default();
    for (index, (said, block)) in blocks.iter().enumerate() {
        if block.has("elinks") {
            all.add_elinks(said, block, index);
            continue;
        }
        elinks::idle(block);
        let bind = said.bind.unwrap_or(receiver.bind);
        let drafts = drafts(said, block);
        if !all.has_room(block, drafts.len()) {
            return all;
        }
        all.add((said, block), index, bind, &drafts);
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
    fn add(
        &mut self,
        (said, block): (&SourceSettings, &Block<'_, '_>),
        index: usize,
        bind: IpAddr,
        drafts: &[Draft],
    ) {
        // Port 0 is any free port: one for all of a block told apart by a key, one for each source else.
        let mut shared = None;
        for (number, draft) in drafts.iter().enumerate() {
            let name = match &said.name {
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
fn drafts(said: &SourceSettings, block: &Block<'_, '_>) -> Vec<Draft> {
    let ways: Vec<&str> = ["base_port", "ports", "port"]
        .into_iter()
        .filter(|key| block.has(key))
        .collect();
    let right = "base_port with count, or ports, or port";
    match ways.as_slice() {
        ["base_port"] => row_of_ports(said, block),
        ["ports"] => list_of_ports(said, block),
        [_] => one_port(said, block),
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

fn row_of_ports(said: &SourceSettings, block: &Block<'_, '_>) -> Vec<Draft> {
    no_keys(block, "each source has a port of its own");
    let Some(base) = said.base_port else {
        return Vec::new();
    };
    let count = said.count;
    if base == 0 {
        return vec![
            Draft {
                port: 0,
                key: SourceKey::Port
            };
            count
        ];
    }
    let last = usize::from(base) + count - 1;
    if last > usize::from(u16::MAX) {
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
    let ports = (base..=u16::MAX).take(count);
    ports
        .map(|port| Draft {
            port,
            key: SourceKey::Port,
        })
        .collect()
}

fn list_of_ports(said: &SourceSettings, block: &Block<'_, '_>) -> Vec<Draft> {
    no_keys(block, "each source has a port of its own");
    block.idle("count", "ports names each");
    let ports = said.ports.iter();
    ports
        .map(|port| Draft {
            port: *port,
            key: SourceKey::Port,
        })
        .collect()
}

fn no_keys(block: &Block<'_, '_>, because: &str) {
    block.idle("sub_event_ids", because);
    block.idle("senders", because);
}

fn one_port(said: &SourceSettings, block: &Block<'_, '_>) -> Vec<Draft> {
    block.idle(
        "count",
        "a port is of one source, or of those of sub_event_ids or senders",
    );
    let Some(port) = said.port else {
        return Vec::new();
    };
    let draft = |key| Draft { port, key };
    match (block.has("sub_event_ids"), block.has("senders")) {
        (false, false) => vec![draft(SourceKey::Port)],
        (true, false) => {
            let ids = said.sub_event_ids.iter();
            ids.map(|id| draft(SourceKey::SubEventId(*id))).collect()
        }
        (false, true) => {
            let senders = said.senders.iter();
            senders
                .map(|sender| draft(SourceKey::Sender(*sender)))
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
    blocks: &[(SourceSettings, Block<'_, '_>)],
    receiver: &ReceiverPlan,
) {
    let share = presets::ring_bytes(sources.len());
    let general = receiver.queue_bytes.unwrap_or(share);
    let own = |block: u64| blocks.get(block as usize)?.0.queue_bytes;
    for source in sources {
        source.ring_bytes = own(source.ring_bytes).unwrap_or(general);
    }
}
