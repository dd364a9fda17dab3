//! Sections of a batch of cards that is validated, and of what is broken in a card.

use forebay_emu::card::board::DefectKind;

use forebay_run::config::keys::Default::{Depends, Required, Value};
use forebay_run::config::keys::Kind::{Choice, Flag, Integer, PowerOfTwo};
use forebay_run::config::keys::{Section, key};

/// Names of repairs, and that of none.
const CURES: [&str; 7] = [
    "none",
    "reseat",
    "reprogram",
    "clean_fibre",
    "replug",
    "transceiver",
    "resolder",
];

/// A batch.
pub const BATCH: Section = Section {
    name: "batch",
    many: false,
    says: "Emulated cards that are validated one after the other.",
    keys: &[
        key("cards", Integer(1, 4096), Value("40"), "How many cards."),
        key(
            "faulty",
            Integer(0, 4096),
            Depends("10, or a quarter of the cards"),
            "How many of them get a fault at random, as long as no [[defects]] are named.",
        ),
        key(
            "seed",
            Integer(0, 1 << 60),
            Value("1"),
            "Which cards and which faults, and all noise, follow from it.",
        ),
        key("links", Integer(1, 24), Value("12"), "Links of each card."),
        key(
            "dma_buffers",
            Integer(1, 8),
            Value("4"),
            "DMA buffers of each card.",
        ),
        key(
            "block_bytes",
            PowerOfTwo(1024, 16_384),
            Value("4096"),
            "Blocks of their DMA buffers.",
        ),
        key(
            "repairs_most",
            Integer(0, 16),
            Value("4"),
            "Repairs of a card, after each of which it is tested again.",
        ),
        key(
            "align_tries",
            Integer(1, 10_000),
            Value("64"),
            "Resets after each of which every link must align. More find links that seldom fail.",
        ),
        key(
            "wrong_per_1e15_bits",
            Integer(1, 1_000_000_000_000),
            Value("1000"),
            "Limit of bit errors that every link must be shown to be below, at 95 % confidence; 1000 is a rate of 1e-12.",
        ),
    ],
};

/// What is broken.
pub const DEFECTS: Section = Section {
    name: "defects",
    many: true,
    says: "What is broken in the board of a card, below what its diagnostics see.",
    keys: &[
        key(
            "kind",
            Choice(DefectKind::NAMES),
            Required,
            "What: which of the keys below belong to it, stands with them.",
        ),
        key(
            "card",
            Integer(0, 4095),
            Depends("required in a batch"),
            "In a batch: which card, from 0.",
        ),
        key(
            "link",
            Integer(0, 23),
            Value("0"),
            "For dead_link, unsteady_link, swapped_links, bit_errors, mark_ignored and xoff_stuck.",
        ),
        key(
            "other_link",
            Integer(0, 23),
            Value("1"),
            "For swapped_links: the other one.",
        ),
        key(
            "dma_buffer",
            Integer(0, 7),
            Value("0"),
            "For stuck_data_bit, stuck_dma_line, lost_blocks and no_interrupt.",
        ),
        key(
            "address",
            Integer(0, 0xfff),
            Value("0x100"),
            "For stuck_register_bit: that of the register.",
        ),
        key(
            "bit",
            Integer(0, 63),
            Value("0"),
            "For stuck_register_bit and stuck_data_bit.",
        ),
        key(
            "line",
            Integer(2, 11),
            Value("4"),
            "For stuck_address_line (4 to 11) and stuck_dma_line (2 to 9): which line of the address of a byte.",
        ),
        key(
            "high",
            Flag,
            Value("false"),
            "For what is stuck: whether at 1.",
        ),
        key(
            "every",
            Integer(2, 1 << 40),
            Value("100"),
            "For lost_blocks and triggers_skipped: each so-many-th.",
        ),
        key(
            "chance_ppm",
            Integer(1, 1_000_000),
            Value("100000"),
            "For unsteady_link (resets that fail) and bcr_lost: in millionths.",
        ),
        key(
            "wrong_per_1e15_bits",
            Integer(1, 100_000_000_000_000),
            Value("1000000000"),
            "For bit_errors: how many.",
        ),
        key(
            "percent",
            Integer(1, 100),
            Value("50"),
            "For slow_memory: the speed that is left.",
        ),
        key(
            "version",
            Integer(0, 0xffff_ffff),
            Value("0x05010000"),
            "For wrong_firmware: what it says it is.",
        ),
        key(
            "cure",
            Choice(&CURES),
            Value("\"none\""),
            "The repair that helps.",
        ),
    ],
};

/// Sections of a batch's file.
pub const BATCH_SECTIONS: [Section; 2] = [BATCH, DEFECTS];
