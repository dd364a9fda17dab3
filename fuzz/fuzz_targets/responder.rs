//! Whatever asks for an address: no panic, and no answer for one that no client has.
#![no_main]

#[path = "../oracle/responder.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
