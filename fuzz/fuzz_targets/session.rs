//! Whatever a peer says and a user does in whatever order: no panic, books that close after each step, and nothing said that is not legal then.
#![no_main]

#[path = "../oracle/session.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
