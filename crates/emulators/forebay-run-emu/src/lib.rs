//! Emulated cards of FELIX as processes, the chain that shows them at work, and the validation of boards.

#![forbid(unsafe_code)]

pub mod card;
mod card_books;
pub mod config;
pub mod demo;
pub mod diagnostics;
mod error;
pub mod hops;
pub mod map;
pub mod validate;

pub use error::EmuError;
