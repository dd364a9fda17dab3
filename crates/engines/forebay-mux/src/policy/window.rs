//! So many bits of each client in each window of time: the limiter of sDDF, whose windows have 10 ms. A client that has sent its bits is silent until the
//! window turns.
//!
//! What its last packet had beyond is taken from the next window, so that the rate holds. At the edge of two windows a client can send the bits of both at
//! once, as with the original: in any time of one window's length up to twice its bits and a packet.

use super::{PerClient, Policy, PolicyConfig, Queues, SECOND_NS, Turn};
use crate::client::{ClientId, ClientSet};

/// What a client may send, and has sent: in bits × ns, a window's share of the second, so that nothing is rounded. The greatest budget is 10^12 × 10^9, and
/// the longest packet has less.
#[derive(Clone, Copy, Debug)]
struct Budget {
    /// What each window gives; none: no limit.
    gives: Option<u128>,
    /// Most that any rate gave that was set in this window: what its end pays back.
    given: u128,
    spent: u128,
    /// The window that it was spent in.
    window: u64,
}

impl Budget {
    /// The budget of a rate, in bits per second, in windows of so many ns.
    fn new(rate_bps: Option<u64>, window_ns: u64) -> Self {
        let gives = rate_bps.map(|rate_bps| u128::from(rate_bps) * u128::from(window_ns));
        Self {
            gives,
            given: gives.unwrap_or(0),
            spent: 0,
            window: 0,
        }
    }

    /// What was spent beyond the windows since then.
    fn turn(&mut self, window: u64) {
        let passed = u128::from(window.saturating_sub(self.window));
        self.window = window;
        if passed > 0 {
            let gives = self.gives.unwrap_or(0);
            let paid = gives.saturating_mul(passed - 1).saturating_add(self.given);
            self.spent = self.spent.saturating_sub(paid);
            self.given = gives;
        }
    }

    /// Counts a packet. Without a rate nothing is ever paid back, so that nothing may be spent.
    fn spend(&mut self, bytes: u32) {
        if self.gives.is_some() {
            self.spent += u128::from(bytes) * 8 * u128::from(SECOND_NS);
        }
    }

    /// Has another rate from now on, as `new` has. What was spent stays spent: a rate that is set often gives no more than the greatest of them.
    fn adjust(&mut self, new: &Self, window: u64) {
        self.turn(window);
        self.given = self.given.max(new.given);
        self.gives = new.gives;
    }

    /// The first window in which something is left: this one, or the one in which the last packet is paid for.
    fn next_window(&self) -> u64 {
        match self.gives {
            Some(gives) if self.spent >= gives => {
                let more = self.spent.saturating_sub(self.given) / gives;
                let more = u64::try_from(more).unwrap_or(u64::MAX);
                self.window.saturating_add(1).saturating_add(more)
            }
            _ => self.window,
        }
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
    /// Clients that are silent until it turns, and the first window in which one of them is not.
    muted: ClientSet,
    next_window: u64,
}

impl Window {
    pub(super) fn new(
        window_ns: u64,
        rate_bps: &PerClient<Option<u64>>,
        uncounted_bytes: u32,
    ) -> Self {
        let rates = rate_bps.by_number().into_iter();
        Self {
            window_ns,
            budgets: rates.map(|rate| Budget::new(rate, window_ns)).collect(),
            uncounted_bytes,
            cursor: ClientId::new(u8::MAX),
            window: 0,
            muted: ClientSet::EMPTY,
            next_window: u64::MAX,
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
            self.next_window = u64::MAX;
        }
        loop {
            let mut may = *queues.ready();
            may.take_out(&self.muted);
            let Some(client) = may.next_after(self.cursor) else {
                break;
            };
            let budget = &mut self.budgets[client.index()];
            budget.turn(window);
            let next_window = budget.next_window();
            if next_window <= window {
                return Turn::Send(client);
            }
            self.muted.insert(client);
            self.next_window = self.next_window.min(next_window);
        }
        if queues.ready().is_empty() {
            return Turn::Idle;
        }
        Turn::AskAt(self.next_window.saturating_mul(self.window_ns))
    }

    #[inline]
    fn sent(&mut self, client: ClientId, bytes: u32, _now_ns: u64) {
        let counted = bytes.saturating_sub(self.uncounted_bytes);
        self.budgets[client.index()].spend(counted);
        self.cursor = client;
    }

    /// What was spent stays spent while windows are as long as before; others begin anew.
    fn adjust(&mut self, config: &PolicyConfig, now_ns: u64) -> bool {
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
            let window = now_ns / new.window_ns;
            for (budget, new) in self.budgets.iter_mut().zip(&new.budgets) {
                budget.adjust(new, window);
            }
            new.budgets = core::mem::take(&mut self.budgets);
        }
        new.cursor = self.cursor;
        *self = new;
        true
    }
}
