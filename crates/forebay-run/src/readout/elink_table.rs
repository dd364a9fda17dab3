//! Chunks by E-link of one DMA buffer, beside its ledger: which E-links there are shows in the blocks alone.
//!
//! The reader puts down what its decoder has counted, every [`PUT_NS`]; whoever is asked for metrics reads it. An E-link that never had a chunk is not shown, so the
//! page is as long as there are E-links. No term of an account is here.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_ledger::prometheus::Family;
use forebay_readout::{Decoder, LinkAccount};
use forebay_wire::felix::{ELINKS, Elink};

/// It is brought up to date so often.
const PUT_NS: u64 = 100_000_000;

const COLUMNS: [(&str, &str); 3] = [
    (
        "elink_chunks",
        "Chunks of an E-link, flagged ones among them",
    ),
    ("elink_bytes", "Bytes of the chunks of an E-link"),
    (
        "elink_chunks_flagged",
        "Chunks of an E-link whose status is not good",
    ),
];

/// One row for each E-link.
#[derive(Debug)]
pub(super) struct ElinkTable {
    rows: Box<[[AtomicU64; COLUMNS.len()]]>,
    next_ns: AtomicU64,
}

impl ElinkTable {
    pub(super) fn new() -> Self {
        Self {
            rows: (0..ELINKS).map(|_| Default::default()).collect(),
            next_ns: AtomicU64::new(0),
        }
    }

    /// The same as [`put`](Self::put), when it is time.
    #[inline]
    pub(super) fn put_in_time(&self, now_ns: u64, decoder: &Decoder) {
        if now_ns >= self.next_ns.load(Ordering::Relaxed) {
            self.next_ns.store(now_ns + PUT_NS, Ordering::Relaxed);
            self.put(decoder);
        }
    }

    /// What the decoder has counted until now.
    pub(super) fn put(&self, decoder: &Decoder) {
        for (number, row) in self.rows.iter().enumerate() {
            let LinkAccount {
                chunks,
                bytes,
                flagged,
                ..
            } = decoder.link(Elink::from_bits(number as u16));
            if *chunks > 0 {
                for (word, value) in row.iter().zip([chunks, bytes, flagged]) {
                    word.store(*value, Ordering::Relaxed);
                }
            }
        }
    }

    /// For the page of metrics.
    pub(super) fn families(&self, owner: &str) -> Vec<Family> {
        let seen: Vec<(usize, [u64; COLUMNS.len()])> = self
            .rows
            .iter()
            .map(|row| row.each_ref().map(|word| word.load(Ordering::Relaxed)))
            .enumerate()
            .filter(|(_, row)| row[0] > 0)
            .collect();
        let columns = COLUMNS.into_iter().enumerate();
        columns
            .map(|(column, (name, help))| Family {
                name,
                help,
                is_counter: true,
                samples: seen
                    .iter()
                    .map(|(number, row)| {
                        let labels =
                            vec![("owner", owner.to_owned()), ("elink", number.to_string())];
                        (labels, row[column] as f64)
                    })
                    .collect(),
            })
            .collect()
    }
}
