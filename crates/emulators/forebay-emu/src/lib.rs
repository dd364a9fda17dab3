//! Emulated HADES soft readouts: seeded, in virtual time, with verifiable content.
//!
//! [`SoftReadouts`] is a sans-IO engine: it is told the time and hands out UDP payloads, source by
//! source. It reads no clock and opens no socket; the run layer, or [`world::World`] in tests, gives
//! it both. What it sends follows from the [`Config`] and its seed alone.
//!
//! - Each sub-event's size, tag and content are a function of the seed, the source and the trigger
//!   number, so [`Verifier`] can prove of any sub-event, found in any file, that it is what was sent.
//! - The books of each source close: sub-events made = sent + dropped by a fault + held ([`Totals`]).
//! - It knows whether it was the limit of a run ([`SoftReadouts::behind`]).
//!
//! [`card`] is the other emulator: a FELIX card, its links and the blocks that it writes. For tests of what shares a network there are a
//! [`port`] with a rate and a shallow buffer, an [`affine_clock`] whose error is known, and the [`world::Layer`]s of a network that misbehaves.
//!
//! It is no model of detector physics: data words are random, with the structure of a TRB3.
//!
//! ```
//! use forebay_emu::{Config, Limit, SoftReadouts, Verifier};
//!
//! let mut config = Config::test2(4000.0);
//! config.limit = Limit { events: Some(100), duration_ns: None };
//! let mut readouts = SoftReadouts::new(&config)?;
//! let mut datagrams = 0;
//! let mut now_ns = 5_000; // any clock
//! while !readouts.is_finished() {
//!     readouts.handle_time(now_ns);
//!     while let Some(batch) = readouts.poll_batch(64) {
//!         datagrams += batch.len(); // send them to port base + batch.port
//!     }
//!     match readouts.poll_timeout() {
//!         Some(next_ns) => now_ns = next_ns, // wait until then
//!         None => readouts.finish(now_ns),
//!     }
//! }
//! let totals = readouts.totals();
//! assert_eq!((totals.events, totals.all.sent.items), (100, 9000));
//! assert_eq!(totals.all.datagrams_sent.items, datagrams as u64);
//! assert_eq!(totals.all.residual(), (0, 0));
//! # Ok::<(), forebay_emu::ConfigError>(())
//! ```
#![forbid(unsafe_code)]

pub mod account;
pub mod affine_clock;
pub mod card;
mod config;
mod engine;
mod fault;
mod fault_text;
mod lag;
mod model;
mod outbox;
pub mod port;
mod queue;
pub mod rng;
mod schedule;
mod sizes;
mod totals;
mod verify;
pub mod world;

pub use config::{
    Config, ConfigError, Group, Huge, Limit, MAX_SOURCES, MAX_SUBEVENT_BYTES, RATE_HZ,
    SUBEVENT_BYTES, Spacing, Spill, Transport, Trigger, WATER_MARK_BYTES_MIN,
};
pub use engine::SoftReadouts;
pub use fault::{Fault, FaultRule, Pick};
pub use fault_text::FaultTextError;
pub use forebay_wire::hadtu::ByteOrder;
pub use forebay_wire::subevent::TriggerBits;
pub use lag::Behind;
pub use outbox::{Batch, Datagram, Run};
pub use totals::{Amount, SourceTotals, Totals};
pub use verify::{Mismatch, Verified, Verifier};
