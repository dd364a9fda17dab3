//! Whatever lies in the DMA buffer of a card: no panic, and the books close.
#![no_main]

#[path = "../oracle/felix.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
