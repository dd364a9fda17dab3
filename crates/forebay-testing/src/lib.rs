//! What the tests of all crates share.
//!
//! A test that cannot do all of its work on this machine says so by [`skip!`]. `./x test` counts what was left out by its reason, and fails when a
//! reason is not in `xtask/expected.toml`.
#![forbid(unsafe_code)]

use std::fmt;

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
    fn a_reason_is_one_line() {
        let error = "no such thing\n  as a luck";
        assert_eq!(
            line(format_args!("{error}")),
            "skipped: no such thing as a luck"
        );
    }
}
