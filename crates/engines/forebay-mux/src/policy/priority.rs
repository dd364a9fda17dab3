//! Clients of the lowest level first, with a guard against starvation: a level that has had something to send for longer than the guard without its turn
//! sends one packet. So a level waits no longer than the guard (and one packet of each other level that waited longer), and each level below costs those
//! above one packet for each guard at most.

use super::{LEVELS, PerClient, Policy, PolicyConfig, Queues, Turn};
use crate::client::{ClientId, ClientSet};
use crate::guard::Wait;

/// Clients of one level.
#[derive(Clone, Debug)]
struct Level {
    number: u8,
    clients: ClientSet,
    cursor: ClientId,
    wait: Wait,
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
                wait: Wait::default(),
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
        let waits = self.levels.iter().map(|level| (level.wait, self.guard_ns));
        Wait::starving(waits, now_ns)
    }
}

impl Policy for Priority {
    #[inline]
    fn next(&mut self, queues: &Queues<'_>, now_ns: u64) -> Turn {
        let mut first = None;
        for level in &mut self.levels {
            let next = queues.ready().and(&level.clients).next_after(level.cursor);
            level.wait.note(next.is_some(), now_ns);
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
            level.wait.serve(now_ns);
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
                level.wait = old.wait;
            }
        }
        *self = new;
        true
    }
}
