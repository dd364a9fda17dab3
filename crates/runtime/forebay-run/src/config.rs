//! Configuration files of any kind: TOML in, values by declared keys out, or every mistake with its place and its remedy.
//!
//! Nothing is guessed: a key that is not declared is refused, a value outside of its range too.

pub mod block;
pub mod file;
pub mod keys;
pub mod mistake;
pub mod page;
pub mod reference;
pub mod source;
mod spelling;

pub use file::ConfigError;
pub use mistake::{Mistake, Mistakes};
pub use source::Source;
