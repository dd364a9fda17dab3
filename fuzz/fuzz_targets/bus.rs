//! Whatever is said to a registry, or by one: no panic, and what is understood is said again in the same words.
#![no_main]

#[path = "../oracle/bus.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
