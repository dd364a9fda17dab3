//! Whatever a file holds, opening and reading it gives an error or a ledger, never a panic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod pipeline;

use std::sync::atomic::Ordering;

use forebay_ledger::{LedgerError, LedgerReader, MAGIC, Supervisor, Words, audit, prometheus};
use pipeline::Pipeline;
use proptest::prelude::*;

/// Uses everything a reader offers.
fn exercise(words: &Words) -> Result<(), LedgerError> {
    let snapshot = LedgerReader::open(words)?.snapshot()?;
    let verdict = audit(&snapshot, Supervisor::Gone);
    let _ = verdict.sheet();
    let _ = serde_json::to_string(&verdict).unwrap();
    let _ = prometheus::expose(&std::sync::Arc::new(snapshot)).unwrap();
    Ok(())
}

fn memory_of(values: &[u64]) -> Words {
    let words = Words::zeroed(values.len());
    values
        .iter()
        .zip(words.iter())
        .for_each(|(&value, word)| word.store(value, Ordering::Relaxed));
    words
}

fn good() -> Vec<u64> {
    let mut path = Pipeline::new("");
    (1..=100).for_each(|n| path.send(n));
    path.build(50);
    path.commit();
    path.memory
        .iter()
        .map(|word| word.load(Ordering::Relaxed))
        .collect()
}

/// FNV-1a as the format has it, to make damaged directories that pass the fingerprint.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A ledger with `json` as its directory and a header that fits it.
fn with_directory(json: &[u8], total: u64) -> Vec<u64> {
    let mut values = vec![0; 32];
    values[..6].copy_from_slice(&[MAGIC, 1, 32, total, fingerprint(json), json.len() as u64]);
    values.extend(json.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    }));
    values.resize(total as usize, 7);
    values
}

#[test]
fn the_undamaged_file_is_read() {
    assert_eq!(exercise(&memory_of(&good())), Ok(()));
}

#[test]
fn short_files_are_named() {
    let good = good();
    for length in [0, 1, 31, 32, good.len() - 1] {
        let error = exercise(&memory_of(&good[..length])).unwrap_err();
        assert!(
            matches!(error, LedgerError::TooShort { .. }),
            "{length}: {error}"
        );
    }
}

#[test]
fn each_header_word_is_checked() {
    for word in 0..6 {
        for value in [0, 1_000_000, u64::MAX, u64::MAX / 8] {
            let mut values = good();
            values[word] = value;
            assert!(
                exercise(&memory_of(&values)).is_err(),
                "word {word} = {value}"
            );
        }
    }
    let mut values = good();
    values[16] = 0xffff;
    assert!(matches!(
        exercise(&memory_of(&values)),
        Err(LedgerError::Condition { found: 0xffff })
    ));
}

#[test]
fn a_directory_that_asks_for_too_much_is_refused_before_anything_is_made_of_it() {
    let group = r#"{"name":"g","words":4294967295}"#;
    let table = r#"{"group":0,"base":0,"rows":4294967295,"causes":[]}"#;
    for (groups, tables) in [(group, ""), (r#"{"name":"g","words":4}"#, table)] {
        let json = format!(
            r#"{{"run_id":"r","groups":[{groups}],"reasons":[],"accounts":[],"links":[],"metrics":[],"host":[],"histograms":[],"loss_tables":[{tables}]}}"#
        );
        let error = exercise(&memory_of(&with_directory(json.as_bytes(), 4_096))).unwrap_err();
        assert!(matches!(error, LedgerError::Declaration(_)), "{error}");
    }
}

/// Replaces one number of the directory by another.
fn renumber(json: &str, which: usize, value: u64) -> String {
    let digits = |c: char| c.is_ascii_digit();
    let starts: Vec<usize> = json
        .match_indices(digits)
        .map(|(at, _)| at)
        .filter(|&at| at == 0 || !json.as_bytes()[at - 1].is_ascii_digit())
        .collect();
    let start = starts[which % starts.len()];
    let end = start + json[start..].find(|c: char| !c.is_ascii_digit()).unwrap();
    format!("{}{value}{}", &json[..start], &json[end..])
}

proptest! {
    #[test]
    fn garbage_is_refused(mut values in prop::collection::vec(any::<u64>(), 0..400), magic: bool) {
        if let (true, Some(first)) = (magic, values.first_mut()) {
            *first = MAGIC;
        }
        prop_assert!(exercise(&memory_of(&values)).is_err());
    }

    #[test]
    fn damage_never_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 1..5)) {
        let mut values = good();
        for (index, value) in changes {
            let at = index.index(values.len());
            values[at] = value;
        }
        let _ = exercise(&memory_of(&values));
    }

    /// Numbers in the directory are the offsets of this format: wrong ones, with a fingerprint that fits.
    #[test]
    fn wrong_numbers_in_the_directory_never_panic(which in 0usize..400, value in prop_oneof![0u64..100, any::<u64>()], fill: u64) {
        let values = good();
        let bytes: Vec<u8> = values[32..].iter().flat_map(|word| word.to_le_bytes()).take(values[5] as usize).collect();
        let json = renumber(std::str::from_utf8(&bytes).unwrap(), which, value);
        let directory_words = json.len().div_ceil(8).next_multiple_of(16);
        // Try every total length that could fit, as only one passes the check of the layout.
        for total in (0..1_024).step_by(16).map(|rest| (32 + directory_words + rest) as u64) {
            let mut values = with_directory(json.as_bytes(), total);
            values.iter_mut().skip(32 + directory_words).for_each(|word| *word = fill);
            let _ = exercise(&memory_of(&values));
        }
    }
}
