//! The runtime of every system: clocks, threads, processes, the run directory with its ledger and record, the reader of configuration files, the
//! metrics page. It knows no system.

#![forbid(unsafe_code)]

pub mod chain;
pub mod child;
pub mod error;
pub mod hops;
pub mod host_losses;
pub mod metrics;
pub mod patience;
pub mod ports;
pub mod record;
pub mod removed;
pub mod run_dir;
pub mod stage;
pub mod stop;
pub mod system;
pub mod teller;
pub mod warming;
pub mod whole_file;
pub mod words;
pub mod worker;

pub use error::RunError;
pub use forebay_sys::input::{Input, wait_input};
pub use forebay_sys::process::is_alive;
pub use forebay_sys::signals::let_writes_fail;
pub use forebay_sys::stdio::stdout_was_closed;
pub use stop::{Stop, Urgency};
pub use system::{Host, Note, System, Tell};
