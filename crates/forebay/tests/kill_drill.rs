//! Stages killed with `kill -9` at random moments of a run: nothing is lost but what is named, nothing is there twice.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rig::{
    Run, account_items, assert_closed, audit, audit_json, demo, dropped_in_all, files, forebay,
    hld, is_alive, number, signal, start,
};
use serde_json::Value;
use tempfile::TempDir;

/// Kills in the drill.
const KILLS: u32 = 20;
const SOURCES: u64 = 9;

/// A small generator (splitmix64); `FOREBAY_SEED` repeats a run.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_nanos() as u64;
        let seed = std::env::var("FOREBAY_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(now);
        println!("FOREBAY_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Kills `stage` and waits for its successor.
fn kill(run: &Run, stage: &str) {
    let old = run.wait_stages(&[stage])[stage];
    assert!(signal("KILL", old), "the {stage} {old} was not there");
    rig::wait_for("the successor", || {
        run.stages().get(stage).filter(|pid| **pid != old).copied()
    });
}

/// Every sub-event that was sent lies in the file exactly once, or is lost by a name.
fn assert_once(json: &Value, out: &std::path::Path) {
    assert_closed(json, out);
    let events = hld::events(&files(json));
    let subs = hld::count_once(&events);
    assert_eq!(
        events.len() as u64,
        number(json, "events_built") + number(json, "events_partial"),
        "{json}"
    );
    let verdict = audit_json(out);
    assert_eq!(
        account_items(&verdict, ("builder", "subevents"), "outgoing"),
        subs
    );
    let sent = account_items(&verdict, ("generator", "subevents"), "outgoing");
    let lost_datagrams = dropped_in_all(json, "socket.buffer_full")
        + dropped_in_all(json, "receiver.receiver_crash");
    if lost_datagrams == 0 {
        assert!(
            json["drops"].as_object().unwrap().is_empty(),
            "{}",
            json["drops"]
        );
        assert_eq!(subs, sent, "{json}");
    }
    for key in json["drops"].as_object().unwrap().keys() {
        let known = [
            "socket.buffer_full.",
            "receiver.receiver_crash.",
            "receiver.fragment_missing.",
            "builder.late.",
        ];
        assert!(
            known.iter().any(|name| key.starts_with(name)),
            "{key} is no consequence of a kill: {}",
            json["drops"]
        );
    }
    assert_eq!(json["verified"]["payload_mismatches"], 0);
}

/// `KILLS` kills of a `demo` with `args`, each stage half of them.
fn drill(args: &[&str]) {
    let mut random = Random::seeded();
    let folder = TempDir::new().unwrap();
    let sources = SOURCES.to_string();
    let fixed = ["--sources", &sources, "--duration", "9s"];
    let run = start(&mut demo(folder.path(), &[&fixed[..], args].concat()));
    run.wait_stages(&["generator", "receiver", "builder"]);
    let begin = Instant::now();
    for turn in 0..KILLS {
        // Somewhere in its own part of the run, from the first instant of a stage's life on.
        let due = Duration::from_millis(u64::from(turn) * 380 + random.below(380));
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
        kill(&run, if turn % 2 == 0 { "builder" } else { "receiver" });
    }
    let json = run.end().json_of(0);
    let restarts = |stage: &str| json["restarts"][stage].as_u64().unwrap();
    assert!(
        restarts("builder") >= 10 && restarts("receiver") >= 10,
        "{}",
        json["restarts"]
    );
    assert_once(&json, folder.path());
}

#[test]
fn twenty_random_kills_lose_nothing_without_a_name() {
    drill(&["--rate", "2000"]);
}

#[test]
fn twenty_random_kills_with_small_datagrams_and_huge_ones() {
    drill(&["--rate", "1000", "--water-mark", "0", "--huge-every", "50"]);
}

#[test]
fn a_builder_killed_while_files_change_writes_no_event_twice() {
    let mut random = Random::seeded();
    let folder = TempDir::new().unwrap();
    let base_port = rig::free_ports(4);
    let run = start(&mut rig::evb(
        folder.path(),
        4,
        base_port,
        &["--file-events", "20"],
    ));
    run.wait_stages(&["receiver", "builder"]);
    let mut sender = forebay();
    sender.args([
        "emulate",
        "hades",
        "--group",
        "4:100",
        "--rate",
        "2000",
        "--water-mark",
        "2000",
        "--flush",
        "5ms",
    ]);
    sender.args([
        "--duration",
        "4s",
        "--format",
        "json",
        "--base-port",
        &base_port.to_string(),
    ]);
    let sender = start(&mut sender);
    for _ in 0..12 {
        std::thread::sleep(Duration::from_millis(50 + random.below(250)));
        kill(&run, "builder");
    }
    let sent = sender.end().json_of(0);
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    let files = files(&json);
    let events = hld::events(&files);
    assert!(
        files.len() as u64 >= number(&sent, "events_sent") / 20,
        "{} files",
        files.len()
    );
    assert_eq!(
        hld::count_once(&events),
        number(&sent, "subevents_sent"),
        "{}",
        json["drops"]
    );
    assert_closed(&json, folder.path());
}

#[test]
fn stages_killed_at_the_very_end_still_close_the_books() {
    let mut random = Random::seeded();
    let folder = TempDir::new().unwrap();
    let run = start(&mut demo(
        folder.path(),
        &["--sources", "9", "--rate", "2000", "--duration", "600ms"],
    ));
    let stages = run.wait_stages(&["generator", "receiver", "builder"]);
    rig::wait_for("the generator's end", || {
        (!is_alive(stages["generator"])).then_some(())
    });
    // The supervisor now drains one stage after the other; whatever still lives is killed now and then.
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(random.below(30)));
        let stages = run.stages();
        let names: Vec<_> = stages.keys().collect();
        if !names.is_empty() {
            signal(
                "KILL",
                stages[names[random.below(names.len() as u64) as usize]],
            );
        }
    }
    let json = run.end().json_of(0);
    assert_once(&json, folder.path());
}

#[test]
fn a_program_replaced_during_the_run_is_not_mixed_with_its_successor() {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("forebay");
    std::fs::copy(forebay().get_program(), &program).unwrap();
    let out = folder.path().join("out");
    let mut command = std::process::Command::new(&program);
    command
        .args([
            "demo",
            "--format",
            "json",
            "--sources",
            "3",
            "--rate",
            "1000",
            "--duration",
            "1500ms",
            "--out",
        ])
        .arg(&out);
    let run = start(&mut command);
    run.wait_stages(&["generator", "receiver", "builder"]);
    std::fs::remove_file(&program).unwrap();
    std::fs::write(&program, "another program").unwrap();
    kill(&run, "builder");
    kill(&run, "receiver");
    assert_once(&run.end().json_of(0), &out);
}

#[test]
fn a_killed_generator_taints_the_run() {
    let folder = TempDir::new().unwrap();
    let run = start(&mut demo(
        folder.path(),
        &["--sources", "3", "--rate", "1000", "--duration", "20s"],
    ));
    let generator = run.wait_stages(&["generator", "receiver", "builder"])["generator"];
    std::thread::sleep(Duration::from_millis(700));
    signal("KILL", generator);
    let ended = run.end();
    let json = ended.json();
    assert_eq!(json["condition"], "tainted", "{json}");
    assert!(
        json["taints"][0]
            .as_str()
            .unwrap()
            .contains("generator died"),
        "{json}"
    );
}

#[test]
fn a_killed_supervisor_ends_the_run_and_the_disk_can_be_read() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let mut run = start(&mut demo(
        &out,
        &["--sources", "9", "--rate", "2000", "--duration", "30s"],
    ));
    let stages = run.wait_stages(&["generator", "receiver", "builder"]);
    std::thread::sleep(Duration::from_millis(1200));
    signal("KILL", run.pid());
    let begin = Instant::now();
    rig::wait_for("the end of the stages", || {
        stages.values().all(|pid| !is_alive(*pid)).then_some(())
    });
    assert!(
        begin.elapsed() < Duration::from_secs(15),
        "the stages lived for {:?}",
        begin.elapsed()
    );
    assert!(run.is_over());
    let says = audit(&out);
    assert!(
        says.stdout.contains("interrupted (the supervisor died)"),
        "{}",
        says.stdout
    );
    let verdict = audit_json(&out);
    assert_eq!(verdict["condition"], "interrupted");
    assert_eq!(says.code(), Some(0), "{}", says.stdout);
    let file = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|kind| kind == "hld"))
        .unwrap();
    let recovered = folder.path().join("recovered.hld");
    let ended = start(
        forebay()
            .args(["inspect", "--recover"])
            .arg(&recovered)
            .arg(&file),
    )
    .end();
    assert!(recovered.is_file(), "{}\n{}", ended.stdout, ended.stderr);
    let events = hld::events(&[&recovered]);
    assert_eq!(
        account_items(&verdict, ("sink", "events"), "outgoing"),
        events.len() as u64
    );
    assert!(events.len() > 1000, "{} events", events.len());
    hld::count_once(&events);
    // The next run in that directory keeps the ledger of the dead one and clears the memory.
    let ledger = std::fs::read_link(out.join("ledger")).unwrap();
    assert!(ledger.exists());
    start(&mut demo(
        &out,
        &["--sources", "3", "--rate", "1000", "--duration", "300ms"],
    ))
    .end()
    .json_of(0);
    assert!(!ledger.exists(), "{} was left behind", ledger.display());
    let kept = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains("ledger-"))
        .unwrap();
    let verdict = start(forebay().args(["audit", "--format", "json"]).arg(&kept))
        .end()
        .json();
    assert_eq!(verdict["condition"], "interrupted");
}

#[test]
fn a_stage_that_keeps_dying_is_given_up_and_the_run_ends() {
    let folder = TempDir::new().unwrap();
    let base_port = rig::free_ports(2);
    let mut run = start(&mut rig::evb(folder.path(), 2, base_port, &[]));
    run.wait_stages(&["receiver", "builder"]);
    let begin = Instant::now();
    while !run.is_over() && begin.elapsed() < Duration::from_secs(30) {
        if let Some(builder) = run.stages().get("builder") {
            signal("KILL", *builder);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let json = run.end().json();
    assert_eq!(
        (&json["condition"], &json["reason"]),
        (&"tainted".into(), &"a stage was lost".into()),
        "{json}"
    );
    assert!(
        json["taints"][0]
            .as_str()
            .unwrap()
            .contains("the builder died 10 times at once"),
        "{json}"
    );
    assert_closed(&json, folder.path());
}
