//! Whatever a stranger sends to the port of a mover: no panic, and what is a frame can be written again.
#![no_main]

#[path = "../oracle/mover.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
