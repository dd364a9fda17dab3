//! Which source a datagram belongs to, where several share a port.

use std::collections::HashMap;
use std::net::SocketAddr;

use forebay_wire::hadtu::first_address;

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
