//! The ledger of a card: for each E-link what its front end made and what became of it.
//!
//! The terms are the engine's own counts. Triggers are metrics beside it: one that BUSY holds back never was, and is no loss.

mod from_host;

use std::path::Path;

use forebay_emu::Amount;
use forebay_emu::card::{CardAccount, CardLoss, ChunkBooks, TriggerBooks};
use forebay_ledger::join::{CARD, SHOWN_BLOCKS, UNREAD_BLOCKS};
use forebay_ledger::{
    Account, Book, Counter, GroupId, GroupWriter, Leak, SchemaBuilder, Tally, Unit,
};

use forebay_run::error::RunError;
use forebay_run::run_dir::KeptLedger;
pub(super) use from_host::FromHostBook;

const TRIGGERS: [(&str, &str); 5] = [
    ("triggers_requested", "Triggers asked for"),
    ("triggers", "Triggers given to the front ends"),
    (
        "triggers_held_by_link",
        "Triggers held back by BUSY while a link could not carry more",
    ),
    (
        "triggers_held_by_dma",
        "Triggers held back by BUSY while a DMA buffer was full",
    ),
    (
        "triggers_held_by_dead_time",
        "Triggers held back since they came too soon after another one",
    ),
];

/// How the card's time goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CardTime {
    /// Since its beginning, in ns.
    pub(super) ns: u64,
    /// Of these BUSY was up, one that lasts included.
    pub(super) busy_ns: u64,
}

/// Words of an E-link beside its account.
#[derive(Clone, Copy)]
struct ElinkWords {
    truncated: Counter,
    xoff: Counter,
    xoff_ns: Counter,
    peak: Counter,
}

/// Words of a DMA buffer.
#[derive(Clone, Copy)]
struct DmaWords {
    blocks: Counter,
    fill: Counter,
    /// How often it raised BUSY.
    busy: Counter,
}

pub(super) struct CardBooks {
    group: GroupWriter,
    book: Book,
    pub(super) ledger: KeptLedger,
    triggers: [Counter; 5],
    time: Counter,
    busy: Counter,
    raised: Counter,
    elinks: Vec<(Account<CardLoss>, ElinkWords)>,
    dma: Vec<DmaWords>,
    before: CardAccount,
    time_before: CardTime,
    blocks_before: Vec<u64>,
    /// The fault switch of the tests, at `card`.
    leak: Leak,
}

fn of_triggers(books: &TriggerBooks) -> [u64; 5] {
    [
        books.requested,
        books.accepted,
        books.held_by_link,
        books.held_by_dma,
        books.held_by_dead_time,
    ]
}

fn declare_elink(schema: &mut SchemaBuilder, group: GroupId, owner: &str) -> ElinkWords {
    let mut counter = |name: &str, help: &str| schema.counter(group, name, owner, help);
    ElinkWords {
        truncated: counter(
            "chunks_cut",
            "Chunks that lost their end on the link or behind it",
        ),
        xoff: counter("xoff", "How often the front end was told to stop"),
        xoff_ns: counter(
            "xoff_ns",
            "Time for which the front end was told to stop, of the card's time",
        ),
        peak: schema.gauge(
            group,
            "fifo_peak_bytes",
            owner,
            "Most bytes in the queue behind the link",
        ),
    }
}

impl CardBooks {
    /// Books of a card whose E-links are those of `account`, with so many DMA buffers, and those of what it is sent.
    pub(super) fn open(
        name: &str,
        out: Option<&Path>,
        account: &CardAccount,
        buffers: usize,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(Self, FromHostBook), RunError> {
        let run_id = format!("card-{name}-{}", std::process::id());
        let mut schema = SchemaBuilder::new(&run_id);
        schema.program("card");
        let group = schema.group(CARD);
        let triggers = TRIGGERS.map(|(name, help)| schema.counter(group, name, "", help));
        let help =
            "The card's time, whatever its dilation; time with BUSY over this is the fraction";
        let time = schema.counter(group, "card_time_ns", "", help);
        let help = "Time for which BUSY was up, of the card's time";
        let busy = schema.counter(group, "busy_ns", "", help);
        let raised = schema.counter(group, "busy_raised", "", "How often BUSY went up");
        let elinks = account.elinks.iter().map(|elink| {
            let owner = format!("elink{}", elink.elink);
            let declared = schema.account(group, "card", &owner, Unit::Chunks);
            schema.headline(declared.0);
            (declared.1, declare_elink(&mut schema, group, &owner))
        });
        let elinks = elinks.collect();
        let dma = (0..buffers).map(|buffer| {
            let owner = format!("dma{buffer}");
            DmaWords {
                blocks: schema.counter(group, SHOWN_BLOCKS, &owner, "Blocks shown to the reader"),
                fill: schema.gauge(group, UNREAD_BLOCKS, &owner, "Blocks not given back"),
                busy: schema.counter(
                    group,
                    "dma_busy",
                    &owner,
                    "How often the buffer had too few free blocks, and BUSY was up for that",
                ),
            }
        });
        let dma = dma.collect();
        let from_host = from_host::declare(&mut schema);
        let schema = schema.finish()?;
        let elinks_of = account.elinks.len();
        let ledger = KeptLedger::open(&schema, &run_id, out, elinks_of, tell)?;
        let group = GroupWriter::attach(&schema, ledger.words(), group)?;
        let from_host = FromHostBook::attach(&schema, ledger.words(), from_host)?;
        let books = Self {
            book: group.restore(),
            group,
            ledger,
            triggers,
            time,
            busy,
            raised,
            elinks,
            dma,
            before: account.clone(),
            time_before: CardTime::default(),
            blocks_before: vec![0; buffers],
            leak: Leak::off(),
        };
        Ok((books, from_host))
    }

    /// With the fault switch of the tests.
    pub(super) fn leaking(mut self, leak: &Leak) -> Self {
        self.leak = leak.clone();
        self
    }

    /// Fills in what the engine has counted, and position and fill of each DMA buffer, and shows it.
    pub(super) fn commit(
        &mut self,
        now: &CardAccount,
        time: CardTime,
        fills: &[[u64; 2]],
        block_bytes: u64,
    ) {
        let book = &mut self.book;
        let before = self.time_before;
        // BUSY may turn out to have ended a little before the time that was taken for its last one.
        self.time_before = CardTime {
            ns: time.ns.max(before.ns),
            busy_ns: time.busy_ns.max(before.busy_ns),
        };
        book.add(self.time, self.time_before.ns - before.ns);
        book.add(self.busy, self.time_before.busy_ns - before.busy_ns);
        let raised = now.triggers.busy - self.before.triggers.busy;
        book.add(self.raised, raised);
        let times = now.dma_busy.iter().zip(&self.before.dma_busy);
        for (words, (now, before)) in self.dma.iter().zip(times) {
            book.add(words.busy, now - before);
        }
        let counts = of_triggers(&now.triggers).into_iter();
        let counts = counts.zip(of_triggers(&self.before.triggers));
        for (counter, (now, before)) in self.triggers.iter().zip(counts) {
            // The end of BUSY may be known later than that it lasted.
            book.add(*counter, now.saturating_sub(before));
        }
        let elinks = now.elinks.iter().zip(&self.before.elinks);
        for ((account, words), (now, before)) in self.elinks.iter().zip(elinks) {
            settle(book, account, [&now.chunks, &before.chunks], &mut self.leak);
            book.add(words.truncated, now.truncated - before.truncated);
            book.add(words.xoff, now.fifo.xoff - before.fifo.xoff);
            book.add(words.xoff_ns, now.fifo.xoff_ns - before.fifo.xoff_ns);
            book.set(words.peak, now.fifo.peak_bytes);
        }
        let blocks = self.blocks_before.iter_mut().zip(fills);
        for (words, (before, [position, fill])) in self.dma.iter().zip(blocks) {
            let blocks = position / block_bytes;
            book.add(words.blocks, blocks - *before);
            book.set(words.fill, *fill);
            *before = blocks;
        }
        self.before = now.clone();
        self.group.commit(&self.book);
        self.ledger.heartbeat();
    }
}

fn settle(
    book: &mut Book,
    account: &Account<CardLoss>,
    [now, before]: [&ChunkBooks; 2],
    leak: &mut Leak,
) {
    let add = |book: &mut Book, tally: Tally, now: Amount, before: Amount| {
        book.add_tally(tally, now.items - before.items, now.bytes - before.bytes);
    };
    add(book, account.incoming, now.made, before.made);
    let mut out = now.in_dma;
    out.items -= leak.take_of("card", now.in_dma.items - before.in_dma.items);
    add(book, account.outgoing, out, before.in_dma);
    for (loss, tally) in account.losses() {
        add(book, tally, now.dropped[loss], before.dropped[loss]);
    }
    let (is, was) = (now.held(), before.held());
    book.add_tally(account.held, is.items, is.bytes);
    book.sub_tally(account.held, was.items, was.bytes);
}

#[cfg(test)]
mod tests {
    use forebay_emu::card::{Card, CardConfig};

    use super::*;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let card = Card::new(&CardConfig::full_mode(2, 1000.0, 64)).unwrap();
        let (books, _) = CardBooks::open("card", None, &card.account(), 2, &mut |_| {}).unwrap();
        let outline = books.ledger.reader().unwrap().outline();
        forebay_testing::accounts::assert_section("card", &[outline]);
    }

    /// The account with counts that are all different.
    fn filled(account: &CardAccount, times: u64) -> CardAccount {
        let mut account = account.clone();
        let mut next = 100 * times;
        let mut one = || {
            next += 7 * times;
            next
        };
        for elink in &mut account.elinks {
            let chunks = &mut elink.chunks;
            let held = [
                &mut chunks.queued,
                &mut chunks.in_fifo,
                &mut chunks.in_block,
            ];
            let all = [&mut chunks.made, &mut chunks.in_dma]
                .into_iter()
                .chain(held);
            let dropped = chunks.dropped.iter_mut().map(|(_, amount)| amount);
            for amount in all.chain(dropped) {
                (amount.items, amount.bytes) = (one(), one());
            }
            elink.truncated = one();
            (elink.fifo.xoff, elink.fifo.xoff_ns) = (one(), one());
            elink.fifo.peak_bytes = one();
        }
        let triggers = &mut account.triggers;
        for count in [
            &mut triggers.requested,
            &mut triggers.accepted,
            &mut triggers.held_by_link,
            &mut triggers.held_by_dma,
            &mut triggers.held_by_dead_time,
            &mut triggers.busy,
        ] {
            *count = one();
        }
        account.dma_busy.iter_mut().for_each(|busy| *busy = one());
        account
    }

    #[test]
    fn each_count_is_in_its_own_term_and_once() {
        let card = Card::new(&CardConfig::full_mode(2, 1000.0, 64)).unwrap();
        let account = card.account();
        let opened = CardBooks::open("card", None, &account, 1, &mut |_| {});
        let mut books = opened.unwrap().0;
        let last = filled(&account, 3);
        for (n, now) in [filled(&account, 1), filled(&account, 2), last.clone()]
            .iter()
            .enumerate()
        {
            let n = n as u64 + 1;
            let time = CardTime {
                ns: 1000 * n,
                busy_ns: 10 * n,
            };
            books.commit(now, time, &[[4096 * n * n, n]], 4096);
        }
        let CardBooks { book, elinks, .. } = &books;
        assert_eq!(elinks.len(), last.elinks.len());
        for ((account, words), now) in elinks.iter().zip(&last.elinks) {
            let terms = [account.incoming, account.outgoing, account.held].into_iter();
            let counts = [now.chunks.made, now.chunks.in_dma, now.chunks.held()].into_iter();
            let counts = counts.chain(now.chunks.dropped.iter().map(|(_, lost)| lost));
            let terms = terms.chain(account.losses().map(|(_, tally)| tally));
            for (tally, count) in terms.zip(counts) {
                assert_eq!(book.tally(tally), (count.items, count.bytes));
            }
            for (counter, value) in [
                (words.truncated, now.truncated),
                (words.xoff, now.fifo.xoff),
                (words.xoff_ns, now.fifo.xoff_ns),
                (words.peak, now.fifo.peak_bytes),
            ] {
                assert_eq!(book.value(counter), value);
            }
        }
        let triggers = &last.triggers;
        let counts = [
            triggers.requested,
            triggers.accepted,
            triggers.held_by_link,
            triggers.held_by_dma,
            triggers.held_by_dead_time,
        ];
        let counts = books.triggers.into_iter().zip(counts);
        let more = [
            (books.time, 3000),
            (books.busy, 30),
            (books.raised, last.triggers.busy),
            (books.dma[0].blocks, 9),
            (books.dma[0].fill, 3),
            (books.dma[0].busy, last.dma_busy[0]),
        ];
        for (place, (counter, value)) in counts.chain(more).enumerate() {
            assert_eq!(book.value(counter), value, "counter {place}");
        }
    }

    #[test]
    fn chunks_that_leak_are_missing_in_what_went_out() {
        let card = Card::new(&CardConfig::full_mode(1, 1000.0, 64)).unwrap();
        let account = card.account();
        let opened = CardBooks::open("card", None, &account, 1, &mut |_| {});
        let leak = "card:1000000".parse().unwrap();
        let mut books = opened.unwrap().0.leaking(&leak);
        for times in 1..=2 {
            let now = filled(&account, times);
            books.commit(&now, CardTime::default(), &[[0, 0]], 4096);
        }
        let chunks = &filled(&account, 2).elinks[0].chunks;
        let of = &books.elinks[0].0;
        assert_eq!(books.book.tally(of.outgoing), (0, chunks.in_dma.bytes));
        let made = (chunks.made.items, chunks.made.bytes);
        assert_eq!(books.book.tally(of.incoming), made);
    }
}
