//! What the card was sent: packets, and messages of them.

use forebay_emu::card::{Card, FromHostBooks, FromHostDrop};
use forebay_ledger::{
    Account, Book, Counter, GroupId, GroupWriter, Leak, Schema, SchemaBuilder, Tally, Unit, Words,
};
use forebay_wire::felix::{PACKET_BYTES, Pieces};

use forebay_run::error::RunError;

/// A group of its own: it is shown before packets are given back, which is often.
#[derive(Clone, Debug)]
pub(super) struct FromHostWords {
    group: GroupId,
    packets: Account<FromHostDrop>,
    messages: Account<FromHostDrop>,
    looped: Counter,
    sunk: Counter,
    held_up: Counter,
}

pub(super) fn declare(schema: &mut SchemaBuilder) -> FromHostWords {
    let group = schema.group("from_host");
    let mut account = |unit| schema.account(group, "from_host", "all", unit).1;
    let [packets, messages] = [Unit::Packets, Unit::Messages].map(&mut account);
    let mut counter = |name: &str, help: &str| schema.counter(group, name, "", help);
    FromHostWords {
        group,
        packets,
        messages,
        looped: counter(
            "from_host_looped",
            "Messages that front ends have sent back",
        ),
        sunk: counter(
            "from_host_sunk",
            "Messages that front ends have taken and not sent back",
        ),
        held_up: counter(
            "from_host_held_up",
            "How often packets were left where they were, since a queue in front of a link was full",
        ),
    }
}

/// The books of the way to the front ends.
pub(crate) struct FromHostBook {
    group: GroupWriter,
    book: Book,
    at: FromHostWords,
    before: FromHostBooks,
    held_up: u64,
    /// The fault switch of the tests, at `from_host`.
    leak: Leak,
}

impl FromHostBook {
    pub(super) fn attach(
        schema: &Schema,
        words: &Words,
        at: FromHostWords,
    ) -> Result<Self, RunError> {
        let group = GroupWriter::attach(schema, words, at.group)?;
        Ok(Self {
            book: group.restore(),
            group,
            at,
            before: FromHostBooks::default(),
            held_up: 0,
            leak: Leak::off(),
        })
    }

    /// With the fault switch of the tests.
    pub(crate) fn leaking(mut self, leak: &Leak) -> Self {
        self.leak = leak.clone();
        self
    }

    /// Fills in what the engine has counted, and shows it.
    pub(crate) fn commit(&mut self, card: &Card, held_up: u64) {
        self.settle(card.from_host(), held_up);
        self.group.commit(&self.book);
    }

    fn settle(&mut self, now: FromHostBooks, held_up: u64) {
        let (was, at) = (self.before, &self.at);
        let book = &mut self.book;
        let mut add = |packets: Tally, messages: Tally, now: Pieces, was: Pieces| {
            let new = now.packets - was.packets;
            book.add_tally(packets, new, new * PACKET_BYTES as u64);
            let bytes = now.bytes - was.bytes;
            book.add_tally(messages, now.messages - was.messages, bytes);
        };
        let (packets, messages) = (&at.packets, &at.messages);
        let come = (now.decoded.come, was.decoded.come);
        add(packets.incoming, messages.incoming, come.0, come.1);
        add(packets.outgoing, messages.outgoing, now.looped, was.looped);
        let mut sunk = now.sunk;
        sunk.messages -= self
            .leak
            .take_of("from_host", now.sunk.messages - was.sunk.messages);
        add(packets.outgoing, messages.outgoing, sunk, was.sunk);
        let before = was.dropped();
        for (why, lost) in now.dropped().iter() {
            add(packets.lost(why), messages.lost(why), lost, before[why]);
        }
        let (is, was_held) = (now.decoded.held, was.decoded.held);
        add(packets.held, messages.held, is, Pieces::default());
        let bytes = was_held.packets * PACKET_BYTES as u64;
        book.sub_tally(packets.held, was_held.packets, bytes);
        book.sub_tally(messages.held, was_held.messages, was_held.bytes);
        book.add(at.looped, now.looped.messages - was.looped.messages);
        book.add(at.sunk, now.sunk.messages - was.sunk.messages);
        book.add(at.held_up, held_up - self.held_up);
        (self.before, self.held_up) = (now, held_up);
    }
}

#[cfg(test)]
mod tests {
    use forebay_ledger::RunWriter;
    use forebay_wire::felix::FromHostLoss;

    use super::*;

    fn book(leak: &str) -> FromHostBook {
        let mut schema = SchemaBuilder::new("card");
        let at = declare(&mut schema);
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 0).unwrap();
        let book = FromHostBook::attach(&schema, &words, at).unwrap();
        book.leaking(&leak.parse().unwrap())
    }

    /// Counts that are all different, and greater with each time; what is held goes up and down.
    fn counted(times: u64) -> FromHostBooks {
        let mut next = 100 * times;
        let mut one = || {
            next += 7 * times;
            Pieces {
                packets: next,
                messages: next + times,
                bytes: next + 2 * times,
            }
        };
        let mut now = FromHostBooks::default();
        for pieces in [
            &mut now.decoded.come,
            &mut now.looped,
            &mut now.sunk,
            &mut now.no_elink,
        ] {
            *pieces = one();
        }
        for loss in FromHostLoss::ALL {
            *now.decoded.lost.of_mut(loss) = one();
        }
        let held = 1_000 - 100 * times;
        now.decoded.held = Pieces {
            packets: held,
            messages: held + 1,
            bytes: held + 2,
        };
        now
    }

    fn sum(one: Pieces, other: Pieces) -> Pieces {
        let mut sum = one;
        sum += other;
        sum
    }

    /// A packet has 32 bytes, whatever is in it.
    fn assert_term(book: &FromHostBook, packets: Tally, messages: Tally, is: Pieces) {
        let found = (book.book.tally(packets), book.book.tally(messages));
        let expected = ((is.packets, 32 * is.packets), (is.messages, is.bytes));
        assert_eq!(found, expected);
    }

    #[test]
    fn each_count_is_in_its_own_term_and_once() {
        let mut book = book("from_host:0");
        for times in 1..=3 {
            book.settle(counted(times), 11 * times);
        }
        let (now, at) = (counted(3), book.at.clone());
        let (packets, messages) = (&at.packets, &at.messages);
        assert_term(&book, packets.incoming, messages.incoming, now.decoded.come);
        let out = sum(now.looped, now.sunk);
        assert_term(&book, packets.outgoing, messages.outgoing, out);
        assert_term(&book, packets.held, messages.held, now.decoded.held);
        let lost = FromHostLoss::ALL.map(|loss| now.decoded.lost(loss));
        let mut lost = [now.no_elink].into_iter().chain(lost);
        for ((_, packets), (_, messages)) in packets.losses().zip(messages.losses()) {
            assert_term(&book, packets, messages, lost.next().unwrap());
        }
        assert_eq!(lost.next(), None);
        let counters = [at.looped, at.sunk, at.held_up].map(|it| book.book.value(it));
        assert_eq!(counters, [now.looped.messages, now.sunk.messages, 33]);
    }

    #[test]
    fn messages_that_leak_are_missing_in_what_went_out() {
        // Two, and all of them.
        for (leak, leaked) in [("from_host:2", Some(2)), ("from_host:1000000", None)] {
            let mut book = book(leak);
            (1..=2).for_each(|times| book.settle(counted(times), 0));
            let (now, at) = (counted(2), book.at.clone());
            let mut out = sum(now.looped, now.sunk);
            out.messages -= leaked.unwrap_or(now.sunk.messages);
            assert_term(&book, at.packets.outgoing, at.messages.outgoing, out);
            assert_eq!(book.book.value(at.sunk), now.sunk.messages);
        }
    }
}
