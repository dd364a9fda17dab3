//! Replays the corpus of the fuzz target for sessions with its own oracle, and tries random bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../fuzz/oracle/session.rs"]
mod session;

use proptest::prelude::*;
use replay::replay;

#[test]
fn the_corpus_of_sessions() {
    replay("session", 25, session::check);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]
    /// A greeting, and then anything.
    #[test]
    fn whatever_is_said_and_done_the_books_close(flags: u8, rest in proptest::collection::vec(any::<u8>(), 0..400)) {
        let greeting = [flags & 0x3f, 2, 0, 0, 0];
        session::check(&[&greeting, &rest[..]].concat());
    }
}
