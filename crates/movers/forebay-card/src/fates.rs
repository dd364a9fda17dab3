//! What became of frames that a driver has taken, until somebody asks.

use std::collections::VecDeque;

use super::account::CardOutDrop;

/// What became of a frame that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The card took it, by the other end's word.
    Out,
    /// It was given up.
    Dropped(CardOutDrop),
}

/// Fates in the order of their frames; neighbours that are alike take one place.
#[derive(Debug, Default)]
pub(super) struct Fates {
    runs: VecDeque<(Fate, u64)>,
}

impl Fates {
    /// Notes the fate of the next frames.
    #[inline]
    pub(super) fn note(&mut self, fate: Fate, frames: u64) {
        match self.runs.back_mut() {
            Some((last, so_many)) if *last == fate => *so_many += frames,
            _ if frames > 0 => self.runs.push_back((fate, frames)),
            _ => {}
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Takes over all of another list, behind its own.
    pub(super) fn append(&mut self, other: &mut Self) {
        for (fate, frames) in other.runs.drain(..) {
            self.note(fate, frames);
        }
    }

    /// Tells all of them, once.
    pub(super) fn tell(&mut self, told: &mut dyn FnMut(Fate)) {
        for (fate, frames) in self.runs.drain(..) {
            (0..frames).for_each(|_| told(fate));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_are_told_once_in_order_and_alike_ones_take_one_place() {
        let down = Fate::Dropped(CardOutDrop::Down);
        let mut fates = Fates::default();
        for (fate, frames) in [
            (Fate::Out, 2),
            (Fate::Out, 1),
            (down, 0),
            (down, 2),
            (Fate::Out, 1),
        ] {
            fates.note(fate, frames);
        }
        assert_eq!(fates.runs.len(), 3);
        let mut all = Fates::default();
        all.note(Fate::Out, 1);
        all.append(&mut fates);
        assert_eq!((all.runs.len(), fates.runs.len()), (3, 0));
        let (mut fates, mut told) = (all, Vec::new());
        fates.tell(&mut |fate| told.push(fate));
        assert_eq!(
            told,
            [
                Fate::Out,
                Fate::Out,
                Fate::Out,
                Fate::Out,
                down,
                down,
                Fate::Out
            ]
        );
        fates.tell(&mut |fate| panic!("{fate:?} twice"));
    }
}
