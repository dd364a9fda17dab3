//! Link readout: the programs that read the links of FELIX's cards and write to them, and those that look at what came.
//!
//! A card is known by its [device]: memory that its owner shares. Which process owns it is nothing to these programs.

#![forbid(unsafe_code)]

mod books;
mod buffer_summary;
pub mod check;
pub mod config;
pub mod device;
mod elink_table;
mod error;
pub mod hops;
mod kept;
mod outlet;
mod reader;
pub mod swrod;
pub mod toflx;
pub mod tohost;
pub mod trigger_times;

pub use buffer_summary::{BufferSummary, CardEnd};
pub use error::ReadoutError;
pub use reader::ReaderPlan;
