//! A probe that reads the far end of a wire.

use std::path::Path;

use serde_json::Value;

use super::{Run, forebay, signal, start, wait_for};

/// A probe at work.
pub(crate) fn probe(out: &Path, args: &[&str]) -> Run {
    let mut command = forebay();
    command.args(["probe", "--interface", "far", "--format", "json"]);
    command.args(["--idle-timeout", "1s"]).args(args);
    let run = start(command.arg("--out").arg(out));
    // The books are made when the interface is read.
    wait_for("the ledger", || out.join("ledger").exists().then_some(()));
    run
}

/// Has it end in order; what it says.
pub(crate) fn end(run: Run) -> Value {
    assert!(signal("TERM", run.pid()));
    run.end().json_of(0)
}
