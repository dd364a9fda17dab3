//! Whatever a client says of its packets and its buffers: no panic, no other client loses anything, and the books close.
#![no_main]

#[path = "../oracle/descriptor.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
