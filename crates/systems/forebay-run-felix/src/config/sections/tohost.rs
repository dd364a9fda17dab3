//! Sections of the file of to-host.

use forebay_run::config::keys::Default::{Depends, Required, Value};
use forebay_run::config::keys::Kind::{Flag, Integer, Integers, Link, Path, Socket, ZeroOr};
use forebay_run::config::keys::{CERTIFICATES, Section, key};

/// To-host.
pub const TOHOST: Section = Section {
    name: "tohost",
    many: false,
    says: "To-host as a whole.",
    keys: &[
        key(
            "directory",
            Path,
            Value("\"forebay-tohost\""),
            "Where ledger and record lie, and below it those of each publisher. Made if it is not there.",
        ),
        key(
            "metrics",
            Socket,
            Depends("not served"),
            "Serves Prometheus' text format at GET /metrics there.",
        ),
        key(
            "detector",
            Integer(0, 255),
            Value("0"),
            "Detector in the 64-bit fids, which are the tags.",
        ),
        key(
            "connector",
            Integer(0, 65_535),
            Value("0"),
            "Connector in the fids.",
        ),
        key(
            "subscribers_min",
            Integer(0, 4096),
            Value("0"),
            "Opens a DMA buffer when so many have subscribed to it: what comes before is dropped by name otherwise.",
        ),
        key(
            "card_wait_s",
            Integer(0, 1_000_000),
            Value("10"),
            "How long a card that is not there yet is waited for.",
        ),
        key(
            "chunk_bytes_max",
            Integer(1, 64 << 20),
            Value("1048576"),
            "Longest chunk that is joined of several blocks; what is beyond is dropped by name.",
        ),
        key(
            "duration_s",
            Integer(1, 31_536_000),
            Depends("until the cards end, Ctrl-C or SIGTERM"),
            "Ends the run after so long.",
        ),
    ],
};

/// Devices.
pub const DEVICES: Section = Section {
    name: "devices",
    many: true,
    says: "Cards that are read. Each DMA buffer has a thread and an address of its own.",
    keys: &[
        key("socket", Path, Required, "Where the card is opened."),
        key(
            "dma_buffers",
            Integers(0, 7),
            Depends("all that the card has"),
            "Which of its buffers: others may be read by other processes.",
        ),
        key(
            "address",
            Link,
            Required,
            "Where the first of them is published; the n-th further one n ports higher, or with `-n` behind the name.",
        ),
        key(
            "buffer_bytes",
            Integer(64, (64 << 20) - 13),
            Value("65536"),
            "Network buffers of each subscriber: chunks are gathered in them.",
        ),
        key(
            "buffer_count",
            Integer(1, 65_536),
            Value("64"),
            "How many of them.",
        ),
        key(
            "by_reference_bytes",
            ZeroOr(1, 65_535),
            Value("0"),
            "Over shared memory: chunks from so many bytes on, within one block, are not copied; subscribers look at them in the card's DMA buffer, and the block is given \
             back when all have. 0: all are copied.",
        ),
        key(
            "flush_us",
            Integer(1, 10_000_000),
            Value("1000"),
            "A network buffer goes out at the latest so long after its first chunk.",
        ),
        key(
            "block_ms",
            Integer(1, 3_600_000),
            Value("10000"),
            "How long a subscriber of the policy block may hold the card up before it is let go.",
        ),
        key(
            "subscribers_max",
            Integer(1, 4096),
            Value("128"),
            "Subscribers of each buffer at a time.",
        ),
        key(
            "plain",
            Flag,
            Value("false"),
            "Whether a TCP address beyond loopback may go without TLS.",
        ),
        CERTIFICATES[0],
        CERTIFICATES[1],
        CERTIFICATES[2],
    ],
};

/// Sections of to-host's file.
pub const TOHOST_SECTIONS: [Section; 2] = [TOHOST, DEVICES];
