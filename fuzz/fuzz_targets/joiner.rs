//! Heaps of any pieces in any order, and what is lost between them: no panic, and the books close after each packet.
#![no_main]

#[path = "../oracle/joiner.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
