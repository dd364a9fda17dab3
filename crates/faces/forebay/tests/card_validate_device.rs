//! `forebay card validate --device`: the diagnostics of a card's process through its door, sound and with defects.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::path::PathBuf;

use forebay_run_felix::device::Device;
use rig::{Ended, Run, forebay, signal, start, wait_for};
use serde_json::Value;

/// A card's process in a directory of its own.
struct Card {
    directory: tempfile::TempDir,
    run: Run,
}

impl Card {
    fn start(card: &str, defects: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("card.sock");
        let text = format!(
            "[card]\nsocket = {socket:?}\ndma_buffers = 2\ndma_bytes = 2097152\n{card}\n[ttc]\nrate_hz = 1000\n[[links]]\nlinks = [0, 1, 2]\n\
             [[links]]\nlinks = [3]\ndma_buffer = 1\n{defects}"
        );
        let file = directory.path().join("card.toml");
        fs::write(&file, text).unwrap();
        let run = start(
            forebay()
                .args(["emulate", "card"])
                .arg(file)
                .args(["--format", "json"]),
        );
        // The path is there before anybody listens at it.
        wait_for("the card", || Device::describe(&socket).ok());
        Self { directory, run }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("card.sock")
    }

    fn validate(&self, more: &[&str]) -> Ended {
        start(
            forebay()
                .args(["card", "validate", "--device"])
                .arg(self.socket())
                .args(more),
        )
        .end()
    }

    /// Ends it: its summary.
    fn end(self) -> Value {
        assert!(signal("TERM", self.run.pid()));
        self.run.end().json()
    }
}

fn of_test<'a>(report: &'a Value, test: &str) -> &'a Value {
    let tests = report["rounds"][0]["tests"].as_array().unwrap();
    tests.iter().find(|one| one["test"] == test).unwrap()
}

#[test]
fn a_sound_card_passes_before_its_triggers_begin() {
    let card = Card::start("", "");
    let out = card.directory.path().join("out");
    let done = card.validate(&["--format", "json", "--out", out.to_str().unwrap()]);
    let report = done.json_of(0);
    assert_eq!(
        (&report["verdict"], &report["name"]),
        (&"passed".into(), &"card0".into())
    );
    assert_eq!(report["pid"], card.run.pid());
    for test in ["registers", "links", "prbs", "dma", "ttc", "fifo"] {
        assert_eq!(of_test(&report, test)["outcome"], "pass", "{report}");
        assert_eq!(of_test(&report, test)["left_out"], Value::Array(Vec::new()));
    }
    assert!(
        fs::read_to_string(out.join("card0.txt"))
            .unwrap()
            .contains("card0: passed")
    );
    let summary = card.end();
    assert_eq!(
        (&summary["triggers"], &summary["residual_items"]),
        (&0.into(), &0.into())
    );
    // Both DMA buffers took 3 × 64 + 1024 test blocks, and all were read.
    for dma in summary["dma"].as_array().unwrap() {
        assert_eq!(
            (&dma["blocks"], &dma["blocks_unread"]),
            (&1216.into(), &0.into())
        );
    }
}

#[test]
fn a_card_at_work_is_tested_beside_its_readers_and_its_books_close() {
    let card = Card::start("wait_for_readers = false\ndrain_s = 1", "");
    let reader = Device::open(&card.socket(), 0).unwrap();
    let report = card.validate(&["--format", "json"]).json_of(0);
    let left_out = of_test(&report, "dma")["left_out"].to_string();
    assert!(
        left_out.contains("DMA buffer 0: another reader has it"),
        "{left_out}"
    );
    drop(reader);
    let summary = card.end();
    assert!(summary["triggers"].as_u64().unwrap() > 0);
    assert_eq!(
        (&summary["residual_items"], &summary["residual_bytes"]),
        (&0.into(), &0.into())
    );
    assert_eq!(summary["dropped"], serde_json::json!({}));
}

#[test]
fn the_defects_of_a_process_are_named() {
    let defects = [
        ("kind = \"bit_errors\"\nlink = 2", "bit_errors", "link 2"),
        ("kind = \"dead_link\"\nlink = 3", "dead_link", "link 3"),
        (
            "kind = \"stuck_data_bit\"\ndma_buffer = 1\nbit = 9",
            "stuck_data_bit",
            "DMA buffer 1 bit 9",
        ),
        (
            "kind = \"lost_blocks\"\nevery = 400",
            "lost_blocks",
            "DMA buffer 0",
        ),
        (
            "kind = \"no_interrupt\"\ndma_buffer = 1",
            "no_interrupt",
            "DMA buffer 1",
        ),
        (
            "kind = \"stuck_register_bit\"\naddress = 0x120\nbit = 40\nhigh = true",
            "stuck_register_bit",
            "register 0x120 bit 40",
        ),
        (
            "kind = \"triggers_skipped\"\nevery = 5000",
            "triggers_skipped",
            "card",
        ),
        (
            "kind = \"mark_ignored\"\nlink = 1",
            "mark_ignored",
            "link 1",
        ),
        ("kind = \"no_answer\"", "no_answer", "card"),
    ];
    for (defect, suspect, place) in defects {
        let card = Card::start("", &format!("[[defects]]\n{defect}\n"));
        let report = card.validate(&["--format", "json"]).json_of(1);
        let likeliest = &report["rounds"][0]["diagnosis"][0];
        assert_eq!(
            (&likeliest["suspect"], &likeliest["place"]),
            (&suspect.into(), &place.into()),
            "{report}"
        );
        assert_eq!(report["verdict"], "rejected");
        assert_eq!(card.end()["residual_items"], 0);
    }
}

#[test]
fn what_is_no_card_or_ends_is_told() {
    let nobody =
        start(forebay().args(["card", "validate", "--device", "/nonexistent/card.sock"])).end();
    assert_eq!(nobody.code(), Some(2));
    assert!(
        nobody
            .stderr
            .contains("no card answers at /nonexistent/card.sock"),
        "{}",
        nobody.stderr
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("card.toml");
    fs::write(
        &file,
        "[card]\n[[links]]\nlinks = [0]\n[[defects]]\nkind = \"dead_link\"\nlink = 1\n",
    )
    .unwrap();
    let wrong = start(forebay().arg("check").arg(&file)).end();
    assert_eq!(wrong.code(), Some(2));
    assert!(wrong.stderr.contains("faults.link"), "{}", wrong.stderr);
}
