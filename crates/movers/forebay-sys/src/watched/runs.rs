//! Where items lie in a file.

use std::collections::BTreeMap;

/// Entries that are kept: beyond them the two that lie first become one, whose items count by their mean size.
const RUNS_MAX: usize = 1 << 16;

/// Items that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Bytes of the file.
    length: u64,
    items: u64,
    /// Bytes of their payloads.
    bytes: u64,
}

impl Run {
    /// Whether its items are as long as those of another one.
    fn is_like(&self, other: &Self) -> bool {
        let same = |own: u64, theirs: u64| {
            u128::from(own) * u128::from(other.items) == u128::from(theirs) * u128::from(self.items)
        };
        same(self.length, other.length) && same(self.bytes, other.bytes)
    }

    fn add(&mut self, more: &Self) {
        self.length += more.length;
        self.items += more.items;
        self.bytes += more.bytes;
    }

    /// Its whole items in its first `length` bytes; all of these where it has no items.
    fn front(&self, length: u64) -> Self {
        let part = |of: u64, number: u64, all: u64| {
            let part = u128::from(of) * u128::from(number) / u128::from(all.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        let length = length.min(self.length);
        if self.items == 0 {
            let bytes = length;
            return Self {
                length,
                items: 0,
                bytes,
            };
        }
        let items = part(self.items, length, self.length);
        Self {
            length: part(self.length, items, self.items),
            items,
            bytes: part(self.bytes, items, self.items),
        }
    }
}

/// Items that lay behind a cut, or were cut through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Behind {
    pub(super) items: u64,
    pub(super) bytes: u64,
    /// Where they lay: begins and lengths.
    pub(super) ranges: Vec<(u64, u64)>,
}

/// Where items lie. Those that follow each other and are of one size are one entry.
#[derive(Debug, Default)]
pub(super) struct Runs {
    by_begin: BTreeMap<u64, Run>,
}

impl Runs {
    /// So many items, with so many bytes of payload, lie in these bytes of the file; no items: the bytes are counted themselves.
    pub(super) fn add(&mut self, at: u64, length: u64, (items, bytes): (u64, u64)) {
        let more = Run {
            length,
            items,
            bytes,
        };
        let before = self.by_begin.range_mut(..=at).next_back();
        if let Some((begin, run)) = before
            && begin + run.length == at
            && run.is_like(&more)
        {
            run.add(&more);
            return;
        }
        self.by_begin.insert(at, more);
        if self.by_begin.len() > RUNS_MAX {
            self.join_first();
        }
    }

    fn join_first(&mut self) {
        if let Some((begin, mut first)) = self.by_begin.pop_first()
            && let Some((next, second)) = self.by_begin.pop_first()
        {
            first.add(&second);
            // What lies between belongs to nothing.
            first.length = (next - begin) + second.length;
            self.by_begin.insert(begin, first);
        }
    }

    /// Forgets, and tells, all that is not whole in the first `bytes` of the file.
    pub(super) fn cut(&mut self, bytes: u64) -> Behind {
        let mut behind = Behind::default();
        let mut gone = self.by_begin.split_off(&bytes);
        if let Some((&begin, run)) = self.by_begin.range_mut(..bytes).next_back() {
            let front = run.front(bytes - begin);
            if front.length < run.length {
                let rest = Run {
                    length: run.length - front.length,
                    items: run.items - front.items,
                    bytes: run.bytes - front.bytes,
                };
                *run = front;
                gone.insert(begin + front.length, rest);
            }
        }
        for (begin, run) in gone {
            behind.items += run.items;
            behind.bytes += run.bytes;
            match behind.ranges.last_mut() {
                Some((last, length)) if *last + *length == begin => *length += run.length,
                _ => behind.ranges.push((begin, run.length)),
            }
        }
        behind
    }

    /// Where the last item ends.
    pub(super) fn end(&self) -> u64 {
        let last = self.by_begin.last_key_value();
        last.map_or(0, |(begin, run)| begin + run.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_a_cut_is_what_a_list_of_all_items_says() {
        // Of two sizes, with a line's end behind each, and a hole.
        let sizes = (0..900).map(|n| if n % 300 < 200 { 10 } else { 7 + n % 2 });
        let (mut runs, mut items, mut at) = (Runs::default(), Vec::new(), 0);
        for (number, payload) in sizes.enumerate() {
            at += if number == 500 { 1000 } else { 0 };
            runs.add(at, payload + 1, (1, payload));
            items.push((at, at + payload + 1, payload));
            at += payload + 1;
        }
        assert!(runs.by_begin.len() < 310, "{}", runs.by_begin.len());
        for cut in (0..=at + 5).rev() {
            let mut left = Runs::default();
            for (begin, end, payload) in &items {
                left.add(*begin, end - begin, (1, *payload));
            }
            let behind = left.cut(cut);
            let gone: Vec<_> = items.iter().filter(|(_, end, _)| *end > cut).collect();
            let expected = (gone.len() as u64, gone.iter().map(|it| it.2).sum());
            assert_eq!((behind.items, behind.bytes), expected, "cut to {cut}");
            let long: u64 = behind.ranges.iter().map(|(_, length)| length).sum();
            assert_eq!(long, gone.iter().map(|it| it.1 - it.0).sum::<u64>());
            assert!(left.end() <= cut);
            assert_eq!(left.cut(cut), Behind::default(), "it is told once");
            if cut == 4000 {
                assert_eq!(behind.ranges.len(), 2, "before the hole and behind it");
            }
        }
    }

    #[test]
    fn they_do_not_grow_beyond_their_number() {
        let mut runs = Runs::default();
        let mut at = 0;
        for number in 0..2 * RUNS_MAX as u64 {
            let length = 5 + number % 2;
            runs.add(at, length, (1, length));
            at += length;
        }
        assert!(runs.by_begin.len() <= RUNS_MAX);
        let all = runs.cut(0);
        assert_eq!((all.items, all.bytes), (2 * RUNS_MAX as u64, at));
        assert_eq!(all.ranges, [(0, at)]);
    }
}
