//! Generated load, and its echo.

use std::path::Path;

use crate::rig::wait_for;
use crate::taken::{Taken, address, begin, stop, text};

pub(crate) fn play(taken: &mut Taken, folder: &Path) {
    let [loaded, echoed] = ["load", "echo"].map(|name| folder.join(name));
    let at = address();
    let echo = begin(&["load", "--echo", &at, "--out", text(&echoed)]);
    wait_for("the echo", || {
        echo.said().contains("listens on").then_some(())
    });
    // A closed loop is never behind its time, however busy the host is.
    let words = [
        "load",
        &at,
        "--closed",
        "1",
        "--duration",
        "100ms",
        "--out",
        text(&loaded),
    ];
    taken.run("load", &words, &["targets"]);
    taken.left("load", &loaded, &["targets"]);
    let said = stop(echo);
    taken.said("load echo", &said, &[]);
    taken.left("load echo", &echoed, &[]);
}
