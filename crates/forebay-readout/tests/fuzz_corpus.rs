//! Replays the corpus of the fuzz target with its own oracle, so that `cargo test` alone keeps what fuzzing has found.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::Path;

#[path = "../../../fuzz/oracle/felix.rs"]
mod felix;

#[test]
fn the_corpus_of_blocks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/felix");
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        let bytes = std::fs::read(path).unwrap();
        felix::check(&bytes);
        felix::check(&bytes[..bytes.len() / 2]);
        seeds += 1;
    }
    assert!(seeds >= 11, "{seeds} files");
}
