//! The books: accounts, links, residual, counters in a mapped file.
#![forbid(unsafe_code)]
