//! The emulator's accounts in the ledger: for each source one in sub-events and one in datagrams.
//!
//! | account | in | out | dropped | held |
//! |---|---|---|---|---|
//! | sub-events | made | in messages sent whole | `drop_message`, `restart`, `send_failed` | in the open queue, held back, ready |
//! | datagrams | ready | sent | `send_failed` | ready |
//!
//! The second account's *out* is what enters the link to a receiver. Terms are counted where they
//! happen; *held* is read from the queues themselves.

use forebay_ledger::{Account, AccountId, Book, GroupId, SchemaBuilder, Tally, Unit};

use crate::totals::{Amount, SourceTotals, Totals};

/// The hop's name in accounts.
pub const PLACE: &str = "generator";
const DROPPED_MESSAGE: &str = "drop_message";
const RESTART: &str = "restart";
const SEND_FAILED: &str = "send_failed";

/// The accounts of all sources, words of one group.
#[derive(Debug, Clone)]
pub struct Accounts {
    sources: Vec<SourceAccounts>,
}

#[derive(Debug, Clone)]
struct SourceAccounts {
    subevents: Account,
    subevents_id: AccountId,
    datagrams: Account,
    datagrams_id: AccountId,
}

impl Accounts {
    /// Declares the accounts of `sources` sources, owners `source0` and up.
    pub fn declare(schema: &mut SchemaBuilder, group: GroupId, sources: usize) -> Self {
        let mut source = |n: usize| {
            let owner = format!("source{n}");
            let reasons = [DROPPED_MESSAGE, RESTART, SEND_FAILED];
            let (subevents_id, subevents) =
                schema.account(group, PLACE, &owner, Unit::SubEvents, &reasons);
            let (datagrams_id, datagrams) =
                schema.account(group, PLACE, &owner, Unit::Datagrams, &[SEND_FAILED]);
            SourceAccounts {
                subevents,
                subevents_id,
                datagrams,
                datagrams_id,
            }
        };
        Self {
            sources: (0..sources).map(&mut source).collect(),
        }
    }

    /// States in the ledger of senders alone that the sub-events are what they are there for.
    pub fn headline(&self, schema: &mut SchemaBuilder) {
        if let Some(first) = self.sources.first() {
            schema.headline(first.subevents_id);
        }
    }

    /// The account whose *out* enters the link of this source; none for an unknown source.
    #[must_use]
    pub fn datagrams(&self, source: usize) -> Option<AccountId> {
        self.sources
            .get(source)
            .map(|accounts| accounts.datagrams_id)
    }

    /// Writes the books as they are now; the caller commits.
    pub fn write(&self, totals: &Totals, book: &mut Book) {
        for (accounts, books) in self.sources.iter().zip(&totals.by_source) {
            accounts.write(books, book);
        }
    }
}

impl SourceAccounts {
    fn write(&self, books: &SourceTotals, book: &mut Book) {
        let lost = [books.dropped_message, books.restart, books.send_failed];
        write(
            &self.subevents,
            [books.made, books.sent, books.held],
            &lost,
            book,
        );
        let datagrams = [
            books.datagrams_made,
            books.datagrams_sent,
            books.datagrams_held,
        ];
        write(&self.datagrams, datagrams, &[books.datagrams_refused], book);
    }
}

fn write(account: &Account, terms: [Amount; 3], dropped: &[Amount], book: &mut Book) {
    let tallies = [account.incoming, account.outgoing, account.held];
    let mut set = |tally: Tally, amount: Amount| {
        book.set(tally.items, amount.items);
        book.set(tally.bytes, amount.bytes);
    };
    tallies.into_iter().zip(terms).for_each(|(t, a)| set(t, a));
    account
        .dropped
        .iter()
        .zip(dropped)
        .for_each(|(&t, &a)| set(t, a));
}
