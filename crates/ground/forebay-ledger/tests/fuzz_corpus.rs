//! Replays the corpus of the fuzz target for ledger files with its own oracle.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../../../fuzz/oracle/ledger.rs"]
mod ledger;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn the_corpus_of_ledgers() {
    replay("ledger", 20, ledger::check);
}
