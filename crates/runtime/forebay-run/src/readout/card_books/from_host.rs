//! What the card was sent: packets, and messages of them.

use forebay_emu::card::{Card, FromHostBooks};
use forebay_ledger::{
    Account, Book, Counter, GroupId, GroupWriter, Leak, Schema, SchemaBuilder, Tally, Unit, Words,
};
use forebay_wire::felix::{PACKET_BYTES, Pieces};

use crate::error::RunError;

/// A group of its own: it is shown before packets are given back, which is often.
#[derive(Clone, Debug)]
pub(super) struct FromHostWords {
    group: GroupId,
    packets: Account,
    messages: Account,
    looped: Counter,
    sunk: Counter,
    held_up: Counter,
}

pub(super) fn declare(schema: &mut SchemaBuilder) -> FromHostWords {
    let group = schema.group("from_host");
    let reasons = FromHostBooks::REASONS;
    let mut account = |unit| {
        let declared = schema.account(group, "from_host", "all", unit, &reasons);
        declared.1
    };
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
        let now = card.from_host();
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
        let dropped = now.dropped().into_iter().zip(was.dropped());
        let tallies = packets.dropped.iter().zip(&messages.dropped);
        for ((packets, messages), (now, was)) in tallies.zip(dropped) {
            add(*packets, *messages, now, was);
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
        self.group.commit(&self.book);
    }
}
