//! Each client at its rate, with bursts: a bucket that fills at the rate and holds a burst. It is kept as the time at which it would be full (the theoretical
//! arrival time of ITU-T I.371's generic cell rate algorithm), in picoseconds, so that nothing is rounded but a picosecond of a packet.
//!
//! A client whose bucket has not enough for its packet is set aside until it has. So a decision costs the same for 2 clients and for 64.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bucket::Bucket;
use super::{PACKET_BYTES_MAX, PerClient, Policy, PolicyConfig, Queues, Turn};
use crate::client::{ClientId, ClientSet};

const PS_PER_NS: u128 = 1000;

/// All buckets, and the times that clients wait for.
#[derive(Debug)]
pub(super) struct TokenBucket {
    buckets: Vec<Bucket>,
    uncounted_bytes: u32,
    cursor: ClientId,
    /// Clients that wait for their buckets, and when they have enough for their heads, in ns.
    aside: ClientSet,
    times: BinaryHeap<Reverse<(u64, ClientId)>>,
}

impl TokenBucket {
    pub(super) fn new(
        rate_bps: &PerClient<Option<u64>>,
        burst_bytes: &PerClient<u32>,
        uncounted_bytes: u32,
    ) -> Self {
        let of = rate_bps
            .by_number()
            .into_iter()
            .zip(burst_bytes.by_number());
        let buckets = of.map(|(rate_bps, burst_bytes)| Bucket::new(rate_bps, burst_bytes));
        Self {
            buckets: buckets.collect(),
            uncounted_bytes,
            cursor: ClientId::new(u8::MAX),
            aside: ClientSet::EMPTY,
            times: BinaryHeap::new(),
        }
    }

    fn counted(&self, bytes: u32) -> u32 {
        bytes
            .min(PACKET_BYTES_MAX as u32)
            .saturating_sub(self.uncounted_bytes)
    }

    /// Lets in clients whose time has come, and clients that have nothing to send; gives the time of the next one.
    fn let_in(&mut self, queues: &Queues<'_>, now_ns: u64) -> Option<u64> {
        while let Some(&Reverse((at_ns, client))) = self.times.peek() {
            if at_ns > now_ns && queues.ready().contains(client) {
                return Some(at_ns);
            }
            self.times.pop();
            self.aside.remove(client);
        }
        None
    }
}

impl Policy for TokenBucket {
    #[inline]
    fn next(&mut self, queues: &Queues<'_>, now_ns: u64) -> Turn {
        let next_ns = self.let_in(queues, now_ns);
        loop {
            let mut waiting = *queues.ready();
            waiting.take_out(&self.aside);
            let Some(client) = waiting.next_after(self.cursor) else {
                break;
            };
            let bytes = self.counted(queues.head(client).bytes);
            let ready_ps = self.buckets[client.index()].ready_at_ps(bytes);
            if ready_ps <= u128::from(now_ns) * PS_PER_NS {
                return Turn::Send(client);
            }
            self.aside.insert(client);
            let ready_ns = ready_ps.div_ceil(PS_PER_NS) as u64;
            self.times.push(Reverse((ready_ns, client)));
        }
        let first = self.times.peek().map(|Reverse((at_ns, _))| *at_ns);
        first.or(next_ns).map_or(Turn::Idle, Turn::AskAt)
    }

    #[inline]
    fn sent(&mut self, client: ClientId, bytes: u32, now_ns: u64) {
        let bytes = self.counted(bytes);
        self.buckets[client.index()].take(bytes, u128::from(now_ns) * PS_PER_NS);
        self.cursor = client;
    }

    /// The next head may be shorter: the client waits for that one, if it has to.
    fn head_lost(&mut self, client: ClientId) {
        if self.aside.contains(client) {
            self.aside.remove(client);
            self.times.retain(|Reverse((_, of))| *of != client);
        }
    }

    fn adjust(&mut self, config: &PolicyConfig, now_ns: u64) -> bool {
        let PolicyConfig::TokenBucket {
            rate_bps,
            burst_bytes,
            uncounted_bytes,
        } = config
        else {
            return false;
        };
        let mut new = Self::new(rate_bps, burst_bytes, *uncounted_bytes);
        let now_ps = u128::from(now_ns) * PS_PER_NS;
        for (bucket, new) in self.buckets.iter_mut().zip(&new.buckets) {
            bucket.adjust(new, now_ps);
        }
        new.buckets = core::mem::take(&mut self.buckets);
        new.cursor = self.cursor;
        *self = new;
        true
    }
}
