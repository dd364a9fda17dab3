//! Assembly: engines and links joined into processes, with clocks, threads and configuration.
//!
//! A [`plan::Plan`] says everything about one run. The supervisor makes sockets, rings and the ledger from
//! it, starts the stages (each a process of its own), starts a stage that died again, and closes the books at the end.

#![forbid(unsafe_code)]

pub mod books;
pub mod builder;
pub mod error;
pub mod generator;
pub mod plan;
pub mod receiver;
pub mod run_dir;
pub mod sink;
pub mod stage;
pub mod supervisor;
mod worker;

pub use error::RunError;
