//! Event builder engine, sans-IO.
#![forbid(unsafe_code)]
