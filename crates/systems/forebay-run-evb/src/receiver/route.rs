//! Which source a datagram belongs to, where several share a port.

use std::collections::HashMap;
use std::net::SocketAddr;

use forebay_wire::hadtu::{UNIT_HEADER_BYTES, UnitHeader};
use forebay_wire::subevent::SubEventHeader;

use crate::plan::{Plan, SourceKey};

/// Finds the source of a datagram, as an index into the port's sources.
#[derive(Debug)]
pub(super) enum Route {
    /// The port has one source.
    Only,
    /// By sub-event address or by sender.
    Table {
        by_id: HashMap<u32, usize>,
        by_sender: HashMap<SocketAddr, usize>,
    },
}

impl Route {
    pub(super) fn of(plan: &Plan, port: usize) -> Self {
        let sources = plan.sources_of(port);
        if let [only] = sources.as_slice()
            && plan.sources[*only].key == SourceKey::Port
        {
            return Self::Only;
        }
        let (mut by_id, mut by_sender) = (HashMap::new(), HashMap::new());
        for (local, source) in sources.iter().enumerate() {
            match plan.sources[*source].key {
                SourceKey::SubEventId(id) => drop(by_id.insert(id, local)),
                SourceKey::Sender(address) => drop(by_sender.insert(address, local)),
                SourceKey::Port | SourceKey::Elink(_) => {}
            }
        }
        Self::Table { by_id, by_sender }
    }

    /// The source of a datagram that begins a message; a continuation goes where its sender's message began.
    pub(super) fn find(&self, payload: &[u8], from: Option<SocketAddr>) -> Option<usize> {
        match self {
            Self::Only => Some(0),
            Self::Table { by_id, by_sender } => {
                let sender = from.and_then(|from| by_sender.get(&from));
                sender
                    .or_else(|| by_id.get(&first_address(payload)?))
                    .copied()
            }
        }
    }
}

/// Address in the first sub-event's id.
fn first_address(payload: &[u8]) -> Option<u32> {
    UnitHeader::parse(payload.first_chunk()?).ok()?;
    let head = payload.get(UNIT_HEADER_BYTES..)?.first_chunk()?;
    SubEventHeader::parse(head)
        .ok()
        .map(|header| header.address())
}
