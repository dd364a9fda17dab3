//! The flow probe: packets in, flow records out.
//!
//! ```text
//! capture ─▶ decoder ─▶ table ─▶ records ─▶ exporters
//! ```
//!
//! One thread reads a capture and counts its packets, the decoder refuses some by name, the table has those of flows that go on, the others are in records, and each exporter counts
//! what it has written.

#![forbid(unsafe_code)]

mod books;
pub mod config;
mod error;
mod export;
pub mod hops;
mod run;
mod source;
mod summary;

pub use error::ProbeError;
pub use export::Export;
pub use run::ProbePlan;
pub use summary::{ExportSummary, ProbeRecord, ProbeSummary};
