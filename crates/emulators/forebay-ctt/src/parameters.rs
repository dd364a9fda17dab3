//! All numbers of the model, each with its source, or the word *assumed*.
//!
//! Sources: *architecture* is CESNET's description of FETA and CTT; *card* the design files of the AGI-FH400G in their open repositories; *figures* the published
//! figures of drop, hits and latency.

use forebay_settings::{Got, Settings, settings};

settings! {
    /// The table on the chip, and the line in front of it.
    pub struct TableParameters in [table] {
        /// Rate of the line. Source: architecture.
        line_rate_mbps: u64 [1_000..=3_200_000] = 400_000,
        /// Bytes of a packet on the line beside its own: preamble and gap of Ethernet. Source: IEEE 802.3; published rates follow from it.
        line_overhead_bytes: u64 [0..=64] = 20,
        /// Clock. Source: architecture, 200 MHz.
        clock_khz: u64 [10_000..=2_000_000] = 200_000,
        /// Width of the bus of packets. Source: architecture, 2048 bits.
        bus_bits: u64 [64..=16_384] = 2_048,
        /// Packets that the table takes in a clock. Assumed: the four regions of the bus; 64-byte packets at 400 Gb/s need 3.
        records_per_clock: u64 [1..=32] = 4,
        /// Room for packets that wait for an answer. Fitted; 420 M20K of memory are 1,050,000 bytes (architecture).
        fifo_bytes: u64 [2_048..=1_073_741_824] = 400_000,
        /// Most packets that wait. Assumed.
        fifo_packets: u64 [1..=1_048_576] = 16_384,
        /// From a packet's turn to its answer when the context is there. Fitted; figures: medians of 210 to 230 ns.
        hit_latency_ns: u64 [0..=1_000_000] = 240,
        /// Clocks from an update of a flow to the next one of the same flow. Assumed: forwarded from one to the other.
        modify_cycles: u64 [0..=1_000] = 1,
        /// How long a context stays on the chip after it was used. Fitted; figures: about 1 us, as hits follow time and not a number of flows.
        retention_ns: u64 [0..=1_000_000] = 900,
        /// Whether each use begins the stay anew; otherwise it begins when the context is asked for. Assumed: heavy flows would wait for memory again and again, and the median latency would not be that of hits.
        retention_renewed: bool = true,
        /// Contexts that are on the chip at most. Assumed; all memory of the table, 545 M20K (architecture), would hold 19,000 of 71 bytes.
        contexts: u64 [1..=1_048_576] = 8_192,
        /// Latencies above are reported as this. Figures: they end at about 41 us, which are 2^13 clocks.
        latency_clip_ns: u64 [1..=1_000_000] = 40_960,
    }
}

settings! {
    /// The memory that has the contexts.
    pub struct MemoryParameters in [memory] {
        /// Channels, each with its own queue. Source: card, two DDR4 SODIMM.
        channels: u64 [1..=256] = 2,
        /// Banks of a channel. Source: card, 2 ranks of 16 banks.
        banks: u64 [1..=1_024] = 32,
        /// Bytes of a word of the controller. Source: card, 512 bits.
        word_bytes: u64 [1..=1_024] = 64,
        /// Time of a word on the channel. Source: card, 333.333 MHz.
        word_ps: u64 [1..=1_000_000] = 3_000,
        /// Bytes of a context. Source: the record of the table in the probe's source, 71 bytes.
        context_bytes: u64 [1..=4_096] = 71,
        /// Words of 1,000 that carry contexts, the others being lost to turns between read and write, and to rows that are opened. Fitted; figures: about 630.
        efficiency_permille: u64 [10..=1_000] = 860,
        /// From the turn of a request to its context on the chip. Fitted; figures: about 1.05 us.
        latency_ns: u64 [0..=1_000_000] = 825,
        /// Latencies are uniform about that, by so much of 1,000 at most. Assumed.
        latency_spread_permille: u64 [0..=1_000] = 200,
        /// From a request of a bank to its next one. Assumed: read and write, each with its row (twice tRC of DDR4).
        bank_cycle_ns: u64 [0..=1_000_000] = 92,
        /// Requests of a channel under way; the table waits when there are more. Fitted.
        outstanding: u64 [1..=65_536] = 48,
        /// From the end of a context's stay to its being written: until then a new request for it waits. Assumed.
        write_back_ns: u64 [0..=1_000_000] = 100,
        /// From refresh to refresh. Source: card, 7.8 us at twice the rate.
        refresh_interval_ns: u64 [1..=1_000_000] = 3_900,
        /// How long a refresh takes. Source: card, tRFC.
        refresh_ns: u64 [0..=1_000_000] = 260,
    }
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The table.
    pub table: TableParameters,
    /// The memory.
    pub memory: MemoryParameters,
}

impl Parameters {
    /// Sets one of them by its name, as `memory.channels`; whether there is such a one and it takes the value.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let got = Got::Integer(value);
        match name.split_once('.') {
            Some(("table", key)) => self.table.set(key, &got),
            Some(("memory", key)) => self.memory.set(key, &got),
            _ => false,
        }
    }

    /// One of them by its name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<u64> {
        let got = match name.split_once('.')? {
            ("table", key) => self.table.get(key),
            ("memory", key) => self.memory.get(key),
            _ => None,
        };
        match got? {
            Got::Integer(value) => Some(value),
            Got::Flag(_) | Got::Text(_) | Got::List(_) => None,
        }
    }

    /// What a channel does for one context at least: it is read and written, in whole words. In ps.
    #[must_use]
    pub fn context_ps(&self) -> u64 {
        let MemoryParameters {
            word_bytes,
            word_ps,
            context_bytes,
            efficiency_permille,
            ..
        } = self.memory;
        2 * context_bytes.div_ceil(word_bytes.max(1)) * word_ps * 1_000 / efficiency_permille.max(1)
    }

    /// Contexts that the memory can fetch and write back in a second at most, without its refreshes.
    #[must_use]
    pub fn memory_rate_hz(&self) -> f64 {
        self.memory.channels as f64 * 1e12 / self.context_ps().max(1) as f64
    }
}
