//! Sources that are E-links, and how their chunks are read.

use forebay_config::Block;
use forebay_wire::felix::{Elink, Fid};

use crate::config::sources::{SourceSettings, Sources};
use crate::plan::{ElinkSettings, ElinksPlan, Plan, SourceKey, SourcePlan};

/// Keys of a block of sources that only datagrams need.
const OF_DATAGRAMS: [&str; 7] = [
    "count",
    "base_port",
    "ports",
    "port",
    "sub_event_ids",
    "senders",
    "bind",
];
/// Keys of the receiver that only datagrams need.
const OF_SOCKETS: [&str; 7] = [
    "bind",
    "socket_buffer_bytes",
    "batch_datagrams",
    "spin_us",
    "gro",
    "latency_budget_us",
    "gather_us",
];

/// Keys that only E-links need, in a block of something else.
pub(super) fn idle(block: &Block<'_, '_>) {
    for key in ["address", "detector", "connector"] {
        block.idle(key, "only sources with elinks are subscribed to");
    }
}

impl Sources {
    /// Adds the E-links of one block.
    pub(super) fn add_elinks(
        &mut self,
        said: &SourceSettings,
        block: &Block<'_, '_>,
        index: usize,
    ) {
        for key in OF_DATAGRAMS {
            block.idle(key, "E-links are subscribed to, and no datagrams");
        }
        let Some(address) = &said.address else {
            if !block.has("address") {
                block.complain_whole(
                    "it does not say where its E-links are published",
                    "address of to-host beside elinks",
                    "add address = \"shm://felix\"",
                );
            }
            return;
        };
        let address = address.to_string();
        if !self.publishers.contains(&address) {
            self.publishers.push(address);
        }
        let (detector, connector) = (said.detector, said.connector);
        let numbers = &said.elinks;
        if !self.has_room(block, numbers.len()) {
            return;
        }
        let alone = numbers.len() == 1;
        for (place, number) in numbers.iter().copied().enumerate() {
            let Some(elink) = Elink::new(number) else {
                continue;
            };
            let name = match &said.name {
                None => format!("elink{number}"),
                Some(name) if alone => name.clone(),
                Some(name) => format!("{name}{place}"),
            };
            self.claim_name(block, &name);
            let key = SourceKey::Elink(Fid::to_host(detector, connector, elink).0);
            if let Some(other) = self.by_key.insert((0, key), block.line()) {
                block.complain(
                    "elinks",
                    &format!("E-link {number} belongs to the block of line {other} already"),
                    "each E-link of a detector and connector once",
                    "take it out of one of the blocks",
                );
            }
            let (port, ring_bytes) = (0, index as u64);
            self.sources.push(SourcePlan {
                name,
                port,
                key,
                ring_bytes,
            });
        }
    }
}

/// How chunks are read; none when no source is an E-link.
pub(super) fn plan(
    plan: &Plan,
    publishers: Vec<String>,
    (said, block): (ElinkSettings, &Block<'_, '_>),
    receiver: &Block<'_, '_>,
) -> Option<ElinksPlan> {
    // They are read by the stage, and here for their mistakes.
    said.security.certificates(block);
    let elinks = ElinksPlan { publishers, said };
    if elinks.publishers.is_empty() {
        for key in block.section.keys {
            block.idle(key.name, "no source has elinks");
        }
        return None;
    }
    if !plan.ports.is_empty() {
        block.complain_whole(
            "some sources are E-links and others send datagrams",
            "sources of one kind in a file",
            "give the others a builder of their own",
        );
    }
    for key in OF_SOCKETS {
        receiver.idle(
            key,
            "E-links are subscribed to, and there is no socket of datagrams",
        );
    }
    Some(elinks)
}
