//! Trigger numbers of sub-events that were dropped before the builder saw them, as runs of one step.

use std::collections::VecDeque;

use forebay_wire::subevent::{SubEventHeader, TriggerBits};

use crate::order::distance;
use crate::walk::headers;

/// Runs that are kept; when there are more, the oldest one's sub-events are kept as ones without a number.
pub const RUNS_MAX: usize = 1024;

/// Where trigger numbers begin again, before the configured width is known: the header holds 24 bits.
const MASK: u32 = TriggerBits::TwentyFour.mask();

/// Trigger numbers, each `step` after the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First number.
    pub first: u32,
    /// From one number to the next; 0 when all are the same one.
    pub step: u32,
    /// How many numbers; at least 1.
    pub items: u32,
}

impl Run {
    /// Bytes of a run where it travels; the number of items goes beside it.
    pub const BYTES: usize = 8;

    /// First number and step.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        (u64::from(self.step) << 32 | u64::from(self.first)).to_le_bytes()
    }

    /// A run of `items` numbers, whose first number and step are in `bytes`. Any bytes are a run.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES], items: u32) -> Self {
        let both = u64::from_le_bytes(bytes);
        Self {
            first: both as u32 & MASK,
            step: (both >> 32) as u32 & MASK,
            items,
        }
    }

    /// The number at `index`.
    pub(crate) fn number(self, index: u32, mask: u32) -> u32 {
        self.first.wrapping_add(index.wrapping_mul(self.step)) & mask
    }

    /// The last number.
    pub(crate) fn last(self, mask: u32) -> u32 {
        self.number(self.items - 1, mask)
    }

    /// The same run in numbers of this width, once around at most.
    pub(crate) fn narrow(self, bits: TriggerBits) -> Self {
        let mask = bits.mask();
        let step = self.step & mask;
        let most = mask.checked_div(step).unwrap_or(0).saturating_add(1);
        Self {
            first: self.first & mask,
            step,
            items: self.items.clamp(1, most),
        }
    }

    pub(crate) fn contains(self, bits: TriggerBits, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.first) & bits.mask();
        match ahead.checked_rem(self.step) {
            None => ahead == 0,
            Some(rest) => rest == 0 && ahead / self.step < self.items,
        }
    }

    /// The index of the first of its numbers that is not behind `number`.
    pub(crate) fn index_from(self, bits: TriggerBits, number: u32) -> u32 {
        let ahead = distance(bits, self.first, number).max(0).cast_unsigned();
        let index = ahead.checked_next_multiple_of(self.step.max(1));
        match index {
            _ if ahead == 0 => 0,
            Some(ahead) if self.step > 0 => (ahead / self.step).min(self.items),
            _ => self.items,
        }
    }

    /// The numbers from the one at `index` on, if there are any.
    pub(crate) fn starting_at(self, bits: TriggerBits, index: u32) -> Option<Self> {
        (index < self.items).then(|| Self {
            first: self.number(index, bits.mask()),
            items: self.items - index,
            ..self
        })
    }

    /// Whether `next` goes on with this run, and then does so.
    fn join(&mut self, next: Self) -> bool {
        let step = next.first.wrapping_sub(self.last(MASK)) & MASK;
        let fits = (self.items == 1 || step == self.step) && (next.items == 1 || step == next.step);
        // Behind half of the circle a step would be one backwards.
        if !fits || step > MASK / 2 {
            return false;
        }
        let Some(items) = self.items.checked_add(next.items) else {
            return false;
        };
        (self.step, self.items) = (step, items);
        true
    }
}

/// What was dropped of a source, in the order in which it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dropped {
    unnumbered: u64,
    runs: VecDeque<Run>,
}

impl Dropped {
    /// So many sub-events of which no number is known.
    #[must_use]
    pub fn unnumbered(items: u64) -> Self {
        Self {
            unnumbered: items,
            runs: VecDeque::new(),
        }
    }

    /// The sub-events in `body`, up to the first that cannot be true.
    #[must_use]
    pub fn of(body: &[u8]) -> Self {
        let mut dropped = Self::default();
        headers(body, |header| dropped.add(&header));
        dropped
    }

    /// One sub-event more.
    pub fn add(&mut self, header: &SubEventHeader) {
        self.push(Run {
            first: header.trigger(TriggerBits::TwentyFour),
            step: 0,
            items: 1,
        });
    }

    /// So many more of which no number is known.
    pub fn add_unnumbered(&mut self, items: u64) {
        self.unnumbered += items;
    }

    /// What was dropped behind this.
    pub fn append(&mut self, behind: &Self) {
        self.unnumbered += behind.unnumbered;
        behind.runs.iter().for_each(|run| self.push(*run));
    }

    fn push(&mut self, run: Run) {
        if self.runs.back_mut().is_some_and(|last| last.join(run)) {
            return;
        }
        self.runs.push_back(run);
        if self.runs.len() > RUNS_MAX {
            let oldest = self.runs.pop_front();
            self.unnumbered += oldest.map_or(0, |run| u64::from(run.items));
        }
    }

    /// Sub-events, with and without a number.
    #[must_use]
    pub fn items(&self) -> u64 {
        let numbered: u64 = self.runs.iter().map(|run| u64::from(run.items)).sum();
        self.unnumbered + numbered
    }

    /// Whether there are numbers to tell.
    #[must_use]
    pub fn has_numbers(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Takes the oldest numbers out.
    pub fn take_run(&mut self) -> Option<Run> {
        self.runs.pop_front()
    }

    /// Takes out what has no number, up to `u32::MAX` of it.
    pub fn take_unnumbered(&mut self) -> u32 {
        let items = u32::try_from(self.unnumbered).unwrap_or(u32::MAX);
        self.unnumbered -= u64::from(items);
        items
    }
}

#[cfg(test)]
mod tests {
    use forebay_wire::subevent::SubEventRepr;
    use proptest::prelude::*;

    use super::*;

    fn header(number: u32) -> SubEventHeader {
        let repr = SubEventRepr {
            id: 0x8000,
            trigger_word: number << 8 | 0x5a,
            ..SubEventRepr::default()
        };
        SubEventHeader::parse(&repr.header_bytes(0)).unwrap()
    }

    fn of(numbers: &[u32]) -> Dropped {
        let mut dropped = Dropped::default();
        numbers
            .iter()
            .for_each(|number| dropped.add(&header(*number)));
        dropped
    }

    fn told(mut dropped: Dropped) -> Vec<u32> {
        let mut all = vec![];
        while let Some(run) = dropped.take_run() {
            all.extend((0..run.items).map(|index| run.number(index, MASK)));
        }
        all
    }

    #[test]
    fn numbers_of_one_step_are_one_run_across_the_wrap() {
        for step in [1, 2, 4] {
            let numbers: Vec<u32> = (0..1_000)
                .map(|at| (MASK - 20).wrapping_add(at * step) & MASK)
                .collect();
            let mut dropped = of(&numbers[..1]);
            dropped.append(&of(&numbers[1..300]));
            dropped.append(&of(&numbers[300..]));
            let first = MASK - 20;
            let items = 1_000;
            assert_eq!(dropped.take_run(), Some(Run { first, step, items }));
            assert_eq!(dropped, Dropped::default());
        }
    }

    #[test]
    fn the_oldest_of_too_many_runs_lose_their_numbers_and_nothing_else() {
        let numbers: Vec<u32> = (0..3_000_u32).map(|at| at * at).collect();
        let mut dropped = of(&numbers);
        dropped.add_unnumbered(3);
        dropped.append(&Dropped::unnumbered(4));
        assert_eq!((dropped.items(), dropped.runs.len()), (3_007, RUNS_MAX));
        assert!(dropped.has_numbers() && !Dropped::unnumbered(7).has_numbers());
        let unnumbered = dropped.take_unnumbered() as usize - 7;
        assert_eq!(told(dropped), numbers[unnumbered..]);
    }

    #[test]
    fn a_step_back_begins_a_run() {
        assert_eq!(of(&[100, 50, 60]).runs.len(), 2);
        assert_eq!(of(&[0, MASK / 2]).runs.len(), 1, "half of the circle");
        assert_eq!(of(&[0, MASK / 2 + 1]).runs.len(), 2);
    }

    #[test]
    fn a_run_travels_with_its_step() {
        let (first, step, items) = (5, 3, 9);
        let run = Run { first, step, items };
        assert_eq!(Run::from_bytes(run.to_bytes(), items), run);
    }

    #[test]
    fn no_more_without_a_number_is_taken_than_a_word_holds() {
        let mut dropped = Dropped::unnumbered(u64::from(u32::MAX) + 7);
        let taken = [dropped.take_unnumbered(), dropped.take_unnumbered()];
        assert_eq!((taken, dropped.items()), ([u32::MAX, 7], 0));
    }

    proptest! {
        /// What comes out is what went in, in its order, however it came.
        #[test]
        fn no_number_is_changed(
            numbers in proptest::collection::vec(prop_oneof![0..20_u32, 0..=MASK], 0..200),
            cut in 0..200_usize,
        ) {
            let cut = cut.min(numbers.len());
            let mut dropped = of(&numbers[..cut]);
            dropped.append(&of(&numbers[cut..]));
            prop_assert_eq!(dropped.items(), numbers.len() as u64);
            prop_assert_eq!(told(dropped), numbers);
        }

        /// The questions to a run, against its numbers one by one; nothing that a peer may write is too much for them.
        #[test]
        fn a_run_answers_as_its_numbers_do(bytes: [u8; 8], items: u32, narrow: bool, about in 0..500_u32, off in -300..300_i32) {
            let bits = if narrow { TriggerBits::Sixteen } else { TriggerBits::TwentyFour };
            let run = Run::from_bytes(bytes, items).narrow(bits);
            prop_assert!(run.items >= 1 && (run.step == 0 || u64::from(run.items - 1) * u64::from(run.step) <= u64::from(bits.mask())));
            prop_assert_eq!(Run::from_bytes(run.to_bytes(), run.items), run);
            let few = Run { items: run.items.min(200), step: run.step % 7, ..run };
            let numbers: Vec<u32> = (0..few.items).map(|index| few.number(index, bits.mask())).collect();
            let number = few.first.wrapping_add(about).wrapping_add_signed(off) & bits.mask();
            prop_assert_eq!(few.contains(bits, number), numbers.contains(&number));
            let behind = numbers.iter().filter(|of| distance(bits, **of, number) > 0).count();
            prop_assert_eq!(few.index_from(bits, number) as usize, behind);
            let rest = few.starting_at(bits, behind as u32);
            prop_assert_eq!(rest.map(|rest| (rest.first, rest.last(bits.mask()))), numbers.get(behind).map(|first| (*first, *numbers.last().unwrap())));
        }
    }
}
