//! Replays the corpus of the fuzz target for captures with its own oracle.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::PathBuf;

#[path = "../../../fuzz/oracle/pcap.rs"]
mod pcap;

#[test]
fn the_corpus_of_captures() {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../fuzz/corpus/pcap"]
        .iter()
        .collect();
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        let bytes = std::fs::read(path).unwrap();
        pcap::check(&bytes);
        pcap::check(&bytes[..bytes.len() / 2]);
        seeds += 1;
    }
    assert!(seeds >= 8, "the corpus of captures has {seeds} files");
}
