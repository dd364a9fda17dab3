//! Who asked for a place and got none.

use std::collections::VecDeque;

use forebay_wire::tdm::RefuseReason;

use super::Receiver;

/// Refusals that wait to be told, at most: of a flood the others are in the counts alone.
const UNTOLD_MAX: usize = 64;

/// Hellos that were answered with a refusal. Those that lack the key of a receiver that has one are not among them, as nobody knows whose they are, nor those that a session met
/// which was over: they are for the next one.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    counts: [u64; RefuseReason::ALL.len()],
    untold: VecDeque<(String, RefuseReason)>,
}

impl Refusals {
    pub(super) fn add(&mut self, name: &str, reason: RefuseReason) {
        let at = RefuseReason::ALL.iter().position(|known| *known == reason);
        if let Some(count) = at.and_then(|at| self.counts.get_mut(at)) {
            *count += 1;
        }
        if self.untold.len() < UNTOLD_MAX {
            self.untold.push_back((name.to_owned(), reason));
        }
    }
}

impl Receiver {
    /// Hellos that were refused, by reason.
    pub fn refused(&self) -> impl Iterator<Item = (RefuseReason, u64)> {
        let counts = self.refusals.counts.into_iter();
        RefuseReason::ALL.iter().copied().zip(counts)
    }

    /// The next sender that was refused and was not told yet.
    pub fn poll_refused(&mut self) -> Option<(String, RefuseReason)> {
        self.refusals.untold.pop_front()
    }
}
