//! The hops of a remote mover at which items can be made to vanish uncounted, for tests of the books.

/// A remote mover.
pub const MOVER: &[&str] = &["stream", "mover"];
