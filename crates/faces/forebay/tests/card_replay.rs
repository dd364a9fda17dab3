//! `forebay emulate card --replay`: recorded blocks through DMA buffers and to-host to a subscriber.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rig::blocks::{blocks, format};
use rig::{Run, audit, forebay, number, signal, start, wait_for};
use serde_json::{Value, json};

/// A file of blocks, and what reads it.
struct Chain {
    directory: tempfile::TempDir,
    address: String,
}

impl Chain {
    fn of(bytes: &[u8], name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("blocks.dat"), bytes).unwrap();
        let address = format!("shm://replay-{name}-{}", std::process::id());
        let tohost = format!(
            "[tohost]\ndirectory = {:?}\nsubscribers_min = 1\n[[devices]]\nsocket = {:?}\naddress = {address:?}\n",
            directory.path().join("tohost"),
            directory.path().join("card.sock"),
        );
        fs::write(directory.path().join("tohost.toml"), tohost).unwrap();
        Self { directory, address }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn card(&self, more: &[&str]) -> Run {
        start(&mut self.card_command(more))
    }

    fn card_command(&self, more: &[&str]) -> Command {
        let mut command = forebay();
        command.args(["emulate", "card"]).args(more);
        command.arg("--replay").arg(self.path("blocks.dat"));
        command.arg("--socket").arg(self.path("card.sock"));
        command.args(["--format", "json"]);
        command
    }

    fn tohost(&self) -> Run {
        let file = self.path("tohost.toml");
        start(forebay().arg("tohost").arg(file).args(["--format", "json"]))
    }

    fn swrod(&self, more: &[&str]) -> Run {
        let mut command = forebay();
        command.args(["swrod", &self.address]).args(more);
        start(command.args(["--format", "json"]))
    }

    /// Card, to-host and subscriber, each with its exit code.
    fn run(&self, card: &[&str], swrod: &[&str], codes: [i32; 3]) -> [Value; 3] {
        let (card, tohost, swrod) = (self.card(card), self.tohost(), self.swrod(swrod));
        let all = [
            card.end().json_of(codes[0]),
            tohost.end().json_of(codes[1]),
            swrod.end().json_of(codes[2]),
        ];
        for one in &all {
            assert_eq!(number(one, "residual_items"), 0, "{one}");
            assert_eq!(number(one, "residual_bytes"), 0, "{one}");
        }
        all
    }
}

#[test]
fn a_recorded_file_comes_out_of_to_host_as_it_is() {
    let chain = Chain::of(&blocks(256).concat(), "whole");
    // Numbers of 256 times 10 chunks end where they began: once more, and they go on.
    let [card, tohost, swrod] = chain.run(&["--loops", "3"], &[], [0, 0, 0]);
    assert_eq!(
        (&card["blocks"], &card["loops"]),
        (&json!(3 * 512), &json!(3))
    );
    assert_eq!(card["elinks"], json!([0, 64]));
    assert_eq!(card["blocks_format"].as_str(), Some(&*format().to_string()));
    for of in [&tohost["chunks_published"], &swrod["chunks"]] {
        assert_eq!(of, &json!(3 * 512 * 10), "{tohost}");
    }
    assert_eq!(swrod["bad_payload"], json!({}));
}

#[test]
fn sequence_numbers_go_on_where_the_file_begins_again() {
    let chain = Chain::of(&blocks(50).concat(), "again");
    let out = chain.path("card");
    let card = format!(
        "[card]\nname = \"replayed\"\ndirectory = {out:?}\n[[links]]\nlinks = [0]\n[[links]]\nlinks = [1]\n"
    );
    let file = chain.path("card.toml");
    fs::write(&file, card).unwrap();
    let more = [file.to_str().unwrap(), "--loops", "4"];
    let [card, tohost, swrod] = chain.run(&more, &["--payload", "none"], [0, 0, 0]);
    assert_eq!(number(&card, "blocks"), 400);
    assert_eq!(number(&tohost, "chunks_published"), 4000, "{tohost}");
    assert_eq!(number(&swrod, "chunks"), 4000);
    assert_eq!(tohost["buffers"][0]["missing_blocks"], 0, "{tohost}");
    assert_eq!(audit(&out).code(), Some(0));
    let mut top = forebay();
    let top = start(top.arg("top").arg(&out).args(["--format", "json"]));
    let top = top.end().json();
    assert!(top["events"].is_null() && !top["places"].is_null(), "{top}");
}

#[test]
fn what_is_damaged_in_the_file_is_shown_and_what_is_no_block_is_named() {
    let mut all = blocks(64);
    // A block whose last word reaches too far, bytes between blocks, and half of one at the end.
    let end = format().bytes();
    all[20][end - 4..].copy_from_slice(&0x6000_ffff_u32.to_le_bytes());
    all[40].splice(0..0, [0x55; 100]);
    let mut bytes = all.concat();
    bytes.extend_from_slice(&all[0][..1000]);
    let chain = Chain::of(&bytes, "damaged");
    let [card, tohost, _] = chain.run(&[], &["--payload", "none"], [0, 0, 0]);
    assert_eq!(number(&card, "blocks"), 128, "{card}");
    assert_eq!(
        (&card["skipped_bytes"], &card["tail_bytes"]),
        (&json!(100), &json!(1000))
    );
    assert_eq!(number(&tohost, "chunks_published"), 127 * 10, "{tohost}");
}

#[test]
fn an_order_ends_it_and_no_file_of_blocks_is_named() {
    let chain = Chain::of(&blocks(10).concat(), "order");
    let card = chain.card(&["--loops", "1000000", "--blocks-hz", "1000"]);
    let (tohost, swrod) = (chain.tohost(), chain.swrod(&["--payload", "none"]));
    let out = chain.path("tohost");
    rig::at_work(&out, 500);
    assert!(signal("INT", card.pid()));
    let card = card.end().json_of(0);
    let (tohost, swrod) = (tohost.end().json_of(0), swrod.end().json_of(0));
    assert_eq!(number(&card, "residual_items"), 0, "{card}");
    let chunks = number(&card, "blocks") * 10;
    assert_eq!(number(&tohost, "chunks_published"), chunks);
    assert_eq!(number(&swrod, "chunks"), chunks);
    let chain = Chain::of(&[7; 5000], "none");
    let mut card = chain.card(&[]);
    wait_for("the end", || card.is_over().then_some(()));
    let ended = card.end();
    assert_eq!(ended.code(), Some(2));
    assert!(ended.stderr.contains("forebay fcheck"), "{}", ended.stderr);
}

#[test]
fn what_cannot_be_gone_through_twice_is_told_at_once() {
    let chain = Chain::of(&blocks(1).concat(), "twice");
    let file = chain.path("blocks.dat");
    fs::remove_file(&file).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, 0o600.into()).unwrap();
    let ended = chain.card(&[]).end();
    assert_eq!(ended.code(), Some(2));
    assert!(ended.stderr.contains("a pipe"), "{}", ended.stderr);
    assert!(ended.stderr.contains("in a file"), "{}", ended.stderr);
}

#[test]
fn a_block_that_vanishes_is_found_where_it_did() {
    for hop in ["file", "card"] {
        let chain = Chain::of(&blocks(64).concat(), &format!("leak-{hop}"));
        let out = chain.path("card");
        let file = chain.path("card.toml");
        fs::write(
            &file,
            format!("[card]\ndirectory = {out:?}\n[[links]]\nlinks = [0, 1]\n"),
        )
        .unwrap();
        let mut command = chain.card_command(&[file.to_str().unwrap()]);
        let card = start(command.env("FOREBAY_LEAK", format!("{hop}:3")));
        let (tohost, swrod) = (chain.tohost(), chain.swrod(&["--payload", "none"]));
        let card = card.end().json_of(1);
        assert_eq!(number(&card, "residual_items"), 3, "{card}");
        assert_eq!(number(&card, "left_items"), 0, "{card}");
        rig::offenders::assert_named(&out, hop, "blocks", 3);
        tohost.end().json_of(0);
        swrod.end();
    }
}
