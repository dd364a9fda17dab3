//! Whatever text is taken as a profile of network flows: no panic, and packets add up to their truth.
#![no_main]

#[path = "../oracle/profile.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
