//! The ledgers of generated load, of which each target has three accounts, and of the echo.

use std::path::Path;

use forebay_ledger::{
    Account, Book, Counter, DropReason, GroupId, GroupWriter, HistogramId, HistogramWriter, Schema,
    SchemaBuilder, Snapshot, Tally, Unit, reasons,
};
use forebay_load::{Amount, AnswerDrop, Counts, FlightDrop, SendDrop, target_name};
use forebay_run::error::RunError;
use forebay_run::record::{Envelope, Record};
use forebay_run::run_dir::{KeptLedger, OneGroup, RunEnd};
use serde::Serialize;

use crate::Transport;
use crate::end::{RingCounts, Seen};

reasons! {
    /// Why an echo does not send back what came.
    pub(crate) enum EchoDrop {
        /// Its socket had no room.
        NoRoom = "no_room",
        /// The kernel refused it.
        Refused = "refused",
        /// Its sender is gone.
        Disconnected = "disconnected",
        /// There was more of it than was taken, or no whole header.
        Cut = "cut",
    }
}

reasons! {
    /// Why a frame that came to a ring is not taken from it.
    pub(crate) enum RingDrop {
        /// Those before it were not taken in time.
        RingFull = "ring_full",
    }
}

struct Words {
    /// Where frames come from a ring.
    ring: Option<Account<RingDrop>>,
    send: Account<SendDrop>,
    flight: Account<FlightDrop>,
    answer: Account<AnswerDrop>,
    reordered: Counter,
}

struct Declared {
    schema: Schema,
    group: GroupId,
    targets: Vec<Words>,
    histograms: Vec<[HistogramId; 2]>,
}

fn declare(run_id: &str, targets: usize, transport: &Transport) -> Result<Declared, RunError> {
    let mut schema = SchemaBuilder::new(run_id);
    schema.program("load");
    let group = schema.group("load");
    let (mut words, mut histograms) = (Vec::new(), Vec::new());
    for name in (0..targets).map(target_name) {
        let (_, send) = schema.account::<SendDrop>(group, "load_send", &name, Unit::Packets);
        let has_ring = matches!(transport, Transport::Raw(_));
        let ring = has_ring.then(|| {
            let ring = schema.account::<RingDrop>(group, "load_ring", &name, Unit::Packets);
            ring.1
        });
        let (id, flight) = schema.account::<FlightDrop>(group, "load_flight", &name, Unit::Packets);
        let (_, answer) = schema.account::<AnswerDrop>(group, "load_answer", &name, Unit::Packets);
        schema.headline(id);
        let help =
            "Answers in time to packets that were sent before one that was answered already.";
        words.push(Words {
            ring,
            send,
            flight,
            answer,
            reordered: schema.counter(group, "load_reordered", &name, help),
        });
        histograms.push(
            ["load_rtt_ns", "load_kernel_rtt_ns"].map(|of| schema.histogram(of, "ns", &name)),
        );
    }
    Ok(Declared {
        schema: schema.finish()?,
        group,
        targets: words,
        histograms,
    })
}

/// Sets the terms of an account.
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

/// Sets the terms of a ring, in frames alone, as the kernel counts no bytes.
fn set_ring(book: &mut Book, account: &Account<RingDrop>, counts: RingCounts) {
    let terms = [
        (account.incoming, counts.came),
        (account.outgoing, counts.taken),
        (account.held, counts.held),
        (account.lost(RingDrop::RingFull), counts.dropped),
    ];
    for (to, frames) in terms {
        book.set(to.items, frames);
    }
}

/// The books of generated load.
pub(crate) struct Books {
    ledger: KeptLedger,
    writer: GroupWriter,
    book: Book,
    targets: Vec<Words>,
}

impl Books {
    /// Makes them, in the run directory `out` or nowhere but here, with the histograms of round-trip times.
    pub(crate) fn open(
        targets: usize,
        transport: &Transport,
        out: Option<&Path>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(Self, Seen), RunError> {
        let run_id = format!("load-{}", std::process::id());
        let declared = declare(&run_id, targets, transport)?;
        let schema = &declared.schema;
        let ledger = KeptLedger::open(schema, &run_id, out, 0, tell)?;
        let of = |which: usize| -> Result<Vec<HistogramWriter>, RunError> {
            let all = declared.histograms.iter();
            all.map(|ids| Ok(HistogramWriter::attach(schema, ledger.words(), ids[which])?))
                .collect()
        };
        let seen = Seen {
            rtt_ns: of(0)?,
            kernel_rtt_ns: of(1)?,
        };
        let writer = GroupWriter::attach(schema, ledger.words(), declared.group)?;
        let books = Self {
            book: writer.restore(),
            writer,
            ledger,
            targets: declared.targets,
        };
        Ok((books, seen))
    }

    /// Fills in what there is now, and shows it.
    pub(crate) fn show(&mut self, counts: impl Fn(usize) -> (Counts, Option<RingCounts>)) {
        for (at, words) in self.targets.iter().enumerate() {
            let (counts, ring) = counts(at);
            if let Some((account, ring)) = words.ring.as_ref().zip(ring) {
                set_ring(&mut self.book, account, ring);
            }
            let Counts {
                send,
                waiting,
                flight,
                in_flight,
                answer,
                reordered,
            } = counts;
            let book = &mut self.book;
            let terms = [send.due, send.taken, waiting];
            set(book, &words.send, terms, send.dropped.iter());
            let terms = [flight.sent, flight.answered, in_flight];
            set(book, &words.flight, terms, flight.lost.iter());
            let terms = [answer.came, answer.matched, Amount::default()];
            set(book, &words.answer, terms, answer.dropped.iter());
            book.set(words.reordered, reordered);
        }
        self.writer.commit(&self.book);
        self.ledger.heartbeat();
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot, RunError> {
        Ok(self.ledger.reader()?.snapshot()?)
    }

    /// Closes them, and leaves ledger and record in the run's directory, if there is one.
    pub(crate) fn close<S: Serialize>(
        mut self,
        end: RunEnd,
        summary: impl FnOnce(&Envelope) -> S,
    ) -> Result<Record<S>, RunError> {
        self.ledger.conclude(end, summary)
    }
}

/// What an echo counted over one protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Echoed {
    /// Packets, or reads of a connection, that came.
    pub came: u64,
    /// Their bytes.
    pub came_bytes: u64,
    /// Those that went back.
    pub returned: u64,
    /// Their bytes.
    pub returned_bytes: u64,
}

/// The counts of an echo over one protocol.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EchoCounts {
    pub(crate) came: Amount,
    pub(crate) returned: Amount,
    pub(crate) held: Amount,
    pub(crate) dropped: forebay_ledger::PerReason<EchoDrop, Amount, { EchoDrop::COUNT }>,
}

impl EchoCounts {
    /// One more is lost.
    pub(crate) fn lose(&mut self, why: EchoDrop, bytes: usize) {
        self.dropped[why].add(bytes);
    }
}

impl From<&EchoCounts> for Echoed {
    fn from(counts: &EchoCounts) -> Self {
        Self {
            came: counts.came.packets,
            came_bytes: counts.came.bytes,
            returned: counts.returned.packets,
            returned_bytes: counts.returned.bytes,
        }
    }
}

struct DeclaredEcho {
    schema: Schema,
    group: GroupId,
    accounts: [Account<EchoDrop>; 2],
    raw: Option<(Account<EchoDrop>, Account<RingDrop>)>,
}

fn declare_echo(run_id: &str, has_raw: bool) -> Result<DeclaredEcho, RunError> {
    let mut schema = SchemaBuilder::new(run_id);
    schema.program("load-echo");
    let group = schema.group("echo");
    let mut account = |owner: &str| {
        let (id, account) = schema.account::<EchoDrop>(group, "echo", owner, Unit::Packets);
        schema.headline(id);
        account
    };
    let accounts = ["udp", "tcp"].map(&mut account);
    let raw = has_raw.then(|| account("raw"));
    let raw = raw.map(|account| {
        let (_, ring) = schema.account::<RingDrop>(group, "echo_ring", "raw", Unit::Packets);
        (account, ring)
    });
    Ok(DeclaredEcho {
        schema: schema.finish()?,
        group,
        accounts,
        raw,
    })
}

/// The books of an echo.
pub(crate) struct EchoBooks {
    group: OneGroup,
    accounts: [Account<EchoDrop>; 2],
    raw: Option<(Account<EchoDrop>, Account<RingDrop>)>,
}

impl EchoBooks {
    /// Makes them, for frames as well where there are some.
    pub(crate) fn open(
        has_raw: bool,
        out: Option<&Path>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let run_id = format!("load-echo-{}", std::process::id());
        let DeclaredEcho {
            schema,
            group,
            accounts,
            raw,
        } = declare_echo(&run_id, has_raw)?;
        Ok(Self {
            group: OneGroup::open(&schema, group, &run_id, out, tell)?,
            accounts,
            raw,
        })
    }

    /// Fills in what there is now of UDP and of TCP, and of frames and their ring, and shows it.
    pub(crate) fn show(&mut self, counts: [EchoCounts; 2], raw: Option<(EchoCounts, RingCounts)>) {
        let mut all: Vec<_> = self.accounts.iter().zip(counts).collect();
        if let Some(((account, ring), (counts, ring_counts))) = self.raw.as_ref().zip(raw) {
            set_ring(&mut self.group.book, ring, ring_counts);
            all.push((account, counts));
        }
        for (account, counts) in all {
            let terms = [counts.came, counts.returned, counts.held];
            set(&mut self.group.book, account, terms, counts.dropped.iter());
        }
        self.group.show();
    }

    pub(crate) fn close<S: Serialize>(
        self,
        end: RunEnd,
        summary: S,
    ) -> Result<Record<S>, RunError> {
        self.group.conclude(end, summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> Transport {
        Transport::Raw(crate::RawPlan {
            interface: "eth1".into(),
            ethertype: 0x88b5,
        })
    }

    #[test]
    fn the_page_of_accounts_has_these_ledgers() {
        let load = declare("load-1", 1, &raw()).unwrap().schema.outline();
        forebay_testing::accounts::assert_section("load", &[load]);
        let echo = declare_echo("load-echo-1", true).unwrap().schema.outline();
        forebay_testing::accounts::assert_section("load-echo", &[echo]);
    }

    #[test]
    fn each_count_is_in_its_own_term() {
        let amount = |packets| Amount {
            packets,
            bytes: packets * 10,
        };
        let mut counts = Counts::default();
        (counts.send.due, counts.send.taken, counts.waiting) = (amount(1), amount(2), amount(3));
        (counts.flight.sent, counts.flight.answered) = (amount(4), amount(5));
        (counts.in_flight, counts.reordered) = (amount(6), 7);
        (counts.answer.came, counts.answer.matched) = (amount(8), amount(9));
        let mut number = 10;
        let mut next = || {
            number += 1;
            amount(number)
        };
        counts
            .send
            .dropped
            .iter_mut()
            .for_each(|(_, to)| *to = next());
        counts
            .flight
            .lost
            .iter_mut()
            .for_each(|(_, to)| *to = next());
        counts
            .answer
            .dropped
            .iter_mut()
            .for_each(|(_, to)| *to = next());
        let (mut books, _) = Books::open(2, &raw(), None, &mut |_| {}).unwrap();
        books.show(|at| match at {
            0 => (Counts::default(), None),
            _ => (counts, Some(RING)),
        });
        let shown = books.snapshot().unwrap();
        let words = &books.targets[1];
        let terms = [
            words.send.incoming,
            words.send.outgoing,
            words.send.held,
            words.flight.incoming,
            words.flight.outgoing,
            words.flight.held,
        ];
        assert_eq!(terms.map(|term| shown.tally(term).0), [1, 2, 3, 4, 5, 6]);
        assert_eq!(shown.value(words.reordered), 7);
        let answer = [
            words.answer.incoming,
            words.answer.outgoing,
            words.answer.held,
        ];
        assert_eq!(answer.map(|term| shown.tally(term).1), [80, 90, 0]);
        let dropped = words.send.losses().map(|(_, tally)| tally);
        let dropped = dropped.chain(words.flight.losses().map(|(_, tally)| tally));
        let dropped = dropped.chain(words.answer.losses().map(|(_, tally)| tally));
        for (tally, packets) in dropped.zip(11..) {
            assert_eq!(shown.tally(tally), (packets, packets * 10));
        }
        assert_eq!(shown.tally(books.targets[0].send.incoming), (0, 0));
        assert_eq!(
            ring_of(&shown, words.ring.as_ref().unwrap()),
            [90, 50, 10, 30]
        );
        let idle = books.targets[0].ring.as_ref().unwrap();
        assert_eq!(ring_of(&shown, idle), [0; 4]);
    }

    #[test]
    fn a_ring_is_in_the_books_of_frames_alone() {
        for transport in [Transport::Udp, Transport::Tcp] {
            let declared = declare("load-1", 1, &transport).unwrap();
            assert!(declared.targets[0].ring.is_none());
        }
        assert!(declare_echo("load-echo-1", false).unwrap().raw.is_none());
    }

    const RING: RingCounts = RingCounts {
        came: 90,
        dropped: 30,
        taken: 50,
        held: 10,
    };

    /// In, out, held and lost.
    fn ring_of(shown: &Snapshot, ring: &Account<RingDrop>) -> [u64; 4] {
        let terms = [
            ring.incoming,
            ring.outgoing,
            ring.held,
            ring.lost(RingDrop::RingFull),
        ];
        terms.map(|term| shown.tally(term).0)
    }

    #[test]
    fn each_count_of_an_echo_is_in_its_own_term() {
        let amount = |packets| Amount {
            packets,
            bytes: packets * 10,
        };
        let mut counts = EchoCounts {
            came: amount(1),
            returned: amount(2),
            held: amount(3),
            ..EchoCounts::default()
        };
        for ((_, to), packets) in counts.dropped.iter_mut().zip(4..) {
            *to = amount(packets);
        }
        let mut books = EchoBooks::open(true, None, &mut |_| {}).unwrap();
        let frames = EchoCounts {
            came: amount(7),
            ..EchoCounts::default()
        };
        books.show([EchoCounts::default(), counts], Some((frames, RING)));
        let shown = books.group.reader().unwrap().snapshot().unwrap();
        let [udp, tcp] = &books.accounts;
        assert_eq!(shown.tally(udp.incoming), (0, 0));
        let terms = [tcp.incoming, tcp.outgoing, tcp.held];
        assert_eq!(
            terms.map(|term| shown.tally(term)),
            [(1, 10), (2, 20), (3, 30)]
        );
        let dropped: Vec<u64> = tcp
            .losses()
            .map(|(_, tally)| shown.tally(tally).0)
            .collect();
        assert_eq!(dropped, [4, 5, 6, 7]);
        let (raw, ring) = books.raw.as_ref().unwrap();
        assert_eq!(shown.tally(raw.incoming), (7, 70));
        assert_eq!(ring_of(&shown, ring), [90, 50, 10, 30]);
    }
}
