//! Places at which tests make packets or records vanish.

/// Of a flow probe: a frame of a live interface before it is counted, a packet before the table, a record between the table and what is counted of it, a record behind the queue, a frame in front of the table in software, what was counted of a flow below on its way to the table, a packet behind its way to the file of packets.
pub const PROBE: &[&str] = &[
    "ring",
    "packets",
    "records",
    "queue",
    "below",
    "offload",
    "packet_queue",
];
