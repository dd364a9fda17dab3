//! Where built events go: HLD files in a directory, and streams to a mover on another host, which writes them.
//!
//! A sink is a thread with a queue, a group of the ledger, and a policy of its own. Its position, its counters and the queue's cursor commit as one
//! record, so that one that is killed at any instruction is gone on with, and nothing is lost or written twice. What a mover gets over the network it writes
//! by the same [`HldWriter`].

#![forbid(unsafe_code)]

mod begun;
mod block;
mod books;
mod direct;
mod error;
mod file;
pub mod files;
mod io;
mod kept;
mod left;
mod limits;
mod name;
mod plan;
mod rotation;
mod tcp;
mod tenure;
mod thread;
mod writer;

pub use block::{Block, Bytes};
pub use books::{SinkBooks, SinkDrop, SinkWords, declare_words, declare_writer};
pub use error::SinkError;
pub use file::HldWriter;
pub use io::{Because, FileIo, Io};
pub use left::Left;
pub use limits::{MoverLimit, RUN_NAME_BYTES_MAX, check_mover, check_names};
pub use plan::{FilePlan, Stall, TcpPlan};
pub use rotation::{Limits, Rotation};
pub use thread::{Sink, SinkHandle, To};
pub use writer::{Told, Writer};
