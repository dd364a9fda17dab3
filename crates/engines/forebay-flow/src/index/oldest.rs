//! All room is used: a table with open addressing, at most half full, without tombstones.

use super::{Policy, Room};

/// A cell of the table without a flow.
const EMPTY: u64 = u64::MAX;

/// 32 bits of the hash and the place, in a cell near where the hash says. Reading goes on to the next empty cell, so that taking out moves back what is
/// behind.
#[derive(Debug)]
pub(crate) struct Oldest {
    cells: Vec<u64>,
    mask: usize,
    free: Vec<u32>,
    places: usize,
}

impl Oldest {
    pub(super) fn new(flows: u32) -> Self {
        let cells = (flows as usize * 2).next_power_of_two();
        Self {
            cells: vec![EMPTY; cells],
            mask: cells - 1,
            free: (0..flows).rev().collect(),
            places: flows as usize,
        }
    }

    const fn home(&self, cell: u64) -> usize {
        (cell >> 32) as usize & self.mask
    }
}

impl Policy for Oldest {
    fn places(&self) -> usize {
        self.places
    }

    #[inline]
    fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        // At least half of the cells are empty.
        loop {
            let cell = self.cells[at];
            if cell == EMPTY {
                return None;
            }
            if cell >> 32 == hash >> 32 && is_it(cell as u32) {
                return Some(cell as u32);
            }
            at = (at + 1) & self.mask;
        }
    }

    #[inline]
    fn room(&self, _: u64) -> Room {
        if self.free.is_empty() {
            Room::InsteadOfAny
        } else {
            Room::Free
        }
    }

    #[inline]
    fn enter(&mut self, hash: u64) -> u32 {
        let Some(place) = self.free.pop() else {
            unreachable!("there is room")
        };
        let mut at = self.home(hash);
        while self.cells[at] != EMPTY {
            at = (at + 1) & self.mask;
        }
        self.cells[at] = hash >> 32 << 32 | u64::from(place);
        place
    }

    #[inline]
    fn touch(&mut self, _: u64, _: u32) {}

    #[inline]
    fn remove(&mut self, hash: u64, place: u32) {
        let mut hole = self.home(hash);
        while self.cells[hole] as u32 != place || self.cells[hole] == EMPTY {
            hole = (hole + 1) & self.mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let cell = self.cells[at];
            if cell == EMPTY {
                break;
            }
            // It may go back to the hole if that is not in front of its home.
            let from_home = at.wrapping_sub(self.home(cell)) & self.mask;
            if from_home >= at.wrapping_sub(hole) & self.mask {
                self.cells[hole] = cell;
                hole = at;
            }
        }
        self.cells[hole] = EMPTY;
        self.free.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_of_one_hash_are_told_apart() {
        let mut index = Oldest::new(4);
        let hash = 0xabcd_0000_0000;
        let places = [hash, hash, hash + 1].map(|hash| index.enter(hash));
        for place in places {
            assert_eq!(index.find(hash, |found| found == place), Some(place));
        }
        assert_eq!(index.find(hash, |_| false), None);
        // Of another hash none is asked for.
        assert_eq!(index.find(1 << 63, |_| true), None);
        index.remove(hash, places[0]);
        assert_eq!(index.find(hash, |found| found == places[0]), None);
        assert_eq!(
            index.find(hash, |found| found == places[2]),
            Some(places[2])
        );
    }

    #[test]
    fn at_most_half_of_the_cells_are_in_use() {
        let cells = [1, 2, 5, 8, 9].map(|flows| Oldest::new(flows).cells.len());
        assert_eq!(cells, [2, 4, 16, 16, 32]);
    }
}
