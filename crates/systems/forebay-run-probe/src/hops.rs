//! Places at which tests make packets or records vanish.

/// Of a flow probe: a frame of a live interface before it is counted, a packet before the table, a record between the table and what is counted of it, a record behind the queue, a record on its way to the first of the exporters, a record that waits at that one, a frame in front of the table in software, what was counted of a flow below on its way to the table, a packet that is to be exported before it is handed over, a packet behind its way to the file of packets.
pub const PROBE: &[&str] = &[
    "ring",
    "packets",
    "records",
    "queue",
    "fan_out",
    "export",
    "below",
    "offload",
    "tap",
    "packet_queue",
];
