//! What both ends of a port count, and where its buffers are.

/// What the kernel has counted for a port since it was opened (`XDP_STATISTICS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames that were lost as no buffer was there, or as they are longer than one.
    pub dropped: u64,
    /// Addresses of the fill ring that the kernel refused. No frame is lost by one.
    pub invalid_fill: u64,
    /// Descriptors of the send ring that the kernel refused.
    pub invalid_send: u64,
    /// Frames that were lost as the receive ring was full.
    pub ring_full: u64,
    /// How often the kernel looked for a buffer in an empty fill ring.
    pub fill_empty: u64,
    /// How often the kernel looked for a frame in an empty send ring.
    pub send_empty: u64,
}

impl Statistics {
    /// Frames that were redirected to the port, and lost.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.dropped + self.ring_full
    }
}

/// Where the buffers of a port are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// All of them.
    pub total: u64,
    /// Here, and free.
    pub free: u64,
    /// In a file that others read, and not lent ([`SharedBuffers`](super::SharedBuffers)).
    pub shared: u64,
    /// In the fill ring, for a frame that comes.
    pub fill: u64,
    /// In the kernel, for a frame that comes: between both rings.
    pub kernel_receiving: u64,
    /// In the receive ring, with a frame or a piece of one.
    pub received: u64,
    /// In the send ring, with a frame.
    pub send: u64,
    /// In the kernel, with a frame that is being sent: between both rings.
    pub kernel_sending: u64,
    /// In the completion ring: its frame was sent, or given up.
    pub completed: u64,
}

/// What this end has counted since the port was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames that were visited.
    pub received: u64,
    /// Their octets.
    pub received_octets: u64,
    /// Frames of which the kernel's descriptor cannot be true, and which were not visited. Always 0, unless the kernel is broken.
    pub disbelieved: u64,
    /// Frames that were put into the send ring.
    pub sent: u64,
    /// Their octets.
    pub sent_octets: u64,
    /// Frames of which the kernel gave the buffer back: they were handed to the driver, or given up there.
    pub completed: u64,
}

impl Buffers {
    /// All places together: as many as [`total`](Self::total).
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.free
            + self.shared
            + self.fill
            + self.kernel_receiving
            + self.received
            + self.send
            + self.kernel_sending
            + self.completed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_in_the_sum_once() {
        let buffers = Buffers {
            total: 1_000,
            free: 1,
            fill: 2,
            kernel_receiving: 4,
            received: 8,
            send: 16,
            kernel_sending: 32,
            completed: 64,
            shared: 128,
        };
        assert_eq!(buffers.sum(), 255);
    }

    /// The kernel's looks into an empty ring, and what it refused to believe, are no frames.
    #[test]
    fn frames_are_lost_for_two_reasons() {
        let statistics = Statistics {
            dropped: 3,
            invalid_fill: 100,
            invalid_send: 200,
            ring_full: 5,
            fill_empty: 400,
            send_empty: 800,
        };
        assert_eq!(statistics.lost(), 8);
    }
}
