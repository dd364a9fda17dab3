//! Whatever a client or a daemon of the multiplexer says on the socket: no panic, and what is read is what was written.
#![no_main]

#[path = "../oracle/mux_protocol.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
