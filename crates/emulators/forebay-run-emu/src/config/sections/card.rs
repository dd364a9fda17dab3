//! The section of the card as a whole.

use super::super::words::BlockWord;
use forebay_run::config::keys::Default::{Depends, Value};
use forebay_run::config::keys::Kind::{Choice, Flag, Integer, Name, Path, PowerOfTwo, Socket};
use forebay_run::config::keys::{Section, key};

use super::DMA_BYTES;

/// The card.
pub const CARD: Section = Section {
    name: "card",
    many: false,
    says: "The emulated card as a whole.",
    keys: &[
        key(
            "name",
            Name,
            Value("\"card0\""),
            "What it is called, in its record and in the names of its memory.",
        ),
        key(
            "socket",
            Path,
            Depends("the name with `.sock`, in the current directory"),
            "Where readers open it: what a device file is for a real card.",
        ),
        key(
            "directory",
            Path,
            Depends("nothing is kept"),
            "Where its ledger and record lie. Made if it is not there.",
        ),
        key(
            "metrics",
            Socket,
            Depends("not served"),
            "Serves Prometheus' text format at GET /metrics there.",
        ),
        key(
            "trigger_times",
            Path,
            Depends("not noted"),
            "A file in which the card notes when each 256th trigger was due, for `forebay swrod --trigger-times`; in `/dev/shm` it waits for no disk.",
        ),
        key(
            "blocks",
            Choice(BlockWord::NAMES),
            Value("\"phase2\""),
            "Format of blocks: marker 0xC0CE with 32-bit trailers, 0xABCD with 16-bit ones, or 0xABCE with 32-bit ones.",
        ),
        key(
            "block_bytes",
            PowerOfTwo(1024, 16_384),
            Value("4096"),
            "Size of a block of phase 2; those of phase 1 have 1024 bytes.",
        ),
        key(
            "subchunk_headers",
            Flag,
            Value("false"),
            "Words in front of the data instead of behind: a variant of this project, which no card has.",
        ),
        key(
            "block_timeout_us",
            Integer(1, 1_000_000),
            Value("1000"),
            "A block that is not full goes out so long after its first byte: the latency at low rates.",
        ),
        key("dma_buffers", Integer(1, 8), Value("1"), "DMA buffers."),
        key(
            "dma_bytes",
            PowerOfTwo(DMA_BYTES.0, DMA_BYTES.1),
            Value("67108864"),
            "Size of each: the longest stall of its reader that shall hold no trigger back, times the data rate.",
        ),
        key(
            "wait_for_readers",
            Flag,
            Value("true"),
            "Whether triggers begin when every DMA buffer has been opened, or at once.",
        ),
        key(
            "time_dilation",
            Integer(1, 1_000_000),
            Value("1"),
            "How much slower than real time the card lives: what this host could not move in real time keeps its shape.",
        ),
        key(
            "drain_s",
            Integer(0, 3600),
            Value("60"),
            "How long the card waits at its end until its readers have read everything.",
        ),
        key(
            "seed",
            Integer(0, u32::MAX as u64),
            Value("1"),
            "All that is random follows from it.",
        ),
    ],
};
