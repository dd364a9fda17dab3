//! Streams whose every byte follows from the seed, and what has come of them.

use std::collections::BTreeMap;

use forebay_emu::rng::Xoshiro256;

/// Length of the pattern that streams repeat: prime, so that no packet's length divides it.
const PERIOD: usize = 65_521;
/// Most bytes of a payload.
const PAYLOAD_MAX: usize = 9_000;

/// Every stream of a world.
pub(crate) struct Pattern(Vec<u8>);

impl Pattern {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Xoshiro256::new(seed ^ 0x5eed);
        let mut bytes: Vec<u8> = (0..PERIOD).map(|_| random.bits() as u8).collect();
        bytes.extend_from_within(..PAYLOAD_MAX);
        Self(bytes)
    }

    /// The bytes of a sender's stream from `offset` on.
    pub(crate) fn bytes(&self, sender: usize, offset: u64, length: usize) -> &[u8] {
        let at = (offset + 7_919 * sender as u64) % PERIOD as u64;
        &self.0[at as usize..at as usize + length]
    }
}

/// Ranges of a stream, none touching another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds one; false when a part of it was there.
    pub(crate) fn add(&mut self, begin: u64, end: u64) -> bool {
        if begin >= end {
            return true;
        }
        let before = self.0.range(..=begin).next_back().map(|(b, e)| (*b, *e));
        let after = self.0.range(begin..).next().map(|(b, e)| (*b, *e));
        if before.is_some_and(|(_, e)| e > begin) || after.is_some_and(|(b, _)| b < end) {
            return false;
        }
        let mut joined = (begin, end);
        if let Some((b, _)) = before.filter(|(_, e)| *e == begin) {
            joined.0 = b;
        }
        if let Some((b, e)) = after.filter(|(b, _)| *b == end) {
            self.0.remove(&b);
            joined.1 = e;
        }
        self.0.insert(joined.0, joined.1);
        true
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|(begin, end)| end - begin).sum()
    }

    pub(crate) fn list(&self) -> Vec<(u64, u64)> {
        self.0.iter().map(|(begin, end)| (*begin, *end)).collect()
    }
}
