//! Clients by number, and sets of them.

use core::fmt;

/// Most clients of one multiplexer.
pub const CLIENTS_MAX: usize = 256;
const WORDS: usize = CLIENTS_MAX / 64;

/// Number of a client, below [`CLIENTS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(u8);

const _: () = assert!(CLIENTS_MAX == 1 << u8::BITS);

impl ClientId {
    /// The client of this number: every number of 8 bits is one.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).map(Self)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}", self.0)
    }
}

/// A set of clients, a bit each: what is asked of it costs the same for 2 of them and for 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientSet([u64; WORDS]);

impl ClientSet {
    /// None of them.
    pub const EMPTY: Self = Self([0; WORDS]);
    /// All of them.
    pub const ALL: Self = Self([u64::MAX; WORDS]);

    /// Adds a client.
    #[inline]
    pub const fn insert(&mut self, client: ClientId) {
        self.0[client.index() / 64] |= 1 << (client.0 % 64);
    }

    /// Takes a client out.
    #[inline]
    pub const fn remove(&mut self, client: ClientId) {
        self.0[client.index() / 64] &= !(1 << (client.0 % 64));
    }

    /// Whether a client is in it.
    #[must_use]
    #[inline]
    pub const fn contains(&self, client: ClientId) -> bool {
        self.0[client.index() / 64] & 1 << (client.0 % 64) != 0
    }

    /// Whether it has no client.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// How many it has.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The clients that are in both.
    #[must_use]
    #[inline]
    pub fn and(&self, other: &Self) -> Self {
        let mut both = *self;
        for (word, other) in both.0.iter_mut().zip(other.0) {
            *word &= other;
        }
        both
    }

    /// Takes out all that are in the other.
    #[inline]
    pub fn take_out(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word &= !other;
        }
    }

    /// The first one behind `cursor` on the circle of all numbers; `cursor` itself comes last.
    #[must_use]
    #[inline]
    pub fn next_after(&self, cursor: ClientId) -> Option<ClientId> {
        let start = cursor.0.wrapping_add(1);
        let (word, bit) = (usize::from(start / 64), start % 64);
        let first = self.0[word] & u64::MAX << bit;
        if first != 0 {
            return Some(Self::at(word, first));
        }
        (1..=WORDS)
            .map(|step| (word + step) % WORDS)
            .find(|word| self.0[*word] != 0)
            .map(|word| Self::at(word, self.0[word]))
    }

    /// The clients that are in it, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = ClientId> {
        let mut left = *self;
        core::iter::from_fn(move || {
            let first = left.next_after(ClientId(u8::MAX))?;
            left.remove(first);
            Some(first)
        })
    }

    const fn at(word: usize, bits: u64) -> ClientId {
        ClientId((word * 64) as u8 + bits.trailing_zeros() as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_set_is_as_a_tree_of_numbers(
            steps in proptest::collection::vec((any::<u8>(), any::<bool>()), 0..60),
            cursor: u8,
            other in proptest::collection::btree_set(any::<u8>(), 0..200),
        ) {
            let (mut set, mut model) = (ClientSet::EMPTY, BTreeSet::new());
            for (number, is_added) in steps {
                if is_added {
                    set.insert(ClientId(number));
                    model.insert(number);
                } else {
                    set.remove(ClientId(number));
                    model.remove(&number);
                }
            }
            let found: Vec<_> = set.iter().map(|client| client.0).collect();
            prop_assert!(found.iter().eq(model.iter()), "{found:?} {model:?}");
            prop_assert_eq!((set.is_empty(), set.len() as usize), (model.is_empty(), model.len()));
            let next = model.iter().copied().min_by_key(|number| number.wrapping_sub(cursor).wrapping_sub(1));
            prop_assert_eq!(set.next_after(ClientId(cursor)).map(|client| client.0), next);
            let mut others = ClientSet::EMPTY;
            other.iter().for_each(|number| others.insert(ClientId(*number)));
            let both: Vec<_> = set.and(&others).iter().map(|client| client.0).collect();
            prop_assert!(both.iter().eq(model.intersection(&other)));
            set.take_out(&others);
            let rest: Vec<_> = set.iter().map(|client| client.0).collect();
            prop_assert!(rest.iter().eq(model.difference(&other)));
        }
    }

    #[test]
    fn all_and_none() {
        assert_eq!(ClientSet::ALL.iter().count(), CLIENTS_MAX);
        assert!(ClientSet::EMPTY.is_empty());
        assert_eq!(ClientSet::EMPTY.next_after(ClientId(3)), None);
    }
}
