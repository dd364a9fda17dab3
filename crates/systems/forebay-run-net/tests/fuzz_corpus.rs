//! Replays the corpus of the fuzz target for a registry's lines with its own oracle.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../../../fuzz/oracle/bus.rs"]
mod bus;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn the_corpus_of_lines_of_a_registry() {
    replay("bus", 9, bus::check);
}
