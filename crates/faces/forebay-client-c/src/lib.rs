//! The C ABI of the client of the multiplexer: `libforebay_client`, with `include/forebay_client.h`.
//!
//! Everything is done by `forebay_client`, the Rust library; what is here checks what a program in C hands over. [`abi`], [`ip`], [`tcp`] and their types are what the header is
//! made of, by the test `header`: their documentation is the header's. Unsafe code is what a border to C cannot do without: pointers of the caller are
//! checked for null and read or written once, [`handle`] says how a client is kept.

pub mod abi;
mod error;
pub mod handle;
pub mod ip;
pub mod ip_types;
pub mod tcp;
pub mod types;
