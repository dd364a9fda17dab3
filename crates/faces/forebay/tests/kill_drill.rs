//! Stages killed with `kill -9` at random moments of a run: nothing is lost but what is named, nothing is there twice.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rig::sender::{Sender, message};
use rig::{
    Run, account_items, assert_closed, audit, audit_json, demo, dropped, dropped_in_all, files,
    forebay, hld, is_alive, number, signal, start,
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

/// Datagrams that a death of the receiver may cost, of whatever socket: the one that was received into a ring at another place than the books say.
const DATAGRAMS_PER_DEATH: u64 = 1;
/// Least bytes of a sub-event in the demo, with its header.
const SUBEVENT_BYTES_MIN: u64 = 116;
/// Datagrams of the longest message in the drills.
const PIECES_MAX: u64 = 2;

/// Under which names a piece is lost whose message lost another one before or after it.
const INCOMPLETE: [&str; 5] = [
    "receiver.fragment_missing",
    "receiver.malformed_short",
    "receiver.malformed_header",
    "receiver.malformed_alignment",
    "receiver.malformed_length",
];

/// What one source lost on its way, from the books alone.
#[derive(Debug)]
struct Lost {
    /// Datagrams that no receiver saw, or took to its grave, or threw away since a piece of their message was lost: what
    /// came after the lost piece begins no message, and is refused for what stands where a header should.
    overflowed: u64,
    crashed: u64,
    incomplete: u64,
    /// Bytes of all of them.
    bytes: u64,
    subevents: u64,
}

/// The loss of each source; every hop after the socket must have passed on all that it took.
fn losses(verdict: &Value, json: &Value) -> Vec<Lost> {
    let lines = verdict["balance"]["accounts"].as_array().unwrap();
    let line = |place: &str, unit: &str, owner: &str| {
        let found = lines
            .iter()
            .find(|line| line["place"] == place && line["unit"] == unit && line["owner"] == owner);
        found.unwrap_or_else(|| panic!("no {place} of {owner} in {unit}: {verdict}"))
    };
    let of = |source: usize| {
        let owner = format!("source{source}");
        let value = |place: &str, unit: &str, term: &str, what: &str| {
            line(place, unit, &owner)[term][what].as_u64().unwrap()
        };
        let out = |place, unit, what| value(place, unit, "outgoing", what);
        let into = |place, unit, what| value(place, unit, "incoming", what);
        let named = |reason: &str| dropped(json, &format!("{reason}.{owner}"));
        let lost = Lost {
            overflowed: named("socket.buffer_full"),
            crashed: named("receiver.receiver_crash"),
            incomplete: INCOMPLETE.iter().map(|name| named(name)).sum(),
            bytes: out("generator", "datagrams", "bytes") - out("receiver", "datagrams", "bytes"),
            subevents: out("generator", "subevents", "items") - into("queue", "subevents", "items"),
        };
        let datagrams = lost.overflowed + lost.crashed + lost.incomplete;
        assert_eq!(
            out("generator", "datagrams", "items") - out("receiver", "datagrams", "items"),
            datagrams,
            "{owner}: {lost:?}"
        );
        // On a busy host a stage that was killed may be back after the builder's time-out: what comes then is late, by name.
        assert_eq!(
            into("queue", "subevents", "items"),
            out("builder", "subevents", "items") + named("builder.late"),
            "{owner} lost something behind its socket: {}",
            json["drops"]
        );
        lost
    };
    let sources = lines
        .iter()
        .filter(|line| line["place"] == "generator" && line["unit"] == "subevents");
    (0..sources.count()).map(of).collect()
}

/// Every sub-event that was sent lies in the file exactly once, or was in a datagram that the books name as lost: one that
/// a socket had no room for, or the one that a death of the receiver may cost, or a piece of a message that lost another
/// piece so.
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
    let losses = losses(&verdict, json);
    let kills = json["restarts"]["receiver"].as_u64().unwrap();
    let lost: u64 = losses.iter().map(|lost| lost.subevents).sum();
    assert_eq!(subs + lost, sent, "{losses:?}");
    let crashed: u64 = losses.iter().map(|lost| lost.crashed).sum();
    assert!(crashed <= DATAGRAMS_PER_DEATH * kills, "{losses:?}");
    for lost in &losses {
        let taken = lost.overflowed + lost.crashed;
        assert!(lost.incomplete <= (PIECES_MAX - 1) * taken, "{lost:?}");
        // Each datagram held a sub-event, or a piece of one; and no more than fit into its bytes.
        assert!(
            taken + lost.incomplete <= PIECES_MAX * lost.subevents
                && lost.subevents * SUBEVENT_BYTES_MIN <= lost.bytes,
            "{lost:?}"
        );
    }
    // Whatever is missing in the events was lost on its way: the builder gave up nothing that came.
    let missing: u64 = events
        .iter()
        .map(|event| losses.len() as u64 - event.subs.len() as u64)
        .sum();
    assert!(missing <= lost, "{missing} missing, {lost} lost");
    for key in json["drops"].as_object().unwrap().keys() {
        let known = ["socket.buffer_full", "receiver.receiver_crash"];
        assert!(
            known
                .iter()
                .chain(&INCOMPLETE)
                .any(|name| key.starts_with(&format!("{name}."))),
            "{key} is no consequence of a kill: {}",
            json["drops"]
        );
    }
    assert_eq!(json["verified"]["payload_mismatches"], 0);
}

/// `KILLS` kills of a `demo` with `args`, each stage half of them, and then its end; gives what it came to.
fn drill(args: &[&str]) -> Value {
    let mut random = Random::seeded();
    let folder = TempDir::new().unwrap();
    let sources = SOURCES.to_string();
    let fixed = ["--sources", &sources, "--duration", "10m"];
    let run = start(&mut demo(folder.path(), &[&fixed[..], args].concat()));
    run.wait_stages(&["generator", "receiver", "builder"]);
    for turn in 0..KILLS {
        // At any moment, from the first instant of a stage's life on.
        std::thread::sleep(Duration::from_millis(random.below(760)));
        kill(&run, if turn % 2 == 0 { "builder" } else { "receiver" });
    }
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    let restarts = |stage: &str| json["restarts"][stage].as_u64().unwrap();
    assert!(
        restarts("builder") >= 10 && restarts("receiver") >= 10,
        "{}",
        json["restarts"]
    );
    assert_once(&json, folder.path());
    json
}

#[test]
fn twenty_random_kills_lose_nothing_without_a_name() {
    drill(&["--rate", "2000"]);
}

#[test]
fn twenty_random_kills_with_small_datagrams_and_huge_ones() {
    drill(&["--rate", "1000", "--water-mark", "0", "--huge-every", "50"]);
}

/// With room for about 20 ms of datagrams a socket overflows while there is no receiver.
#[test]
fn twenty_random_kills_with_sockets_that_overflow() {
    let json = drill(&[
        "--rate",
        "2000",
        "--water-mark",
        "0",
        "--socket-buffer",
        "16Ki",
    ]);
    assert!(
        dropped_in_all(&json, "socket.buffer_full") > 0,
        "no socket overflowed: {json}"
    );
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
    rig::wait_items(folder.path(), ("sink", "events"), "outgoing", 100);
    signal("KILL", generator);
    let ended = run.end();
    let json = ended.json();
    assert_eq!(json["condition"], "tainted", "{json}");
    assert!(rig::taint(&json).contains("generator died"), "{json}");
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
    rig::wait_items(&out, ("sink", "events"), "outgoing", 1001);
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
    let ledger = std::fs::read_link(out.join("ledger"));
    start(&mut demo(
        &out,
        &["--sources", "3", "--rate", "1000", "--duration", "300ms"],
    ))
    .end()
    .json_of(0);
    if let Ok(ledger) = ledger {
        assert!(!ledger.exists(), "{} was left behind", ledger.display());
    }
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

/// The supervisor dies between the order to stop and the end of the builder, and one sink has something to report to it.
#[test]
fn a_report_that_nobody_hears_costs_the_other_sinks_nothing() {
    let folder = TempDir::new().unwrap();
    let base_port = rig::free_ports(2);
    // Nobody listens at the second port: the sink `tcp` gives up after 2 s, and says so.
    let mover = format!("tcp://127.0.0.1:{}", base_port + 1);
    let args = ["--sink", &mover, "--sink", "file", "--mover-timeout", "2s"];
    let mut command = rig::evb(folder.path(), 1, base_port, &args);
    let (hold, told) = rig::held_up(folder.path(), "file2");
    let run = start(command.env("FOREBAY_STALL", told));
    let builder = run.wait_stages(&["receiver", "builder"])["builder"];
    Sender::new(base_port).send(0, &message(0, 0..100, 500));
    rig::wait_items(folder.path(), ("offer", "events"), "outgoing", 200);
    signal("INT", run.pid());
    rig::wait_for("the end of the receiver", || {
        (!run.stages().contains_key("receiver")).then_some(())
    });
    signal("KILL", run.pid());
    rig::wait_for("the end of the other sink", || {
        let verdict = audit_json(folder.path());
        let lines = verdict["balance"]["accounts"].as_array().unwrap();
        let tcp = lines
            .iter()
            .find(|it| it["place"] == "sink" && it["owner"] == "tcp");
        let dropped = tcp.unwrap()["dropped"].as_array().unwrap().iter();
        let lost = dropped.filter_map(|it| it["items"].as_u64()).sum::<u64>();
        (lost == 100).then_some(())
    });
    std::fs::remove_file(hold).unwrap();
    rig::wait_for("the end of the builder", || {
        (!is_alive(builder)).then_some(())
    });
    let file = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|kind| kind == "hld"));
    let file = file.expect("the sink that was busy has written its file");
    assert_eq!(hld::events(&[&file]).len(), 100);
    let verdict = audit_json(folder.path());
    assert_eq!(account_items(&verdict, ("sink", "events"), "outgoing"), 100);
    let says = audit(folder.path());
    assert_eq!(says.code(), Some(0), "{}", says.stdout);
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
        (&"tainted".into(), &"stage_lost".into()),
        "{json}"
    );
    assert!(
        rig::taint(&json).contains("the builder died 10 times at once"),
        "{json}"
    );
    assert_closed(&json, folder.path());
}
