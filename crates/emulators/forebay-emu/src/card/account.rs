//! The books of a card, counted where things happen.

use forebay_ledger::{DropReason, PerReason, reasons};
use forebay_wire::felix::Elink;

use super::block::Blocks;
use super::fault::{CardFaultKind, CardFaults};
use super::fifo::FifoBooks;
use super::from_host::FromHostBooks;
use crate::totals::Amount;

reasons! {
    /// Why chunks, or parts of them, did not get into a DMA buffer.
    pub enum CardLoss {
        /// There was no room in the queue behind the link.
        FifoFull = "fifo_full",
        /// The bytes that were cut off a chunk, whose rest is in the DMA buffer: no chunks.
        Truncated = "truncated",
        /// The link had stopped for good ([`CardFault::StoppedLink`]); of the chunk in the middle of which it did, the bytes that did not come.
        StoppedLink = "stopped_link",
        /// In a block that did not go out ([`CardFault::LostBlock`]).
        LostBlock = "lost_block",
        /// In a block that is in the DMA buffer and cannot be read ([`CardFault::BadTrailer`]).
        BadTrailer = "bad_trailer",
        /// In a block that is in the DMA buffer and is none ([`CardFault::WrongMarker`]).
        WrongMarker = "wrong_marker",
    }
}

/// What was lost, by why.
pub(super) type Lost = PerReason<CardLoss, Amount, { CardLoss::COUNT }>;

/// Chunks and bytes of them: `made = in_dma + dropped + queued + in_fifo + in_block`.
///
/// A chunk counts where its last byte is, its bytes where they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChunkBooks {
    /// Made by front ends: one for each trigger and E-link.
    pub made: Amount,
    /// In blocks that are in a DMA buffer.
    pub in_dma: Amount,
    /// Lost.
    pub dropped: Lost,
    /// Held in front of the link, or on it.
    pub queued: Amount,
    /// Held behind the link.
    pub in_fifo: Amount,
    /// Held in the open block.
    pub in_block: Amount,
}

impl ChunkBooks {
    /// What is on the way.
    #[must_use]
    pub fn held(&self) -> Amount {
        let mut held = self.queued;
        held += self.in_fifo;
        held += self.in_block;
        held
    }

    /// What they do not explain, in chunks and bytes: nothing, always.
    #[must_use]
    pub fn residual(&self) -> (i64, i64) {
        let mut out = self.in_dma;
        out += self.held();
        out += self.dropped.total();
        let rest = |made: u64, out: u64| made.wrapping_sub(out).cast_signed();
        (
            rest(self.made.items, out.items),
            rest(self.made.bytes, out.bytes),
        )
    }

    fn add(&mut self, other: &Self) {
        self.made += other.made;
        self.in_dma += other.in_dma;
        self.dropped.add(&other.dropped);
        self.queued += other.queued;
        self.in_fifo += other.in_fifo;
        self.in_block += other.in_block;
    }
}

/// What one E-link had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElinkAccount {
    /// Its number.
    pub elink: Elink,
    /// The DMA buffer that its blocks go into.
    pub buffer: usize,
    /// Whether its chunks are the messages that it was sent; those of others answer triggers.
    pub loops_back: bool,
    /// Messages that its front end was sent.
    pub sent_to_it: Amount,
    /// Its chunks.
    pub chunks: ChunkBooks,
    /// Chunks that lost their end on the link or in the queue behind it; they are in the books of chunks as all others.
    pub truncated: u64,
    /// How often each kind of fault struck.
    pub faults: CardFaults,
    /// Blocks in the DMA buffer.
    pub blocks: Blocks,
    /// Its queue behind the link.
    pub fifo: FifoBooks,
    /// Whether its front end is BUSY.
    pub is_busy: bool,
}

/// Triggers: `requested = accepted + held_by_link + held_by_dma + held_by_dead_time`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TriggerBooks {
    /// Asked for until now.
    pub requested: u64,
    /// Given to the front ends.
    pub accepted: u64,
    /// Held back by BUSY, while the queue in front of a link was too long for what the link can carry.
    pub held_by_link: u64,
    /// Held back by BUSY, while a DMA buffer had too few free blocks, or a front end was told to stop since one was full.
    pub held_by_dma: u64,
    /// Held back since they came too soon after the one before.
    pub held_by_dead_time: u64,
    /// How often BUSY went up.
    pub busy: u64,
    /// How long BUSY was up, in nanoseconds of the card's time; one that lasts counts until now.
    pub busy_ns: u64,
}

impl TriggerBooks {
    /// Held back by BUSY.
    #[must_use]
    pub const fn held_by_busy(&self) -> u64 {
        self.held_by_link + self.held_by_dma
    }

    /// What they do not explain: nothing, always.
    #[must_use]
    pub const fn residual(&self) -> i64 {
        let out = self.accepted + self.held_by_busy() + self.held_by_dead_time;
        self.requested.wrapping_sub(out).cast_signed()
    }
}

/// The books of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardAccount {
    /// Triggers.
    pub triggers: TriggerBooks,
    /// Chunks of all E-links.
    pub chunks: ChunkBooks,
    /// By E-link, as configured, then the one for messages about triggers, and then those that send back what they are sent.
    pub elinks: Vec<ElinkAccount>,
    /// Packets to front ends, and their messages.
    pub from_host: FromHostBooks,
    /// How often each DMA buffer had too few free blocks, and BUSY was up for that.
    pub dma_busy: Vec<u64>,
}

impl CardAccount {
    pub(super) fn new(
        triggers: TriggerBooks,
        elinks: Vec<ElinkAccount>,
        from_host: FromHostBooks,
        dma_busy: Vec<u64>,
    ) -> Self {
        let mut chunks = ChunkBooks::default();
        elinks.iter().for_each(|elink| chunks.add(&elink.chunks));
        Self {
            triggers,
            chunks,
            elinks,
            from_host,
            dma_busy,
        }
    }

    /// How often each fault struck, by name.
    pub fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let mut all = CardFaults::default();
        self.elinks.iter().for_each(|elink| all.add(&elink.faults));
        CardFaultKind::all().map(move |kind| (kind.name(), all[kind]))
    }

    /// What they do not explain, in triggers, chunks and bytes: nothing, always. An E-link's surplus does not hide another one's lack. Packets and messages to front ends
    /// count with the chunks.
    #[must_use]
    pub fn residual(&self) -> [u64; 3] {
        let mut rest = [self.triggers.residual().unsigned_abs(), 0, 0];
        for elink in &self.elinks {
            let (chunks, bytes) = elink.chunks.residual();
            rest[1] += chunks.unsigned_abs();
            let (made, sent) = (elink.chunks.made, elink.sent_to_it);
            if elink.loops_back {
                rest[1] += made.items.abs_diff(sent.items);
                rest[2] += made.bytes.abs_diff(sent.bytes);
            } else {
                rest[1] += made.items.abs_diff(self.triggers.accepted);
            }
            rest[2] += bytes.unsigned_abs();
        }
        let [packets, messages, bytes] = self.from_host.residual();
        rest[1] += packets + messages;
        rest[2] += bytes;
        rest
    }
}

#[cfg(test)]
mod tests {
    use forebay_wire::felix::{FromHostAccount, Pieces};

    use super::super::fault::CardFault;
    use super::*;

    const fn amount(items: u64, bytes: u64) -> Amount {
        Amount { items, bytes }
    }

    /// Each term is another power of two, so that one left out, or counted twice, shows.
    fn chunks() -> ChunkBooks {
        ChunkBooks {
            made: amount(1023, 10_230),
            in_dma: amount(1, 10),
            dropped: Lost::from_fn(|why| amount(2 << why.index(), 20 << why.index())),
            queued: amount(128, 1_280),
            in_fifo: amount(256, 2_560),
            in_block: amount(512, 5_120),
        }
    }

    fn elink(link: u16, loops_back: bool, chunks: ChunkBooks, sent_to_it: Amount) -> ElinkAccount {
        ElinkAccount {
            elink: Elink::of_link(link).unwrap(),
            buffer: 0,
            loops_back,
            sent_to_it,
            chunks,
            truncated: 0,
            faults: CardFaults::default(),
            blocks: Blocks::default(),
            fifo: FifoBooks::default(),
            is_busy: false,
        }
    }

    /// A link that answers 1023 triggers, and one that sends back the 1023 messages that it was sent.
    fn card(answers: ChunkBooks, sends_back: ChunkBooks) -> CardAccount {
        let triggers = TriggerBooks {
            requested: 1023 + 7,
            accepted: 1023,
            held_by_link: 1,
            held_by_dma: 2,
            held_by_dead_time: 4,
            ..TriggerBooks::default()
        };
        let sent = amount(1023, 10_230);
        let elinks = vec![
            elink(0, false, answers, Amount::default()),
            elink(1, true, sends_back, sent),
        ];
        CardAccount::new(triggers, elinks, FromHostBooks::default(), Vec::new())
    }

    fn with(change: impl Fn(&mut CardAccount)) -> [u64; 3] {
        let mut account = card(chunks(), chunks());
        change(&mut account);
        account.residual()
    }

    #[test]
    fn a_loss_by_a_fault_has_the_name_of_the_fault() {
        for (loss, fault) in [
            (CardLoss::Truncated, CardFault::Truncated),
            (CardLoss::StoppedLink, CardFault::StoppedLink),
            (CardLoss::LostBlock, CardFault::LostBlock),
            (CardLoss::BadTrailer, CardFault::BadTrailer),
            (CardLoss::WrongMarker, CardFault::WrongMarker),
        ] {
            assert_eq!(loss.name(), fault.name());
        }
        assert_eq!(CardLoss::FifoFull.name(), "fifo_full");
    }

    /// Over all E-links, each by its own name.
    #[test]
    fn faults_are_told_by_name() {
        let mut account = card(chunks(), chunks());
        account.elinks[0].faults[CardFaultKind::Truncated] = 2;
        account.elinks[1].faults[CardFaultKind::Truncated] = 3;
        account.elinks[1].faults[CardFaultKind::WrongMarker] = 7;
        let struck = account.faults().filter(|(_, count)| *count > 0);
        let mut struck: Vec<_> = struck.collect();
        struck.sort_unstable();
        assert_eq!(struck, [("truncated", 5), ("wrong_marker", 7)]);
        assert_eq!(account.faults().count(), CardFaultKind::COUNT);
    }

    #[test]
    fn a_term_that_is_off_is_the_residual_of_its_books() {
        let closed = chunks();
        assert_eq!(closed.residual(), (0, 0));
        let off = |change: fn(&mut ChunkBooks) -> &mut Amount| {
            let mut books = closed;
            change(&mut books).add((3, 70));
            books.residual()
        };
        assert_eq!(off(|it| &mut it.made), (3, 70), "not accounted for");
        assert_eq!(off(|it| &mut it.in_dma), (-3, -70));
        assert_eq!(off(|it| &mut it.dropped[CardLoss::FifoFull]), (-3, -70));
        assert_eq!(off(|it| &mut it.dropped[CardLoss::WrongMarker]), (-3, -70));
        assert_eq!(off(|it| &mut it.queued), (-3, -70));
        assert_eq!(off(|it| &mut it.in_fifo), (-3, -70));
        assert_eq!(off(|it| &mut it.in_block), (-3, -70));

        let triggers = card(closed, closed).triggers;
        assert_eq!((triggers.held_by_busy(), triggers.residual()), (3, 0));
        let off = |change: fn(&mut TriggerBooks) -> &mut u64| {
            let mut books = triggers;
            *change(&mut books) += 5;
            books.residual()
        };
        assert_eq!(off(|it| &mut it.requested), 5);
        assert_eq!(off(|it| &mut it.accepted), -5);
        assert_eq!(off(|it| &mut it.held_by_link), -5);
        assert_eq!(off(|it| &mut it.held_by_dma), -5);
        assert_eq!(off(|it| &mut it.held_by_dead_time), -5);
    }

    #[test]
    fn what_a_card_does_not_explain_is_the_sum_over_all_its_books() {
        assert_eq!(with(|_| ()), [0; 3]);
        assert_eq!(with(|card| card.triggers.requested += 2), [2, 0, 0]);
        assert_eq!(with(|card| card.triggers.requested -= 2), [2, 0, 0]);
        // An E-link that answers has a chunk for each trigger.
        let one_less = |card: &mut CardAccount| {
            card.triggers.accepted -= 1;
            card.triggers.held_by_dma += 1;
        };
        assert_eq!(with(one_less), [0, 1, 0]);
        // One's surplus does not hide the other's lack.
        let both = |card: &mut CardAccount| {
            card.elinks[0].chunks.in_dma.add((3, 70));
            card.elinks[1].chunks.in_dma = Amount::default();
        };
        assert_eq!(with(both), [0, 3 + 1, 70 + 10]);
        // One that sends back has a chunk for each message that it was sent.
        let more = |card: &mut CardAccount| card.elinks[1].sent_to_it.add((4, 30));
        assert_eq!(with(more), [0, 4, 30]);
        let not_one = |card: &mut CardAccount| card.elinks[0].sent_to_it.add((4, 30));
        assert_eq!(with(not_one), [0; 3]);
        let all = |card: &mut CardAccount| {
            card.triggers.requested += 2;
            card.elinks[0].chunks.queued.add((3, 70));
            card.elinks[1].sent_to_it.add((4, 30));
            card.from_host.decoded.come = Pieces {
                packets: 16,
                messages: 8,
                bytes: 500,
            };
        };
        assert_eq!(with(all), [2, 3 + 4 + 16 + 8, 70 + 30 + 500]);
    }

    #[test]
    fn what_came_from_the_host_and_was_given_to_nobody_does_not_close() {
        let pieces = |packets, messages, bytes| Pieces {
            packets,
            messages,
            bytes,
        };
        let mut books = FromHostBooks {
            decoded: FromHostAccount {
                come: pieces(7, 3, 90),
                whole: pieces(7, 3, 90),
                ..FromHostAccount::default()
            },
            looped: pieces(1, 1, 10),
            sunk: pieces(4, 1, 50),
            no_elink: pieces(2, 1, 30),
        };
        assert_eq!(books.residual(), [0; 3]);
        books.sunk = Pieces::default();
        assert_eq!(books.residual(), [4, 1, 50]);
    }
}
