//! Wire and file formats: checked views and plain representations, no I/O.
#![forbid(unsafe_code)]
