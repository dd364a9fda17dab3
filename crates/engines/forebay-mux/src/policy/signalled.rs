//! The client that signalled first is drained first.

use std::collections::VecDeque;

use super::{Policy, PolicyConfig, Queues, Turn};
use crate::client::{ClientId, ClientSet};

/// Clients in the order of their signals.
#[derive(Debug)]
pub(super) struct Signalled {
    line: VecDeque<ClientId>,
    in_line: ClientSet,
    burst_packets: u32,
    /// What the first one in line may still send before it goes behind the others.
    left_packets: u32,
}

impl Signalled {
    pub(super) const fn new(burst_packets: u32) -> Self {
        Self {
            line: VecDeque::new(),
            in_line: ClientSet::EMPTY,
            burst_packets,
            left_packets: burst_packets,
        }
    }

    /// The first one in line is done for now.
    fn turn(&mut self, stays: bool) {
        self.left_packets = self.burst_packets;
        if let Some(client) = self.line.pop_front() {
            self.in_line.remove(client);
            if stays {
                self.woke(client);
            }
        }
    }
}

impl Policy for Signalled {
    /// One that is still in line has sent all that it signalled before: it goes behind the others.
    fn woke(&mut self, client: ClientId) {
        if self.line.front() == Some(&client) {
            self.turn(false);
        } else if self.in_line.contains(client) {
            self.line.retain(|other| *other != client);
        }
        self.in_line.insert(client);
        self.line.push_back(client);
    }

    #[inline]
    fn next(&mut self, queues: &Queues<'_>, _now_ns: u64) -> Turn {
        while let Some(&client) = self.line.front() {
            let is_ready = queues.ready().contains(client);
            if is_ready && self.left_packets > 0 {
                return Turn::Send(client);
            }
            self.turn(is_ready);
        }
        Turn::Idle
    }

    #[inline]
    fn sent(&mut self, _client: ClientId, _bytes: u32, _now_ns: u64) {
        self.left_packets = self.left_packets.saturating_sub(1);
    }

    fn adjust(&mut self, config: &PolicyConfig, _now_ns: u64) -> bool {
        let &PolicyConfig::Signalled { burst_packets } = config else {
            return false;
        };
        self.burst_packets = burst_packets;
        self.left_packets = self.left_packets.min(burst_packets);
        true
    }
}
