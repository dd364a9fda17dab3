//! Why a profile is refused.

use std::io;

use thiserror::Error;

/// What makes text no profile. Lines are counted from 1, the header's.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// The text could not be read.
    #[error("line {line} of the profile could not be read: {source}")]
    Read {
        /// The line.
        line: u64,
        /// What the system says.
        source: io::Error,
    },
    /// More bytes than any row has.
    #[error("line {line} of the profile has more than {most} bytes; is it a profile?")]
    LineBytes {
        /// The line.
        line: u64,
        /// The limit.
        most: usize,
    },
    /// The header lacks a column, or has one that is unknown or twice.
    #[error("line 1 of the profile, column {column:?}: {problem}; the header is {expected}")]
    Header {
        /// The column.
        column: String,
        /// What is wrong with it.
        problem: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// Fewer or more values than columns.
    #[error("line {line} of the profile has {have} values; its header has {need} columns")]
    Values {
        /// The line.
        line: u64,
        /// Its values.
        have: usize,
        /// The columns.
        need: usize,
    },
    /// A value that cannot be.
    #[error("line {line} of the profile, column {column}: {value:?} should be {remedy}")]
    Value {
        /// The line.
        line: u64,
        /// The column.
        column: &'static str,
        /// What stands there.
        value: String,
        /// What would be right.
        remedy: &'static str,
    },
}
