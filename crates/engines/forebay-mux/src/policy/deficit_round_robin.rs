//! As many bytes of each client in turn (Shreedhar and Varghese, SIGCOMM 1995): a client's turn adds a quantum to what it may send, and what its next packet
//! does not fit into is kept for its next turn. Two clients that always have something to send differ, by their quanta, by less than a quantum and the
//! longest packet.

use super::{PerClient, Policy, PolicyConfig, Queues, Turn};
use crate::client::{CLIENTS_MAX, ClientId};

/// The turns: which client is next, and what each may send.
#[derive(Debug)]
pub(super) struct DeficitRoundRobin {
    quantum_bytes: Vec<u32>,
    deficit_bytes: Vec<u32>,
    cursor: ClientId,
    /// Whether the client at the cursor has had its quantum and not yet sent what it may.
    is_in_turn: bool,
}

impl DeficitRoundRobin {
    pub(super) fn new(quantum_bytes: &PerClient<u32>) -> Self {
        Self {
            quantum_bytes: quantum_bytes.by_number(),
            deficit_bytes: vec![0; CLIENTS_MAX],
            cursor: ClientId::new(u8::MAX),
            is_in_turn: false,
        }
    }
}

impl Policy for DeficitRoundRobin {
    /// A client that had nothing to send has saved nothing.
    fn woke(&mut self, client: ClientId) {
        self.deficit_bytes[client.index()] = 0;
        self.is_in_turn &= self.cursor != client;
    }

    #[inline]
    fn next(&mut self, queues: &Queues<'_>, _now_ns: u64) -> Turn {
        loop {
            if !self.is_in_turn || !queues.ready().contains(self.cursor) {
                let Some(next) = queues.ready().next_after(self.cursor) else {
                    self.is_in_turn = false;
                    return Turn::Idle;
                };
                let quantum = self.quantum_bytes[next.index()];
                let deficit = &mut self.deficit_bytes[next.index()];
                *deficit = deficit.saturating_add(quantum);
                self.cursor = next;
            }
            // Each round adds a quantum, and a packet is no longer than 2^32 bytes.
            let is_enough =
                queues.head(self.cursor).bytes <= self.deficit_bytes[self.cursor.index()];
            self.is_in_turn = is_enough;
            if is_enough {
                return Turn::Send(self.cursor);
            }
        }
    }

    #[inline]
    fn sent(&mut self, client: ClientId, bytes: u32, _now_ns: u64) {
        let deficit = &mut self.deficit_bytes[client.index()];
        *deficit = deficit.saturating_sub(bytes);
    }

    fn adjust(&mut self, config: &PolicyConfig, _now_ns: u64) -> bool {
        let PolicyConfig::DeficitRoundRobin { quantum_bytes } = config else {
            return false;
        };
        self.quantum_bytes = quantum_bytes.by_number();
        true
    }
}
