//! Replays the corpus of the fuzz target for blocks with its own oracle.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../../../fuzz/oracle/felix.rs"]
mod felix;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn the_corpus_of_blocks() {
    replay("felix", 11, felix::check);
}
