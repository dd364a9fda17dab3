//! Replays the corpus of the fuzz target with its own oracle, and tries records at random.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../../../fuzz/oracle/mux_protocol.rs"]
mod mux_protocol;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use proptest::prelude::*;

#[test]
fn the_corpus_of_records() {
    replay::replay("mux_protocol", 10, mux_protocol::check);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_said_is_as_described(
        kind in 0..6_u8,
        count in 0..12_u8,
        body in proptest::collection::vec(prop_oneof![Just(0_u8), Just(4), Just(b'a'), any::<u8>()], 0..100),
        is_fitted in prop::bool::weighted(0.9),
    ) {
        let mut record = [b'F', b'B', b'M', b'X', 1, 0, kind, count].to_vec();
        record.extend(body);
        if is_fitted {
            let each = if kind == 2 { 17 } else { 1 };
            let from = [8, 8, 40, 9, 8, 8][usize::from(kind)];
            record.resize(from + each * usize::from(count), 0);
        }
        mux_protocol::check(&record);
    }
}
