//! Losses by their names, as records of runs list them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Balance;

/// Items and bytes lost for one reason. Where the kernel counts, the bytes are the least that it can have been; where it also
/// merges datagrams (GRO), so are the items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Items, in the account's unit.
    pub items: u64,
    /// The most that it can have been.
    pub items_max: u64,
    /// Bytes, or the least that it can have been.
    pub bytes: u64,
    /// The most that it can have been.
    pub bytes_max: u64,
}

impl Balance {
    /// All named losses that occurred, by `place.reason.owner`.
    #[must_use]
    pub fn drops(&self) -> BTreeMap<String, Lost> {
        let accounts = self
            .accounts
            .iter()
            .map(|line| (&line.place, &line.owner, &line.dropped));
        let links = self
            .links
            .iter()
            .map(|line| (&line.place, &line.owner, &line.dropped));
        let mut all = BTreeMap::new();
        for (place, owner, dropped) in accounts.chain(links) {
            for drop in dropped {
                let lost: &mut Lost = all
                    .entry(format!("{place}.{}.{owner}", drop.reason))
                    .or_default();
                lost.items += drop.items;
                lost.items_max += drop.items_max;
                lost.bytes += drop.bytes_min;
                lost.bytes_max += drop.bytes_max;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        GroupWriter, LedgerReader, LinkSpec, Lossless, RunWriter, SchemaBuilder, Unit, Words,
        reasons,
    };

    reasons! {
        /// Why datagrams are dropped.
        enum Bad {
            Malformed = "malformed",
            Late = "late",
        }
    }

    #[test]
    fn each_name_has_its_own_sums_and_what_is_not_lost_has_none() {
        let mut schema = SchemaBuilder::new("run");
        let group = schema.group("stage");
        let (from, _) = schema.account::<Lossless>(group, "sender", "a", Unit::Datagrams);
        let (to, got) = schema.account::<Bad>(group, "receiver", "a", Unit::Datagrams);
        let (_, other) = schema.account::<Bad>(group, "receiver", "b", Unit::Datagrams);
        let kernel = schema.kernel_drop(group);
        let link = LinkSpec::new("socket", "a").from(from).to(to);
        schema.link(link.kernel_drops("buffer_full", kernel, 8, 1_000));
        let schema = schema.finish().unwrap();
        let memory = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &memory, 1, 1).unwrap();
        let mut writer = GroupWriter::attach(&schema, &memory, group).unwrap();
        let mut book = writer.restore();
        book.add_tally(got.lost(Bad::Malformed), 3, 300);
        book.add_tally(other.lost(Bad::Late), 5, 550);
        book.set(kernel, 2);
        writer.commit(&book);
        let snapshot = LedgerReader::open(&memory).unwrap().snapshot().unwrap();
        let exact = |items, bytes| Lost {
            items,
            items_max: items,
            bytes,
            bytes_max: bytes,
        };
        let of_the_kernel = Lost {
            bytes_max: 2_000,
            ..exact(2, 16)
        };
        let expected = [
            ("receiver.late.b".to_owned(), exact(5, 550)),
            ("receiver.malformed.a".to_owned(), exact(3, 300)),
            ("socket.buffer_full.a".to_owned(), of_the_kernel),
        ];
        assert_eq!(snapshot.balance().drops(), BTreeMap::from(expected));
    }
}
