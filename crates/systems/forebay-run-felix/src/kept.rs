//! Blocks that are read and not given back: chunks of them are on their way to subscribers, which look at them where they lie.

use std::collections::VecDeque;

/// Messages on their way from each block that is not given back, in the order of the ring.
#[derive(Debug)]
pub(super) struct KeptBlocks {
    /// Number of the first of them: blocks of the ring before it.
    first: u64,
    /// Messages on their way, by block.
    lent: VecDeque<u32>,
}

impl KeptBlocks {
    /// None is kept; so many blocks were given back.
    pub(super) fn from(first: u64) -> Self {
        Self {
            first,
            lent: VecDeque::new(),
        }
    }

    /// The next block is read: its number.
    pub(super) fn read(&mut self) -> u64 {
        self.lent.push_back(0);
        self.first + self.lent.len() as u64 - 1
    }

    /// A message is on its way from that block.
    pub(super) fn lend(&mut self, block: u64) {
        if let Some(lent) = self.at(block) {
            *lent += 1;
        }
    }

    /// It has come back.
    pub(super) fn take_back(&mut self, block: u64) {
        if let Some(lent) = self.at(block) {
            *lent -= 1;
        }
    }

    fn at(&mut self, block: u64) -> Option<&mut u32> {
        let place = usize::try_from(block.checked_sub(self.first)?).ok()?;
        self.lent.get_mut(place)
    }

    /// Blocks from the first on that nobody needs any more are not kept any longer: how many blocks of the ring can be given back in all.
    pub(super) fn give_back(&mut self) -> u64 {
        while self.lent.front() == Some(&0) {
            self.lent.pop_front();
            self.first += 1;
        }
        self.first
    }

    /// How many are kept.
    pub(super) fn len(&self) -> usize {
        self.lent.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_given_back_when_it_and_all_before_it_are_done() {
        let mut kept = KeptBlocks::from(7);
        assert_eq!(kept.give_back(), 7);
        assert_eq!([kept.read(), kept.read(), kept.read()], [7, 8, 9]);
        kept.lend(7);
        kept.lend(8);
        kept.lend(8);
        kept.take_back(8);
        assert_eq!(kept.give_back(), 7, "the first is on its way");
        kept.take_back(7);
        assert_eq!((kept.give_back(), kept.len()), (8, 2));
        kept.take_back(8);
        assert_eq!((kept.give_back(), kept.len()), (10, 0));
        // What is not kept, is not lent.
        kept.take_back(8);
        assert_eq!(kept.read(), 10);
    }
}
