//! What is counted at the card, by which party, and which terms make equations.
//!
//! | account | term | counted by |
//! |---|---|---|
//! | `mux_card_in` | in | the other end: the kernel's socket (`packet`), the program that steers (`xdp`), the interface (`tap`), the file, the emulated cable |
//! | | out | this end, at each visit |
//! | | held | the heads of the blocks or the ring, where frames lie |
//! | | dropped `ring_full`, `no_buffer` | the other end |
//! | | dropped `too_long`, `cut`, `disbelieved` | this end, at each frame that is not visited |
//! | `mux_card_out` | in | this end, as it takes a copy |
//! | | out | the other end: frames that the kernel says it took, buffers that came back, what the file has |
//! | | held | a census of the copies |
//! | | dropped | this end, for each frame that the kernel gave up, by its reason |
//!
//! Both are in frames alone: kernels count no bytes here. What the whole interface counts ([`LinkCounts`]) is shown beside them and is in no equation, as others use it,
//! too. A frame that was [refused](super::Sent::Refused) was never taken: it is in the account of the client that handed it over, and here in a sum of its own.

use forebay_ledger::{
    Account, AccountId, Book, Counter, DropReason, GroupId, PerReason, SchemaBuilder, Tally, Unit,
    reasons,
};
use forebay_mux::Items;

reasons! {
    /// Why a frame that came to the card is not visited.
    pub enum CardInDrop {
        /// Nobody took the frames before it away in time: the ring or queue was full.
        RingFull = "ring_full",
        /// No buffer was there for it, or none that is long enough.
        NoBuffer = "no_buffer",
        /// It is longer than frames may be: several that the kernel or the card has joined, say.
        TooLong = "too_long",
        /// There is less of it than there was.
        Cut = "cut",
        /// What is said of its place cannot be true.
        Disbelieved = "disbelieved",
    }
}

reasons! {
    /// Why a frame does not go out of the card.
    pub enum CardOutDrop {
        /// It is longer than the card takes.
        TooLong = "too_long",
        /// It has no whole Ethernet header.
        TooShort = "too_short",
        /// The card did not take it: it has no carrier, or its queue was full for 100 ms.
        Device = "device",
        /// The card is down.
        Down = "down",
        /// The card is there no more.
        Gone = "gone",
        /// Its bytes could not be had when the driver was to copy them.
        NotFilled = "not_filled",
        /// The kernel gave it up for another reason.
        Other = "other",
    }
}

/// Frames by the reason for which they were not visited.
pub type InDrops = PerReason<CardInDrop, u64, { CardInDrop::COUNT }>;
/// Frames by the reason for which they did not go out.
pub type OutDrops = PerReason<CardOutDrop, u64, { CardOutDrop::COUNT }>;

/// Frames that came: `came` = `visited` + `dropped` + `held`, when no frame is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounts {
    /// Frames that came for this driver, by the other end's count.
    pub came: u64,
    /// Frames that were visited, with their bytes.
    pub visited: Items,
    /// Frames that were not.
    pub dropped: InDrops,
    /// Frames that lie in the ring.
    pub held: u64,
    /// Of those that were visited, ones whose check sum was completed here.
    pub checksums_completed: u64,
}

/// Frames that go: `taken` = `out` + `dropped` + `held`, when no frame is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// Frames of which the driver has taken a copy, with their bytes.
    pub taken: Items,
    /// Frames that the card took, by the other end's word.
    pub out: u64,
    /// Frames that were taken, and that the card gave up.
    pub dropped: OutDrops,
    /// Frames that the driver has, and the card not yet.
    pub held: u64,
    /// Frames that were not taken, as they can never be sent.
    pub refused: OutDrops,
    /// How often there was no room.
    pub no_room: u64,
}

/// What the kernel counts of a whole interface since the driver was opened, by whomever it is used (`struct rtnl_link_stats64`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Frames and bytes that came in.
    pub received: Items,
    /// Frames that came, and found no room in the host.
    pub receive_dropped: u64,
    /// Frames that the card had no room for.
    pub receive_missed: u64,
    /// Frames that came damaged.
    pub receive_errors: u64,
    /// Frames and bytes that went out.
    pub sent: Items,
    /// Frames that the host did not send.
    pub send_dropped: u64,
    /// Frames that the card could not send.
    pub send_errors: u64,
}

impl ReceiveCounts {
    /// What does not add up, in frames.
    #[must_use]
    pub fn residual(&self) -> i128 {
        let others = self.visited.items + self.dropped.total() + self.held;
        i128::from(self.came) - i128::from(others)
    }
}

impl SendCounts {
    /// What does not add up, in frames.
    #[must_use]
    pub fn residual(&self) -> i128 {
        i128::from(self.taken.items) - i128::from(self.out + self.dropped.total() + self.held)
    }
}

/// The accounts of the card in the ledger, in one group.
#[derive(Clone, Debug)]
pub struct CardAccounts {
    /// The group, with one writer.
    pub group: GroupId,
    /// The account of frames that come: what is its out is the in of `mux_classify`, in frames.
    pub card_in: AccountId,
    /// The account of frames that go: what is its in is what the clients' `mux_transmit` and the responder gave.
    pub card_out: AccountId,
    incoming: Account<CardInDrop>,
    outgoing: Account<CardOutDrop>,
    checksums_completed: Counter,
    no_room: Counter,
    refused: Vec<Counter>,
    link: [Counter; LINK.len()],
}

/// Of [`LinkCounts`]: what it is called, what it means, and where it is.
type LinkMetric = (&'static str, &'static str, fn(&LinkCounts) -> u64);

const LINK: [LinkMetric; 7] = [
    (
        "mux_link_received_frames",
        "frames that came in at the whole interface",
        |it| it.received.items,
    ),
    (
        "mux_link_receive_dropped_frames",
        "frames that the host dropped at the whole interface",
        |it| it.receive_dropped,
    ),
    (
        "mux_link_receive_missed_frames",
        "frames that the card had no room for",
        |it| it.receive_missed,
    ),
    (
        "mux_link_receive_error_frames",
        "frames that came damaged at the whole interface",
        |it| it.receive_errors,
    ),
    (
        "mux_link_sent_frames",
        "frames that went out at the whole interface",
        |it| it.sent.items,
    ),
    (
        "mux_link_send_dropped_frames",
        "frames that the host did not send at the whole interface",
        |it| it.send_dropped,
    ),
    (
        "mux_link_send_error_frames",
        "frames that the card could not send",
        |it| it.send_errors,
    ),
];

impl CardAccounts {
    /// Declares them for a card of this name in a group that somebody has declared: one writer has all of it.
    pub fn declare(schema: &mut SchemaBuilder, group: GroupId, card: &str) -> Self {
        let (card_in, incoming) = schema.account(group, "mux_card_in", card, Unit::Packets);
        let (card_out, outgoing) = schema.account(group, "mux_card_out", card, Unit::Packets);
        let mut counter = |name: &str, help| schema.counter(group, name, card, help);
        let checksums_completed = counter(
            "mux_card_checksums_completed",
            "frames whose check sum a sender on this host had left to the card",
        );
        let no_room = counter(
            "mux_card_no_room",
            "how often the card had no room for a frame",
        );
        let refused = CardOutDrop::all().map(|why| {
            let name = format!("mux_card_refused_{}_frames", why.name());
            counter(&name, "frames that were not taken, as they cannot be sent")
        });
        let refused = refused.collect();
        let link = LINK.map(|(name, help, _)| counter(name, help));
        Self {
            group,
            card_in,
            card_out,
            incoming,
            outgoing,
            checksums_completed,
            no_room,
            refused,
            link,
        }
    }

    /// Writes what was counted so far of frames that came.
    pub fn write_in(&self, book: &mut Book, counts: &ReceiveCounts) {
        set(book, self.incoming.incoming, counts.came);
        set(book, self.incoming.outgoing, counts.visited.items);
        set(book, self.incoming.held, counts.held);
        for (why, frames) in counts.dropped.iter() {
            set(book, self.incoming.lost(why), frames);
        }
        book.set(self.checksums_completed, counts.checksums_completed);
    }

    /// Writes what was counted so far of frames that go.
    pub fn write_out(&self, book: &mut Book, counts: &SendCounts) {
        set(book, self.outgoing.incoming, counts.taken.items);
        set(book, self.outgoing.outgoing, counts.out);
        set(book, self.outgoing.held, counts.held);
        for (why, frames) in counts.dropped.iter() {
            set(book, self.outgoing.lost(why), frames);
        }
        for (counter, (_, frames)) in self.refused.iter().zip(counts.refused.iter()) {
            book.set(*counter, frames);
        }
        book.set(self.no_room, counts.no_room);
    }

    /// Writes what the kernel counts of the whole interface.
    pub fn write_link(&self, book: &mut Book, counts: &LinkCounts) {
        for (counter, (_, _, value)) in self.link.iter().zip(LINK) {
            book.set(*counter, value(counts));
        }
    }
}

/// Frames alone.
fn set(book: &mut Book, term: Tally, frames: u64) {
    book.set(term.items, frames);
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_ledger::{GroupWriter, LedgerReader, RunWriter, Snapshot, Words};

    fn came() -> ReceiveCounts {
        let frames = |items| Items { items, bytes: 99 };
        ReceiveCounts {
            came: 20,
            visited: frames(10),
            dropped: [
                (CardInDrop::RingFull, 1),
                (CardInDrop::NoBuffer, 1),
                (CardInDrop::TooLong, 1),
                (CardInDrop::Cut, 1),
                (CardInDrop::Disbelieved, 1),
            ]
            .into(),
            held: 5,
            checksums_completed: 7,
        }
    }

    fn went() -> SendCounts {
        let dropped = OutDrops::from_fn(|_| 1);
        SendCounts {
            taken: Items {
                items: 21,
                bytes: 99,
            },
            out: 9,
            dropped,
            held: 5,
            refused: OutDrops::from_fn(|_| 3),
            no_room: 2,
        }
    }

    /// A card's accounts with what is written into them.
    fn shown(write: impl FnOnce(&CardAccounts, &mut Book)) -> (CardAccounts, Snapshot) {
        let mut schema = SchemaBuilder::new("a run");
        let group = schema.group("card");
        let accounts = CardAccounts::declare(&mut schema, group, "eth1");
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 0).unwrap();
        let mut group = GroupWriter::attach(&schema, &words, accounts.group).unwrap();
        let mut book = group.restore();
        write(&accounts, &mut book);
        group.commit(&book);
        let snapshot = LedgerReader::open(&words).unwrap().snapshot().unwrap();
        (accounts, snapshot)
    }

    /// What the ledger makes of these: what is left over in items and in bytes.
    fn balance(came: &ReceiveCounts, went: &SendCounts) -> (u128, u128) {
        let (_, snapshot) = shown(|accounts, book| {
            accounts.write_in(book, came);
            accounts.write_out(book, went);
            accounts.write_link(book, &LinkCounts::default());
        });
        let balance = snapshot.balance();
        assert_eq!(balance.accounts.len(), 2);
        (balance.residual_items.into(), balance.residual_bytes.into())
    }

    #[test]
    fn each_term_counts_here_and_in_the_ledger() {
        assert_eq!((came().residual(), went().residual()), (0, 0));
        assert_eq!(balance(&came(), &went()), (0, 0));
        let ins: [fn(&mut ReceiveCounts); 4] = [
            |it| it.came += 1,
            |it| it.visited.items += 1,
            |it| it.held += 1,
            |it| it.dropped[CardInDrop::Disbelieved] += 1,
        ];
        for (at, term) in ins.iter().enumerate() {
            let mut counts = came();
            term(&mut counts);
            assert_eq!(counts.residual().abs(), 1, "term {at}");
            assert_eq!(balance(&counts, &went()).0, 1, "term {at}");
        }
        let outs: [fn(&mut SendCounts); 4] = [
            |it| it.taken.items += 1,
            |it| it.out += 1,
            |it| it.held += 1,
            |it| it.dropped[CardOutDrop::Device] += 1,
        ];
        for (at, term) in outs.iter().enumerate() {
            let mut counts = went();
            term(&mut counts);
            assert_eq!(counts.residual().abs(), 1, "term {at}");
            assert_eq!(balance(&came(), &counts).0, 1, "term {at}");
        }
        // What was refused was never taken.
        let mut counts = went();
        counts.refused[CardOutDrop::TooLong] += 1;
        assert_eq!(counts.residual(), 0);
    }

    #[test]
    fn what_the_whole_interface_counts_is_in_counters_of_its_own() {
        let frames = |items| Items { items, bytes: 99 };
        let counts = LinkCounts {
            received: frames(1),
            receive_dropped: 2,
            receive_missed: 3,
            receive_errors: 4,
            sent: frames(5),
            send_dropped: 6,
            send_errors: 7,
        };
        let (accounts, snapshot) = shown(|accounts, book| accounts.write_link(book, &counts));
        let values = accounts.link.map(|counter| snapshot.value(counter));
        assert_eq!(values, [1, 2, 3, 4, 5, 6, 7]);
    }
}
