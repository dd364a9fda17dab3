//! Kills around the event builder: its stages, its supervisor, and what sends to it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Round;
use super::process::{Ended, Running, is_alive, wait_for};

const SOURCES: &str = "9";
/// What a killed receiver may take with it of each socket.
const BATCH_DATAGRAMS: u64 = 64;
/// Longest time for stages to notice that their supervisor is gone.
const ORPHAN_LIMIT: Duration = Duration::from_secs(20);

/// A demo with receiver and builder killed in turns at random.
pub(crate) fn stages(round: &mut Round) -> Result<()> {
    kills_of_stages(round, &["--rate", "2000"])
}

/// The same with sockets that overflow while there is no receiver.
pub(crate) fn overflow(round: &mut Round) -> Result<()> {
    let small = [
        "--rate",
        "2000",
        "--water-mark",
        "0",
        "--socket-buffer",
        "16Ki",
    ];
    kills_of_stages(round, &small)
}

/// A demo whose files are written in one of the two ways.
fn demo(round: &mut Round, more: &[&str]) -> Result<Running> {
    let io = round.choose_io();
    let fixed = [
        "demo",
        "--format",
        "json",
        "--out",
        "out",
        "--sources",
        SOURCES,
        "--file-io",
        io,
    ];
    round.start("demo", &[&fixed[..], more].concat())
}

fn kills_of_stages(round: &mut Round, more: &[&str]) -> Result<()> {
    let run = demo(round, &[&["--duration", "4s"], more].concat())?;
    wait_for("the stages", || {
        let stages = run.stages();
        (stages.contains_key("receiver") && stages.contains_key("builder")).then_some(())
    })?;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(3200) {
        std::thread::sleep(round.random.ms(60, 500));
        let stage = ["receiver", "builder"][round.random.below(2) as usize];
        // One that was killed just now may not be there again.
        if let Some(pid) = run.stages().get(stage) {
            round.kill_stage(*pid);
        }
    }
    let ended = run.end()?;
    whole(round, &ended)
}

/// Every sub-event that was sent is in the files once, or lost by the name of what a kill may cost.
fn whole(round: &mut Round, ended: &Ended) -> Result<()> {
    let json = &ended.json;
    let tail = || ended.stderr.lines().last().unwrap_or_default().to_owned();
    round.expect(ended.code == Some(0), || {
        format!("exit code {:?}: {} {}", ended.code, json["taints"], tail())
    });
    let audit = round.expect_closed("out")?;
    let mut in_files = [0, 0, 0];
    for file in files(json) {
        let events = round.events(&file)?;
        in_files = [
            in_files[0] + events.events,
            in_files[1] + events.sub_events,
            in_files[2] + events.twice,
        ];
    }
    let [events, sub_events, twice] = in_files;
    round.expect(twice == 0, || format!("{twice} sub-events are there twice"));
    let built = number(json, "events_built") + number(json, "events_partial");
    round.expect(events == built, || {
        format!("{events} events in the files, {built} built")
    });
    let out = audit.sum("builder", "subevents", "outgoing");
    round.expect(sub_events == out, || {
        format!("{sub_events} sub-events in the files, {out} in the books")
    });
    named(round, json, &audit);
    Ok(())
}

/// What is lost is lost by a name that a kill explains, and no more than it may cost.
fn named(round: &mut Round, json: &Value, audit: &super::check::Audit) {
    let drops = json["drops"].as_object();
    for (name, lost) in drops.into_iter().flatten() {
        let known = [
            "socket.buffer_full.",
            "receiver.receiver_crash.",
            "receiver.fragment_missing.",
        ];
        let fine = known.iter().any(|front| name.starts_with(front));
        round.expect(fine, || {
            format!("{name}: {} is no consequence of a kill", lost["items"])
        });
        let kills = json["restarts"]["receiver"].as_u64().unwrap_or(0);
        let crashed = name.starts_with("receiver.receiver_crash.");
        let items = lost["items"].as_u64().unwrap_or(0);
        round.expect(!crashed || items <= BATCH_DATAGRAMS * kills, || {
            format!("{name}: {items} with {kills} kills of the receiver")
        });
    }
    let sent = audit.sum("generator", "datagrams", "outgoing");
    let came = audit.sum("receiver", "datagrams", "outgoing");
    let lost: u64 = drops
        .into_iter()
        .flatten()
        .filter_map(|(_, lost)| lost["items"].as_u64())
        .sum();
    round.expect(sent == came + lost, || {
        format!("{sent} datagrams sent, {came} taken, {lost} lost by name")
    });
}

/// The head of a run: the stages end, and what is on the disk is what the books say.
pub(crate) fn supervisor(round: &mut Round) -> Result<()> {
    let mut run = demo(round, &["--rate", "2000", "--duration", "30s"])?;
    let stages = wait_for("the stages", || {
        let stages = run.stages();
        (stages.len() == 3).then_some(stages)
    })?;
    std::thread::sleep(round.random.ms(0, 1500));
    round.kill(&mut run)?;
    let begin = Instant::now();
    let gone = wait_for("the end of the stages", || {
        stages
            .values()
            .all(|pid| !is_alive(*pid))
            .then_some(begin.elapsed())
    })?;
    round.expect(gone < ORPHAN_LIMIT, || {
        format!("the stages lived on for {gone:?} without their supervisor")
    });
    let audit = round.expect_closed("out")?;
    let written = audit.sum("sink", "events", "outgoing");
    let mut found = 0;
    for (at, file) in files_in(&round.path("out")).into_iter().enumerate() {
        let recovered = round.path(&format!("recovered{at}.hld"));
        let text = |path: &PathBuf| path.display().to_string();
        let words = [
            "inspect".to_owned(),
            "--recover".to_owned(),
            text(&recovered),
            text(&file),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        round.start(&format!("recover{at}"), &words)?.end()?;
        let events = round.events(&recovered)?;
        round.expect(events.twice == 0, || {
            format!("{} sub-events are there twice", events.twice)
        });
        found += events.events;
    }
    round.expect(found == written, || {
        format!("{found} events on the disk, {written} in the books")
    });
    Ok(())
}

/// The generator of a demo: the run ends and says so.
pub(crate) fn generator(round: &mut Round) -> Result<()> {
    let run = demo(round, &["--rate", "2000", "--duration", "30s"])?;
    let generator = wait_for("the generator", || {
        let stages = run.stages();
        let all = stages.len() == 3;
        stages.get("generator").copied().filter(|_| all)
    })?;
    std::thread::sleep(round.random.ms(50, 1200));
    round.kill_stage(generator);
    let ended = run.end()?;
    let says = ended.json["taints"].to_string();
    round.expect(ended.json["condition"] == "tainted", || {
        format!("a run whose generator died is {}", ended.json["condition"])
    });
    round.expect(says.contains("generator died"), || {
        format!("it says {says}")
    });
    let mut found = 0;
    for file in files(&ended.json) {
        let events = round.events(&file)?;
        round.expect(events.twice == 0, || {
            format!("{} sub-events are there twice", events.twice)
        });
        found += events.events;
    }
    let built = number(&ended.json, "events_built") + number(&ended.json, "events_partial");
    round.expect(found == built, || {
        format!("{found} events in the files, {built} built")
    });
    Ok(())
}

/// One of two emulators on their own: what the other one sent arrives whole, and both parties' books can be joined.
pub(crate) fn emulator(round: &mut Round) -> Result<()> {
    let port = round.ports();
    let (first, second) = (port.to_string(), (port + 2).to_string());
    let words = [
        "evb",
        "--format",
        "json",
        "--out",
        "evb",
        "--sources",
        "4",
        "--base-port",
        &first,
    ];
    let run = round.start("evb", &words)?;
    wait_for("the stages", || (run.stages().len() == 2).then_some(()))?;
    let send = |name: &str, port: &str, events: &str| {
        let fixed = [
            "emulate", "hades", "--group", "2:116", "--rate", "2000", "--format", "json",
        ];
        let own = ["--out", name, "--base-port", port, "--events", events];
        round.start(name, &[&fixed[..], &own].concat())
    };
    let mut doomed = send("doomed", &second, "100000")?;
    let whole = send("whole", &first, "4000")?;
    // What dies before it has books can be held against none.
    wait_for("the books of the emulator that will die", || {
        round.path("doomed/ledger").exists().then_some(())
    })?;
    std::thread::sleep(round.random.ms(100, 1500));
    round.kill(&mut doomed)?;
    let sent = whole.end()?;
    run.interrupt();
    let ended = run.end()?;
    round.expect(ended.code == Some(0), || {
        format!("exit code {:?}: {}", ended.code, ended.stderr)
    });
    let audit = round.expect_closed("evb")?;
    round.expect_closed("doomed")?;
    round.expect_closed("whole")?;
    let lines = audit.json["balance"]["accounts"]
        .as_array()
        .context("no accounts")?;
    let owners = ["source0", "source1"];
    let healthy = lines.iter().filter(|line| {
        let owner = line["owner"].as_str().unwrap_or_default();
        line["place"] == "builder" && owners.contains(&owner)
    });
    let came: u64 = healthy
        .filter_map(|line| line["outgoing"]["items"].as_u64())
        .sum();
    let went = number(&sent.json, "subevents_sent");
    round.expect(came == went, || {
        format!(
            "of the healthy emulator's {went} sub-events {came} were built: {}",
            ended.json["drops"]
        )
    });
    Ok(())
}

fn number(json: &Value, key: &str) -> u64 {
    json[key].as_u64().unwrap_or(0)
}

pub(crate) fn files(json: &Value) -> Vec<PathBuf> {
    let files = json["files"].as_array().into_iter().flatten();
    files
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .collect()
}

pub(crate) fn files_in(directory: &std::path::Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "hld"))
        .collect();
    files.sort();
    files
}
