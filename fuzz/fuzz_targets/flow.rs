//! Whatever frames come at whatever times: no panic, and the books of flows close.
#![no_main]

#[path = "../oracle/flow.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
