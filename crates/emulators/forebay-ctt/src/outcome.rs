//! What a run of the model comes to.

/// What a run of the model comes to: counts, and latencies of packets that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Packets that arrived.
    pub packets_in: u64,
    /// Packets that left the FIFO.
    pub packets_out: u64,
    /// Packets that found the FIFO full.
    pub packets_dropped: u64,
    /// Packets that are in the FIFO.
    pub packets_held: u64,
    /// Bytes that arrived.
    pub bytes_in: u64,
    /// Bytes that left.
    pub bytes_out: u64,
    /// Bytes of packets that found the FIFO full.
    pub bytes_dropped: u64,
    /// Bytes that are in the FIFO.
    pub bytes_held: u64,
    /// Packets whose context was on the chip, or on its way there.
    pub hits: u64,
    /// Packets whose context was asked of the memory.
    pub misses: u64,
    /// Contexts that were fetched.
    pub contexts_fetched: u64,
    /// Contexts that were written back.
    pub contexts_written: u64,
    /// Contexts that are on the chip.
    pub contexts_held: u64,
    /// When the last packet arrived, ns.
    pub duration_ns: f64,
    /// Mean latency, from a packet's arrival to its answer, ns; clipped as all of them.
    pub latency_ns_mean: f64,
    /// A quarter of packets had this latency at most, ns.
    pub latency_ns_p25: f64,
    /// Half of them.
    pub latency_ns_p50: f64,
    /// Three quarters of them.
    pub latency_ns_p75: f64,
}

impl Outcome {
    /// Packets that were dropped, of all that arrived.
    #[must_use]
    pub fn drop_ratio(&self) -> f64 {
        self.packets_dropped as f64 / self.packets_in.max(1) as f64
    }

    /// Packets whose context was there, of all that were looked up.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }

    /// Packets that arrived in a second.
    #[must_use]
    pub fn offered_rate_hz(&self) -> f64 {
        self.packets_in as f64 * 1e9 / self.duration_ns.max(1.0)
    }

    /// Contexts that the memory fetched in a second.
    #[must_use]
    pub fn miss_rate_hz(&self) -> f64 {
        self.misses as f64 * 1e9 / self.duration_ns.max(1.0)
    }

    /// Whether all three equations close: of packets, of their bytes, and of contexts.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.packets_in == self.packets_out + self.packets_dropped + self.packets_held
            && self.bytes_in == self.bytes_out + self.bytes_dropped + self.bytes_held
            && self.contexts_fetched == self.contexts_written + self.contexts_held
    }
}
