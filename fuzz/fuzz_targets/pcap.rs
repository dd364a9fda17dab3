//! Whatever is offered as a capture: no panic, and every packet is explained.
#![no_main]

#[path = "../oracle/pcap.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
