//! Whatever a stranger sends to a messaging port: no panic, and what is a frame or a message can be written again.
#![no_main]

#[path = "../oracle/net.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
