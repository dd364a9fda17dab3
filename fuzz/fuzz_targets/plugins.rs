//! Whatever packets carry: no panic in any plugin, and values are as their columns say.
#![no_main]

#[path = "../oracle/plugins.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
