//! From a hash to the place of a flow, and which flow goes for a new one: one file for each policy.

mod line_lru;
mod oldest;

use crate::config::Eviction;
use line_lru::LineLru;
use oldest::Oldest;

/// Whether a new flow has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It has.
    Free,
    /// This one has to go for it.
    Instead(u32),
    /// Any other one has to go for it.
    InsteadOfAny,
}

/// An index over a fixed number of places. A hash is given as it was when its flow was entered.
trait Policy {
    /// Places that there are.
    fn places(&self) -> usize;
    /// The place of the flow with this hash that `is_it`.
    fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32>;
    /// Whether a new flow of this hash has a place.
    fn room(&self, hash: u64) -> Room;
    /// Enters a flow for which there is room, and says its place.
    fn enter(&mut self, hash: u64) -> u32;
    /// A packet came for the flow.
    fn touch(&mut self, hash: u64, place: u32);
    /// Takes a flow out.
    fn remove(&mut self, hash: u64, place: u32);
}

/// The index of the policy that is set.
#[derive(Debug)]
pub(crate) enum Index {
    Oldest(Oldest),
    LineLru(LineLru),
}

macro_rules! each {
    ($self:expr, $index:ident => $what:expr) => {
        match $self {
            Index::Oldest($index) => $what,
            Index::LineLru($index) => $what,
        }
    };
}

impl Index {
    pub(crate) fn new(eviction: Eviction, flows: u32) -> Self {
        match eviction {
            Eviction::Oldest => Self::Oldest(Oldest::new(flows)),
            Eviction::LineLru => Self::LineLru(LineLru::new(flows)),
        }
    }

    pub(crate) fn places(&self) -> usize {
        each!(self, index => index.places())
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        each!(self, index => index.find(hash, is_it))
    }

    #[inline]
    pub(crate) fn room(&self, hash: u64) -> Room {
        each!(self, index => index.room(hash))
    }

    #[inline]
    pub(crate) fn enter(&mut self, hash: u64) -> u32 {
        each!(self, index => index.enter(hash))
    }

    #[inline]
    pub(crate) fn touch(&mut self, hash: u64, place: u32) {
        each!(self, index => index.touch(hash, place));
    }

    #[inline]
    pub(crate) fn remove(&mut self, hash: u64, place: u32) {
        each!(self, index => index.remove(hash, place));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Enters and takes out whatever has room, and finds all that is in and nothing else.
    fn agrees_with_a_map(mut index: impl Policy, steps: &[(bool, u64)]) {
        let mut model: HashMap<u64, u32> = HashMap::new();
        for &(is_new, hash) in steps {
            // As the table does: the key tells apart what the index does not.
            let found = index.find(hash, |place| model.get(&hash) == Some(&place));
            assert_eq!(found.is_some(), model.contains_key(&hash), "{hash:x}");
            match found {
                None if is_new && index.room(hash) == Room::Free => {
                    let place = index.enter(hash);
                    assert!((place as usize) < index.places());
                    assert!(model.values().all(|other| *other != place));
                    model.insert(hash, place);
                }
                Some(place) if is_new => index.touch(hash, place),
                Some(place) => {
                    index.remove(hash, place);
                    model.remove(&hash);
                }
                None => {}
            }
            for (hash, place) in &model {
                assert_eq!(index.find(*hash, |found| found == *place), Some(*place));
            }
        }
    }

    /// Hashes that meet at few places, and are told apart by any of their bits.
    fn hashes() -> impl Strategy<Value = u64> {
        (0..3_u64, 28..36_u64).prop_map(|(low, high)| (high % 32) | (low << 32) | (low << 48))
    }

    proptest! {
        #[test]
        fn both_find_what_was_entered(
            steps in proptest::collection::vec((any::<bool>(), hashes()), 0..300),
        ) {
            agrees_with_a_map(Oldest::new(19), &steps);
            agrees_with_a_map(LineLru::new(32), &steps);
        }
    }
}
