//! Replays the corpus of the fuzz target for a source's datagrams with its own oracle, so that `cargo test` alone keeps what fuzzing has found.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed"
)]

use std::path::Path;

#[path = "../../../fuzz/oracle/datagrams.rs"]
mod datagrams;

#[test]
fn the_corpus_of_datagrams() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/datagrams");
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        let bytes = std::fs::read(path).unwrap();
        datagrams::check(&bytes);
        datagrams::check(&bytes[..bytes.len() / 2]);
        seeds += 1;
    }
    assert!(seeds >= 7, "{seeds} files");
}
