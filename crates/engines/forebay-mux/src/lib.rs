//! The engine of the multiplexer: one network card, shared by many clients that nobody trusts. It is told the time and given bytes; it reads no link and no memory of a client.
#![forbid(unsafe_code)]

pub mod account;
pub mod buffers;
pub mod classify;
mod client;
mod config;
pub mod descriptor;
mod engine;
mod mac;
pub mod policy;
pub mod responder;
pub mod transmit;

pub use account::Items;
pub use client::{CLIENTS_MAX, ClientId, ClientSet};
pub use config::ConfigError;
pub use engine::{ClientConfig, ClientError, Mux, MuxConfig, Outlet, Refused, Returned};
pub use mac::Mac;
