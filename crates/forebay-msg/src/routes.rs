//! The subscribers of each tag, remembered.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Tags whose subscribers are remembered. One more, and all are looked up anew.
const ROUTES_MAX: usize = 1 << 20;

/// Places of subscribers by tag.
///
/// Sources come in turn more often than not: the tag that came after the last one the time before is tried first, which needs neither hash
/// nor table, and lies beside it in memory. Many tags have the same subscribers, whose places are kept once.
#[derive(Debug)]
pub(crate) struct Routes {
    /// In the order in which they came first.
    order: Vec<Step>,
    by_tag: HashMap<u64, Found, TagHashes>,
    lists: Vec<Box<[usize]>>,
    by_places: HashMap<Box<[usize]>, u32>,
    /// In `order`, where the last tag was found.
    last: usize,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    tag: u64,
    list: u32,
}

/// Where a tag is in `order`, and its places in `lists`: one entry of the table has all that is needed.
#[derive(Clone, Copy, Debug)]
struct Found {
    step: u32,
    list: u32,
}

impl Routes {
    pub(crate) fn new() -> Self {
        Self {
            order: Vec::new(),
            by_tag: HashMap::with_hasher(TagHashes::new()),
            lists: Vec::new(),
            by_places: HashMap::new(),
            last: 0,
        }
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.order.clear();
        self.by_tag.clear();
        self.lists.clear();
        self.by_places.clear();
        self.last = 0;
    }

    /// The places of a tag, which `look_up` finds when they are not known.
    #[inline]
    pub(crate) fn places(&mut self, tag: u64, look_up: impl FnOnce() -> Box<[usize]>) -> &[usize] {
        let list = match self.expected(tag) {
            Some(list) => list,
            None => self.find(tag, look_up),
        };
        &self.lists[list as usize]
    }

    /// The last tag again, or the one after it.
    #[inline]
    fn expected(&mut self, tag: u64) -> Option<u32> {
        let again = self.order.get(self.last)?;
        if again.tag == tag {
            return Some(again.list);
        }
        let after = if self.last + 1 < self.order.len() {
            self.last + 1
        } else {
            0
        };
        let next = self.order[after];
        (next.tag == tag).then(|| {
            self.last = after;
            next.list
        })
    }

    #[inline]
    fn find(&mut self, tag: u64, look_up: impl FnOnce() -> Box<[usize]>) -> u32 {
        if let Some(found) = self.by_tag.get(&tag) {
            self.last = found.step as usize;
            return found.list;
        }
        self.add(tag, look_up())
    }

    #[cold]
    fn add(&mut self, tag: u64, places: Box<[usize]>) -> u32 {
        if self.order.len() >= ROUTES_MAX {
            self.clear();
        }
        let list = match self.by_places.get(&places) {
            Some(list) => *list,
            None => {
                // At most one for each tag, of which there are fewer than 2³².
                let list = self.lists.len() as u32;
                self.lists.push(places.clone());
                self.by_places.insert(places, list);
                list
            }
        };
        self.last = self.order.len();
        let step = self.last as u32;
        self.order.push(Step { tag, list });
        self.by_tag.insert(tag, Found { step, list });
        list
    }
}

/// Hashes of tags: one multiplication, with a start that others do not know. Each message of another tag needs one.
#[derive(Clone, Copy, Debug)]
struct TagHashes(u64);

impl TagHashes {
    fn new() -> Self {
        Self(RandomState::new().hash_one(0_u64))
    }
}

impl BuildHasher for TagHashes {
    type Hasher = TagHasher;

    #[inline]
    fn build_hasher(&self) -> TagHasher {
        TagHasher(self.0)
    }
}

#[derive(Clone, Copy, Debug)]
struct TagHasher(u64);

impl Hasher for TagHasher {
    #[inline]
    fn write_u64(&mut self, tag: u64) {
        // An odd number without a pattern: 2⁶⁴ over the golden ratio.
        let product = u128::from(self.0 ^ tag) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tags_in_a_row_and_tags_that_differ_above_are_told_apart() {
        let hashes = TagHashes::new();
        for shift in [0, 16, 32, 48] {
            let all = (0..4096_u64).map(|number| hashes.hash_one(number << shift));
            let (low, high): (HashSet<u64>, HashSet<u64>) =
                all.map(|hash| (hash & 0xfff, hash >> 57)).unzip();
            assert!(low.len() > 1500, "{shift}: {} places", low.len());
            assert!(high.len() > 64, "{shift}: {} marks", high.len());
        }
    }

    #[test]
    fn places_are_those_of_the_tag_in_any_order() {
        let mut routes = Routes::new();
        let of = |tag: u64| -> Box<[usize]> { (0..tag as usize % 3).collect() };
        // In turn, twice over, then each again, backwards, and in leaps.
        let turns = (0..50).chain(0..50).chain((0..50).flat_map(|tag| [tag; 3]));
        let leaps = (0..50_u64).rev().chain((0..200).map(|at| at * 17 % 50));
        let mut looked_up = 0;
        for tag in turns.chain(leaps) {
            let places = routes.places(tag, || {
                looked_up += 1;
                of(tag)
            });
            assert_eq!(places, &*of(tag), "{tag}");
        }
        assert_eq!(looked_up, 50);
        assert_eq!(routes.lists.len(), 3);
        routes.clear();
        assert_eq!(routes.places(4, || [9].into()), [9]);
    }

    #[test]
    fn routes_of_any_number_of_tags_take_bounded_memory() {
        let mut routes = Routes::new();
        let mut looked_up = 0;
        for tag in 0..ROUTES_MAX as u64 + 10 {
            routes.places(tag, || Box::new([3]));
            assert!(routes.order.len() <= ROUTES_MAX && routes.by_tag.len() == routes.order.len());
        }
        // Among those that were forgotten.
        let places = routes.places(7, || {
            looked_up += 1;
            [5].into()
        });
        assert_eq!((places, looked_up), ([5].as_slice(), 1));
    }
}
