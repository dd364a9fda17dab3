//! Clients of the multiplexer: what the original's measurements had as clients, over an IP stack or over raw frames, with books.
//!
//! | module | what it does |
//! |---|---|
//! | [`workload`] | what is answered, and with how much: told datagrams, it says what is due; no socket, no clock |
//! | `stack` | an IP stack over the client library: UDP, and TCP for the echo |
//! | `raw` | the echo without a stack: a frame is turned round where it lies |
//! | `session` | a place at the multiplexer, from the welcome to the farewell |
//! | [`hostile`] | no client of those, but one that does what harm it can, for showing what that costs others |
//! | `run`, `books`, `summary` | the program: one session after the other, the ledger, the record |
#![forbid(unsafe_code)]

mod books;
mod counts;
mod error;
pub mod hostile;
mod raw;
mod run;
mod session;
mod stack;
mod summary;
pub mod workload;

pub use counts::{Amount, SendDrop, WorkCounts, WorkDrop};
pub use error::MuxClientError;
pub use run::MuxClientPlan;
pub use summary::{MuxClientRecord, MuxClientSummary, TcpSummary};
