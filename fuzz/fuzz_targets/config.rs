//! Whatever a configuration file says, of any kind: a plan, and the same one when it is printed anew; or mistakes with their places.
#![no_main]

#[path = "../oracle/config.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
