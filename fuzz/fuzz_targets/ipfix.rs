//! Whatever comes from an exporter: no panic, and what is read can be written again.
#![no_main]

#[path = "../oracle/ipfix.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
