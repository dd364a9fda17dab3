//! The ledger of a client that does harm: what it wrote for the multiplexer, and what that took.

use std::path::Path;

use forebay_ledger::{Account, Book, GroupId, Leak, Schema, SchemaBuilder, Unit, reasons};
use forebay_run::error::RunError;
use forebay_run::run_dir::{OneGroup, RunEnd};

use super::{HostileRecord, HostileSummary};

reasons! {
    /// Why what was written is not taken.
    pub(super) enum HostileDrop {
        /// The connection was over before.
        ConnectionOver = "connection_over",
    }
}

/// Entries of one ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Written here.
    pub(super) told: u64,
    /// Taken, by the position of the multiplexer.
    pub(super) taken: u64,
    /// Written, and seen not to be taken when the connection was over.
    pub(super) lost: u64,
}

/// Entries of both rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sent: Numbers,
    pub(super) freed: Numbers,
}

/// Entries that were taken can be made to vanish in these accounts, for tests of the books.
pub(super) const HOPS: [&str; 2] = [SEND, RETURN];
const SEND: &str = "hostile_send";
const RETURN: &str = "hostile_return";

impl Counts {
    /// Has some of those that were taken vanish uncounted.
    pub(super) fn leak(&mut self, leak: &mut Leak) {
        for (hop, of) in [(SEND, &mut self.sent), (RETURN, &mut self.freed)] {
            of.taken -= leak.take_of(hop, of.taken);
        }
    }
}

struct Words {
    sent: Account<HostileDrop>,
    freed: Account<HostileDrop>,
}

fn declare(run_id: &str) -> Result<(Schema, GroupId, Words), RunError> {
    let mut schema = SchemaBuilder::new(run_id);
    schema.program("mux-hostile");
    let group = schema.group("hostile");
    let (id, sent) = schema.account(group, SEND, "descriptors", Unit::Packets);
    schema.headline(id);
    let (_, freed) = schema.account(group, RETURN, "numbers", Unit::Packets);
    Ok((schema.finish()?, group, Words { sent, freed }))
}

/// The ledger, and its only writer.
pub(super) struct Books {
    group: OneGroup,
    words: Words,
    all: Counts,
}

impl Numbers {
    fn add(&mut self, more: Self) {
        self.told += more.told;
        self.taken += more.taken;
        self.lost += more.lost;
    }
}

fn set(book: &mut Book, account: &Account<HostileDrop>, numbers: Numbers) {
    let lost = account.lost(HostileDrop::ConnectionOver);
    book.set(account.incoming.items, numbers.told);
    book.set(account.outgoing.items, numbers.taken);
    book.set(lost.items, numbers.lost);
}

impl Books {
    pub(super) fn open(out: Option<&Path>, tell: &mut dyn FnMut(&str)) -> Result<Self, RunError> {
        let run_id = format!("mux-hostile-{}", std::process::id());
        let (schema, group, words) = declare(&run_id)?;
        Ok(Self {
            group: OneGroup::open(&schema, group, &run_id, out, tell)?,
            words,
            all: Counts::default(),
        })
    }

    /// Adds a connection that is over.
    pub(super) fn show(&mut self, over: &Counts) {
        self.all.sent.add(over.sent);
        self.all.freed.add(over.freed);
        let book = &mut self.group.book;
        set(book, &self.words.sent, self.all.sent);
        set(book, &self.words.freed, self.all.freed);
        self.group.show();
    }

    pub(super) fn close(
        self,
        end: RunEnd,
        summary: HostileSummary,
    ) -> Result<HostileRecord, RunError> {
        self.group.conclude(end, summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let (schema, ..) = declare("mux-hostile-1").unwrap();
        forebay_testing::accounts::assert_section("mux-hostile", &[schema.outline()]);
    }

    #[test]
    fn each_count_is_in_its_own_term_and_connections_add_up() {
        let mut books = Books::open(None, &mut |_| {}).unwrap();
        let numbers = |told, taken, lost| Numbers { told, taken, lost };
        for _ in 0..2 {
            books.show(&Counts {
                sent: numbers(7, 5, 3),
                freed: numbers(40, 30, 20),
            });
        }
        let shown = books.group.reader().unwrap().snapshot().unwrap();
        let Words { sent, freed } = &books.words;
        let of = |account: &Account<HostileDrop>| {
            let lost = account.lost(HostileDrop::ConnectionOver);
            [account.incoming, account.outgoing, lost].map(|tally| shown.tally(tally).0)
        };
        assert_eq!([of(sent), of(freed)], [[14, 10, 6], [80, 60, 40]]);
    }
}
