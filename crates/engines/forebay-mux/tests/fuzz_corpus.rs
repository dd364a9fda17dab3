//! Replays the corpora of the fuzz targets with their own oracles, and tries frames and steps at random.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../../../fuzz/oracle/descriptor.rs"]
mod descriptor;
#[path = "../../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../../fuzz/oracle/responder.rs"]
mod responder;

use proptest::prelude::*;

#[test]
fn the_corpus_of_questions() {
    replay::replay("responder", 6, responder::check);
}

#[test]
fn the_corpus_of_descriptors() {
    replay::replay("descriptor", 5, descriptor::check);
}

/// A step of a client that lies, mostly near the truth.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let near = || prop_oneof![4 => 0..10_u32, 2 => 0..2100_u32, 1 => any::<u32>()];
    (any::<u8>(), 0..3_u8, near(), near(), near()).prop_map(
        |(what, source, buffer, offset, length)| {
            let words = [buffer, offset, length].map(u32::to_le_bytes).concat();
            [&[what, source], &words[..]].concat()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_client_says_no_other_client_loses_anything(
        limit in prop_oneof![Just(0_u8), any::<u8>()],
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        descriptor::check(&[&[limit], &steps.concat()[..]].concat());
    }

    #[test]
    fn whatever_asks_gets_what_it_may_know(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        responder::check(&bytes);
    }
}
