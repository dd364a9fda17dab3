//! A model of CESNET's connection tracking table (CTT), a table of flows in an FPGA with its contexts in external memory, at 400 Gb/s.
//!
//! Packets arrive back to back at the line's rate and wait in a FIFO for the answer of the table, which takes their flows in order, several in a clock. A flow whose
//! context is on the chip is a hit; any other one is fetched from a bank of a memory channel, which has latency, bandwidth, a number of requests under way, and
//! refresh. Updates of one flow follow each other, and a context that is being written back is waited for. Packets leave the FIFO in order; one
//! that finds it full is dropped. Time goes from event to event, in ps: not each clock is stepped through.
//!
//! The inside of the real table is not public. Each number of [`Parameters`] says its source or that it is assumed, and six of them are fitted
//! ([`fit`]) to two published profiles: what comes out is a fit and a prediction from it, and **no measurement**. Packets are those of the profiles of
//! `forebay-traffic`, which are made up, too.
//!
//! ```
//! use forebay_ctt::{Parameters, Table};
//!
//! let mut table = Table::new(&Parameters::default());
//! for packet in 0..10_000 {
//!     table.offer(packet % 3, 1_000); // three flows of packets with 1,000 bytes
//! }
//! let outcome = table.outcome();
//! assert_eq!(outcome.packets_in, outcome.packets_out + outcome.packets_dropped + outcome.packets_held);
//! assert!(outcome.hit_ratio() > 0.98);
//! ```
#![forbid(unsafe_code)]

pub mod fit;
mod latency;
mod memory;
mod outcome;
mod parameters;
pub mod published;
mod retained;
pub mod sweep;
mod table;
mod trace;

pub use forebay_traffic::{NAMED, NamedProfile};
pub use outcome::Outcome;
pub use parameters::{MemoryParameters, Parameters, TableParameters};
pub use table::Table;
pub use trace::{Edition, Trace, TracePacket};
