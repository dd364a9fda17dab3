//! What was written and went with files that somebody removed or cut: beside the accounts, as it had left them.

use forebay_ledger::{Book, Counter, GroupId, SchemaBuilder, Snapshot};
use serde::Serialize;

/// Counters of it in one group, for one kind of items or several.
#[derive(Clone, Debug)]
pub struct RemovedWords {
    files: Counter,
    bytes: Counter,
    items: Vec<Counter>,
}

impl RemovedWords {
    /// Declares them in `group` for items of these names, as messages: counters of files and of bytes, and one of each kind of items.
    pub fn declare(
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
    pub fn add(&self, book: &mut Book, (files, bytes): (u64, u64), (kind, items): (usize, u64)) {
        book.add(self.files, files);
        book.add(self.bytes, bytes);
        if let Some(counter) = self.items.get(kind) {
            book.add(*counter, items);
        }
    }
}

/// What was written into files that somebody removed or cut while they were open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Such files.
    pub files: u64,
    /// Events that went with them; none where no events are written. The same of messages, packets and heaps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Packets of streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Heaps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heaps: Option<u64>,
    /// The bytes of all of these, and of files that have others in them, as lists.
    pub bytes: u64,
}

impl Removed {
    /// Of all that write files in the books of a ledger; nothing in a ledger without such books.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let sum = |name| {
            let words = snapshot.metrics().filter(|word| word.name == name);
            words.map(|word| word.value).reduce(|a, b| a + b)
        };
        Self {
            files: sum("output_removed_files").unwrap_or(0),
            events: sum("output_removed_events"),
            messages: sum("output_removed_messages"),
            packets: sum("output_removed_packets"),
            heaps: sum("output_removed_heaps"),
            bytes: sum("output_removed_bytes").unwrap_or(0),
        }
    }

    /// Whether anything is gone.
    #[must_use]
    pub fn any(&self) -> bool {
        self.files > 0
    }

    /// Whether nothing is.
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.any()
    }

    /// What is gone, each kind with its number.
    pub fn items(&self) -> impl Iterator<Item = (u64, &'static str)> {
        let kinds = [
            (self.events, "events"),
            (self.messages, "messages"),
            (self.packets, "packets"),
            (self.heaps, "heaps"),
        ];
        kinds
            .into_iter()
            .filter_map(|(items, name)| Some((items?, name)))
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

    /// Two that write files in one ledger are summed up; what is of no kind there is not said.
    #[test]
    fn what_is_gone_of_all_files_is_one_sum_by_kind() {
        let mut schema = SchemaBuilder::new("run");
        let group = schema.group("all");
        let [one, other] =
            ["a", "b"].map(|owner| RemovedWords::declare(&mut schema, group, owner, &["events"]));
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 0).unwrap();
        let mut writer = GroupWriter::attach(&schema, &words, group).unwrap();
        let mut book = writer.restore();
        let mut found = |book: &Book| {
            writer.commit(book);
            let snapshot = LedgerReader::open(&words).unwrap().snapshot().unwrap();
            let removed = Removed::of(&snapshot);
            let items: Vec<_> = removed.items().collect();
            let (any, none) = (removed.any(), removed.is_none());
            (removed.files, removed.bytes, items, any, none)
        };
        assert_eq!(found(&book), (0, 0, vec![(0, "events")], false, true));
        one.add(&mut book, (1, 100), (0, 7));
        other.add(&mut book, (2, 30), (0, 5));
        assert_eq!(found(&book), (3, 130, vec![(12, "events")], true, false));
    }
}
