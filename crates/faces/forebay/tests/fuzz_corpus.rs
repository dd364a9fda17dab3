//! Replays the corpus of the fuzz target for configuration files with its own oracle, and does to each file of it, and to each example, what a hand that slips
//! does.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

#[path = "../../../../fuzz/oracle/config.rs"]
mod config;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

/// What a value is replaced with.
const VALUES: [&str; 7] = [
    "0",
    "-1",
    "9_223_372_036_854_775_807",
    "nan",
    "'a b'",
    "[0, 'x']",
    "{ a = 1 }",
];

#[test]
fn the_corpus_of_configuration_files() {
    replay("config", 20, config::check);
}

/// The texts of `examples/`.
fn examples() -> Vec<String> {
    let folder = forebay_testing::root().join("examples");
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "toml") {
            texts.push(std::fs::read_to_string(path).unwrap());
        }
    }
    assert!(texts.len() >= 6);
    texts
}

#[test]
fn every_example_is_accepted_when_it_is_printed_anew() {
    for text in examples() {
        config::check(text.as_bytes());
    }
}

/// A line is left out, or there twice, or its value is another one.
#[test]
fn a_hand_that_slips_in_any_line_is_told_where() {
    for text in examples() {
        let lines: Vec<&str> = text.lines().collect();
        let with = |at: usize, new: &[&str]| {
            let slipped = [&lines[..at], new, &lines[at + 1..]].concat();
            config::check(slipped.join("\n").as_bytes());
        };
        let said = |line: &&str| !line.is_empty() && !line.starts_with('#');
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| said(line)) {
            with(at, &[]);
            with(at, &[line, line]);
            let Some((key, _)) = line.split_once('=') else {
                continue;
            };
            for value in VALUES {
                with(at, &[&format!("{key}= {value}")]);
            }
        }
    }
}
