//! Replays the corpus of the fuzz target for a source's datagrams with its own oracle.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

#[path = "../../../../fuzz/oracle/datagrams.rs"]
mod datagrams;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn the_corpus_of_datagrams() {
    replay("datagrams", 7, datagrams::check);
}
