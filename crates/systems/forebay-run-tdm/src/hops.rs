//! The hops of a sender and of a receiver at which items can be made to vanish uncounted, for tests of the books.

/// A sender.
pub const SEND: &[&str] = &["heaps", "send"];

/// A receiver.
pub const RECEIVE: &[&str] = &[
    "datagrams",
    "hand_over",
    "windows",
    "writer_queue",
    "write",
    "heaps",
];
