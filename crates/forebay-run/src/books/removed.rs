//! Counters of what was written and went with files that somebody removed or cut: beside the accounts, as it had left them.

use forebay_ledger::{Book, Counter, GroupId, SchemaBuilder};

/// Those of one group, for one kind of items or several.
#[derive(Clone, Debug)]
pub(crate) struct RemovedWords {
    files: Counter,
    bytes: Counter,
    items: Vec<Counter>,
}

impl RemovedWords {
    /// Declares them for items of these names, as messages.
    pub(crate) fn declare(
        schema: &mut SchemaBuilder,
        group: GroupId,
        owner: &str,
        items: &[&str],
    ) -> Self {
        let mut counter = |word: &str, help: &str| {
            schema.counter(group, &format!("output_removed_{word}"), owner, help)
        };
        let help = "what was written and went with files that somebody removed or cut";
        Self {
            files: counter("files", "open files that somebody removed or cut"),
            bytes: counter("bytes", "bytes that were written and went with such files"),
            items: items.iter().map(|name| counter(name, help)).collect(),
        }
    }

    /// So many files, and what was in them: items of the kind `kind` in the order of their names.
    pub(crate) fn add(
        &self,
        book: &mut Book,
        (files, bytes): (u64, u64),
        (kind, items): (usize, u64),
    ) {
        book.add(self.files, files);
        book.add(self.bytes, bytes);
        if let Some(counter) = self.items.get(kind) {
            book.add(*counter, items);
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_ledger::{GroupWriter, LedgerReader, RunWriter, Words};

    use super::*;

    #[test]
    fn what_went_with_a_file_is_counted_by_its_kind() {
        let mut schema = SchemaBuilder::new("run");
        let group = schema.group("all");
        let removed = RemovedWords::declare(&mut schema, group, "", &["packets", "heaps"]);
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 0).unwrap();
        let mut writer = GroupWriter::attach(&schema, &words, group).unwrap();
        let mut book = writer.restore();
        removed.add(&mut book, (1, 100), (0, 7));
        removed.add(&mut book, (2, 50), (1, 3));
        // Of a kind that is not counted by items.
        removed.add(&mut book, (1, 9), (usize::MAX, 5));
        writer.commit(&book);
        let snapshot = LedgerReader::open(&words).unwrap().snapshot().unwrap();
        let of = |word: &str| snapshot.metric("all", &format!("output_removed_{word}"), "");
        let found = ["files", "bytes", "packets", "heaps"].map(of);
        assert_eq!(found, [Some(4), Some(159), Some(7), Some(3)]);
    }
}
