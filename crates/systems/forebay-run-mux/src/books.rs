//! The ledger of a multiplexer: the accounts of its card, of the engine, and of the answers that it sends itself. One thread writes all of them.
//!
//! `mux_answer`: the responder makes an answer, which is counted here as it comes, and the card takes it or does not; what the driver has of them is held.

use std::path::Path;

use forebay_ledger::{Account, Book, GroupWriter, Schema, SchemaBuilder, Unit, reasons};
use forebay_mux::account::Accounts;
use forebay_mux::{Items, Mux};
use forebay_run::error::RunError;
use forebay_run::record::Envelope;
use forebay_run::run_dir::{KeptLedger, RunEnd};
use forebay_sys::clock::monotonic_ns;

use crate::driver::account::{CardAccounts, InDrops};
use crate::driver::{Driver, DriverError};
use crate::plan::MuxPlan;
use crate::summary::{MuxRecord, MuxSummary};

/// What the interface counts is asked so often: the kernel tells of all interfaces then.
const LINK_NS: u64 = 1_000_000_000;

reasons! {
    /// Why an answer of the responder is not sent.
    pub(crate) enum AnswerDrop {
        /// The card did not take it.
        Card = "card",
    }
}

/// Answers of the responder: `made` = `sent` + `dropped` + `held`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AnswerCounts {
    pub(crate) made: Items,
    pub(crate) sent: Items,
    pub(crate) dropped: Items,
    /// On their way into the card, counted anew.
    pub(crate) held: Items,
}

/// The ledger, and its only writer.
pub(crate) struct Books {
    ledger: KeptLedger,
    group: GroupWriter,
    book: Book,
    words: AllWords,
    /// When the interface's own counts were read last.
    linked_ns: Option<u64>,
    /// Frames that came to the card and were lost there, as was last seen.
    lost_in: InDrops,
}

/// The words of a multiplexer.
struct AllWords {
    engine: Accounts,
    card: CardAccounts,
    answers: Account<AnswerDrop>,
}

impl AllWords {
    fn write_answers(&self, book: &mut Book, answers: &AnswerCounts) {
        for (tally, items) in [
            (self.answers.incoming, answers.made),
            (self.answers.outgoing, answers.sent),
            (self.answers.lost(AnswerDrop::Card), answers.dropped),
            (self.answers.held, answers.held),
        ] {
            book.set(tally.items, items.items);
            book.set(tally.bytes, items.bytes);
        }
    }
}

fn declare(run_id: &str, clients: &[&str], card: &str) -> Result<(Schema, AllWords), RunError> {
    let mut schema = SchemaBuilder::new(run_id);
    schema.program("mux");
    let engine = Accounts::declare(&mut schema, clients);
    let card = CardAccounts::declare(&mut schema, engine.group, card);
    schema.headline(card.card_in);
    schema.headline(card.card_out);
    let (_, answers) = schema.account(engine.group, "mux_answer", "responder", Unit::Packets);
    let words = AllWords {
        engine,
        card,
        answers,
    };
    Ok((schema.finish()?, words))
}

impl Books {
    /// Makes them in the run directory `out`, or nowhere but here.
    pub(crate) fn open(
        out: Option<&Path>,
        plan: &MuxPlan,
        card: &str,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let run_id = format!("mux-{}", std::process::id());
        let names = plan.clients.iter().map(|said| said.name.as_deref());
        let names: Vec<_> = names.map(Option::unwrap_or_default).collect();
        let (schema, words) = declare(&run_id, &names, card)?;
        let ledger = KeptLedger::open(&schema, &run_id, out, names.len(), tell)?;
        let group = GroupWriter::attach(&schema, ledger.words(), words.engine.group)?;
        Ok(Self {
            book: group.restore(),
            group,
            ledger,
            words,
            linked_ns: None,
            lost_in: InDrops::default(),
        })
    }

    /// Frames that came to the card and were lost there, as was last seen.
    pub(crate) const fn lost_in(&self) -> &InDrops {
        &self.lost_in
    }

    /// Shows what there is now, with a sign of life.
    pub(crate) fn show(
        &mut self,
        plan: &MuxPlan,
        mux: &Mux,
        driver: &mut Driver,
        answers: &AnswerCounts,
    ) -> Result<(), DriverError> {
        for (at, (client, _)) in plan.places().enumerate() {
            self.words
                .engine
                .write_client(&mut self.book, at, &mux.counts_now(client));
        }
        self.fill(mux, driver, answers)
    }

    /// The same at the end, where what is held is counted anew.
    pub(crate) fn show_end(
        &mut self,
        plan: &MuxPlan,
        mux: &Mux,
        driver: &mut Driver,
        answers: &AnswerCounts,
    ) -> Result<(), DriverError> {
        self.linked_ns = None;
        for (at, (client, _)) in plan.places().enumerate() {
            self.words
                .engine
                .write_client(&mut self.book, at, &mux.counts(client));
        }
        self.fill(mux, driver, answers)
    }

    /// What cannot be read stays as it was, and is told.
    fn fill(
        &mut self,
        mux: &Mux,
        driver: &mut Driver,
        answers: &AnswerCounts,
    ) -> Result<(), DriverError> {
        let (came, went) = (driver.receive.counts(), driver.send.counts());
        let is_due = self
            .linked_ns
            .is_none_or(|last_ns| monotonic_ns() - last_ns >= LINK_NS);
        let link = if is_due {
            driver.card.link_counts()
        } else {
            Ok(None)
        };
        if is_due {
            self.linked_ns = Some(monotonic_ns());
        }
        let (book, words) = (&mut self.book, &self.words);
        words.engine.write_all(book, mux.frames(), mux.questions());
        if let Ok(counts) = &came {
            words.card.write_in(book, counts);
            self.lost_in = counts.dropped;
        }
        if let Ok(counts) = &went {
            words.card.write_out(book, counts);
        }
        if let Ok(Some(counts)) = &link {
            words.card.write_link(book, counts);
        }
        words.write_answers(book, answers);
        self.group.commit(book);
        self.ledger.heartbeat();
        came.map(drop).and(went.map(drop)).and(link.map(drop))
    }

    /// Closes them, and leaves ledger and record in the run's directory, if there is one.
    pub(crate) fn close(
        mut self,
        end: RunEnd,
        summary: impl FnOnce(&Envelope) -> MuxSummary,
    ) -> Result<MuxRecord, RunError> {
        self.ledger.conclude(end, summary)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use forebay_config::source::Source;
    use forebay_ledger::AccountLine;
    use forebay_mux::buffers::BufferId;
    use forebay_mux::{ClientId, Outlet};

    use super::*;
    use crate::driver::emulated::{self, EmulatedOptions};
    use crate::driver::{Card, CardState, LinkCounts};

    /// To the client `a`.
    const FRAME: [u8; 60] = {
        let mut frame = [0; 60];
        frame[0] = 2;
        frame[5] = 1;
        frame[6] = 2;
        frame[11] = 9;
        frame[12] = 0x88;
        frame[13] = 0xb5;
        frame
    };

    fn plan() -> MuxPlan {
        let text = "[mux]\ninterface = \"none\"\n[[clients]]\nname = \"a\"\nuid = 1\nmac = \"02:00:00:00:00:01\"\n";
        forebay_config::read(&Source::of_text("mux.toml", text)).unwrap()
    }

    fn open(plan: &MuxPlan) -> Books {
        Books::open(None, plan, "card", &mut |_| {}).unwrap()
    }

    /// Nobody is at the place.
    struct Nobody;

    impl Outlet for Nobody {
        fn give(&mut self, _client: ClientId, _buffer: BufferId) {}

        fn answer(&mut self, _frame: &[u8]) {}
    }

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let (schema, _) = declare("mux-1", &["client1", "client2"], "card").unwrap();
        forebay_testing::accounts::assert_section("mux", &[schema.outline()]);
    }

    #[test]
    fn what_daemon_and_card_count_is_in_the_ledger_at_work_and_at_the_end() {
        let plan = plan();
        let mut books = open(&plan);
        let (mut driver, far) = emulated::open(&EmulatedOptions::default()).unwrap();
        let mut mux = plan.engine(0).unwrap();
        let answers = |items: u64| Items {
            items,
            bytes: items * 60,
        };
        for (number, is_end) in [(1, false), (2, true)] {
            assert!(far.send(&FRAME));
            let visit = &mut |frame: &[u8]| mux.handle_frame(frame, &mut Nobody);
            assert_eq!(driver.receive.receive(9, visit).unwrap(), 1);
            let answered = AnswerCounts {
                made: answers(7 * number),
                sent: answers(4 * number),
                dropped: answers(2 * number),
                held: answers(number),
            };
            let shown = if is_end {
                books.show_end(&plan, &mux, &mut driver, &answered)
            } else {
                books.show(&plan, &mux, &mut driver, &answered)
            };
            shown.unwrap();
            let snapshot = books.ledger.reader().unwrap().snapshot().unwrap();
            let balance = snapshot.balance();
            let of = |place: &str| -> &AccountLine {
                let line = balance.accounts.iter().find(|line| line.place == place);
                line.unwrap()
            };
            let places = ["mux_card_in", "mux_classify", "mux_deliver"];
            let came = places.map(|place| of(place).incoming.items);
            assert_eq!(came, [number; 3], "at the end: {is_end}");
            let answer = of("mux_answer");
            let bytes = [answer.incoming.bytes, answer.outgoing.bytes];
            assert_eq!(bytes, [7 * number * 60, 4 * number * 60]);
            let dropped: u64 = answer.dropped.iter().map(|line| line.items).sum();
            let items = [answer.incoming.items, answer.outgoing.items, dropped];
            assert_eq!(items, [7 * number, 4 * number, 2 * number]);
            assert_eq!(balance.residual_items, 0);
        }
    }

    /// A card that counts how often it is asked for the interface's own counts.
    #[derive(Debug)]
    struct Asked(Box<dyn Card>, Arc<AtomicU64>);

    impl Card for Asked {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn look(&mut self) -> CardState {
            self.0.look()
        }

        fn link_counts(&mut self) -> Result<Option<LinkCounts>, DriverError> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }
    }

    #[test]
    fn the_interface_is_asked_once_in_a_second_and_at_the_end() {
        let plan = plan();
        let mut books = open(&plan);
        let (mut driver, _far) = emulated::open(&EmulatedOptions::default()).unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        driver.card = Box::new(Asked(driver.card, Arc::clone(&asked)));
        let mux = plan.engine(0).unwrap();
        let answers = AnswerCounts::default();
        let mut asked_after_show = |books: &mut Books| {
            books.show(&plan, &mux, &mut driver, &answers).unwrap();
            asked.load(Ordering::Relaxed)
        };
        assert_eq!([0; 2].map(|_| asked_after_show(&mut books)), [1, 1]);
        books.linked_ns = Some(monotonic_ns() - LINK_NS);
        assert_eq!([0; 2].map(|_| asked_after_show(&mut books)), [2, 2]);
        books.show_end(&plan, &mux, &mut driver, &answers).unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }
}
