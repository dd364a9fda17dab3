//! The engine of the multiplexer: one network card, shared by many clients that nobody trusts. It is told the time and given bytes; it reads no link and no memory of a client.
#![forbid(unsafe_code)]

mod account;
pub mod buffers;
pub mod classify;
mod client;
mod config;
pub mod descriptor;
mod mac;
pub mod policy;
pub mod responder;
pub mod transmit;

pub use account::Items;
pub use client::{CLIENTS_MAX, ClientId, ClientSet};
pub use config::ConfigError;
pub use mac::Mac;
