//! Heaps: messages that keep their boundaries on their way through a stream of packets.
//!
//! A sender [cuts](Cutter) heaps into packets of whole pieces ([`mod@forebay_wire::heap`]); a receiver [joins](Joiner) the pieces, whatever order they come in. What
//! is lost of the stream is told to the joiner, and a heap that misses a byte of it is dropped by name. A heap that is whole waits for no other.

mod cut;
mod join;

pub use cut::{Cutter, Heap};
pub use join::{Event, Joiner, Why};

#[cfg(test)]
mod tests;
