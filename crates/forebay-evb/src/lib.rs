//! The event builder's engine, sans-IO.
//!
//! It is given the time and messages that lie in memory, and gives events: [`Builder`] matches sub-events by
//! trigger number across sources that may be late, silent, ahead, duplicated or started anew, and writes
//! each event into memory that the caller offers. [`MessageCheck`] is the receiving side: it puts
//! datagrams together to messages and says of each bad one why it is bad.
//!
//! It is not a receiver, a queue or a writer of files: it reads no socket, clock or file and starts no thread.

#![forbid(unsafe_code)]

mod account;
mod build;
mod config;
mod decide;
mod engine;
mod head;
mod intake;
mod loss;
mod message;
mod numbering;
mod order;
mod output;
mod policy;
mod recent;
mod situation;
mod source;
mod standing;
mod state;

pub use account::{Accounts, DropReason, LOSS_ROWS, SourceWords, declare};
pub use config::{Completion, Config, ConfigError, SOURCES_MAX};
pub use engine::{Builder, Poll};
pub use loss::{Cause, LostRange};
pub use message::{Accepted, MessageCheck, Reject, Rejected, Step, bytes_of, walk};
pub use order::distance;
pub use output::{EventMeta, Output, Slot};
pub use policy::{Situation, Verdict};
pub use source::{Input, Message};
