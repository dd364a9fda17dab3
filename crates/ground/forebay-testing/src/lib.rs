//! What the tests of all crates share: how one says what it leaves out, and where the checkout is.
//!
//! A test that cannot do all of its work on this machine says so by [`skip!`]. `./x test` counts what was left out by its reason, and fails when a
//! reason is not in `xtask/expected.toml`.
#![forbid(unsafe_code)]

#[cfg(feature = "accounts")]
pub mod accounts;
#[cfg(feature = "accounts")]
pub mod residuals;
pub mod wire;

use std::fmt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Says on standard output that a test leaves something out, and why. The reason is one line, and names what has to be there.
///
/// ```
/// let address = "::1";
/// forebay_testing::skip!("{address}: no such address here");
/// ```
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {
        $crate::record(::core::format_args!($($reason)*))
    };
}

/// Waits until something has happened.
///
/// # Panics
/// It has not within 20 s.
#[track_caller]
pub fn wait_for(mut has_happened: impl FnMut() -> bool) {
    let since = Instant::now();
    while !has_happened() {
        assert!(since.elapsed() < Duration::from_secs(20), "waited in vain");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The folder of the checkout: the nearest one above this crate that has a `Cargo.lock`, wherever in it a crate lies.
///
/// # Panics
/// There is none: the checkout has been moved or removed since this was built.
#[must_use]
#[allow(
    clippy::panic,
    reason = "a test that does not find its files has failed"
)]
pub fn root() -> PathBuf {
    let crate_here = Path::new(env!("CARGO_MANIFEST_DIR"));
    match above(crate_here) {
        Some(root) => root.to_path_buf(),
        None => panic!("no Cargo.lock above {}", crate_here.display()),
    }
}

fn above(start: &Path) -> Option<&Path> {
    let mut folders = start.ancestors();
    folders.find(|folder| folder.join("Cargo.lock").is_file())
}

/// The work of [`skip!`].
#[doc(hidden)]
#[allow(
    clippy::print_stdout,
    reason = "the runner reads what a test prints: libtest has no other way out"
)]
pub fn record(reason: fmt::Arguments<'_>) {
    println!("{}", line(reason));
}

/// The reason in the form that the runner looks for, on one line.
fn line(reason: fmt::Arguments<'_>) -> String {
    let reason = reason.to_string();
    let words: Vec<&str> = reason.split_whitespace().collect();
    format!("skipped: {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_where_the_lock_file_is_however_deep_a_crate_lies() {
        let root = root();
        assert!(root.join("Cargo.lock").is_file() && root.join("xtask/Cargo.toml").is_file());
        for depth in ["", "crates", "crates/floor/name", "crates/floor/name/src"] {
            assert_eq!(above(&root.join(depth)), Some(root.as_path()), "{depth}");
        }
        assert_eq!(above(Path::new("/")), None);
    }

    #[test]
    fn a_reason_is_one_line() {
        let error = "no such thing\n  as a luck";
        assert_eq!(
            line(format_args!("{error}")),
            "skipped: no such thing as a luck"
        );
    }
}
