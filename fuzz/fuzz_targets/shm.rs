//! Whatever a peer says on the socket beside shared memory, and refers to in a piece: no panic, and it is as described.
#![no_main]

#[path = "../oracle/shm.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
