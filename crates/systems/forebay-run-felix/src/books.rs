//! The ledger of to-host: for each DMA buffer what came as blocks, what was in them, and what became of the chunks.
//!
//! ```text
//! card ─▶ dma (blocks) ─▶ decode (subchunks) ─▶ publish (chunks) ─▶ the books of the publisher
//! ```
//!
//! Blocks enter `dma` by the ring's position, and leave it by the decoder's count; subchunks are the decoder's own counts; chunks enter `publish` where the decoder offers them, and leave it, or are dropped, where the publisher has
//! said what became of them. The books are committed before the blocks are given back to the card.

use std::path::Path;

use forebay_ledger::join::DMA;
use forebay_ledger::{
    Account, Book, Counter, DropReason, GroupId, GroupWriter, HistogramId, HistogramWriter, Leak,
    PerReason, Schema, SchemaBuilder, SchemaError, Unit, Words, reasons,
};
use forebay_readout::{Account as Decoded, BlockDrop, Damage, PieceDrop, Status};

use forebay_run::error::RunError;
use forebay_run::run_dir::KeptLedger;

reasons! {
    /// Why a chunk is not published.
    pub(crate) enum Unpublished {
        /// Nobody has subscribed to its E-link.
        NoSubscriber = "no_subscriber",
        /// It is longer than a buffer of the publisher.
        TooLong = "too_long",
        /// The run was stopped while a subscriber held it up.
        Stopped = "stopped",
        /// The publisher could not go on.
        Failed = "failed",
    }
}

/// Words of one DMA buffer.
#[derive(Clone, Debug)]
struct BufferWords {
    group: GroupId,
    dma: Account<BlockDrop>,
    decode: Account<PieceDrop>,
    publish: Account<Unpublished>,
    damage: PerReason<Damage, Counter, { Damage::COUNT }>,
    flagged: [Counter; 6],
    missing_blocks: Counter,
    joined_bytes: Counter,
    copied_bytes: Counter,
    by_reference: Counter,
    held_up_ns: Counter,
    fill: Counter,
    capacity: Counter,
    occupancy: HistogramId,
}

fn declare_buffer(schema: &mut SchemaBuilder, owner: &str) -> BufferWords {
    let group = schema.group(owner);
    let (_, dma) = schema.account(group, DMA, owner, Unit::Blocks);
    let (_, decode) = schema.account(group, "decode", owner, Unit::Subchunks);
    let (published, publish) = schema.account(group, "publish", owner, Unit::Chunks);
    schema.headline(published);
    let mut counter = |name: &str, help: &str| schema.counter(group, name, owner, help);
    let damage = PerReason::from_fn(|damage: Damage| {
        let name = format!("damage_{}", damage.name());
        counter(&name, "Damage found within blocks or between them")
    });
    let flagged = Status::NAMES.map(|(_, name)| {
        counter(
            &format!("chunks_{name}"),
            "Chunks published with this bit of their status",
        )
    });
    let missing_blocks = counter(
        "missing_blocks",
        "Blocks that are missing by their sequence numbers, at least",
    );
    let joined_bytes = counter(
        "joined_bytes",
        "Bytes copied to join chunks of several blocks",
    );
    let copied_bytes = counter(
        "copied_bytes",
        "Bytes of chunks copied into network buffers, once for each subscriber",
    );
    let by_reference = counter(
        "chunks_by_reference",
        "Chunks that subscribers were shown where they lie",
    );
    let held_up_ns = counter(
        "held_up_ns",
        "Time for which a subscriber of the policy block held this buffer up",
    );
    let mut gauge = |name: &str, help: &str| schema.gauge(group, name, owner, help);
    BufferWords {
        group,
        dma,
        decode,
        publish,
        damage,
        flagged,
        missing_blocks,
        joined_bytes,
        copied_bytes,
        by_reference,
        held_up_ns,
        fill: gauge("dma_fill_blocks", "Blocks that the card cannot write now"),
        capacity: gauge("dma_capacity_blocks", "Blocks of the DMA buffer"),
        occupancy: schema.histogram("dma_occupancy_bytes", "bytes", owner),
    }
}

fn declare(run_id: &str, buffers: &[String]) -> Result<(Schema, Vec<BufferWords>), SchemaError> {
    let mut schema = SchemaBuilder::new(run_id);
    schema.program("tohost");
    let words = buffers
        .iter()
        .map(|buffer| declare_buffer(&mut schema, buffer))
        .collect();
    Ok((schema.finish()?, words))
}

/// Makes the ledger of all buffers that one process reads, in the run directory `out` or nowhere but here, and the books of each buffer.
pub(crate) fn open(
    out: Option<&Path>,
    buffers: &[String],
    tell: &mut dyn FnMut(&str),
) -> Result<(KeptLedger, Vec<BufferBook>), RunError> {
    let run_id = format!("tohost-{}", std::process::id());
    let (schema, declared) = declare(&run_id, buffers)?;
    let ledger = KeptLedger::open(&schema, &run_id, out, buffers.len(), tell)?;
    let attach = |at| BufferBook::attach(&schema, ledger.words(), at);
    let books = declared.into_iter().map(attach).collect::<Result<_, _>>()?;
    Ok((ledger, books))
}

/// The books of one DMA buffer, its reader's own.
pub(crate) struct BufferBook {
    group: GroupWriter,
    book: Book,
    occupancy: HistogramWriter,
    at: BufferWords,
    /// What the decoder had counted when they were last filled in.
    before: Decoded,
    /// How many blocks had been read of the ring.
    read_before: u64,
    /// The fault switch of the tests, at `dma` and `decode`.
    leak: Leak,
}

impl std::fmt::Debug for BufferBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BufferBook").finish_non_exhaustive()
    }
}

impl BufferBook {
    fn attach(schema: &Schema, words: &Words, at: BufferWords) -> Result<Self, RunError> {
        let group = GroupWriter::attach(schema, words, at.group)?;
        Ok(Self {
            book: group.restore(),
            occupancy: HistogramWriter::attach(schema, words, at.occupancy)?,
            group,
            at,
            before: Decoded::default(),
            read_before: 0,
            leak: Leak::off(),
        })
    }

    /// So many blocks of the ring were read before this process had it; `leak` is the fault switch of the tests.
    pub(crate) fn begin(&mut self, read: u64, leak: &Leak) {
        self.read_before = read;
        self.leak = leak.clone();
    }

    /// So many chunks, and so many bytes of them, were published to somebody.
    #[inline]
    pub(crate) fn published(&mut self, chunks: u64, bytes: u64) {
        self.book.add_tally(self.at.publish.outgoing, chunks, bytes);
    }

    /// Chunks were dropped.
    #[inline]
    pub(crate) fn unpublished(&mut self, why: Unpublished, chunks: u64, bytes: u64) {
        let dropped = self.at.publish.lost(why);
        self.book.add_tally(dropped, chunks, bytes);
    }

    /// Bytes copied into network buffers, and chunks that were not.
    pub(crate) fn copied(&mut self, [bytes, by_reference]: [u64; 2]) {
        self.book.add(self.at.copied_bytes, bytes);
        self.book.add(self.at.by_reference, by_reference);
    }

    /// A subscriber held the buffer up for so long.
    pub(crate) fn held_up(&mut self, ns: u64) {
        self.book.add(self.at.held_up_ns, ns);
    }

    /// Shows them as they are: while a subscriber holds the buffer up, somebody may want to know.
    pub(crate) fn show(&mut self) {
        self.group.commit(&self.book);
    }

    /// Fills in how many blocks were read of the ring in all, what the decoder has counted, and how full the buffer is, and shows all of it.
    pub(crate) fn commit(
        &mut self,
        read: u64,
        now: &Decoded,
        block_bytes: u64,
        [fill, capacity]: [u64; 2],
    ) {
        let Self {
            book,
            at,
            before,
            leak,
            ..
        } = self;
        let blocks = |book: &mut Book, tally, now: u64, before: u64| {
            let new = now - before;
            book.add_tally(tally, new, new * block_bytes);
        };
        blocks(book, at.dma.incoming, read, self.read_before);
        self.read_before = read;
        let decoded = now.decoded - leak.take_of("dma", now.decoded - before.decoded);
        blocks(book, at.dma.outgoing, decoded, before.decoded);
        for (why, dropped) in now.dropped_blocks.iter() {
            blocks(book, at.dma.lost(why), dropped, before.dropped_blocks[why]);
        }
        let items = |book: &mut Book, tally, now: [u64; 2], before: [u64; 2]| {
            book.add_tally(tally, now[0] - before[0], now[1] - before[1]);
        };
        items(book, at.decode.incoming, now.pieces, before.pieces);
        let mut joined = now.joined;
        joined[0] -= leak.take_of("decode", now.joined[0] - before.joined[0]);
        items(book, at.decode.outgoing, joined, before.joined);
        for (why, dropped) in now.dropped.iter() {
            items(book, at.decode.lost(why), dropped, before.dropped[why]);
        }
        book.add_tally(at.decode.held, now.held[0], now.held[1]);
        book.sub_tally(at.decode.held, before.held[0], before.held[1]);
        let chunks = [
            now.chunks - before.chunks,
            now.chunk_bytes - before.chunk_bytes,
        ];
        book.add_tally(at.publish.incoming, chunks[0], chunks[1]);
        for (damage, counter) in at.damage.iter() {
            book.add(counter, now.damage[damage] - before.damage[damage]);
        }
        for (place, counter) in at.flagged.iter().enumerate() {
            book.add(*counter, now.flagged[place] - before.flagged[place]);
        }
        book.add(
            at.missing_blocks,
            now.missing_blocks - before.missing_blocks,
        );
        book.add(at.joined_bytes, now.copied_bytes - before.copied_bytes);
        book.set(at.fill, fill);
        if now.blocks > before.blocks {
            // As a batch was found: while nothing comes there is nothing to say.
            self.occupancy.record(fill * block_bytes);
        }
        book.set(at.capacity, capacity);
        self.before = *now;
        self.group.commit(&self.book);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let (schema, _) = declare("tohost-1", &["dma0".to_owned()]).unwrap();
        forebay_testing::accounts::assert_section("to-host", &[schema.outline()]);
    }

    /// Counts of a decoder, all different.
    fn decoded(times: u64) -> Decoded {
        let mut next = 100 * times;
        let mut one = || {
            next += 7 * times;
            next
        };
        Decoded {
            blocks: one(),
            decoded: one(),
            dropped_blocks: PerReason::from_fn(|_| one()),
            pieces: [one(), one()],
            joined: [one(), one()],
            dropped: PerReason::from_fn(|_| [one(), one()]),
            held: [one(), one()],
            chunks: one(),
            chunk_bytes: one(),
            copied_bytes: one(),
            damage: PerReason::from_fn(|_| one()),
            missing_blocks: one(),
            flagged: [(); 6].map(|()| one()),
        }
    }

    #[test]
    fn each_count_is_in_its_own_term_and_once() {
        let owners = ["dma0".to_owned()];
        let (_ledger, mut books) = open(None, &owners, &mut |_| {}).unwrap();
        let mut book = books.pop().unwrap();
        book.begin(50, &Leak::off());
        let last = decoded(3);
        for (n, now) in [decoded(1), decoded(2), last].iter().enumerate() {
            let n = n as u64;
            book.published(n + 10, n + 11);
            for (why, items) in [
                (Unpublished::NoSubscriber, 20),
                (Unpublished::TooLong, 30),
                (Unpublished::Stopped, 40),
                (Unpublished::Failed, 50),
            ] {
                book.unpublished(why, items, items + 1);
            }
            book.copied([60, 61]);
            book.held_up(70);
            book.commit(50 + 1000 * (n + 1), now, 4, [80 + n, 90 + n]);
        }
        let BufferBook { book, at, .. } = &book;
        let blocks = |count: u64| [count, count * 4];
        let mut expected = vec![
            (at.dma.incoming, blocks(3000)),
            (at.dma.outgoing, blocks(last.decoded)),
            (at.decode.incoming, last.pieces),
            (at.decode.outgoing, last.joined),
            (at.decode.held, last.held),
            (at.publish.incoming, [last.chunks, last.chunk_bytes]),
            (at.publish.outgoing, [10 + 11 + 12, 11 + 12 + 13]),
        ];
        let lost = last.dropped_blocks.iter();
        expected.extend(lost.map(|(why, count)| (at.dma.lost(why), blocks(count))));
        let lost = last.dropped.iter();
        expected.extend(lost.map(|(why, items)| (at.decode.lost(why), items)));
        let lost = [20, 30, 40, 50].map(|items| [3 * items, 3 * (items + 1)]);
        let publish = at.publish.losses().map(|(_, tally)| tally);
        expected.extend(publish.zip(lost));
        for (place, (tally, [items, bytes])) in expected.into_iter().enumerate() {
            assert_eq!(book.tally(tally), (items, bytes), "term {place}");
        }
        let mut expected = vec![
            (at.missing_blocks, last.missing_blocks),
            (at.joined_bytes, last.copied_bytes),
            (at.copied_bytes, 180),
            (at.by_reference, 183),
            (at.held_up_ns, 210),
            (at.fill, 82),
            (at.capacity, 92),
        ];
        expected.extend(
            at.damage
                .iter()
                .map(|(damage, at)| (at, last.damage[damage])),
        );
        expected.extend(at.flagged.into_iter().zip(last.flagged));
        for (place, (counter, value)) in expected.into_iter().enumerate() {
            assert_eq!(book.value(counter), value, "counter {place}");
        }
    }

    /// Books of one buffer, and the ledger that they are in.
    fn opened() -> (KeptLedger, BufferBook) {
        let (ledger, mut books) = open(None, &["dma0".to_owned()], &mut |_| {}).unwrap();
        (ledger, books.pop().unwrap())
    }

    #[test]
    fn what_leaks_is_missing_in_what_went_on_and_nowhere_else() {
        for hop in ["dma", "decode"] {
            let (_ledger, mut book) = opened();
            book.begin(0, &format!("{hop}:1000000").parse().unwrap());
            (1..=2).for_each(|times| book.commit(1000 * times, &decoded(times), 4, [0, 0]));
            let (last, at) = (decoded(2), book.at.clone());
            let [blocks, pieces] =
                [at.dma.outgoing, at.decode.outgoing].map(|it| book.book.tally(it));
            let expected = match hop {
                "dma" => ((0, 0), (last.joined[0], last.joined[1])),
                _ => ((last.decoded, 4 * last.decoded), (0, last.joined[1])),
            };
            assert_eq!((blocks, pieces), expected, "{hop}");
            assert_eq!(book.book.tally(at.dma.incoming), (2000, 8000));
        }
    }

    #[test]
    fn the_ledger_shows_what_was_counted_and_how_full_the_buffer_was() {
        let (ledger, mut book) = opened();
        assert!(format!("{book:?}").starts_with("BufferBook"));
        let snapshot = || ledger.reader().unwrap().snapshot().unwrap();
        let published = book.at.publish.outgoing;
        book.published(5, 60);
        assert_eq!(snapshot().tally(published), (0, 0));
        book.show();
        assert_eq!(snapshot().tally(published), (5, 60));
        for fill in [10, 30] {
            book.commit(fill, &decoded(fill), 1024, [fill, 40]);
        }
        // Nothing came: there is nothing to say.
        book.commit(31, &decoded(30), 1024, [31, 40]);
        let occupancy = snapshot().histograms[0].summary();
        assert_eq!((occupancy.count, occupancy.max), (2, 30 * 1024));
        assert_eq!(snapshot().value(book.at.fill), 31);
    }
}
