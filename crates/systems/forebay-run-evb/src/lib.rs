//! The event builder: sources over UDP, from captures or from messaging, matched to events and written by sinks.
//!
//! A [`plan::Plan`] says everything about one run. The supervisor makes sockets, rings and the ledger from it, starts the stages (each a process of its
//! own), starts a stage that died again, and closes the books at the end.

#![forbid(unsafe_code)]

pub mod books;
pub mod builder;
pub mod config;
pub mod error;
pub mod file_io;
pub mod hops;
pub mod plan;
pub mod presets;
pub mod receiver;
pub mod replay;
pub mod sink;
pub mod stages;
pub mod summary;
pub mod supervisor;
