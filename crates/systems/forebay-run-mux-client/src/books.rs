//! The ledger of a client of the multiplexer: what came and what became of it, what was due and what became of that, and connections of TCP.

use std::path::Path;

use forebay_ledger::{Account, Book, DropReason, GroupId, Schema, SchemaBuilder, Tally, Unit};
use forebay_run::error::RunError;
use forebay_run::run_dir::{OneGroup, RunEnd};

use crate::counts::{Amount, SendCounts, SendDrop, TcpCounts, TcpDrop, WorkCounts, WorkDrop};
use crate::summary::{MuxClientRecord, MuxClientSummary};

struct Words {
    work: Account<WorkDrop>,
    send: Account<SendDrop>,
    tcp: Account<TcpDrop>,
}

fn declare(run_id: &str, workload: &str) -> Result<(Schema, GroupId, Words), RunError> {
    let mut schema = SchemaBuilder::new(run_id);
    schema.program("mux-client");
    let group = schema.group("client");
    let (id, work) = schema.account(group, "client_work", workload, Unit::Packets);
    schema.headline(id);
    let (_, send) = schema.account(group, "client_send", workload, Unit::Packets);
    let (_, tcp) = schema.account(group, "client_tcp", workload, Unit::Packets);
    Ok((schema.finish()?, group, Words { work, send, tcp }))
}

fn set<R: DropReason>(
    book: &mut Book,
    account: &Account<R>,
    [incoming, outgoing, held]: [Amount; 3],
    dropped: impl Iterator<Item = (R, Amount)>,
) {
    let mut tally = |to: Tally, amount: Amount| {
        book.set(to.items, amount.packets);
        book.set(to.bytes, amount.bytes);
    };
    tally(account.incoming, incoming);
    tally(account.outgoing, outgoing);
    tally(account.held, held);
    for (why, amount) in dropped {
        tally(account.lost(why), amount);
    }
}

/// The ledger, and its only writer.
pub(crate) struct Books {
    group: OneGroup,
    words: Words,
}

impl Books {
    /// Makes them, in the run directory `out` or nowhere but here.
    pub(crate) fn open(
        workload: &str,
        out: Option<&Path>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let run_id = format!("mux-client-{}", std::process::id());
        let (schema, group, words) = declare(&run_id, workload)?;
        let group = OneGroup::open(&schema, group, &run_id, out, tell)?;
        Ok(Self { group, words })
    }

    /// Shows what there is now, with a sign of life.
    pub(crate) fn show(&mut self, work: &WorkCounts, send: &SendCounts, tcp: &TcpCounts) {
        let (book, words) = (&mut self.group.book, &self.words);
        let terms = [work.came, work.answered, Amount::default()];
        set(book, &words.work, terms, work.dropped.iter());
        let terms = [send.due, send.sent, send.held];
        set(book, &words.send, terms, send.dropped.iter());
        let terms = [tcp.came, tcp.returned, Amount::default()];
        set(book, &words.tcp, terms, tcp.dropped.iter());
        self.group.show();
    }

    /// Closes them, and leaves ledger and record in the run's directory, if there is one.
    pub(crate) fn close(
        self,
        end: RunEnd,
        summary: MuxClientSummary,
    ) -> Result<MuxClientRecord, RunError> {
        self.group.conclude(end, summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let (schema, ..) = declare("mux-client-1", "echo").unwrap();
        forebay_testing::accounts::assert_section("mux-client", &[schema.outline()]);
    }

    fn amount(packets: u64) -> Amount {
        Amount {
            packets,
            bytes: packets * 10,
        }
    }

    #[test]
    fn each_count_is_in_its_own_term() {
        let mut work = WorkCounts {
            came: amount(1),
            answered: amount(2),
            ..WorkCounts::default()
        };
        let mut send = SendCounts {
            due: amount(3),
            sent: amount(4),
            held: amount(5),
            ..SendCounts::default()
        };
        let mut tcp = TcpCounts {
            came: amount(6),
            returned: amount(7),
            ..TcpCounts::default()
        };
        let mut number = 7;
        let mut next = || {
            number += 1;
            amount(number)
        };
        work.dropped.iter_mut().for_each(|(_, to)| *to = next());
        send.dropped.iter_mut().for_each(|(_, to)| *to = next());
        tcp.dropped.iter_mut().for_each(|(_, to)| *to = next());
        let mut books = Books::open("echo", None, &mut |_| {}).unwrap();
        books.show(&work, &send, &tcp);
        let shown = books.group.reader().unwrap().snapshot().unwrap();
        let Words { work, send, tcp } = &books.words;
        let terms = [
            work.incoming,
            work.outgoing,
            send.incoming,
            send.outgoing,
            send.held,
            tcp.incoming,
            tcp.outgoing,
        ];
        let lost = work.losses().map(|(_, tally)| tally);
        let lost = lost.chain(send.losses().map(|(_, tally)| tally));
        let lost = lost.chain(tcp.losses().map(|(_, tally)| tally));
        let all: Vec<_> = terms.into_iter().chain(lost).collect();
        assert_eq!(all.len(), 7 + 2 + 4 + 1);
        for (tally, packets) in all.into_iter().zip(1..) {
            assert_eq!(shown.tally(tally), (packets, packets * 10));
        }
    }
}
