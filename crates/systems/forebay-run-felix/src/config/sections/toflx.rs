//! Sections of the file of to-flx.

use forebay_run::config::keys::Default::{Depends, Required, Value};
use forebay_run::config::keys::Kind::{Flag, Integer, Link, Path, Socket};
use forebay_run::config::keys::{CERTIFICATES, Section, key};

/// To-flx.
pub const TOFLX: Section = Section {
    name: "toflx",
    many: false,
    says: "To-flx as a whole.",
    keys: &[
        key(
            "address",
            Link,
            Required,
            "Where senders connect (`forebay net send`), over any backend. Tags are 64-bit fids, with the bit of the direction to the front end.",
        ),
        key(
            "directory",
            Path,
            Value("\"forebay-toflx\""),
            "Where ledger and record lie, and below it those of the end point. Made if it is not there.",
        ),
        key(
            "metrics",
            Socket,
            Depends("not served"),
            "Serves Prometheus' text format at GET /metrics there.",
        ),
        key(
            "message_bytes_max",
            Integer(1, 1 << 20),
            Depends("what each card takes"),
            "Longest message; a longer one is lost by name. What a card takes is its limit, too.",
        ),
        key(
            "card_wait_s",
            Integer(0, 1_000_000),
            Value("10"),
            "How long a card that is not there yet is waited for, and one that was lost.",
        ),
        key(
            "drain_s",
            Integer(0, 3600),
            Value("10"),
            "How long the end may take until the cards have taken everything.",
        ),
        key(
            "buffer_bytes",
            Integer(64, (64 << 20) - 13),
            Value("65536"),
            "Network buffers of each sender: the longest message that can come.",
        ),
        key(
            "buffer_count",
            Integer(1, 65_536),
            Value("64"),
            "How many of them: so much is on its way when a full card holds a sender back.",
        ),
        key(
            "senders_max",
            Integer(1, 4096),
            Value("128"),
            "Senders at a time.",
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
        key(
            "duration_s",
            Integer(1, 31_536_000),
            Depends("until the cards end, Ctrl-C or SIGTERM"),
            "Ends the run after so long.",
        ),
    ],
};

/// Cards that are written.
pub const TOFLX_DEVICES: Section = Section {
    name: "devices",
    many: true,
    says: "Cards that are written. A fid names its card by detector and connector.",
    keys: &[
        key("socket", Path, Required, "Where the card is opened."),
        key(
            "detector",
            Integer(0, 255),
            Value("0"),
            "Detector in the fids of its E-links.",
        ),
        key(
            "connector",
            Integer(0, 65_535),
            Value("0"),
            "Connector in the fids of its E-links.",
        ),
    ],
};

/// Sections of to-flx's file.
pub const TOFLX_SECTIONS: [Section; 2] = [TOFLX, TOFLX_DEVICES];
