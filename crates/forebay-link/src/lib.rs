//! Movers of bytes: UDP sockets, captures and their emulated twin.
#![forbid(unsafe_code)]
