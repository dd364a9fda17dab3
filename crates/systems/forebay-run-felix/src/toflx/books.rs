//! The ledger of to-flx: where messages go, what became of them, and the packets in the rings of cards.
//!
//! ```text
//! the books of the end point ─▶ route (messages) ─▶ encode (messages, by card) ─▶ ring (packets, by card) ─▶ the books of the card
//! ```
//!
//! They are committed before packets are shown to a card: whatever it has seen is in them.
//!
//! Of a link each end is counted by its own party: `route` where a message is routed, `encode` by the card that it is for. Packets enter `ring` one by one as they are written; `held`
//! are those of the messages that were said to be in it; they leave it as the card's own index in the shared memory goes on, and what is left at the end is what the ring
//! says.

use std::path::Path;

use forebay_ledger::{
    Account, Book, Counter, GroupWriter, Leak, LinkSpec, SchemaBuilder, Unit, reasons,
};
use forebay_wire::felix::PACKET_BYTES;

use forebay_run::error::RunError;
use forebay_run::run_dir::KeptLedger;

reasons! {
    /// Why a message has no card.
    pub(super) enum Unrouted {
        /// Its tag is no fid of this layout, or of no card.
        UnknownFid = "unknown_fid",
        /// Its fid is one to the host.
        WrongDirection = "wrong_direction",
    }
}

reasons! {
    /// Why a message was not written to its card.
    pub(super) enum Unwritten {
        /// The card has no such E-link.
        UnknownElink = "unknown_elink",
        /// It is longer than may be.
        TooLong = "too_long",
        /// Packets of Phase I cannot say its length.
        OddLength = "odd_length",
        /// The card is not there.
        NoCard = "no_card",
        /// It waited for room, and the card went.
        CardGone = "card_gone",
        /// It waited for room when the run was over.
        Stopped = "stopped",
    }
}

reasons! {
    /// Why packets in a ring are nobody's any more, as far as is known.
    pub(super) enum Untaken {
        /// The card went.
        CardGone = "card_gone",
        /// The run was over before the card had taken them; it may still.
        NotTaken = "not_taken",
    }
}

/// Words of one card.
#[derive(Clone, Debug)]
struct CardWords {
    encode: Account<Unwritten>,
    ring: Account<Untaken>,
    fill: Counter,
    capacity: Counter,
    opened: Counter,
}

/// Words of the process as a whole.
#[derive(Clone, Copy, Debug)]
struct Waits {
    held_up_ns: Counter,
    copied_bytes: Counter,
}

/// The books of to-flx.
pub(super) struct Books {
    pub(super) ledger: KeptLedger,
    group: GroupWriter,
    book: Book,
    route: Account<Unrouted>,
    cards: Vec<CardWords>,
    waits: Waits,
    /// The fault switch of the tests, at `route`, `encode` and `ring`.
    leak: Leak,
}

impl Books {
    /// Of so many cards; in the run directory `out`, or nowhere but here.
    pub(super) fn open(
        out: Option<&Path>,
        cards: usize,
        leak: Leak,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let run_id = format!("toflx-{}", std::process::id());
        let mut schema = SchemaBuilder::new(&run_id);
        schema.program("toflx");
        let group = schema.group("toflx");
        let (routed, route) = schema.account(group, "route", "all", Unit::Messages);
        let mut link = LinkSpec::new("routed", "all").from(routed);
        let mut words = Vec::with_capacity(cards);
        for card in 0..cards {
            let owner = format!("card{card}");
            let (encoded, encode) = schema.account(group, "encode", &owner, Unit::Messages);
            link = link.to(encoded);
            schema.headline(encoded);
            let (_, ring) = schema.account(group, "ring", &owner, Unit::Packets);
            let help = "Packets that the card has not taken";
            let fill = schema.gauge(group, "ring_fill_packets", &owner, help);
            let help = "Packets of the card's from-host buffer";
            let capacity = schema.gauge(group, "ring_capacity_packets", &owner, help);
            let help = "How often the card was opened";
            words.push(CardWords {
                encode,
                ring,
                fill,
                capacity,
                opened: schema.counter(group, "cards_opened", &owner, help),
            });
        }
        schema.link(link);
        let mut counter = |name: &str, help: &str| schema.counter(group, name, "", help);
        let waits = Waits {
            held_up_ns: counter("held_up_ns", "Time for which full rings held senders up"),
            copied_bytes: counter(
                "waiting_bytes",
                "Bytes of messages that were put aside, since the ring of their card was full",
            ),
        };
        let schema = schema.finish()?;
        let ledger = KeptLedger::open(&schema, &run_id, out, cards, tell)?;
        let group = GroupWriter::attach(&schema, ledger.words(), group)?;
        Ok(Self {
            book: group.restore(),
            group,
            ledger,
            route,
            cards: words,
            waits,
            leak,
        })
    }

    /// Whether what passes there vanishes uncounted.
    #[inline]
    pub(super) fn leaks(&mut self, hop: &str) -> bool {
        self.leak.take(hop)
    }

    /// A message has come.
    #[inline]
    pub(super) fn came(&mut self, bytes: u64) {
        self.book.add_tally(self.route.incoming, 1, bytes);
    }

    /// It has no card.
    pub(super) fn unrouted(&mut self, why: Unrouted, bytes: u64) {
        let dropped = self.route.lost(why);
        self.book.add_tally(dropped, 1, bytes);
    }

    /// It is for a card.
    #[inline]
    pub(super) fn routed(&mut self, bytes: u64) {
        self.book.add_tally(self.route.outgoing, 1, bytes);
    }

    /// A card has got it.
    #[inline]
    pub(super) fn given(&mut self, card: usize, bytes: u64) {
        let encode = self.cards[card].encode.incoming;
        self.book.add_tally(encode, 1, bytes);
    }

    /// It lies in the card's ring.
    #[inline]
    pub(super) fn written(&mut self, card: usize, bytes: u64) {
        let encode = self.cards[card].encode.outgoing;
        self.book.add_tally(encode, 1, bytes);
    }

    /// So many packets were written into the ring, by the count of the writer.
    #[inline]
    pub(super) fn packets(&mut self, card: usize, packets: u64) {
        let ring = self.cards[card].ring.incoming;
        self.book.add_tally(ring, packets, size(packets));
    }

    /// So many are in it more, by the length of their message.
    #[inline]
    pub(super) fn filled(&mut self, card: usize, packets: u64) {
        let ring = self.cards[card].ring.held;
        self.book.add_tally(ring, packets, size(packets));
    }

    /// It does not.
    pub(super) fn unwritten(&mut self, card: usize, why: Unwritten, bytes: u64) {
        let dropped = self.cards[card].encode.lost(why);
        self.book.add_tally(dropped, 1, bytes);
    }

    /// It is put aside until there is room.
    pub(super) fn waits(&mut self, card: usize, bytes: u64) {
        self.book.add_tally(self.cards[card].encode.held, 1, bytes);
        self.book.add(self.waits.copied_bytes, bytes);
    }

    /// It is not aside any more.
    pub(super) fn waits_no_more(&mut self, card: usize, bytes: u64) {
        self.book.sub_tally(self.cards[card].encode.held, 1, bytes);
    }

    /// The card has taken so many packets, by its own index.
    #[inline]
    pub(super) fn taken(&mut self, card: usize, packets: u64) {
        let counted = packets - self.leak.take_of("ring", packets);
        let ring = self.cards[card].ring.outgoing;
        self.book.add_tally(ring, counted, size(counted));
    }

    /// So many are in the ring no more.
    #[inline]
    pub(super) fn emptied(&mut self, card: usize, packets: u64) {
        let ring = self.cards[card].ring.held;
        self.book.sub_tally(ring, packets, size(packets));
    }

    /// So many it has not taken, by what the ring says.
    pub(super) fn untaken(&mut self, card: usize, why: Untaken, packets: u64) {
        let ring = self.cards[card].ring.lost(why);
        self.book.add_tally(ring, packets, size(packets));
    }

    /// Its ring has so many packets, of which it has not taken so many.
    #[inline]
    pub(super) fn fill(&mut self, card: usize, [fill, capacity]: [u64; 2]) {
        self.book.set(self.cards[card].fill, fill);
        self.book.set(self.cards[card].capacity, capacity);
    }

    /// It was opened.
    pub(super) fn opened(&mut self, card: usize) {
        self.book.add(self.cards[card].opened, 1);
    }

    /// A full ring held senders up for so long.
    pub(super) fn held_up(&mut self, ns: u64) {
        self.book.add(self.waits.held_up_ns, ns);
    }

    /// Shows all of it.
    #[inline]
    pub(super) fn commit(&mut self) {
        self.group.commit(&self.book);
    }
}

/// Bytes of so many packets.
const fn size(packets: u64) -> u64 {
    packets * PACKET_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let books = Books::open(None, 2, Leak::off(), &mut |_| {}).unwrap();
        let outline = books.ledger.reader().unwrap().outline();
        forebay_testing::accounts::assert_section("to-flx", &[outline]);
    }

    #[test]
    fn packets_have_their_size_and_those_that_leak_are_not_counted() {
        let leak = "ring:3".parse().unwrap();
        let mut books = Books::open(None, 2, leak, &mut |_| {}).unwrap();
        assert!(!books.leaks("route"));
        books.packets(1, 5);
        books.filled(1, 5);
        books.taken(1, 2);
        books.taken(1, 2);
        books.emptied(1, 4);
        books.untaken(1, Untaken::NotTaken, 1);
        assert!(!books.leaks("ring"), "three were taken");
        let ring = &books.cards[1].ring;
        let of = |tally| books.book.tally(tally);
        assert_eq!(of(ring.incoming), (5, 5 * 32));
        assert_eq!(of(ring.outgoing), (1, 32));
        assert_eq!(of(ring.held), (1, 32));
        assert_eq!(
            [Untaken::CardGone, Untaken::NotTaken].map(|why| of(ring.lost(why))),
            [(0, 0), (1, 32)]
        );
        let mut books = Books::open(None, 1, "route:1".parse().unwrap(), &mut |_| {}).unwrap();
        assert!(!books.leaks("ring") && books.leaks("route") && !books.leaks("route"));
    }

    #[test]
    fn gauges_and_waits_are_shown_with_a_commit() {
        let mut books = Books::open(None, 2, Leak::off(), &mut |_| {}).unwrap();
        books.fill(1, [7, 64]);
        books.opened(1);
        books.opened(1);
        books.held_up(90);
        books.held_up(9);
        books.waits(0, 40);
        books.commit();
        let shown = books.ledger.reader().unwrap().snapshot().unwrap();
        let card = &books.cards[1];
        let all = [card.fill, card.capacity, card.opened];
        let all = all
            .into_iter()
            .chain([books.waits.held_up_ns, books.waits.copied_bytes]);
        assert!(all.map(|it| shown.value(it)).eq([7, 64, 2, 99, 40]));
    }
}
