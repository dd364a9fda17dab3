//! Whatever a stranger sends to a port of time-division UDP: no panic, and what is a datagram can be written again.
#![no_main]

#[path = "../oracle/tdm.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
