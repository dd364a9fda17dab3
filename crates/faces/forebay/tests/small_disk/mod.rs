//! A disk that is soon full.
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

use std::path::Path;
use std::process::Command;

/// Runs `command` where `directory` is a file system of `bytes`, in a mount namespace of its own; none where that is not allowed.
pub(crate) fn on_small_disk(command: &Command, directory: &Path, bytes: u64) -> Option<Command> {
    let probe = Command::new("unshare").args(["--mount", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        forebay_testing::skip!("no private mount namespace here (needs root and util-linux)");
        return None;
    }
    let mut small = Command::new("unshare");
    let script = format!(
        "mount -t tmpfs -o size={bytes} none {directory:?} && \"$@\"; code=$?; mkdir -p {directory:?}.kept; cp -a {directory:?}/. {directory:?}.kept/; exit $code"
    );
    small
        .args(["--mount", "sh", "-c", &script, "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    Some(small)
}
