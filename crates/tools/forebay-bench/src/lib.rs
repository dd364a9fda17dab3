//! Measurements: published figures on this machine, and speed against references of the same run.
//!
//! Every number comes out of a run: the real chain of processes over real UDP sockets, or a bare loop beside it. What is
//! published by others is drawn as a reference and never enters a measurement. The sources are emulated, and every
//! result says so.

#![forbid(unsafe_code)]

pub mod bench;
pub mod chain;
mod child;
pub mod figure;
pub mod live_pair;
pub mod messaging;
pub mod mux;
mod namespace;
pub mod net;
mod probe;
mod profile;
pub mod progress;
mod readout;
mod running;
pub mod sweep;
pub mod tdm;
pub mod udp;
