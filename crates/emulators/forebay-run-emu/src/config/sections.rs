//! All sections and keys of the files of cards and of batches of them, in the order in which they are documented.

mod batch;
mod card;
mod from_host;

use super::words::{LinkWord, SizeWord, SpreadWord};
use forebay_emu::card::CardFault;

use forebay_run::config::keys::Default::{Depends, Required, Value};
use forebay_run::config::keys::Kind::{Choice, Flag, Integer, Integers, PowerOfTwo, ZeroOr};
use forebay_run::config::keys::{Section, key};

pub use batch::{BATCH, BATCH_SECTIONS, DEFECTS};
pub use card::CARD;
pub use from_host::FROM_HOST;

/// Bytes of a DMA buffer.
const DMA_BYTES: (u64, u64) = (1 << 20, 1 << 36);
/// Bytes of a chunk: the head of its payload, and what 16 bits can say.
const CHUNK_BYTES: (u64, u64) = (8, 65_535);

/// Triggers.
pub const TTC: Section = Section {
    name: "ttc",
    many: false,
    says: "Triggers (timing, trigger and control).",
    keys: &[
        key(
            "rate_hz",
            Integer(1, 100_000_000),
            Value("100000"),
            "Triggers asked for in a second of the card's time, on average. BUSY holds some of them back.",
        ),
        key(
            "spread",
            Choice(SpreadWord::NAMES),
            Value("\"fixed\""),
            "How they are spread: at the same distance, at random, or at random over trains of filled bunches.",
        ),
        key(
            "trains",
            Integer(1, 3564),
            Value("39"),
            "For trains: how many in an orbit of 3564 bunches.",
        ),
        key(
            "train_bunches",
            Integer(1, 3564),
            Value("72"),
            "For trains: bunches of a train.",
        ),
        key(
            "gap_bunches",
            Integer(0, 3564),
            Value("8"),
            "For trains: empty bunches between two trains.",
        ),
        key(
            "dead_time_bunches",
            Integer(0, 3564),
            Value("0"),
            "No other trigger for so many bunches after one.",
        ),
        key(
            "ecr_period_us",
            ZeroOr(1, 3_600_000_000),
            Value("0"),
            "Resets the trigger number (ECR) so often. 0: never.",
        ),
        key(
            "messages_to",
            Integer(0, 7),
            Depends("no messages"),
            "The DMA buffer that gets a message about each trigger, on E-link 0x600.",
        ),
        key(
            "trigger_type",
            Integer(0, 65_535),
            Value("1"),
            "What these messages say of each trigger.",
        ),
        key(
            "triggers",
            ZeroOr(1, 1 << 48),
            Value("0"),
            "Ends the run after so many triggers. 0: not by number.",
        ),
        key(
            "duration_ms",
            ZeroOr(1, 1 << 40),
            Value("0"),
            "Ends the run after so much of the card's time. 0: by Ctrl-C or SIGTERM.",
        ),
    ],
};

/// Chunks.
pub const CHUNKS: Section = Section {
    name: "chunks",
    many: false,
    says: "What front ends send for a trigger: the payload of FELIX's own data generator, which checks itself.",
    keys: &[
        key(
            "sizes",
            Choice(SizeWord::NAMES),
            Value("\"fixed\""),
            "How long chunks are.",
        ),
        key(
            "bytes",
            Integer(CHUNK_BYTES.0, CHUNK_BYTES.1),
            Value("64"),
            "For fixed: the size. For normal: the mean. For lognormal: the median.",
        ),
        key(
            "min_bytes",
            Integer(CHUNK_BYTES.0, CHUNK_BYTES.1),
            Value("16"),
            "The least, but for fixed.",
        ),
        key(
            "max_bytes",
            Integer(CHUNK_BYTES.0, CHUNK_BYTES.1),
            Value("2048"),
            "The most, but for fixed.",
        ),
        key(
            "sigma_percent",
            Integer(0, 400),
            Value("30"),
            "For normal: the deviation, in per cent of the mean. For lognormal: that of the logarithm, in per cent.",
        ),
        key(
            "ramp_triggers",
            Integer(2, 1 << 40),
            Value("1000000"),
            "For ramp: triggers from the least to the most; then again.",
        ),
    ],
};

/// Queues.
pub const QUEUES: Section = Section {
    name: "queues",
    many: false,
    says: "What raises BUSY: the queues in front of each link, and the free blocks of DMA buffers; and the queue behind each link.",
    keys: &[
        key(
            "busy_on_chunks",
            Integer(1, 4096),
            Value("256"),
            "The queue of a front end: chunks at which BUSY goes up and triggers stop.",
        ),
        key(
            "busy_off_chunks",
            Integer(0, 4095),
            Depends("half of `busy_on_chunks`"),
            "Chunks at which BUSY goes down.",
        ),
        key(
            "busy_on_free_blocks",
            ZeroOr(1, 1_048_575),
            Depends("a sixteenth of the blocks of a DMA buffer"),
            "BUSY goes up too when a DMA buffer has fewer free blocks: before anything waits behind a link. 0: only when the queues in front of links are full.",
        ),
        key(
            "busy_off_free_blocks",
            Integer(1, 1_048_576),
            Depends("twice `busy_on_free_blocks`"),
            "It goes down when all DMA buffers have so many again.",
        ),
        key(
            "fifo_bytes",
            Integer(1 << 10, 16 << 20),
            Value("65536"),
            "What a link's FIFO takes while the DMA buffer is full.",
        ),
        key(
            "xoff_sixteenths",
            Integer(1, 15),
            Value("12"),
            "How full the FIFO is when the front end is told to stop (XOFF).",
        ),
        key(
            "xon_sixteenths",
            Integer(0, 14),
            Value("4"),
            "How full it is when it may go on.",
        ),
    ],
};

/// Links.
pub const LINKS: Section = Section {
    name: "links",
    many: true,
    says: "Links and E-links, and the DMA buffer that they go into.",
    keys: &[
        key(
            "kind",
            Choice(LinkWord::NAMES),
            Value("\"full\""),
            "Whole links of 9.6 Gb/s (FULL mode), or E-links of GBT links.",
        ),
        key(
            "links",
            Integers(0, 23),
            Depends("required for full"),
            "For full: the links; link n is E-link 64 n.",
        ),
        key(
            "elinks",
            Integers(0, 2047),
            Depends("required for gbt"),
            "For gbt: numbers of the E-links: 64 times the link and 8 times the group and the path.",
        ),
        key(
            "width_bits",
            PowerOfTwo(2, 32),
            Value("8"),
            "For gbt: bits of each 25 ns; 40 Mb/s a bit, of which 8b10b leaves 4 in 5.",
        ),
        key(
            "dma_buffer",
            Integer(0, 7),
            Value("0"),
            "Where their blocks go.",
        ),
        key(
            "stream",
            Integer(0, 255),
            Depends("0xAA, which is none"),
            "First byte of each chunk.",
        ),
        key(
            "loop_back",
            Flag,
            Value("false"),
            "Whether their front ends send back each message that they are sent (`forebay toflx`), as a chunk of the same E-link, and answer no trigger. Those of other \
             E-links take messages and forget them.",
        ),
    ],
};

/// Faults.
pub const FAULTS: Section = Section {
    name: "faults",
    many: true,
    says: "What goes wrong, where and when; everything else is as it was, and what is lost by it is booked under its name.",
    keys: &[
        key(
            "kind",
            Choice(&CardFault::NAMES),
            Required,
            "What: a block that does not go out, jumps in its number, or is damaged; a chunk that is flagged, cut off or changed; a link that is silent (for_us), stops in \
             the middle of a chunk, or does not listen to XOFF.",
        ),
        key(
            "elink",
            Integer(0, 2047),
            Depends("all but that of messages about triggers"),
            "On this E-link alone.",
        ),
        key(
            "first",
            Integer(0, 1 << 60),
            Value("0"),
            "From this trigger of the run on, counted from 0.",
        ),
        key(
            "count",
            ZeroOr(1, 1 << 60),
            Value("0"),
            "For so many triggers. 0: to the end.",
        ),
        key(
            "every",
            Integer(1, 1 << 60),
            Value("1"),
            "At each so-many-th of them.",
        ),
        key(
            "chance_ppm",
            Integer(1, 1_000_000),
            Depends("certain"),
            "At each of them with this probability, in millionths, instead of `every`.",
        ),
        key(
            "for_us",
            Integer(1, 10_000_000),
            Value("1000"),
            "For stuck_link: how long it is silent.",
        ),
    ],
};

/// Sections of a card's file.
pub const CARD_SECTIONS: [Section; 8] =
    [CARD, TTC, CHUNKS, QUEUES, FROM_HOST, LINKS, FAULTS, DEFECTS];
