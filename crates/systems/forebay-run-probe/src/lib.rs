//! The flow probe: packets in, flow records out.
//!
//! ```text
//! capture ─▶ decoder ─▶ filter ─▶ table ─▶ records ─┐
//! capture ─▶ decoder ─▶ filter ─▶ table ─▶ records ─┴▶ queue ─▶ exporters
//! ```
//!
//! Flows that are heavy may be counted below user space, by a table in the kernel, and what was counted comes back to the table that they are of (`offload`).
//!
//! A thread reads a capture, or each of several a ring of an interface (`port`: of packet sockets, or past the kernel's stack), and counts its packets; its decoder refuses some by name, its filter discards what rules say, its table has those of flows that go on, and the
//! others are in records. These wait in a bounded queue for one thread that hands them to each exporter, which counts what it has written.

#![forbid(unsafe_code)]

mod books;
pub mod config;
mod error;
mod export;
mod exporter;
mod file;
mod filter;
mod flows;
pub mod hops;
mod live;
mod offload;
mod packets;
mod plugins;
mod port;
mod queue;
mod run;
mod source;
mod summary;
mod xdp;

pub use error::ProbeError;
pub use export::{Export, TrustError};
pub use filter::{FilterRule, RuleSummary};
pub use forebay_link::collector::TlsFault;
pub use packets::PacketsSummary;
pub use plugins::PluginChoice;
pub use run::ProbePlan;
pub use source::NotTraffic;
pub use summary::{ExportSummary, OffloadSummary, ProbeRecord, ProbeSummary};
