//! Whatever a peer says while a connection over libfabric is made: no panic, and what is a hello is as described.
#![no_main]

#[path = "../oracle/fabric.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
