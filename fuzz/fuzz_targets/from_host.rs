//! Whatever lies in the from-host buffer of a card: no panic, and the books close.
#![no_main]

#[path = "../oracle/from_host.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
