//! The hops of the event builder at which items can be made to vanish uncounted, for tests of the books.

/// The event builder with its receiver and sinks, live.
pub const EVB: &[&str] = &[
    "generator",
    "socket",
    "elink",
    "receiver",
    "queue",
    "ring",
    "builder",
    "events",
    "fan_out",
    "offer",
    "sink_queue",
    "sink",
    "stream",
    "reassembly",
    "capture",
];
