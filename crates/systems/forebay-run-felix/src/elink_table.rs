//! What there was by E-link, beside the ledger: chunks of a DMA buffer, whose E-links show in the blocks alone, and messages for a card.
//!
//! To-host's reader puts down what its decoder has counted, every [`PUT_NS`], and to-flx counts here; the thread that is asked for metrics reads it. An E-link that never had
//! anything is not shown, so the page is as long as there are E-links. No term of an account is here.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_ledger::prometheus::Family;
use forebay_readout::{Decoder, LinkAccount};
use forebay_wire::felix::{ELINKS, Elink};

/// It is brought up to date so often.
const PUT_NS: u64 = 100_000_000;

/// Name and help of each; the first says whether there was anything.
type Columns = [(&'static str, &'static str); 3];

/// Of chunks to the host.
const CHUNKS: Columns = [
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
/// Of messages to front ends.
const MESSAGES: Columns = [
    ("elink_messages", "Messages for an E-link"),
    ("elink_message_bytes", "Bytes of the messages for an E-link"),
    (
        "elink_messages_lost",
        "Messages for an E-link that were not written into the ring of its card",
    ),
];
/// Column of the bytes of messages.
const BYTES: usize = 1;
/// Column of lost messages.
const LOST: usize = 2;

/// One row for each E-link.
#[derive(Debug)]
pub(super) struct ElinkTable {
    columns: &'static Columns,
    rows: Box<[[AtomicU64; 3]]>,
    next_ns: AtomicU64,
}

impl ElinkTable {
    /// Of chunks.
    pub(super) fn of_chunks() -> Self {
        Self::new(&CHUNKS)
    }

    /// Of messages.
    pub(super) fn of_messages() -> Self {
        Self::new(&MESSAGES)
    }

    fn new(columns: &'static Columns) -> Self {
        Self {
            columns,
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

    /// A message has come for that E-link.
    #[inline]
    pub(super) fn came(&self, elink: Elink, bytes: u64) {
        self.add(elink, 0, 1);
        self.add(elink, BYTES, bytes);
    }

    /// One of these was not written.
    pub(super) fn lost(&self, elink: Elink) {
        self.add(elink, LOST, 1);
    }

    /// Only one thread counts.
    #[inline]
    fn add(&self, elink: Elink, column: usize, count: u64) {
        let word = &self.rows[usize::from(elink.number())][column];
        let now = word.load(Ordering::Relaxed);
        word.store(now + count, Ordering::Relaxed);
    }

    /// For the page of metrics.
    pub(super) fn families(&self, owner: &str) -> Vec<Family> {
        let seen: Vec<(usize, [u64; 3])> = self
            .rows
            .iter()
            .map(|row| row.each_ref().map(|word| word.load(Ordering::Relaxed)))
            .enumerate()
            .filter(|(_, row)| row[0] > 0)
            .collect();
        let columns = self.columns.iter().enumerate();
        columns
            .map(|(column, &(name, help))| Family {
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
