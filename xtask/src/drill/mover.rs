//! Kills of a mover, and of nothing else: its files are those that would have been written without.

use std::io::Read;
use std::path::PathBuf;

use anyhow::{Result, bail};

use super::Round;
use super::event_builder::files_in;
use super::process::{Running, wait_for};

const EVENTS: u64 = 8000;

/// A mover that is killed up to three times while an event builder sends to it, which writes the same events to a file of its own.
pub(crate) fn mover(round: &mut Round) -> Result<()> {
    let (listen, port) = (
        format!("127.0.0.1:{}", round.ports() + 8),
        round.ports().to_string(),
    );
    let start = |round: &Round, life: u64| {
        let words = [
            "mover", "--listen", &listen, "--format", "json", "--out", "remote", "--once",
        ];
        round.start(&format!("mover{life}"), &words)
    };
    let mut alive = start(round, 0)?;
    let sink = format!("tcp://{listen}");
    let words = [
        "evb",
        "--format",
        "json",
        "--out",
        "local",
        "--sources",
        "3",
        "--base-port",
        &port,
    ];
    let io = round.choose_io();
    let sinks = ["--sink", "file", "--sink", &sink, "--file-io", io];
    let builder = round.start("evb", &[&words[..], &sinks].concat())?;
    wait_for("the stages", || (builder.stages().len() == 2).then_some(()))?;
    let emulator = emulate(round, &port)?;
    wait_for("bytes at the mover", || (written(round) > 0).then_some(()))?;
    let lives = 1 + round.random.below(3);
    for life in 1..=lives {
        std::thread::sleep(round.random.ms(0, 600));
        if alive.is_over() {
            bail!("the mover ended by itself");
        }
        round.kill(&mut alive)?;
        alive = start(round, life)?;
    }
    let sent = emulator.end()?;
    builder.interrupt();
    let ended = builder.end()?;
    let moved = alive.end()?;
    round.expect(ended.code == Some(0), || {
        format!("the builder: {:?} {}", ended.code, ended.stderr)
    });
    round.expect(moved.code == Some(0), || {
        format!("the mover: {:?} {}", moved.code, moved.stderr)
    });
    let drops = &ended.json["drops"];
    let none = drops.as_object().is_some_and(serde_json::Map::is_empty);
    round.expect(none, || format!("lost: {drops}"));
    round.expect_closed("local")?;
    let sub_events = sent.json["subevents_sent"].as_u64().unwrap_or(0);
    for directory in ["local", "remote"] {
        let (mut found, mut twice) = (0, 0);
        for file in files_in(&round.path(directory)) {
            let events = round.events(&file)?;
            (found, twice) = (found + events.sub_events, twice + events.twice);
        }
        round.expect(twice == 0, || {
            format!("{directory}: {twice} sub-events are there twice")
        });
        round.expect(found == sub_events, || {
            format!("{directory}: {found} of {sub_events} sub-events are in the files")
        });
    }
    Ok(())
}

fn emulate(round: &Round, port: &str) -> Result<Running> {
    let events = EVENTS.to_string();
    let words = [
        "emulate", "hades", "--group", "3:400", "--rate", "4000", "--format", "json",
    ];
    let own = ["--base-port", port, "--events", &events];
    round.start("emulator", &[&words[..], &own].concat())
}

fn written(round: &Round) -> u64 {
    let first = |path: &PathBuf| {
        let mut byte = [0];
        std::fs::File::open(path)
            .and_then(|mut file| file.read(&mut byte))
            .unwrap_or(0) as u64
    };
    files_in(&round.path("remote")).iter().map(first).sum()
}
