//! What an end of a ring has carried over all lives of its process, as the ring itself counts it.
//!
//! A link's `in_flight` is what one end has carried less what the other has: counted by neither of the accounts at its ends.

use crate::{Book, Tally};

/// One end of one ring.
#[derive(Clone, Copy, Debug)]
pub struct Carriage {
    words: Tally,
    /// By the book, what predecessors have carried.
    before: (u64, u64),
    /// Bytes at the front of each record that belong to none of its items.
    head_bytes: u64,
}

impl Carriage {
    /// Goes on behind what the book says in `words`; the first `head_bytes` of each record belong to no item.
    pub fn restored(book: &Book, words: Tally, head_bytes: usize) -> Self {
        Self {
            words,
            before: book.tally(words),
            head_bytes: head_bytes as u64,
        }
    }

    /// Writes down what predecessors and this life have carried: the latter as the ring counts it, in records, their items, and bytes.
    pub fn save(&self, book: &mut Book, [records, items, bytes]: [u64; 3]) {
        let heads = records.wrapping_mul(self.head_bytes);
        let bytes = bytes.wrapping_sub(heads);
        book.set(self.words.items, self.before.0.wrapping_add(items));
        book.set(self.words.bytes, self.before.1.wrapping_add(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GroupWriter, RunWriter, SchemaBuilder, Words};

    #[test]
    fn lives_add_up_and_heads_are_nobodys_bytes() {
        let mut schema = SchemaBuilder::new("run");
        let group = schema.group("stage");
        let words = schema.cursor_tally(group, "taken");
        let schema = schema.finish().unwrap();
        let memory = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &memory, 1, 1).unwrap();
        // Each life carries 2 records of 3 items in 100 bytes, of which 16 are heads; it may say so as often as it likes.
        for life in 1..=3 {
            let mut writer = GroupWriter::attach(&schema, &memory, group).unwrap();
            let mut book = writer.restore();
            let carriage = Carriage::restored(&book, words, 8);
            for _ in 0..2 {
                carriage.save(&mut book, [2, 3, 100]);
                assert_eq!(book.tally(words), (3 * life, 84 * life));
            }
            writer.commit(&book);
        }
    }
}
