//! Triggers that some front end has yet to send a chunk for.

use super::ttc::Trigger;

/// The last triggers, by their number modulo the length.
#[derive(Debug, Clone)]
pub(super) struct Triggers {
    at: Box<[u64]>,
    l1id: Box<[u32]>,
    accepted: u64,
}

impl Triggers {
    /// Keeps at least so many.
    pub(super) fn new(most: u64) -> Self {
        let length = most.next_power_of_two() as usize;
        Self {
            at: vec![0; length].into(),
            l1id: vec![0; length].into(),
            accepted: 0,
        }
    }

    /// How many there have been.
    #[inline]
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & (self.at.len() - 1)
    }

    pub(super) fn push(&mut self, trigger: Trigger) {
        let place = self.place(trigger.number);
        self.at[place] = trigger.at;
        self.l1id[place] = trigger.l1id;
        self.accepted = trigger.number + 1;
    }

    /// The one with this number, which is among the last.
    #[inline]
    pub(super) fn at(&self, number: u64) -> Trigger {
        let place = self.place(number);
        Trigger {
            number,
            l1id: self.l1id[place],
            at: self.at[place],
        }
    }

    /// Times and low bytes of the numbers of so many from one on, as far as they lie in one piece.
    #[inline]
    pub(super) fn each(&self, from: u64, count: u64) -> impl Iterator<Item = (u64, u8)> {
        let begin = self.place(from);
        let end = begin.saturating_add(count as usize).min(self.at.len());
        let l1ids = self.l1id[begin..end].iter().map(|l1id| *l1id as u8);
        self.at[begin..end].iter().copied().zip(l1ids)
    }
}
