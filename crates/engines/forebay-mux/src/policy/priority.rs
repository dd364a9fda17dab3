//! Clients of the lowest level first, with a guard against starvation: a level that has had something to send for longer than the guard without its turn
//! sends one packet. So a level waits no longer than the guard (and one packet of each other level that waited longer), and each level below costs those
//! above one packet for each guard at most.

use super::{LEVELS, PerClient, Policy, PolicyConfig, Queues, Turn};
use crate::client::{ClientId, ClientSet};

/// Clients of one level.
#[derive(Clone, Debug)]
struct Level {
    number: u8,
    clients: ClientSet,
    cursor: ClientId,
    /// Since when it has had something to send without its turn; nothing if it has nothing.
    waits_since_ns: Option<u64>,
}

/// Levels that clients have, the lowest first.
#[derive(Debug)]
pub(super) struct Priority {
    levels: Vec<Level>,
    guard_ns: Option<u64>,
}

impl Priority {
    pub(super) fn new(level: &PerClient<u8>, guard_ns: Option<u64>) -> Self {
        let mut levels: Vec<Level> = (0..LEVELS as u8)
            .map(|number| Level {
                number,
                clients: ClientSet::EMPTY,
                cursor: ClientId::new(u8::MAX),
                waits_since_ns: None,
            })
            .collect();
        for (client, number) in ClientId::all().zip(level.by_number()) {
            levels[usize::from(number)].clients.insert(client);
        }
        levels.retain(|level| !level.clients.is_empty());
        Self { levels, guard_ns }
    }

    /// The level that has waited longest, if that is longer than the guard.
    fn starving(&self, now_ns: u64) -> Option<usize> {
        let guard_ns = self.guard_ns?;
        let waits = |at: &usize| {
            let since_ns = self.levels[*at].waits_since_ns;
            since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
        };
        let longest = (0..self.levels.len()).max_by_key(waits)?;
        (waits(&longest) > guard_ns).then_some(longest)
    }
}

impl Policy for Priority {
    #[inline]
    fn next(&mut self, queues: &Queues<'_>, now_ns: u64) -> Turn {
        let mut first = None;
        for level in &mut self.levels {
            let next = queues.ready().and(&level.clients).next_after(level.cursor);
            let since_ns = level.waits_since_ns.unwrap_or(now_ns);
            level.waits_since_ns = next.map(|_| since_ns);
            first = first.or(next);
        }
        let starving = self.starving(now_ns).map(|at| &self.levels[at]);
        let starving = starving.and_then(|level| {
            let ready = queues.ready().and(&level.clients);
            ready.next_after(level.cursor)
        });
        starving.or(first).map_or(Turn::Idle, Turn::Send)
    }

    #[inline]
    fn sent(&mut self, client: ClientId, _bytes: u32, now_ns: u64) {
        let mut levels = self.levels.iter_mut();
        if let Some(level) = levels.find(|level| level.clients.contains(client)) {
            level.cursor = client;
            level.waits_since_ns = Some(now_ns);
        }
    }

    /// Levels that stay keep their turn and how long they have waited.
    fn adjust(&mut self, config: &PolicyConfig, _now_ns: u64) -> bool {
        let PolicyConfig::Priority { level, guard_ns } = config else {
            return false;
        };
        let mut new = Self::new(level, *guard_ns);
        for level in &mut new.levels {
            let old = self.levels.iter().find(|old| old.number == level.number);
            if let Some(old) = old {
                level.cursor = old.cursor;
                level.waits_since_ns = old.waits_since_ns;
            }
        }
        *self = new;
        true
    }
}
