//! Emulated sources, links and clocks, seeded.
#![forbid(unsafe_code)]
