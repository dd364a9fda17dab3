//! Replays the corpus of the fuzz target for ledger files with its own oracle, so that `cargo test` alone keeps what fuzzing has found.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed"
)]

use std::path::Path;

#[path = "../../../fuzz/oracle/ledger.rs"]
mod ledger;

#[test]
fn the_corpus_of_ledgers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ledger");
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        let bytes = std::fs::read(path).unwrap();
        ledger::check(&bytes);
        ledger::check(&bytes[..bytes.len() / 2]);
        seeds += 1;
    }
    assert!(seeds >= 20, "{seeds} files");
}
