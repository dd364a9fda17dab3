//! Assembly: engines and links joined into processes, with clocks, threads and configuration.
//!
//! A [`plan::Plan`] says everything about one run. The supervisor makes sockets, rings and the ledger from
//! it, starts the stages (each a process of its own), starts a stage that died again, and closes the books at the end.

#![forbid(unsafe_code)]

#[cfg(test)]
mod balance_lines;
pub mod books;
pub mod builder;
mod carriage;
pub mod child;
pub mod config;
pub mod doctor;
pub mod error;
pub mod evb_error;
pub mod generator;
pub mod hops;
pub mod host;
pub mod metrics;
pub mod mover;
pub mod net;
pub mod plan;
pub mod presets;
pub mod receiver;
pub mod removed;
pub mod replay;
pub mod run_dir;
mod run_files;
pub mod silence;
pub mod sink;
pub mod stage;
pub mod stages;
pub mod summary;
pub mod supervisor;
pub mod teller;
pub mod triggers;
pub mod verify;
pub mod watched;
pub mod whole_file;
pub mod words;
mod worker;

pub use error::RunError;
pub use forebay_sys::input::{Input, wait_input};
pub use forebay_sys::process::is_alive;
pub use forebay_sys::signals::{StopSignals, let_writes_fail};
pub use forebay_sys::stdio::stdout_was_closed;

/// Turns the signals that ask a process to end into a count.
///
/// # Errors
/// The kernel refuses a handler.
pub fn signals() -> Result<StopSignals, RunError> {
    Ok(StopSignals::install()?)
}
