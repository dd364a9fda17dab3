//! The hops of messaging at which items can be made to vanish uncounted, for tests of the books.

/// An end point of messaging.
pub const NET: &[&str] = &["publish", "copies", "send", "receive", "read", "deliver"];
