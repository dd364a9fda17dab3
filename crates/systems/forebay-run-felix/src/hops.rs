//! The hops of link readout's programs at which items can be made to vanish uncounted, for tests of the books.

/// To-host, with the end points that it publishes by.
pub const TOHOST: &[&str] = &["dma", "decode", "publish", "send"];

/// To-flx, with the end point that it receives by.
pub const TOFLX: &[&str] = &["deliver", "route", "encode", "ring"];

/// A subscriber that checks chunks, with its end point.
pub const SWROD: &[&str] = &["deliver", "check"];
