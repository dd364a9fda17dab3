//! Whatever comes by UDP: no panic, nothing out of bounds, and what is accepted can be written again.
#![no_main]

#[path = "../oracle/hadtu.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
