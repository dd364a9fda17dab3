//! Whatever a ledger file holds: an error or a ledger, whose residuals are what its lines come to.
#![no_main]

#[path = "../oracle/ledger.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
