//! The multiplexer: one network card, shared by many untrusted clients. What decides is `forebay-mux`; here is what touches the card.
//!
//! | module | what it does |
//! |---|---|
//! | [`driver`] | `forebay-card`: frames from a card and onto one, with what was lost where, over five kinds of cards |
//! | `daemon` | the loop: card, engine and clients |
//! | `door` | where clients come in, and which of them may |
//! | [`control`] | what a multiplexer at work is asked, and other settings |
//! | `lane` | the memory that one client shares with the daemon |
//! | `plan`, [`config`] | what the file says, and what the engine is told for it |
//! | `books`, `summary` | the ledger, and the record at the end |
#![forbid(unsafe_code)]

mod books;
pub mod config;
pub mod control;
mod daemon;
mod door;
pub use forebay_card as driver;
mod error;
mod lane;
mod listener;
mod plan;
mod summary;

pub use error::MuxError;
pub use plan::MuxPlan;
pub use summary::{ClientSummary, MuxRecord, MuxSummary};
