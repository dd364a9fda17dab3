//! Whatever comes from a network: no panic, and what a packet carries lies in it.
#![no_main]

#[path = "../oracle/packet.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
