//! Whatever is said at the control socket of the multiplexer: no panic, and settings are changed as they were said, or none is.
#![no_main]

#[path = "../oracle/mux_control.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
