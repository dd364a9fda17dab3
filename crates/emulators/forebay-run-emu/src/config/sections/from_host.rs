//! The section of the way to the front ends.

use forebay_run::config::keys::Default::Value;
use forebay_run::config::keys::Kind::{Choice, Integer, PowerOfTwo};
use forebay_run::config::keys::{Section, key};

/// Packets to the front ends.
pub const FROM_HOST: Section = Section {
    name: "from_host",
    many: false,
    says: "The way to the front ends: a buffer of packets that `forebay toflx` writes.",
    keys: &[
        key(
            "ring_bytes",
            PowerOfTwo(1 << 16, 1 << 26),
            Value("1048576"),
            "Size of the from-host buffer. A packet of 32 bytes carries up to 30 of a message, and a message goes in whole.",
        ),
        key(
            "packets",
            Choice(&["rm5", "rm4"]),
            Value("\"rm5\""),
            "How packets say their length: in bytes, as firmware of Phase II, or in words of 16 bits, as that of Phase I; messages of odd length are then refused.",
        ),
        key(
            "message_bytes_max",
            Integer(1, 1 << 20),
            Value("16384"),
            "Longest message; a longer one is lost by name. One that is sent back has to fit between XOFF and the end of the queue behind its link (`fifo_bytes`), or it is \
             cut off there when the DMA buffer is full.",
        ),
    ],
};
