//! The subscribers of each tag, remembered.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

/// Tags whose subscribers are remembered. One more, and all are looked up anew.
const ROUTES_MAX: usize = 1 << 20;
/// Places in all lists, 32 MiB of them. With more, all are looked up anew.
const PLACES_MAX: usize = 1 << 22;
/// Stands for the list of a tag whose subscribers have changed. There are fewer lists than places.
const CHANGED: u32 = u32::MAX;

/// Places of subscribers by tag.
///
/// Sources come in turn more often than not: the tag that came after the last one the time before is tried first, which needs neither hash
/// nor table, and lies beside it in memory. Many tags have the same subscribers, whose places are kept once.
#[derive(Debug)]
pub(crate) struct Routes {
    /// In the order in which they came first.
    order: Vec<Step>,
    by_tag: HashMap<u64, Found, TagHashes>,
    lists: Vec<Arc<[usize]>>,
    by_places: HashMap<Arc<[usize]>, u32>,
    /// In all lists.
    places: usize,
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
            places: 0,
            last: 0,
        }
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.order.clear();
        self.by_tag.clear();
        self.lists.clear();
        self.by_places.clear();
        self.places = 0;
        self.last = 0;
    }

    /// Forgets the places of a tag.
    pub(crate) fn forget(&mut self, tag: u64) {
        if let Some(found) = self.by_tag.get_mut(&tag) {
            found.list = CHANGED;
            self.order[found.step as usize].list = CHANGED;
        }
    }

    /// Tags whose places are known.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        let known = |step: &&Step| step.list != CHANGED;
        self.order.iter().filter(known).count()
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
        let known = |step: &Step| Some(step.list).filter(|list| *list != CHANGED);
        let again = self.order.get(self.last)?;
        if again.tag == tag {
            return known(again);
        }
        let after = if self.last + 1 < self.order.len() {
            self.last + 1
        } else {
            0
        };
        let next = &self.order[after];
        if next.tag != tag {
            return None;
        }
        self.last = after;
        known(next)
    }

    #[inline]
    fn find(&mut self, tag: u64, look_up: impl FnOnce() -> Box<[usize]>) -> u32 {
        match self.by_tag.get(&tag) {
            Some(found) if found.list != CHANGED => {
                self.last = found.step as usize;
                found.list
            }
            _ => self.add(tag, look_up()),
        }
    }

    #[cold]
    fn add(&mut self, tag: u64, places: Box<[usize]>) -> u32 {
        let is_new = !self.by_tag.contains_key(&tag);
        let more = if self.by_places.contains_key(&*places) {
            0
        } else {
            places.len()
        };
        if (is_new && self.order.len() >= ROUTES_MAX) || self.places + more > PLACES_MAX {
            self.clear();
        }
        let list = self.list_of(places);
        if let Some(found) = self.by_tag.get_mut(&tag) {
            found.list = list;
            self.last = found.step as usize;
            self.order[self.last].list = list;
            return list;
        }
        self.last = self.order.len();
        let step = self.last as u32;
        self.order.push(Step { tag, list });
        self.by_tag.insert(tag, Found { step, list });
        list
    }

    fn list_of(&mut self, places: Box<[usize]>) -> u32 {
        if let Some(list) = self.by_places.get(&*places) {
            return *list;
        }
        let list = self.lists.len() as u32;
        self.places += places.len();
        let places: Arc<[usize]> = places.into();
        self.lists.push(Arc::clone(&places));
        self.by_places.insert(places, list);
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

    #[test]
    fn a_tag_that_has_changed_is_looked_up_again_and_no_other() {
        let mut routes = Routes::new();
        for tag in 0..10 {
            routes.places(tag, || [1].into());
        }
        let never = || -> Box<[usize]> { unreachable!("it is known") };
        // The last one, the one after it, and one that needs the table.
        for tag in [9, 0, 5] {
            routes.forget(tag);
            assert_eq!(routes.known(), 9);
            assert_eq!(routes.places(tag, || [2, 3].into()), [2, 3]);
            assert_eq!(routes.places(tag, never), [2, 3]);
            assert_eq!(routes.places(1, never), [1]);
            assert_eq!(routes.places(tag, never), [2, 3]);
        }
        routes.forget(77);
        assert_eq!((routes.order.len(), routes.lists.len()), (10, 2));
    }

    #[test]
    fn places_of_any_number_of_subscribers_take_bounded_memory() {
        let mut routes = Routes::new();
        let of = |tag: u64| -> Box<[usize]> { (tag as usize..tag as usize + 4096).collect() };
        let mut most = 0;
        for tag in 0..1100 {
            // One tag that changes all the time, and others.
            routes.forget(0);
            assert_eq!(routes.places(tag % 2 * tag, || of(tag)), &*of(tag));
            let sum: usize = routes.lists.iter().map(|list| list.len()).sum();
            assert_eq!(sum, routes.places);
            assert_eq!(routes.by_places.len(), routes.lists.len());
            most = most.max(sum);
        }
        assert_eq!(most, PLACES_MAX, "and all were forgotten then");
        assert!(routes.places < PLACES_MAX / 2);
    }
}
