//! Rows of 16 places, as ipfixprobe has them: the hash says the row, and in a full row the flow goes whose last packet came first.

use super::{Policy, Room};

/// Places of a row.
const WAYS: usize = 16;
/// Bits that number one of them.
const WAY_BITS: u32 = 4;
/// The number 1 in each of 16 numbers.
const ONES: u64 = 0x1111_1111_1111_1111;
/// The highest bit in each of 16 numbers.
const HIGHS: u64 = 0x8888_8888_8888_8888;

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Row {
    /// 16 bits of the hash of each.
    tags: [u16; WAYS],
    /// The ways by their last packet, 4 bits each: in the lowest bits the one that had it last.
    order: u64,
    /// A bit for each way that has a flow.
    used: u16,
}

const _: () = assert!(size_of::<Row>() == 64);

/// Rows by the low bits of the hash.
#[derive(Debug)]
pub(crate) struct LineLru {
    rows: Vec<Row>,
    mask: usize,
}

impl LineLru {
    pub(super) fn new(flows: u32) -> Self {
        let rows = (flows as usize).next_power_of_two() / WAYS;
        let row = Row {
            tags: [0; WAYS],
            order: 0xfedc_ba98_7654_3210,
            used: 0,
        };
        Self {
            rows: vec![row; rows],
            mask: rows - 1,
        }
    }

    const fn row(&self, hash: u64) -> usize {
        hash as usize & self.mask
    }

    const fn tag(hash: u64) -> u16 {
        (hash >> 48) as u16
    }
}

impl Row {
    /// Puts a way in front of all others.
    const fn move_to_front(&mut self, way: u64) {
        let differing = self.order ^ (way * ONES);
        // The lowest number that is 0 is found exactly; a borrow only disturbs higher ones.
        let found = differing.wrapping_sub(ONES) & !differing & HIGHS;
        let at = found.trailing_zeros() & !(WAY_BITS - 1);
        let newer = (1 << at) - 1;
        let older = !(newer << WAY_BITS | 0xf);
        self.order = self.order & older | (self.order & newer) << WAY_BITS | way;
    }
}

impl Policy for LineLru {
    fn places(&self) -> usize {
        self.rows.len() * WAYS
    }

    #[inline]
    fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let at = self.row(hash);
        let (row, tag) = (&self.rows[at], Self::tag(hash));
        let mut same = 0_u16;
        for (way, other) in row.tags.iter().enumerate() {
            same |= u16::from(*other == tag) << way;
        }
        same &= row.used;
        while same != 0 {
            let place = (at << WAY_BITS) as u32 | same.trailing_zeros();
            if is_it(place) {
                return Some(place);
            }
            same &= same - 1;
        }
        None
    }

    #[inline]
    fn room(&self, hash: u64) -> Room {
        let at = self.row(hash);
        let row = &self.rows[at];
        if row.used == u16::MAX {
            let last = (row.order >> 60) as u32;
            Room::Instead((at << WAY_BITS) as u32 | last)
        } else {
            Room::Free
        }
    }

    #[inline]
    fn enter(&mut self, hash: u64) -> u32 {
        let at = self.row(hash);
        let row = &mut self.rows[at];
        let way = row.used.trailing_ones();
        row.used |= 1 << way;
        row.tags[way as usize] = Self::tag(hash);
        row.move_to_front(u64::from(way));
        (at << WAY_BITS) as u32 | way
    }

    #[inline]
    fn touch(&mut self, hash: u64, place: u32) {
        let at = self.row(hash);
        self.rows[at].move_to_front(u64::from(place) & 0xf);
    }

    #[inline]
    fn remove(&mut self, hash: u64, place: u32) {
        let at = self.row(hash);
        self.rows[at].used &= !(1 << (place & 0xf));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_of_a_row_goes() {
        let mut index = LineLru::new(32);
        let hash = |tag: u64| tag << 48 | 1;
        for tag in 0..16 {
            assert_eq!(index.room(hash(tag)), Room::Free);
            assert_eq!(index.enter(hash(tag)), 16 + tag as u32);
        }
        for tag in 0..16 {
            assert_eq!(index.room(hash(99)), Room::Instead(16 + tag as u32));
            index.touch(hash(tag), 16 + tag as u32);
        }
        index.touch(hash(0), 16);
        index.touch(hash(15), 31);
        assert_eq!(index.room(hash(99)), Room::Instead(17));
        // The other row is empty.
        assert_eq!(index.room(0), Room::Free);
    }
}
