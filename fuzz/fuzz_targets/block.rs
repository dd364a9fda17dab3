//! Whatever lies in a block of a packet ring: no panic, and frames are in it.
#![no_main]

#[path = "../oracle/block.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
