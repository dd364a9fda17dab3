//! What is counted, and which terms make equations.
//!
//! | account | `in` | `out` | `dropped` | `held` |
//! |---|---|---|---|---|
//! | `mux_classify` of the card | frames that came | frames that matched | [`FrameDrop`] | never |
//! | `mux_deliver` of a client | frames for it | frames given to it | [`DeliveryDrop`] | never |
//! | `mux_receive` of a client | frames given to it | frames that it gave back | `client_gone` | what it has |
//! | `mux_transmit` of a client | packets that it handed over | packets that the card took | [`TransmitLoss`] | what waits, and what is in the card |
//! | `mux_respond` of the responder | questions | answers | [`ResponderDrop`] | never |
//!
//! Two of them are joined: what `mux_deliver` gave is what `mux_receive` got, each counted in its own place. And what matched is for one client, for
//! a group, or for the responder alone; a frame for a group is for as many clients as asked for it. [`Residual`] has all of it.
//!
//! No two terms of an equation are counted at one place. What came is counted where it comes in, what it is for where that is decided, and what became of it
//! where that is done; what is held is counted anew when books are closed, from the bits of buffers and the packets in queues.

use forebay_ledger::{
    Account, AccountId, Book, DropReason, GroupId, LinkSpec, PerReason, SchemaBuilder, Tally, Unit,
    reasons,
};

use crate::buffers::{DeliveryDrop, HoldCounts};
use crate::classify::FrameDrop;
use crate::responder::{ResponderCounts, ResponderDrop};
use crate::transmit::{SendCounts, TransmitLoss};

/// Items and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Items {
    /// Number of items.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Items {
    /// One more of so many bytes.
    #[inline]
    pub const fn add(&mut self, bytes: u32) {
        self.items += 1;
        self.bytes += bytes as u64;
    }

    /// So many more of so many bytes each.
    #[inline]
    pub const fn add_times(&mut self, times: u64, bytes: u32) {
        self.items += times;
        self.bytes += times * bytes as u64;
    }

    /// One less of so many bytes.
    #[inline]
    pub const fn sub(&mut self, bytes: u32) {
        self.items -= 1;
        self.bytes -= bytes as u64;
    }

    /// So many more.
    pub const fn add_all(&mut self, more: Self) {
        self.items += more.items;
        self.bytes += more.bytes;
    }

    /// So many less.
    pub const fn sub_all(&mut self, less: Self) {
        self.items -= less.items;
        self.bytes -= less.bytes;
    }

    /// What is left of it when the others are taken away, in items and in bytes.
    fn without(self, others: &[Self]) -> [i128; 2] {
        let rest = |of: fn(&Self) -> u64| {
            let others = others.iter().map(|other| i128::from(of(other)));
            i128::from(of(&self)) - others.sum::<i128>()
        };
        [rest(|it| it.items), rest(|it| it.bytes)]
    }
}

impl core::ops::AddAssign for Items {
    fn add_assign(&mut self, more: Self) {
        self.add_all(more);
    }
}

reasons! {
    /// Why a client has not given back what it was given.
    pub enum ReceiveDrop {
        /// It has gone, and all was taken from it.
        ClientGone = "client_gone",
    }
}

/// Frames that came, and for how many they were: `came` = `matched` + `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Frames that the card gave.
    pub came: Items,
    /// Frames that are for a client, a group or the responder.
    pub matched: Items,
    /// Frames that are for none of them.
    pub dropped: PerReason<FrameDrop, Items, { FrameDrop::COUNT }>,
    /// Of those that matched: for one client.
    pub to_client: Items,
    /// Of those that matched: for a group, with or without the responder.
    pub to_group: Items,
    /// Of those that matched: for the responder alone.
    pub to_responder: Items,
    /// Clients that frames for groups were for, a frame for each.
    pub group_copies: Items,
    /// Questions among the frames for groups.
    pub group_questions: u64,
}

/// Frames for a client: `came` = `given` + `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Frames that are for it.
    pub came: Items,
    /// Frames that it got a buffer for.
    pub given: Items,
    /// Frames that it did not get.
    pub dropped: PerReason<DeliveryDrop, Items, { DeliveryDrop::COUNT }>,
}

/// All that is counted of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientCounts<'a> {
    /// Frames for it.
    pub delivery: &'a DeliveryCounts,
    /// Buffers that it was given.
    pub receive: &'a HoldCounts,
    /// What it has of them: counted anew where books are closed.
    pub receive_held: Items,
    /// Packets that it handed over.
    pub transmit: &'a SendCounts,
    /// What waits of them or is on its way into the card: counted anew where books are closed.
    pub transmit_held: Items,
}

/// What does not add up, in items and bytes: nothing, in a program without mistakes. Magnitudes are added, so that two faults cannot cancel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residual {
    /// Items.
    pub items: u128,
    /// Bytes.
    pub bytes: u128,
}

impl Residual {
    fn add(&mut self, rest: [i128; 2]) {
        self.items += rest[0].unsigned_abs();
        self.bytes += rest[1].unsigned_abs();
    }

    /// Of one client: its three accounts, and the link of two of them.
    #[must_use]
    pub fn of_client(counts: &ClientCounts<'_>) -> Self {
        let mut residual = Self::default();
        let (delivery, receive, transmit) = (counts.delivery, counts.receive, counts.transmit);
        residual.add(
            delivery
                .came
                .without(&[delivery.given, delivery.dropped.total()]),
        );
        residual.add(delivery.given.without(&[receive.given]));
        let receives = [receive.taken_back, receive.reclaimed, counts.receive_held];
        residual.add(receive.given.without(&receives));
        let sends = [
            transmit.sent,
            transmit.dropped.total(),
            counts.transmit_held,
        ];
        residual.add(transmit.asked.without(&sends));
        residual
    }

    /// Of the whole: frames, those that clients were to get, questions, and each client's own.
    #[must_use]
    pub fn of_all<'a>(
        frames: &FrameCounts,
        responder: &ResponderCounts,
        clients: impl Iterator<Item = ClientCounts<'a>>,
    ) -> Self {
        let mut residual = Self::default();
        let kinds = [frames.to_client, frames.to_group, frames.to_responder];
        residual.add(
            frames
                .came
                .without(&[frames.matched, frames.dropped.total()]),
        );
        residual.add(frames.matched.without(&kinds));
        let mut for_clients = Items::default();
        for counts in clients {
            for_clients.add_all(counts.delivery.came);
            let of = Self::of_client(&counts);
            residual.items += of.items;
            residual.bytes += of.bytes;
        }
        residual.add(for_clients.without(&[frames.to_client, frames.group_copies]));
        let asked = i128::from(responder.asked);
        let questions = i128::from(frames.to_responder.items) + i128::from(frames.group_questions);
        let ended = i128::from(responder.answered) + i128::from(responder.dropped.total());
        residual.add([asked - ended, 0]);
        residual.add([asked - questions, 0]);
        residual
    }

    /// Whether nothing is left over.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.items == 0 && self.bytes == 0
    }
}

/// A client's accounts in the ledger.
#[derive(Clone, Debug)]
pub struct ClientAccounts {
    deliver: Account<DeliveryDrop>,
    receive: Account<ReceiveDrop>,
    transmit: Account<TransmitLoss>,
    sojourn_max_ns: forebay_ledger::Counter,
}

/// The accounts of the multiplexer in the ledger, in one group.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// The group, with one writer.
    pub group: GroupId,
    classify: Account<FrameDrop>,
    respond: Account<ResponderDrop>,
    clients: Vec<ClientAccounts>,
}

impl Accounts {
    /// Declares a group `mux` with the accounts of the card and of clients by their names, in the order of their numbers.
    pub fn declare(schema: &mut SchemaBuilder, clients: &[&str]) -> Self {
        let group = schema.group("mux");
        let (_, classify) = schema.account(group, "mux_classify", "card", Unit::Packets);
        let (_, respond) = schema.account(group, "mux_respond", "responder", Unit::Messages);
        let clients = clients
            .iter()
            .map(|name| declare_client(schema, group, name));
        Self {
            group,
            classify,
            respond,
            clients: clients.collect(),
        }
    }

    /// Writes what was counted so far of the card and the responder.
    pub fn write_all(&self, book: &mut Book, frames: &FrameCounts, responder: &ResponderCounts) {
        set(book, self.classify.incoming, frames.came);
        set(book, self.classify.outgoing, frames.matched);
        for (why, items) in frames.dropped.iter() {
            set(book, self.classify.lost(why), items);
        }
        let of = |items| Items { items, bytes: 0 };
        set(book, self.respond.incoming, of(responder.asked));
        set(book, self.respond.outgoing, of(responder.answered));
        for (why, items) in responder.dropped.iter() {
            set(book, self.respond.lost(why), of(items));
        }
    }

    /// Writes what was counted so far of the client with this place in the list; nothing of one that was not declared.
    pub fn write_client(&self, book: &mut Book, at: usize, counts: &ClientCounts<'_>) {
        let Some(accounts) = self.clients.get(at) else {
            return;
        };
        let (delivery, receive, transmit) = (counts.delivery, counts.receive, counts.transmit);
        set(book, accounts.deliver.incoming, delivery.came);
        set(book, accounts.deliver.outgoing, delivery.given);
        for (why, items) in delivery.dropped.iter() {
            set(book, accounts.deliver.lost(why), items);
        }
        set(book, accounts.receive.incoming, receive.given);
        set(book, accounts.receive.outgoing, receive.taken_back);
        set(
            book,
            accounts.receive.lost(ReceiveDrop::ClientGone),
            receive.reclaimed,
        );
        set(book, accounts.receive.held, counts.receive_held);
        set(book, accounts.transmit.incoming, transmit.asked);
        set(book, accounts.transmit.outgoing, transmit.sent);
        set(book, accounts.transmit.held, counts.transmit_held);
        for (why, items) in transmit.dropped.iter() {
            set(book, accounts.transmit.lost(why), items);
        }
        book.set(accounts.sojourn_max_ns, transmit.sojourn_max_ns);
    }
}

fn declare_client(schema: &mut SchemaBuilder, group: GroupId, name: &str) -> ClientAccounts {
    let (from, deliver): (AccountId, _) = schema.account(group, "mux_deliver", name, Unit::Packets);
    let (to, receive) = schema.account(group, "mux_receive", name, Unit::Packets);
    let (_, transmit) = schema.account(group, "mux_transmit", name, Unit::Packets);
    schema.link(LinkSpec::new("mux_queue", name).from(from).to(to));
    let help =
        "longest that a packet of a client (the owner) waited until it was given to the card";
    let sojourn_max_ns = schema.gauge(group, "mux_sojourn_max_ns", name, help);
    ClientAccounts {
        deliver,
        receive,
        transmit,
        sojourn_max_ns,
    }
}

fn set(book: &mut Book, term: Tally, items: Items) {
    book.set(term.items, items.items);
    book.set(term.bytes, items.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::ReturnFault;
    use crate::descriptor::TransmitFault;
    use crate::transmit::TransmitDrop;
    use forebay_ledger::OneOf;

    const TEN: Items = Items {
        items: 10,
        bytes: 640,
    };
    const FIVE: Items = Items {
        items: 5,
        bytes: 320,
    };

    /// All that is counted, as it closes.
    #[derive(Clone, Copy, Default)]
    struct Sheet {
        frames: FrameCounts,
        responder: ResponderCounts,
        delivery: DeliveryCounts,
        receive: HoldCounts,
        receive_held: Items,
        transmit: SendCounts,
        transmit_held: Items,
    }

    impl Sheet {
        fn closed() -> Self {
            let mut sheet = Self::default();
            (sheet.frames.came, sheet.frames.matched) = (TEN, FIVE);
            sheet.frames.dropped[FrameDrop::Unmatched] = FIVE;
            sheet.frames.to_client = FIVE;
            (sheet.delivery.came, sheet.delivery.given) = (FIVE, FIVE);
            (sheet.receive.given, sheet.receive_held) = (FIVE, FIVE);
            (sheet.transmit.asked, sheet.transmit.sent) = (TEN, FIVE);
            sheet.transmit_held = FIVE;
            sheet
        }

        fn residual(&self) -> Residual {
            let counts = ClientCounts {
                delivery: &self.delivery,
                receive: &self.receive,
                receive_held: self.receive_held,
                transmit: &self.transmit,
                transmit_held: self.transmit_held,
            };
            Residual::of_all(&self.frames, &self.responder, core::iter::once(counts))
        }
    }

    /// One more or one byte more in any term, and it does not close.
    #[test]
    fn each_term_counts() {
        assert!(Sheet::closed().residual().is_zero());
        let terms: [fn(&mut Sheet) -> &mut Items; 19] = [
            |sheet| &mut sheet.frames.came,
            |sheet| &mut sheet.frames.matched,
            |sheet| &mut sheet.frames.dropped[FrameDrop::Malformed],
            |sheet| &mut sheet.frames.to_client,
            |sheet| &mut sheet.frames.to_group,
            |sheet| &mut sheet.frames.to_responder,
            |sheet| &mut sheet.frames.group_copies,
            |sheet| &mut sheet.delivery.came,
            |sheet| &mut sheet.delivery.given,
            |sheet| &mut sheet.delivery.dropped[DeliveryDrop::QueueFull],
            |sheet| &mut sheet.receive.given,
            |sheet| &mut sheet.receive.taken_back,
            |sheet| &mut sheet.receive.reclaimed,
            |sheet| &mut sheet.receive_held,
            |sheet| &mut sheet.transmit.asked,
            |sheet| &mut sheet.transmit.sent,
            |sheet| &mut sheet.transmit_held,
            |sheet| &mut sheet.transmit.dropped[OneOf::First(TransmitFault::Range)],
            |sheet| &mut sheet.transmit.dropped[OneOf::Second(TransmitDrop::Card)],
        ];
        for (at, term) in terms.iter().enumerate() {
            for (items, bytes) in [(1, 0), (0, 1)] {
                let mut sheet = Sheet::closed();
                term(&mut sheet).add_all(Items { items, bytes });
                assert!(!sheet.residual().is_zero(), "term {at}");
            }
        }
        let questions: [fn(&mut Sheet) -> &mut u64; 4] = [
            |sheet| &mut sheet.responder.asked,
            |sheet| &mut sheet.responder.answered,
            |sheet| &mut sheet.responder.dropped[ResponderDrop::NotOurs],
            |sheet| &mut sheet.frames.group_questions,
        ];
        for (at, term) in questions.iter().enumerate() {
            let mut sheet = Sheet::closed();
            *term(&mut sheet) += 1;
            assert!(!sheet.residual().is_zero(), "question {at}");
        }
        // Lies about buffers are in no equation: nothing came back.
        let mut sheet = Sheet::closed();
        sheet.receive.faults[ReturnFault::NotHeld] += 1;
        assert!(sheet.residual().is_zero());
    }

    /// Each account closes, and what joins two of them does not.
    #[test]
    fn accounts_that_close_alone_must_agree() {
        let breaks: [fn(&mut Sheet); 4] = [
            |sheet| {
                sheet.receive.given.add(0);
                sheet.receive_held.add(0);
            },
            |sheet| {
                sheet.delivery.came.add(0);
                sheet.delivery.dropped[DeliveryDrop::PoolEmpty].add(0);
            },
            |sheet| {
                sheet.frames.came.add(0);
                sheet.frames.matched.add(0);
                sheet.frames.to_responder.add(0);
            },
            |sheet| {
                sheet.responder.asked += 1;
                sheet.responder.answered += 1;
            },
        ];
        for (at, broken) in breaks.iter().enumerate() {
            let mut sheet = Sheet::closed();
            broken(&mut sheet);
            assert_eq!(sheet.residual().items, 1, "break {at}");
        }
    }

    #[test]
    fn faults_of_opposite_sign_do_not_cancel() {
        let mut sheet = Sheet::closed();
        sheet.delivery.came.items += 1;
        sheet.receive_held.items += 1;
        sheet.frames.to_client.items += 1;
        assert!(sheet.residual().items >= 3);
    }
}
