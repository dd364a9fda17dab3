//! Putting IPv4 fragments together (RFC 791, section 3.2), within limits.

use std::collections::HashMap;
use std::net::IpAddr;

use super::packet::Fragment;

/// Datagrams that can be unfinished at one time; the oldest gives way.
pub const FRAGMENTED_MAX: usize = 1_024;
/// How long the fragments of a datagram may be apart, ns (Linux: 30 s).
pub const FRAGMENT_LIFE_NS: u64 = 30_000_000_000;
const DATAGRAM_MAX_BYTES: usize = 65_535;

type Key = (IpAddr, IpAddr, u32);

/// A datagram of which parts are missing.
#[derive(Debug)]
struct Unfinished {
    since_ns: u64,
    order: u64,
    bytes: Vec<u8>,
    /// The parts that are there, sorted, not overlapping: start and end.
    parts: Vec<(usize, usize)>,
    total: Option<usize>,
}

/// What became of a fragment.
enum Fit {
    Waiting,
    Whole,
    Contradiction,
}

impl Unfinished {
    fn insert(&mut self, fragment: &Fragment<'_>) -> Fit {
        let part = (
            fragment.place.start,
            fragment.place.start + fragment.bytes.len(),
        );
        let beyond = self
            .total
            .is_some_and(|total| part.1 > total || (fragment.place.is_last && part.1 != total));
        let behind =
            fragment.place.is_last && self.parts.last().is_some_and(|last| last.1 > part.1);
        if part.1 > DATAGRAM_MAX_BYTES || beyond || behind {
            return Fit::Contradiction;
        }
        if fragment.place.is_last {
            self.total = Some(part.1);
        }
        if !self.parts.contains(&part) {
            if self
                .parts
                .iter()
                .any(|have| part.0 < have.1 && have.0 < part.1)
            {
                return Fit::Contradiction;
            }
            self.store(part, fragment.bytes);
        }
        if self.is_whole() {
            Fit::Whole
        } else {
            Fit::Waiting
        }
    }

    fn store(&mut self, part: (usize, usize), bytes: &[u8]) {
        let room = self.bytes.len().max(part.1);
        self.bytes.resize(room, 0);
        self.bytes[part.0..part.1].copy_from_slice(bytes);
        let at = self.parts.partition_point(|have| have.0 < part.0);
        self.parts.insert(at, part);
    }

    fn is_whole(&self) -> bool {
        let mut end = 0;
        for part in &self.parts {
            if part.0 != end {
                return false;
            }
            end = part.1;
        }
        self.total == Some(end)
    }
}

/// All datagrams of which parts are missing.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    unfinished: HashMap<Key, Unfinished>,
    order: u64,
    begun: u64,
    failed: u64,
}

impl Fragments {
    /// Takes a fragment; gives the datagram, headers and all, if it is the last one missing.
    pub(super) fn insert(&mut self, now_ns: u64, fragment: &Fragment<'_>) -> Option<Vec<u8>> {
        let key = (fragment.source, fragment.destination, fragment.place.id);
        self.expire(now_ns);
        if !self.unfinished.contains_key(&key) {
            self.begun += 1;
            self.make_room();
        }
        self.order += 1;
        let order = self.order;
        let unfinished = self.unfinished.entry(key).or_insert_with(|| Unfinished {
            since_ns: now_ns,
            order,
            bytes: Vec::new(),
            parts: Vec::new(),
            total: None,
        });
        match unfinished.insert(fragment) {
            Fit::Waiting => None,
            Fit::Whole => self.unfinished.remove(&key).map(|whole| whole.bytes),
            Fit::Contradiction => {
                self.unfinished.remove(&key);
                self.failed += 1;
                None
            }
        }
    }

    /// Datagrams of which a fragment was taken in.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    pub(super) fn open(&self) -> usize {
        self.unfinished.len()
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// Counts a datagram that was whole, but of no use.
    pub(super) fn fail(&mut self) {
        self.failed += 1;
    }

    fn expire(&mut self, now_ns: u64) {
        let before = self.unfinished.len();
        self.unfinished
            .retain(|_, datagram| now_ns.saturating_sub(datagram.since_ns) <= FRAGMENT_LIFE_NS);
        self.failed += (before - self.unfinished.len()) as u64;
    }

    fn make_room(&mut self) {
        if self.unfinished.len() < FRAGMENTED_MAX {
            return;
        }
        let oldest = self
            .unfinished
            .iter()
            .min_by_key(|(_, datagram)| datagram.order)
            .map(|(key, _)| *key);
        if let Some(key) = oldest {
            self.unfinished.remove(&key);
            self.failed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_wire::packet::FragmentPlace;
    use proptest::prelude::*;

    fn fragment(id: u32, start: usize, is_last: bool, bytes: &[u8]) -> Fragment<'_> {
        let (source, destination) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        Fragment {
            source,
            destination,
            place: FragmentPlace { id, start, is_last },
            bytes,
        }
    }

    #[test]
    fn fragments_in_any_order_with_a_repeat() {
        let mut fragments = Fragments::default();
        assert_eq!(fragments.insert(0, &fragment(1, 16, true, b"end")), None);
        assert_eq!(
            fragments.insert(0, &fragment(1, 0, false, b"01234567")),
            None
        );
        assert_eq!(
            fragments.insert(0, &fragment(1, 0, false, b"01234567")),
            None
        );
        assert_eq!(
            fragments
                .insert(0, &fragment(1, 8, false, b"89abcdef"))
                .unwrap(),
            b"0123456789abcdefend"
        );
        assert_eq!((fragments.open(), fragments.failed()), (0, 0));
    }

    #[test]
    fn contradictions_age_and_number_are_failures() {
        let mut fragments = Fragments::default();
        fragments.insert(0, &fragment(1, 0, false, b"01234567"));
        fragments.insert(0, &fragment(1, 4, true, b"overlaps"));
        assert_eq!((fragments.open(), fragments.failed()), (0, 1));
        fragments.insert(0, &fragment(2, 65_528, true, b"too long"));
        assert_eq!((fragments.open(), fragments.failed()), (0, 2));
        for id in 0..=FRAGMENTED_MAX as u32 {
            fragments.insert(1, &fragment(id, 0, false, b"x"));
        }
        assert_eq!((fragments.open(), fragments.failed()), (FRAGMENTED_MAX, 3));
        fragments.insert(FRAGMENT_LIFE_NS + 2, &fragment(9_999, 0, false, b"x"));
        assert_eq!(
            (fragments.open(), fragments.failed()),
            (1, 3 + FRAGMENTED_MAX as u64)
        );
    }

    proptest! {
        #[test]
        fn any_cut_in_any_order_gives_the_datagram_back(
            bytes in proptest::collection::vec(any::<u8>(), 9..2_000),
            unit in 1_usize..40,
            keys in proptest::collection::vec(any::<u32>(), 300),
        ) {
            let size = unit * 8;
            let mut parts: Vec<_> = bytes.chunks(size).enumerate().collect();
            let last = parts.len() - 1;
            parts.sort_by_key(|(index, _)| keys[index % keys.len()]);
            let mut fragments = Fragments::default();
            let mut whole = None;
            for (index, part) in parts {
                prop_assert!(whole.is_none());
                whole = fragments.insert(0, &fragment(1, index * size, index == last, part));
            }
            prop_assert_eq!(whole, Some(bytes));
        }
    }
}
