//! Whatever lies on a disk: no panic, every byte accounted for, and pieces make no difference.
#![no_main]

#[path = "../oracle/hld.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
