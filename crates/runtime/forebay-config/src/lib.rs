//! Configuration files of any kind: TOML in, values by declared keys out, or every mistake with its place and its remedy.
//!
//! Nothing is guessed: a key that is not declared is refused, a value outside of its range too.

#![forbid(unsafe_code)]

pub mod block;
pub mod document;
pub mod file;
pub mod mistake;
pub mod reference;
pub mod source;
mod spelling;

pub use block::Block;
pub use document::{Document, Sections};
pub use file::{ConfigError, ConfigFile, load, parse, read};
pub use mistake::{Mistake, Mistakes};
pub use source::Source;
