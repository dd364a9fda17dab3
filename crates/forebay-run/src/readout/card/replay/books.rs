//! The books of a replay: the file, and the DMA buffers that its blocks go into.

use forebay_ledger::{Account, Book, Counter, GroupWriter, LinkSpec, SchemaBuilder, Tally, Unit};

use crate::error::RunError;
use crate::readout::card::{CardPlan, Rings};
use crate::run_dir::KeptLedger;

/// Reasons of the file's account, and the place of each.
const FILE_REASONS: [&str; 2] = ["no_block", "cut_off"];
/// Index of the reason for bytes in which no block begins.
pub(super) const NO_BLOCK: usize = 0;
/// Index of the reason for a block that the file does not have to its end.
pub(super) const CUT_OFF: usize = 1;

/// What is counted, and where it is shown.
pub(super) struct Books {
    group: GroupWriter,
    pub(super) book: Book,
    pub(super) ledger: KeptLedger,
    pub(super) file: Account,
    pub(super) dma: Vec<(Account, Counter)>,
    pub(super) loops: Counter,
    pub(super) held_up_ns: Counter,
    pub(super) committed_ns: u64,
}

impl Books {
    pub(super) fn open(plan: &CardPlan, warnings: &mut Vec<String>) -> Result<Self, RunError> {
        let run_id = format!("card-{}-{}", plan.name, std::process::id());
        let mut schema = SchemaBuilder::new(&run_id);
        let group = schema.group("card");
        let (file_id, file) = schema.account(group, "file", "file", Unit::Blocks, &FILE_REASONS);
        let mut link = LinkSpec::new("file", "file").from(file_id);
        let mut dma = Vec::new();
        for buffer in 0..plan.config.buffers {
            let owner = format!("dma{buffer}");
            let (id, account) = schema.account(group, "card", &owner, Unit::Blocks, &["not_shown"]);
            link = link.to(id);
            let fill = schema.gauge(group, "unread_blocks", &owner, "Blocks not given back");
            dma.push((account, fill));
        }
        schema.link(link);
        let help = "How often the file was gone through to its end";
        let loops = schema.counter(group, "replay_loops", "", help);
        let help = "Time for which a DMA buffer without room held the file back";
        let held_up_ns = schema.counter(group, "replay_held_up_ns", "", help);
        let schema = schema.finish()?;
        let ledger = KeptLedger::open(&schema, &run_id, plan.out.as_deref(), dma.len(), warnings)?;
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
        })
    }

    /// A block is in hand for that buffer, which may take long to have room.
    pub(super) fn comes(&mut self, buffer: usize, bytes: usize) {
        let account = &self.dma[buffer].0;
        for term in [account.incoming, account.held] {
            self.book.add_tally(term, 1, bytes as u64);
        }
    }

    /// It is in the buffer, or never will be.
    pub(super) fn goes(&mut self, buffer: usize, bytes: usize, is_placed: bool) {
        let account = &self.dma[buffer].0;
        let became = match is_placed {
            true => account.outgoing,
            false => account.dropped[0],
        };
        self.book.sub_tally(account.held, 1, bytes as u64);
        self.book.add_tally(became, 1, bytes as u64);
    }

    pub(super) fn commit(&mut self, rings: &mut Rings) {
        for ((_, fill), ring) in self.dma.iter().zip(&mut rings.rings) {
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
