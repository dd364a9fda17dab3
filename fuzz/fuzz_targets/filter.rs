//! Whatever texts come as rules of the packet filter: a rule that reads what it writes, or a named mistake.
#![no_main]

#[path = "../oracle/filter.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
