//! The books: accounts, links, residual, counters in a mapped file.
//!
//! Each hop of a data path keeps an *account*: `in = out + Σ dropped{reason} + held`, in items and bytes.
//! Each connection of two hops is a *link*: what left one either entered the other, or is a named
//! loss, or is in flight. What is left over is the *residual*. Every term is a word that
//! somebody incremented where its event happened; the residual alone is derived.
//!
//! The words lie in a file that all processes of a run map. It is made of *groups*, each with one writer, which works
//! on a private [`Book`] and [commits](GroupWriter::commit) it as one record: readers, and the successor of a
//! writer killed at any instruction, see whole commits only. The file describes itself, so that
//! [`LedgerReader`] needs nothing else, during the run or years after.
//!
//! This crate maps no memory, reads no clock and does no I/O: it is given [`Words`] and times.
//!
//! ```
//! use forebay_ledger::{GroupWriter, LedgerReader, LinkSpec, Lossless, RunWriter, SchemaBuilder, Unit, Words, reasons};
//!
//! reasons! {
//!     /// Why a receiver drops datagrams.
//!     pub enum Bad {
//!         /// They make no sense.
//!         Malformed = "malformed",
//!     }
//! }
//!
//! // Every process declares the same ledger from the same configuration …
//! let mut s = SchemaBuilder::new("run 7");
//! let (sender, receiver) = (s.group("sender"), s.group("receiver"));
//! let (a, sent) = s.account::<Lossless>(sender, "sender", "source0", Unit::Datagrams);
//! let (b, got) = s.account::<Bad>(receiver, "receiver", "source0", Unit::Datagrams);
//! let overrun = s.kernel_drop(receiver);
//! s.link(LinkSpec::new("socket", "source0").from(a).to(b).kernel_drops("buffer_full", overrun, 8, 65_507));
//! let schema = s.finish()?;
//!
//! // … the supervisor makes the file, and each stage writes its own groups.
//! let words = Words::zeroed(schema.words_needed());
//! RunWriter::format(&schema, &words, 4711, 0)?;
//! let mut out = GroupWriter::attach(&schema, &words, sender)?;
//! let mut book = out.restore();
//! book.add_tally(sent.incoming, 3, 300);
//! book.add_tally(sent.outgoing, 3, 300);
//! out.commit(&book);
//! let mut stage = GroupWriter::attach(&schema, &words, receiver)?;
//! let mut book = stage.restore();
//! book.add_tally(got.incoming, 1, 100); // two of the three never came
//! book.add_tally(got.lost(Bad::Malformed), 1, 100);
//! book.set(overrun, 1); // but the kernel knows of one only
//! stage.commit(&book);
//!
//! let balance = LedgerReader::open(&words)?.snapshot()?.balance();
//! assert_eq!(balance.residual_items, 1);
//! assert_eq!(balance.links[0].residual.map(|left| left.items), Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod alarm;
mod audit;
mod balance;
mod book;
mod carriage;
mod closing;
mod directory;
mod error;
mod group;
mod histogram;
pub mod join;
mod layout;
mod leak;
mod link;
mod loss;
mod moment;
mod named;
mod outline;
pub mod prometheus;
mod reason;
mod run;
mod schema;
mod sheet;
mod snapshot;
mod sync;
mod table;
mod taint;
mod unit;
mod words;

pub use alarm::{Alarm, Line, ResidualAlarm};
pub use audit::{
    Closed, Fault, Offender, Phase, Supervisor, UnconfirmedLine, Underway, UnderwayLine, Verdict,
    audit, audit_at_end,
};
pub use balance::{AccountLine, Amount, Balance, DropLine, HostLine, Level, LinkLine, Residual};
pub use book::Book;
pub use carriage::Carriage;
pub use closing::{NO_SUBSCRIBER, last_words};
pub use directory::{MAX_GROUP_WORDS, MAX_HELP_BYTES, MAX_LOSS_ROWS, MAX_NAME_BYTES};
pub use error::{LedgerError, SchemaError};
pub use group::{GroupWriter, READ_ATTEMPTS};
pub use histogram::{BUCKETS, Histogram, HistogramSummary, HistogramWriter, Percentiles};
pub use layout::{HEADER_WORDS, LINE_WORDS, MAGIC, MAX_WORDS, VERSION, VERSION_OLDEST};
pub use leak::{Leak, LeakError};
pub use link::LinkSpec;
pub use loss::{LossRecord, LossRow, LossTable, LossTableWriter};
pub use named::Lost;
pub use outline::{AccountOutline, LinkOutline, Outline};
pub use reason::{DropReason, Lossless, OneOf, PerReason};
pub use run::{Condition, Reason, RunStatus, RunWriter};
pub use schema::{
    Account, AccountId, Counter, GroupId, HistogramId, LinkId, LossTableId, Schema, SchemaBuilder,
    Tally,
};
pub use snapshot::{LedgerReader, MetricLine, Snapshot};
pub use table::items as grouped;
pub use taint::{Taint, TaintKind};
pub use unit::Unit;
pub use words::Words;
