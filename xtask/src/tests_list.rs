//! `cargo xtask tests-list`: the names of all tests in Rust, one a line and sorted, to be held against those of another commit.
//!
//! A move of files or crates must lose no test: the lists of before and after differ by the table of what moved, and by nothing else.

use std::path::Path;

use anyhow::Result;

use crate::suite;

/// What `--help` says.
pub(crate) const HELP: &str = "usage: cargo xtask tests-list

Builds all tests of the workspace and prints the name of each on a line of its own, sorted:
  forebay-run::config::no_sources               test `no_sources` in tests/config.rs of the package forebay-run
  forebay-ring::reader::tests::a_name           test in the sources of the package forebay-ring
  doctests::crates/forebay-ring/src/set.rs - set::Set
It says nothing of Python's tests. To see what a change has done to the names:
  cargo xtask tests-list > after; diff before after";

/// Prints the names.
///
/// # Errors
/// The tests cannot be built, or one of their programs does not list them.
pub(crate) fn run(root: &Path) -> Result<()> {
    for name in suite::names(root)? {
        println!("{name}");
    }
    Ok(())
}
