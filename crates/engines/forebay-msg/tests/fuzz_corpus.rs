//! Replays the corpus of the fuzz target for sessions with its own oracle, and tries random bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../../fuzz/oracle/session.rs"]
mod session;

use proptest::prelude::*;
use replay::replay;

#[test]
fn the_corpus_of_sessions() {
    replay("session", 25, session::check);
}

/// Bytes of which most say what is right, so that much comes behind them, or any.
fn steps() -> impl Strategy<Value = Vec<u8>> {
    let right = (0..240_u8).prop_map(|byte| if byte % 16 < 2 { byte + 2 } else { byte });
    let most = prop_oneof![40 => right, 1 => any::<u8>()];
    prop_oneof![
        4 => proptest::collection::vec(most, 0..400),
        1 => proptest::collection::vec(any::<u8>(), 0..400),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]
    /// A greeting, and then anything.
    #[test]
    fn whatever_is_said_and_done_the_books_close(flags: u8, slow in 0..4_u8, rest in steps()) {
        let greeting = [flags & 0x3f, 2, slow, 0, 0];
        session::check(&[&greeting, &rest[..]].concat());
    }
}
