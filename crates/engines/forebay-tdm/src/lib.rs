//! Time-division UDP: senders that share a receiver's port take turns, so that a shallow buffer of a switch never overflows.
//!
//! The engine of `forebay tdm`, without sockets, threads or a clock of its own. It is told the time and handed datagrams.
//!
//! | module | what it decides |
//! |---|---|
//! | [`clock`] | what the receiver's clock shows, from exchanges of readings |
//! | [`plan`] | windows, guard and pace, from the port's rate and buffer and from what was measured; one file per mode under `policy/` |
//! | [`pace`] | when the next packets may leave |
//! | [`sender`] | one sender: hello, clock, windows, reports, end |
//! | [`receiver`] | the session: which senders take part, what came, what was lost where |
//! | [`mod@heaps`] | how messages become packets that stand for themselves, and messages again |
//! | [`launches`] | whether bursts may be given to the kernel ahead of their time |
//! | [`ordered`] | a stream in order, with zeroes where bytes are lost |
//! | [`written`] | what became of payloads, by name |
//! | [`stalls`] | for how long a receiver's host did not read its socket |
//! | [`key`] | the keyed hash of datagrams |
//! | [`pattern`] | the bytes of a test stream |
//!
//! ```
//! use forebay_tdm::plan::{Plan, PlanInput};
//!
//! // Three senders on a port of 1 Gb/s with 128 KiB of buffer.
//! let plan = Plan::compute(&PlanInput { link_rate_bps: 1_000_000_000, port_buffer_bytes: 131_072, shares: vec![1; 3], ..PlanInput::default() })?;
//! assert!(plan.utilisation > 0.97);
//! # Ok::<(), forebay_tdm::plan::PlanError>(())
//! ```
#![forbid(unsafe_code)]

pub mod came;
pub mod clock;
pub mod heaps;
pub mod key;
pub mod launches;
pub mod ordered;
pub mod pace;
pub mod pattern;
pub mod plan;
mod policy;
pub mod receiver;
pub mod sender;
pub mod stalls;
pub mod written;

/// Picoseconds of a nanosecond.
const PS_PER_NS: u64 = 1_000;
