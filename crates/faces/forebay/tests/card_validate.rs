//! `forebay card validate`: batches of emulated cards, their reports, exit codes and files.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at what must not be"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn forebay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(args)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(output)))
}

/// A small batch with these faults.
fn batch(directory: &Path, cards: u32, defects: &str) -> String {
    let file = directory.join("batch.toml");
    let head =
        format!("[batch]\ncards = {cards}\nlinks = 4\ndma_buffers = 2\nblock_bytes = 1024\n");
    fs::write(&file, head + defects).unwrap();
    file.display().to_string()
}

#[test]
fn a_batch_tells_what_is_broken_what_was_done_and_what_came_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let defects = "
[[defects]]
card = 1
kind = \"swapped_links\"
link = 1
other_link = 3
cure = \"replug\"

[[defects]]
card = 2
kind = \"stuck_data_bit\"
dma_buffer = 1
bit = 17
high = true
";
    let file = batch(directory.path(), 4, defects);
    let out = directory.path().join("out");
    let done = forebay(&[
        "card",
        "validate",
        &file,
        "--format",
        "json",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(done.status.code(), Some(1), "{}", said(&done));
    let report = json(&done);
    let summary = &report["summary"];
    for (name, value) in [
        ("cards", 4),
        ("faulty", 2),
        ("passed", 2),
        ("recovered", 1),
        ("rejected", 1),
        ("false_alarms", 0),
        ("missed", 0),
        ("misnamed", 0),
        ("named", 2),
        ("placed", 2),
        ("escaped", 0),
    ] {
        assert_eq!(summary[name], value, "{name}: {summary}");
    }
    let card = &report["cards"][1];
    let first = &card["rounds"][0];
    assert_eq!(
        (&card["verdict"], &card["emulated"]),
        (&"recovered".into(), &true.into())
    );
    assert_eq!(first["diagnosis"][0]["suspect"], "swapped_links");
    assert_eq!(first["diagnosis"][0]["place"], "links 1 and 3");
    assert_eq!(
        (&first["repair"], &card["rounds"][1]["repair"]),
        (&"replug".into(), &Value::Null)
    );
    let tests: Vec<&str> = first["tests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|test| test["test"].as_str().unwrap())
        .collect();
    assert_eq!(tests, ["registers", "links", "prbs", "dma", "ttc", "fifo"]);
    let measured = &first["tests"][2]["measurements"];
    let bits = measured
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["unit"] == "bits")
        .unwrap();
    assert!(bits["value"].as_f64().unwrap() >= 2.996e12, "{measured}");
    for file in ["card000.txt", "card003.json", "batch.txt", "batch.json"] {
        assert!(fs::metadata(out.join(file)).unwrap().len() > 0, "{file}");
    }
    let told = fs::read_to_string(out.join("card002.txt")).unwrap();
    for words in [
        "likeliest: stuck_data_bit (DMA buffer 1 bit 17)",
        "repair: reseat",
        "repair: resolder",
        "must be 0",
        "cured by nothing",
        "judged: named, at its place",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn a_drawn_batch_follows_from_its_seed_and_good_cards_pass() {
    let args = [
        "card",
        "validate",
        "--cards",
        "3",
        "--links",
        "2",
        "--dma-buffers",
        "1",
    ];
    let run = |more: &[&str]| forebay(&[&args[..], more].concat());
    let done = run(&["--faulty", "0"]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    assert!(
        said(&done).contains("passed at once: 3 (100.0 %), recovered: 0, rejected: 0"),
        "{}",
        said(&done)
    );
    let drawn = |seed: &str| json(&run(&["--faulty", "2", "--seed", seed, "--format", "json"]));
    let report = drawn("5");
    assert_eq!(report, drawn("5"));
    assert_eq!(report["summary"]["faulty"], 2);
    assert_ne!(report["cards"], drawn("6")["cards"]);
}

#[test]
fn a_file_is_checked_before_it_is_carried_out_and_mistakes_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let good = batch(directory.path(), 4, "");
    let done = forebay(&["check", &good]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    assert!(
        said(&done).contains("a batch of cards: 4, of them faulty: 1"),
        "{}",
        said(&done)
    );
    let bad = batch(
        directory.path(),
        4,
        "[[defects]]\ncard = 4\nkind = \"dead_link\"\nlink = 9\n",
    );
    for verb in [&["check"][..], &["card", "validate"]] {
        let done = forebay(&[verb, &[&bad]].concat());
        assert_eq!(done.status.code(), Some(2), "{}", said(&done));
        assert!(
            said(&done).contains("batch.toml:") && said(&done).contains("faults.link"),
            "{}",
            said(&done)
        );
    }
    for (args, words) in [
        (&["--cards", "3", "--faulty", "4"][..], "4 of 3 cards"),
        (&["--links", "25"], "25"),
        (&[&good, "--seed", "2"], "--seed"),
    ] {
        let done = forebay(&[&["card", "validate"], args].concat());
        assert_eq!(done.status.code(), Some(2), "{}", said(&done));
        assert!(said(&done).contains(words), "{}", said(&done));
    }
    let example = forebay_testing::root().join("examples/batch.toml");
    let done = forebay(&["check", example.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    assert!(
        said(&done).contains("40, of them faulty: 2"),
        "{}",
        said(&done)
    );
}

#[test]
fn the_yield_of_a_batch_is_a_figure_beside_the_published_one() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let done = forebay(&["figure", "F9", "--quick", "--format", "json", "--out", out]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    let report = json(&done);
    let line = report["comparison"][0].as_str().unwrap();
    assert!(
        line.starts_with(
            "published: 40 cards, 10 faulty, 8 recovered; here 1 batches of 40 cards, 10 faulty"
        ),
        "{line}"
    );
    for ending in ["csv", "parquet", "svg", "png", "json"] {
        let file = directory.path().join(format!("F9.{ending}"));
        assert!(fs::metadata(&file).unwrap().len() > 0, "{}", file.display());
    }
    let rows = fs::read_to_string(directory.path().join("F9.csv")).unwrap();
    let cells: Vec<Vec<&str>> = rows.lines().map(|line| line.split(',').collect()).collect();
    let cell = |name: &str| -> f64 {
        let at = cells[0].iter().position(|one| *one == name).unwrap();
        cells[1][at].parse().unwrap()
    };
    assert_eq!(
        (cell("cards"), cell("faulty"), cell("seed")),
        (40.0, 10.0, 1.0)
    );
    assert_eq!(cell("passed") + cell("recovered") + cell("rejected"), 40.0);
    assert_eq!(cell("false_alarms"), 0.0);
    assert!(cell("named") + cell("misnamed") + cell("missed") == 10.0 && cell("named") >= 8.0);
    let svg = fs::read_to_string(directory.path().join("F9.svg")).unwrap();
    assert!(svg.contains("published") && svg.contains("stuck register bit"));
}
