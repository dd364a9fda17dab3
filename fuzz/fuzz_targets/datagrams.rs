//! Whatever a source sends, one datagram after the other: each is in a message, refused by a reason, or held.
#![no_main]

#[path = "../oracle/datagrams.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
