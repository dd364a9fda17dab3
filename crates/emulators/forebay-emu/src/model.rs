//! The content of a sub-event, a function of the seed, the source and the trigger number alone.
//!
//! Header, then as on a TRB3: one word `(n << 16) | address` and `n` data words (again for each
//! further 65,535 words), then `0x00015555` and a status word 1. The first two data words are a
//! hash of (seed, source, trigger number); the others are a run of a table of random bytes whose
//! start the hash chooses. So a sub-event that was shifted, cut, mixed up or changed in any bit
//! differs from what the model makes for its header.

use forebay_wire::hadtu::ByteOrder;
use forebay_wire::subevent::{
    DECODING_WORDS_32, STATUS_ADDRESS, SUB_EVENT_HEADER_BYTES, SubEventHeader, TriggerBits,
};

use crate::config::{CUT_BYTES, Config, Group, Huge};
use crate::rng::{Xoshiro256, hash};
use crate::sizes::SizeTable;

const PATTERN_BYTES: usize = 16 << 10;
/// The table goes on from its start for so much, so that a short run is one copy.
const PATTERN_OVERLAP_BYTES: usize = 4 << 10;
const MAX_SUBSUB_WORDS: usize = 0xffff;
const STATUS_HEADER: u32 = (1 << 16) | STATUS_ADDRESS as u32;
const STATUS_OK: u32 = 1;

/// What a sub-event is before its bytes are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) bytes: u32,
    pub(crate) hash: u64,
}

#[derive(Debug, Clone)]
struct SourceModel {
    key: u64,
    table: usize,
    huge_phase: u32,
    id: u32,
}

/// Makes sub-events.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    sources: Vec<SourceModel>,
    tables: Vec<SizeTable>,
    pattern: Vec<u8>,
    huge: Option<Huge>,
    tag_key: u64,
    bits: TriggerBits,
    order: ByteOrder,
    decoding: u32,
    exact_cuts: bool,
}

impl Model {
    pub(crate) fn new(config: &Config) -> Self {
        let table_of = |(i, g): (usize, &Group)| std::iter::repeat_n(i, g.count);
        let sources = config.groups.iter().enumerate().flat_map(table_of);
        let key_of = |source: usize| hash(config.seed, source as u64 + 16);
        let source = |(source, table): (usize, usize)| SourceModel {
            key: key_of(source),
            table,
            huge_phase: config.huge.map_or(0, |h| {
                (hash(key_of(source), u64::MAX) % u64::from(h.every_events)) as u32
            }),
            id: config.transport.first_id + source as u32,
        };
        Self {
            sources: sources.enumerate().map(source).collect(),
            tables: config.groups.iter().map(SizeTable::new).collect(),
            pattern: pattern(hash(config.seed, 1)),
            huge: config.huge,
            tag_key: hash(config.seed, 2),
            bits: config.trigger.bits,
            order: config.transport.byte_order,
            decoding: DECODING_WORDS_32 | (u32::from(config.trigger.kind) << 4),
            exact_cuts: config.transport.exact_cuts,
        }
    }

    /// The trigger number as it is sent: `value` cut to its width.
    #[inline]
    pub(crate) fn number(&self, value: u64) -> u32 {
        value as u32 & self.bits.mask()
    }

    /// The random code of a trigger, the same in all sources.
    #[inline]
    pub(crate) fn tag(&self, number: u32) -> u8 {
        hash(self.tag_key, u64::from(number)) as u8
    }

    /// Size and hash of a sub-event.
    #[inline]
    pub(crate) fn shape(&self, source: usize, number: u32) -> Shape {
        let model = &self.sources[source];
        let hash = hash(model.key, u64::from(number));
        let mut bytes = self.tables[model.table].pick(hash);
        if let Some(huge) = self.huge
            && number
                .wrapping_add(model.huge_phase)
                .is_multiple_of(huge.every_events)
        {
            bytes = huge.bytes;
        }
        if !self.exact_cuts && is_exact_cut(bytes) {
            bytes -= 8;
        }
        Shape { bytes, hash }
    }

    /// The largest sub-event that can come.
    pub(crate) fn largest_bytes(&self) -> u32 {
        let tables = self.tables.iter().map(SizeTable::largest).max();
        tables.unwrap_or(0).max(self.huge.map_or(0, |h| h.bytes))
    }

    /// Mean bytes of all sub-events of one event.
    pub(crate) fn mean_event_bytes(&self) -> f64 {
        let plain = |s: &SourceModel| self.tables[s.table].mean();
        let share = self.huge.map_or(0.0, |h| 1.0 / f64::from(h.every_events));
        let huge = self.huge.map_or(0.0, |h| f64::from(h.bytes));
        let mean = |s| plain(s) * (1.0 - share) + huge * share;
        self.sources.iter().map(mean).sum()
    }

    pub(crate) fn sources(&self) -> usize {
        self.sources.len()
    }

    pub(crate) fn order(&self) -> ByteOrder {
        self.order
    }

    /// The source with this sub-event id (bit 31, the error bit, left out by the caller).
    pub(crate) fn source_of(&self, id: u32) -> Option<usize> {
        let source = id.checked_sub(self.sources.first()?.id)? as usize;
        (source < self.sources.len()).then_some(source)
    }

    pub(crate) fn bits(&self) -> TriggerBits {
        self.bits
    }

    /// The trigger word: number, tag, and with 16 bits a high byte that differs between sources.
    #[inline]
    pub(crate) fn trigger_word(&self, number: u32, tag: u8, hash: u64) -> u32 {
        let high = match self.bits {
            TriggerBits::TwentyFour => 0,
            TriggerBits::Sixteen => (hash >> 32) as u32 & 0xff00_0000,
        };
        high | (number << 8) | u32::from(tag)
    }

    /// Writes a sub-event over the whole of `out`, whose length is the sub-event's size.
    #[inline]
    pub(crate) fn write(&self, out: &mut [u8], source: usize, number: u32, tag: u8, hash: u64) {
        let Some((head, payload)) = out.split_first_chunk_mut::<SUB_EVENT_HEADER_BYTES>() else {
            return;
        };
        let header = SubEventHeader {
            size: (SUB_EVENT_HEADER_BYTES + payload.len()) as u32,
            decoding: self.decoding,
            id: self.sources[source].id,
            trigger_word: self.trigger_word(number, tag, hash),
            order: self.order,
        };
        header.emit(head);
        self.write_payload(payload, source as u32, hash);
    }

    #[inline]
    fn write_payload(&self, payload: &mut [u8], address: u32, hash: u64) {
        let words = payload.len() / 4;
        let Some(data) = words.checked_sub(2) else {
            return payload.fill(0);
        };
        let (mut rest, status) = payload.split_at_mut(data * 4);
        put(&mut status[..4], STATUS_HEADER, self.order);
        put(&mut status[4..], STATUS_OK, self.order);
        let mut at = ((hash >> 12) as usize % PATTERN_BYTES) & !3;
        let mut first = true;
        while let Some((head, tail)) = rest.split_first_chunk_mut::<4>() {
            let n = (tail.len() / 4).min(MAX_SUBSUB_WORDS);
            put(head, ((n as u32) << 16) | (address & 0xffff), self.order);
            let (run, next) = tail.split_at_mut(n * 4);
            at = self.copy_pattern(run, at);
            if first && let Some(stamp) = run.first_chunk_mut::<8>() {
                *stamp = hash.to_be_bytes();
            }
            (first, rest) = (false, next);
        }
    }

    /// Copies the table from `at` on, round and round; says where it stopped.
    #[inline]
    fn copy_pattern(&self, mut run: &mut [u8], mut at: usize) -> usize {
        loop {
            let n = run.len().min(self.pattern.len() - at);
            let (now, later) = run.split_at_mut(n);
            now.copy_from_slice(&self.pattern[at..at + n]);
            at = (at + n) % PATTERN_BYTES;
            run = later;
            if run.is_empty() {
                return at;
            }
        }
    }
}

/// Writes one word.
#[inline]
pub(crate) fn put(at: &mut [u8], word: u32, order: ByteOrder) {
    at.copy_from_slice(&order.bytes(word));
}

/// Whether a message of this one sub-event would fill its datagrams exactly.
fn is_exact_cut(bytes: u32) -> bool {
    let message = bytes.next_multiple_of(8) + 40;
    message >= CUT_BYTES && message.is_multiple_of(CUT_BYTES)
}

fn pattern(seed: u64) -> Vec<u8> {
    let mut rng = Xoshiro256::new(seed);
    let words = std::iter::repeat_with(|| rng.bits().to_be_bytes());
    let mut bytes: Vec<u8> = words.take(PATTERN_BYTES / 8).flatten().collect();
    bytes.extend_from_within(..PATTERN_OVERLAP_BYTES);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Group;

    fn words(bytes: &[u8]) -> Vec<u32> {
        let (words, _) = bytes.as_chunks::<4>();
        words.iter().map(|&word| u32::from_be_bytes(word)).collect()
    }

    fn made(config: &Config, source: usize, number: u32) -> Vec<u8> {
        let model = Model::new(config);
        let shape = model.shape(source, number);
        let mut out = vec![0; shape.bytes as usize];
        model.write(&mut out, source, number, model.tag(number), shape.hash);
        out
    }

    #[test]
    fn structure_of_a_trb3() {
        let config = Config::new(1, vec![Group::new(3, 48, 0.0)], 1.0);
        let words = words(&made(&config, 2, 0x1234));
        assert_eq!(words[0], 48);
        assert_eq!(words[1], 0x0002_0011);
        assert_eq!(words[2], 0x8002);
        assert_eq!(words[3] >> 8, 0x1234);
        assert_eq!(words[4], (5 << 16) | 2, "48 - 16 header - 4 - 8 status");
        assert_eq!(words[10..], [0x0001_5555, 1]);
    }

    #[test]
    fn a_huge_one_has_several_sub_sub_events_that_fill_it() {
        let mut config = Config::new(1, vec![Group::new(1, 24, 0.0)], 1.0);
        config.huge = Some(Huge {
            every_events: 1,
            bytes: 600_000,
        });
        let words = words(&made(&config, 0, 5));
        let (mut at, mut headers) = (4, 0);
        while words[at] != STATUS_HEADER {
            at += 1 + (words[at] >> 16) as usize;
            headers += 1;
        }
        assert_eq!((at + 2, headers), (words.len(), 3));
    }

    #[test]
    fn odd_small_sizes_are_written_whole() {
        for bytes in [16, 20, 24, 28, 32, 36] {
            let mut group = Group::new(1, bytes, 0.0);
            group.min_bytes = 16;
            let out = made(&Config::new(1, vec![group], 1.0), 0, 9);
            assert_eq!(out.len(), bytes as usize);
            assert_eq!(words(&out)[0], bytes);
        }
    }

    #[test]
    fn huge_ones_come_at_a_phase_per_source() {
        let mut config = Config::new(1, vec![Group::new(20, 100, 0.0)], 1.0);
        config.huge = Some(Huge {
            every_events: 100,
            bytes: 1000,
        });
        let model = Model::new(&config);
        let phase = |s| (0..100).find(|&n| model.shape(s, n).bytes == 1000);
        let phases: Vec<_> = (0..20).map(phase).collect();
        assert!(phases.iter().all(Option::is_some));
        let distinct: std::collections::BTreeSet<_> = phases.iter().collect();
        assert!(distinct.len() > 10, "{phases:?}");
        let huge = (0..10_000).filter(|&n| model.shape(3, n).bytes == 1000);
        assert_eq!(huge.count(), 100);
    }

    #[test]
    fn messages_of_exactly_k_cuts_are_avoided_unless_wanted() {
        for k in 1..4 {
            let bytes = k * CUT_BYTES - 40;
            let mut config = Config::new(1, vec![Group::new(1, bytes, 0.0)], 1.0);
            assert_eq!(Model::new(&config).shape(0, 1).bytes, bytes - 8);
            config.transport.exact_cuts = true;
            assert_eq!(Model::new(&config).shape(0, 1).bytes, bytes);
        }
    }
}
