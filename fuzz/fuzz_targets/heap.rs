//! Whatever stands where heaps should: no panic, and what is a piece can be written again.
#![no_main]

#[path = "../oracle/heap.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
