//! The emulator's accounts in the ledger: for each source one in sub-events and one in datagrams.
//!
//! | account | in | out | dropped | held |
//! |---|---|---|---|---|
//! | sub-events | made | in messages sent whole | `drop_message`, `restart`, `send_failed` | in the open queue, held back, ready |
//! | datagrams | ready | sent | `send_failed` | ready |
//!
//! The second account's *out* is what enters the link to a receiver. Terms are counted where they
//! happen; *held* is read from the queues themselves.

use forebay_ledger::{Account, AccountId, Book, DropReason, GroupId, SchemaBuilder, Unit, reasons};

use crate::totals::{Amount, SourceTotals, Totals};

/// The hop's name in accounts.
pub const PLACE: &str = "generator";

reasons! {
    /// Why sub-events that were made do not go out.
    enum SubEventDrop {
        /// A fault of the source.
        Message = "drop_message",
        /// The source began anew.
        Restart = "restart",
        /// The kernel refused their datagram.
        SendFailed = "send_failed",
    }
}

reasons! {
    /// Why datagrams do not go out.
    enum DatagramDrop {
        /// The kernel refused them.
        SendFailed = "send_failed",
    }
}

/// The accounts of all sources, words of one group.
#[derive(Debug, Clone)]
pub struct Accounts {
    sources: Vec<SourceAccounts>,
}

#[derive(Debug, Clone)]
struct SourceAccounts {
    subevents: Account<SubEventDrop>,
    subevents_id: AccountId,
    datagrams: Account<DatagramDrop>,
    datagrams_id: AccountId,
}

impl Accounts {
    /// Declares the accounts of `sources` sources, owners `source0` and up.
    pub fn declare(schema: &mut SchemaBuilder, group: GroupId, sources: usize) -> Self {
        let mut source = |n: usize| {
            let owner = format!("source{n}");
            let (subevents_id, subevents) = schema.account(group, PLACE, &owner, Unit::SubEvents);
            let (datagrams_id, datagrams) = schema.account(group, PLACE, &owner, Unit::Datagrams);
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
        let subevents = [books.made, books.sent, books.held];
        let lost = |why| match why {
            SubEventDrop::Message => books.dropped_message,
            SubEventDrop::Restart => books.restart,
            SubEventDrop::SendFailed => books.send_failed,
        };
        write(&self.subevents, subevents, lost, book);
        let datagrams = [
            books.datagrams_made,
            books.datagrams_sent,
            books.datagrams_held,
        ];
        let lost = |why| match why {
            DatagramDrop::SendFailed => books.datagrams_refused,
        };
        write(&self.datagrams, datagrams, lost, book);
    }
}

fn write<R: DropReason>(
    account: &Account<R>,
    terms: [Amount; 3],
    lost: impl Fn(R) -> Amount,
    book: &mut Book,
) {
    let tallies = [account.incoming, account.outgoing, account.held];
    let losses = account.losses().map(|(why, term)| (term, lost(why)));
    for (term, amount) in tallies.into_iter().zip(terms).chain(losses) {
        book.set(term.items, amount.items);
        book.set(term.bytes, amount.bytes);
    }
}
