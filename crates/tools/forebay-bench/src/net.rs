//! Messaging measured: pairs of processes of the real program, and other programs that do the same beside them.

mod certificates;
mod child;
mod ground;
mod namespaces;
pub mod peer;
pub mod perf;
mod remote;

use std::fmt::{self, Display};

pub use ground::Ground;
pub use remote::{PeerHost, Target};

/// The user wants the measurement to end: what runs is ended, and what it measured does not count.
#[derive(Debug)]
pub struct Interrupted;

impl Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Something that is left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Skipped {
    /// What.
    pub what: String,
    /// Why.
    pub reason: String,
}

impl Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: skipped: {}", self.what, self.reason)
    }
}
