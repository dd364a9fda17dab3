//! The event builder's engine, sans-IO.
//!
//! It is given the time and messages that lie in memory, and gives events: [`Builder`] matches sub-events by
//! trigger number across sources that may be late, silent, ahead, duplicated or started anew, and writes
//! each event into memory that the caller offers. [`MessageCheck`] is the receiving side: it puts
//! datagrams together to messages and says of each bad one why it is bad.
//!
//! It is not a receiver, a queue or a writer of files: it reads no socket, clock or file and starts no thread.
//!
//! An event is *complete* when every source is in it; what becomes of others is a [policy](Completion), and every
//! wait has a limit in time. A trigger number that cannot be true costs its own sub-event only: it is judged by the
//! numbers of its own source before and behind it. Numbers that most sources show are followed, wherever they lead.
//! Each sub-event is in exactly one event or in one named drop of its source's [account](Accounts).
//!
//! ```
//! use forebay_evb::{Builder, Config, EventMeta, Input, Message, Output, Poll, Slot, declare};
//! use forebay_ledger::{GroupWriter, RunWriter, SchemaBuilder, Words};
//! use forebay_wire::subevent::SubEventRepr;
//!
//! /// One sub-event of each source, in memory.
//! struct Queues(Vec<[u8; 16]>);
//!
//! impl Input for Queues {
//!     fn header(&self, source: usize, at: u64) -> Option<[u8; 16]> {
//!         (at == 0).then_some(self.0[source])
//!     }
//!     fn copy(&self, source: usize, at: u64, into: &mut [u8]) -> bool {
//!         into.copy_from_slice(&self.0[source]);
//!         at == 0
//!     }
//! }
//!
//! struct File(Vec<u8>);
//!
//! impl Output for File {
//!     fn reserve(&mut self, bytes: usize) -> Option<Slot<'_>> {
//!         self.0.resize(bytes, 0);
//!         Some(Slot { bytes: &mut self.0, run: 1, unix_s: 0 })
//!     }
//!     fn commit(&mut self, event: &EventMeta) {
//!         assert!(event.complete);
//!     }
//! }
//!
//! // The books: the builder's group of a ledger.
//! let mut schema = SchemaBuilder::new("run 7");
//! let accounts = declare(&mut schema, &["source0".into(), "source1".into()]);
//! let schema = schema.finish()?;
//! let words = Words::zeroed(schema.words_needed());
//! RunWriter::format(&schema, &words, 4711, 0)?;
//! let mut ledger = GroupWriter::attach(&schema, &words, accounts.group)?;
//!
//! let mut builder = Builder::new(Config::new(2), accounts, ledger.restore())?;
//! let header = |id| SubEventRepr { id, trigger_word: 5 << 8, ..SubEventRepr::default() };
//! let queues = Queues([0x8000, 0x8001].map(|id| header(id).header_bytes(0)).to_vec());
//! let mut file = File(Vec::new());
//! let message = Message { at: 0, len: 16, items: 1, end: 16, stamp_ns: 0, dropped: 0, numbers: None };
//!
//! let now_ns = 1_000;
//! builder.handle_message(now_ns, 0, message, &queues);
//! assert_eq!(builder.poll(now_ns, &queues, &mut file), Poll::Idle); // source 1 may still deliver
//! builder.handle_message(now_ns, 1, message, &queues);
//! assert_eq!(builder.poll(now_ns, &queues, &mut file), Poll::Built);
//! assert_eq!(file.0.len(), 32 + 2 * 16);
//! ledger.commit(builder.save()); // then the queues may be freed up to `builder.released(source)`
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod absent;
mod account;
mod build;
mod config;
mod engine;
mod head;
mod loss;
mod message;
mod numbering;
mod numbers;
mod order;
mod output;
mod policy;
mod recent;
mod refused;
mod reject;
mod short_queue;
pub mod silence;
mod source;
pub mod triggers;
mod walk;

pub use crate::numbering::TriggerGap;
pub use account::{Accounts, EventDrop, GAP_ROWS, LOSS_ROWS, SourceWords, SubEventDrop, declare};
pub use config::{Config, SOURCES_MAX};
pub use engine::{Builder, Poll};
pub use forebay_settings::OutOfRange;
pub use loss::{Cause, LostRange};
pub use message::{Accepted, MessageCheck, Rejected, Step};
pub use numbers::{Dropped, RUNS_MAX, Run};
pub use order::distance;
pub use output::{EventMeta, Output, Slot};
pub use policy::{Completion, Hurry, Situation, Verdict};
pub use reject::{CrashDrop, Reject};
pub use short_queue::QueueWatch;
pub use source::{Input, Message};
pub use walk::{bytes_of, walk};
