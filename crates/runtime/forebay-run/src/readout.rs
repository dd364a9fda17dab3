//! Readout of detector links through the cards of FELIX: an emulated card as a process of its own, the programs that read its links and write to them, and who looks at
//! blocks.

mod books;
mod buffer_summary;
pub mod card;
mod card_books;
pub mod check;
mod child;
pub mod config;
pub mod demo;
pub mod device;
pub mod diagnostics;
mod elink_table;
mod emu_error;
mod error;
mod kept;
pub mod map;
mod outlet;
mod reader;
pub mod swrod;
pub mod toflx;
pub mod tohost;
mod trigger_times;
pub mod validate;

pub use buffer_summary::{BufferSummary, CardEnd};
pub use child::Parent;
pub use emu_error::EmuError;
pub use error::ReadoutError;
pub use reader::ReaderPlan;
