//! Replays the corpus of the fuzz target for heaps of a stream with its own oracle.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../../../fuzz/oracle/joiner.rs"]
mod joiner;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use proptest::prelude::*;
use replay::replay;

#[test]
fn the_corpus_of_joined_heaps() {
    replay("joiner", 6, joiner::check);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_steps_of_a_stream_of_heaps(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        joiner::check(&bytes);
    }
}
