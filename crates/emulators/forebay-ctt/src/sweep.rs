//! Other memories and faster lines: parameters that differ from those of the card.

use crate::parameters::Parameters;

/// A variant of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name.
    pub name: &'static str,
    /// What it is, with where its numbers are from.
    pub says: &'static str,
    /// Parameters that differ.
    pub set: &'static [(&'static str, u64)],
}

impl Variant {
    /// The parameters with those that differ.
    #[must_use]
    pub fn of(&self, base: &Parameters) -> Parameters {
        let mut parameters = base.clone();
        for (name, value) in self.set {
            let is_set = parameters.set(name, *value);
            debug_assert!(is_set, "{name}");
        }
        parameters
    }
}

/// Lines: rates in Mb/s, with the clock and bus that take them.
pub const LINES: [Variant; 2] = [
    Variant {
        name: "400G",
        says: "the line, clock and bus of the parameters",
        set: &[],
    },
    Variant {
        name: "800G",
        says: "twice the line, the bus and the packets of a clock, at the same clock; assumed",
        set: &[
            ("table.line_rate_mbps", 800_000),
            ("table.bus_bits", 4_096),
            ("table.records_per_clock", 8),
        ],
    },
];

/// Memories.
pub const MEMORIES: [Variant; 4] = [
    Variant {
        name: "ddr4 x2",
        says: "the memory of the parameters",
        set: &[],
    },
    Variant {
        name: "ddr4 x4",
        says: "four of its channels",
        set: &[("memory.channels", 4)],
    },
    Variant {
        name: "ddr5 x4",
        says: "DDR5-4800, two modules of two channels with 32 bits each: 64 bytes in 3.33 ns, 64 banks (JEDEC JESD79-5); latency and losses of turns as those of the parameters, assumed",
        set: &[
            ("memory.channels", 4),
            ("memory.banks", 64),
            ("memory.word_ps", 3_333),
            ("memory.refresh_interval_ns", 3_900),
            ("memory.refresh_ns", 295),
        ],
    },
    Variant {
        name: "hbm2e",
        says: "a stack of HBM2E: 16 pseudo channels of 64 bits at 3.2 Gb/s, 64 bytes in 2.5 ns, 16 banks each (JEDEC JESD235D); latency and losses of turns as those of the parameters, assumed",
        set: &[
            ("memory.channels", 16),
            ("memory.banks", 16),
            ("memory.word_ps", 2_500),
            ("memory.refresh_interval_ns", 3_900),
            ("memory.refresh_ns", 260),
        ],
    },
];
