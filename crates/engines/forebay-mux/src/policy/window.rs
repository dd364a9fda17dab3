//! So many bits of each client in each window of time: the limiter of sDDF, whose windows have 10 ms. A client that has sent its bits is silent until the
//! window turns.
//!
//! What its last packet had beyond is taken from the next window, so that the rate holds. At the edge of two windows a client can send the bits of both at
//! once, as with the original: in any time of one window's length up to twice its bits and a packet.

use super::{PerClient, Policy, PolicyConfig, Queues, SECOND_NS, Turn};
use crate::client::{ClientId, ClientSet};

/// What a client may send, and has sent.
#[derive(Clone, Copy, Debug)]
struct Budget {
    /// None: no limit.
    bits: Option<u64>,
    spent_bits: u64,
    /// The window that it was spent in.
    window: u64,
}

impl Budget {
    /// What was spent beyond the windows since then.
    fn turn(&mut self, window: u64) {
        if let Some(bits) = self.bits {
            let passed = window.saturating_sub(self.window);
            self.spent_bits = self.spent_bits.saturating_sub(bits.saturating_mul(passed));
        }
        self.window = window;
    }

    /// Counts a packet. Without a rate nothing is ever paid back, so that nothing may be spent.
    const fn spend(&mut self, bytes: u32) {
        if self.bits.is_some() {
            self.spent_bits += bytes as u64 * 8;
        }
    }

    fn is_left(&self) -> bool {
        self.bits.is_none_or(|bits| self.spent_bits < bits)
    }
}

/// All budgets of the window.
#[derive(Debug)]
pub(super) struct Window {
    window_ns: u64,
    budgets: Vec<Budget>,
    uncounted_bytes: u32,
    cursor: ClientId,
    window: u64,
    /// Clients that are silent until it turns.
    muted: ClientSet,
}

impl Window {
    pub(super) fn new(
        window_ns: u64,
        rate_bps: &PerClient<Option<u64>>,
        uncounted_bytes: u32,
    ) -> Self {
        let rates = rate_bps.by_number().into_iter();
        let bits =
            |rate: u64| (u128::from(rate) * u128::from(window_ns) / u128::from(SECOND_NS)) as u64;
        let budgets = rates.map(|rate| Budget {
            bits: rate.map(bits),
            spent_bits: 0,
            window: 0,
        });
        Self {
            window_ns,
            budgets: budgets.collect(),
            uncounted_bytes,
            cursor: ClientId::new(u8::MAX),
            window: 0,
            muted: ClientSet::EMPTY,
        }
    }
}

impl Policy for Window {
    #[inline]
    fn next(&mut self, queues: &Queues<'_>, now_ns: u64) -> Turn {
        let window = now_ns / self.window_ns;
        if window != self.window {
            self.window = window;
            self.muted = ClientSet::EMPTY;
        }
        loop {
            let mut may = *queues.ready();
            may.take_out(&self.muted);
            let Some(client) = may.next_after(self.cursor) else {
                break;
            };
            let budget = &mut self.budgets[client.index()];
            budget.turn(window);
            if budget.is_left() {
                return Turn::Send(client);
            }
            self.muted.insert(client);
        }
        if queues.ready().is_empty() {
            return Turn::Idle;
        }
        Turn::AskAt((window + 1).saturating_mul(self.window_ns))
    }

    #[inline]
    fn sent(&mut self, client: ClientId, bytes: u32, _now_ns: u64) {
        let counted = bytes.saturating_sub(self.uncounted_bytes);
        self.budgets[client.index()].spend(counted);
        self.cursor = client;
    }

    /// What was spent stays spent while windows are as long as before; others begin anew.
    fn adjust(&mut self, config: &PolicyConfig) -> bool {
        let PolicyConfig::Window {
            window_ns,
            rate_bps,
            uncounted_bytes,
        } = config
        else {
            return false;
        };
        let mut new = Self::new(*window_ns, rate_bps, *uncounted_bytes);
        if *window_ns == self.window_ns {
            for (budget, old) in new.budgets.iter_mut().zip(&self.budgets) {
                (budget.spent_bits, budget.window) = (old.spent_bits, old.window);
            }
        }
        new.cursor = self.cursor;
        *self = new;
        true
    }
}
