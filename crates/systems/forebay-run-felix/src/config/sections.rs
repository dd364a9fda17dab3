//! All sections and keys of the files of to-host and to-flx, in the order in which they are documented.

mod toflx;
mod tohost;

pub use toflx::{TOFLX, TOFLX_DEVICES, TOFLX_SECTIONS};
pub use tohost::{DEVICES, TOHOST, TOHOST_SECTIONS};
