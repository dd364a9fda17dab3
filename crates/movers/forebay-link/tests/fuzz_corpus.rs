//! Replays the corpus of the fuzz target for captures with its own oracle.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../../../fuzz/oracle/pcap.rs"]
mod pcap;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn the_corpus_of_captures() {
    replay("pcap", 8, pcap::check);
}
