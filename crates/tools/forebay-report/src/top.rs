//! The live view of a run: its ledger as rates, fills, losses and latencies, on a page or on a terminal.
//!
//! It maps the ledger and reads; the data path does not notice.

mod chunks;
mod events;
mod fill;
mod messages;
mod packets;
pub mod page;
mod rows;
pub mod sample;
mod screen;
mod source;
mod table;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod view;
mod work;

pub use rows::Order;
