//! The books of a replay: the file, and the DMA buffers that its blocks go into.
//!
//! What comes out of the file is counted as it is read, and where it is handed on or dropped; the card counts what it was handed, what it has in hand and what it could not
//! show. How many blocks went out the rings say themselves.

use forebay_ledger::join::{CARD, UNREAD_BLOCKS};
use forebay_ledger::{
    Account, Book, Counter, GroupWriter, Leak, LinkSpec, SchemaBuilder, Tally, Unit, reasons,
};
use forebay_run::error::RunError;
use forebay_run::run_dir::KeptLedger;

use crate::card::{CardPlan, Rings};

reasons! {
    /// Why bytes of the file are not handed to the card.
    pub(super) enum FileDrop {
        /// No block begins in them.
        NoBlock = "no_block",
        /// They are a block that the file does not have to its end.
        CutOff = "cut_off",
    }
}

reasons! {
    /// Why a block that the card was handed is in no DMA buffer.
    pub(super) enum CardDrop {
        /// It could not be shown before the end.
        NotShown = "not_shown",
    }
}

/// What is counted, and where it is shown.
pub(super) struct Books {
    group: GroupWriter,
    pub(super) book: Book,
    pub(super) ledger: KeptLedger,
    pub(super) file: Account<FileDrop>,
    pub(super) dma: Vec<(Account<CardDrop>, Counter)>,
    pub(super) loops: Counter,
    pub(super) held_up_ns: Counter,
    pub(super) committed_ns: u64,
    /// Blocks that each ring had when the books were filled in last.
    before: Vec<u64>,
    block_bytes: u64,
    /// The fault switch of the tests, at `file` and `card`.
    pub(super) leak: Leak,
}

impl Books {
    /// Of a replay of blocks of so many bytes.
    pub(super) fn open(
        plan: &CardPlan,
        block_bytes: usize,
        leak: &Leak,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let run_id = format!("card-{}-{}", plan.name, std::process::id());
        let mut schema = SchemaBuilder::new(&run_id);
        schema.program("card-replay");
        let group = schema.group(CARD);
        let (file_id, file) = schema.account(group, "file", "file", Unit::Blocks);
        let mut link = LinkSpec::new("file", "file").from(file_id);
        let mut dma = Vec::new();
        for buffer in 0..plan.config.buffers {
            let owner = format!("dma{buffer}");
            let (id, account) = schema.account(group, CARD, &owner, Unit::Blocks);
            link = link.to(id);
            schema.headline(id);
            let fill = schema.gauge(group, UNREAD_BLOCKS, &owner, "Blocks not given back");
            dma.push((account, fill));
        }
        schema.link(link);
        let help = "How often the file was gone through to its end";
        let loops = schema.counter(group, "replay_loops", "", help);
        let help = "Time for which a DMA buffer without room held the file back";
        let held_up_ns = schema.counter(group, "replay_held_up_ns", "", help);
        let schema = schema.finish()?;
        let ledger = KeptLedger::open(&schema, &run_id, plan.out.as_deref(), dma.len(), tell)?;
        let group = GroupWriter::attach(&schema, ledger.words(), group)?;
        Ok(Self {
            book: group.restore(),
            group,
            ledger,
            file,
            dma,
            loops,
            held_up_ns,
            committed_ns: 0,
            before: vec![0; plan.config.buffers],
            block_bytes: block_bytes as u64,
            leak: leak.clone(),
        })
    }

    /// So many blocks and bytes were read of the file.
    pub(super) fn read(&mut self, blocks: u64, bytes: usize) {
        self.book
            .add_tally(self.file.incoming, blocks, bytes as u64);
    }

    /// Bytes of the file are no block.
    pub(super) fn dropped(&mut self, why: FileDrop, bytes: usize) {
        self.book.add_tally(self.file.lost(why), 0, bytes as u64);
    }

    /// A block of the file is handed to the card.
    pub(super) fn handed(&mut self, bytes: usize) {
        self.book.add_tally(self.file.outgoing, 1, bytes as u64);
    }

    /// The card has got one for that buffer.
    pub(super) fn comes(&mut self, buffer: usize, bytes: usize) {
        let incoming = self.dma[buffer].0.incoming;
        self.book.add_tally(incoming, 1, bytes as u64);
    }

    /// It is in hand, and may be for long: its time has to come, and room for it.
    pub(super) fn waits(&mut self, buffer: usize, bytes: usize) {
        let held = self.dma[buffer].0.held;
        self.book.add_tally(held, 1, bytes as u64);
    }

    /// It is not in hand any more.
    pub(super) fn waits_no_more(&mut self, buffer: usize, bytes: usize) {
        let held = self.dma[buffer].0.held;
        self.book.sub_tally(held, 1, bytes as u64);
    }

    /// It never will be in its buffer.
    pub(super) fn not_shown(&mut self, buffer: usize, bytes: usize) {
        let dropped = self.dma[buffer].0.lost(CardDrop::NotShown);
        self.book.add_tally(dropped, 1, bytes as u64);
    }

    /// Fills in how many blocks went into each ring, by the ring, and shows all of it.
    pub(super) fn commit(&mut self, rings: &mut Rings) {
        let before = self.before.iter_mut();
        for (((account, fill), ring), before) in self.dma.iter().zip(&mut rings.rings).zip(before) {
            let blocks = ring.position() / self.block_bytes;
            let new = blocks - *before;
            let counted = new - self.leak.take_of("card", new);
            self.book
                .add_tally(account.outgoing, counted, counted * self.block_bytes);
            *before = blocks;
            self.book.set(*fill, ring.blocks() - ring.free_blocks());
        }
        self.group.commit(&self.book);
        self.ledger.heartbeat();
    }

    pub(super) fn sum(&self, terms: impl Iterator<Item = Tally>) -> [u64; 2] {
        terms.fold([0; 2], |[items, bytes], term| {
            let more = self.book.tally(term);
            [items + more.0, bytes + more.1]
        })
    }
}

#[cfg(test)]
mod tests {
    use forebay_ring::{BlockProducer, BlockRingMemory, BlockRingSpec};

    use super::*;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let books = Books::open(&CardPlan::of_replay(), 4096, &Leak::off(), &mut |_| {}).unwrap();
        let outline = books.ledger.reader().unwrap().outline();
        forebay_testing::accounts::assert_section("card-replay", &[outline]);
    }

    /// What went into a ring is counted by the ring, less what leaks.
    #[test]
    fn blocks_in_the_ring_are_counted_once_and_those_that_leak_not_at_all() {
        let leak = "card:3".parse().unwrap();
        let mut books = Books::open(&CardPlan::of_replay(), 4096, &leak, &mut |_| {}).unwrap();
        let spec = BlockRingSpec {
            name: "dma0".into(),
            block_bytes: 4096,
            blocks: 16,
            populate: false,
        };
        let memory = BlockRingMemory::create(&spec).unwrap();
        let ring = BlockProducer::map(&spec, memory.producer_fds().unwrap()).unwrap();
        let mut rings = Rings {
            rings: vec![ring],
            fresh: vec![false],
            held: 0,
            silent: 0,
        };
        let (account, fill) = books.dma[0].clone();
        for (blocks, counted, filled) in [(2, 0, 2), (5, 4, 7), (0, 4, 7)] {
            for _ in 0..blocks {
                rings.rings[0].reserve().unwrap();
                rings.rings[0].commit();
            }
            rings.rings[0].publish();
            books.commit(&mut rings);
            assert_eq!(
                books.book.tally(account.outgoing),
                (counted, 4096 * counted)
            );
            assert_eq!(books.book.value(fill), filled);
        }
        books.read(3, 300);
        books.handed(40);
        let terms = [books.file.incoming, books.file.outgoing];
        assert_eq!(books.sum(terms.into_iter()), [4, 340]);
    }
}
