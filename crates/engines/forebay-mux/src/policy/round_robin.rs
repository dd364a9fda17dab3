//! One packet of each client in turn.

use super::{Policy, PolicyConfig, Queues, Turn};
use crate::client::ClientId;

/// The client that sent last.
#[derive(Debug)]
pub(super) struct RoundRobin {
    cursor: ClientId,
}

impl Default for RoundRobin {
    fn default() -> Self {
        let cursor = ClientId::new(u8::MAX);
        Self { cursor }
    }
}

impl Policy for RoundRobin {
    #[inline]
    fn next(&mut self, queues: &Queues<'_>, _now_ns: u64) -> Turn {
        let next = queues.ready().next_after(self.cursor);
        next.map_or(Turn::Idle, Turn::Send)
    }

    #[inline]
    fn sent(&mut self, client: ClientId, _bytes: u32, _now_ns: u64) {
        self.cursor = client;
    }

    fn adjust(&mut self, config: &PolicyConfig, _now_ns: u64) -> bool {
        *config == PolicyConfig::RoundRobin
    }
}
