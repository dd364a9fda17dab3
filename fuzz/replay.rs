//! Replays a corpus with its oracle, so that `cargo test` alone keeps what fuzzing has found. For a test of the crate that an oracle is about.

/// Runs the oracle on each file of a corpus, and on each file cut in the middle.
pub(crate) fn replay(target: &str, least: usize, check: fn(&[u8])) {
    let folder = forebay_testing::root().join("fuzz/corpus").join(target);
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        let bytes = std::fs::read(path).unwrap();
        check(&bytes);
        check(&bytes[..bytes.len() / 2]);
        seeds += 1;
    }
    assert!(seeds >= least, "the corpus of {target} has {seeds} files");
}
