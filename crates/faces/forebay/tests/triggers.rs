//! What a run says of triggers and sub-events that never came, held against senders of our own: they know what they sent.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::path::Path;
use std::time::{Duration, Instant};

use forebay_wire::hadtu::{ByteOrder, MessageWriter};
use forebay_wire::subevent::SubEventRepr;
use rig::sender::{Sender, address, message};
use rig::{
    Run, assert_closed, audit, audit_json, dropped, dropped_in_all, evb, files, forebay,
    free_ports, hld, number, signal, start, wait_for,
};
use serde_json::Value;
use tempfile::TempDir;

/// Triggers of the test, and ranges of them that nobody sends.
const TRIGGERS: u32 = 500;
const HOLES: [(u32, u32); 3] = [(100, 149), (300, 348), (420, 420)];

fn is_sent(trigger: u32) -> bool {
    !HOLES
        .iter()
        .any(|(first, last)| (*first..=*last).contains(&trigger))
}

/// Sends `triggers` from both sources, each message in turn.
fn send_both(sender: &mut Sender, triggers: std::ops::Range<u32>) {
    let sent: Vec<u32> = triggers.filter(|trigger| is_sent(*trigger)).collect();
    for some in sent.chunks(10) {
        for source in 0..2 {
            // A run that starts late: what was before the first trigger is nobody's to say.
            let message = message(source, some.iter().map(|trigger| 7_000 + trigger), 40);
            sender.send_message(source, &message);
        }
    }
}

/// Waits until the run in `out` has built so many events.
fn wait_built(out: &Path, events: u64) {
    wait_for("events", || {
        let audit = audit_json(out);
        let accounts = audit["balance"]["accounts"].as_array()?.iter();
        let built = accounts.filter(|line| line["place"] == "events");
        let built: u64 = built
            .filter_map(|line| line["outgoing"]["items"].as_u64())
            .sum();
        (built >= events).then_some(())
    });
}

fn end(run: Run) -> rig::Ended {
    signal("INT", run.pid());
    run.end()
}

#[test]
fn triggers_that_no_source_sent_are_missing_everywhere() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(2);
    let run = start(&mut evb(folder.path(), 2, base_port, &[]));
    let stages = run.wait_stages(&["receiver", "builder"]);
    let mut sender = Sender::new(base_port);
    let (before, all) = (201_u64, 400_u64);
    send_both(&mut sender, 0..251);
    wait_built(folder.path(), before);
    // The counts are the ledger's, and not the process's.
    assert!(signal("KILL", stages["builder"]));
    send_both(&mut sender, 251..TRIGGERS);
    wait_built(folder.path(), all);
    let json = end(run).json_of(0);
    assert_eq!(number(&json["restarts"], "builder"), 1, "{json}");
    assert_eq!(
        (
            number(&json, "events_built"),
            number(&json, "events_partial")
        ),
        (all, 0),
        "{json}"
    );
    assert_eq!(
        (
            number(&json, "triggers_span"),
            number(&json, "triggers_missing")
        ),
        (500, 100),
        "{json}"
    );
    assert_eq!(number(&json, "subevents_missing"), 0, "{json}");
    assert_eq!(
        (&json["efficiency"], &json["build_efficiency"]),
        (&0.8.into(), &1.0.into())
    );
    let ranges = HOLES.map(|(first, last)| [7_000 + first, 7_000 + last]);
    assert_eq!(json["triggers_missing_ranges"], serde_json::json!(ranges));
    assert_closed(&json, folder.path());
    told_by_the_others(folder.path(), &json);
}

/// The same numbers from every other program that reads the run.
fn told_by_the_others(out: &Path, json: &Value) {
    let record: Value =
        serde_json::from_slice(&std::fs::read(out.join("run.json")).unwrap()).unwrap();
    assert_eq!(record["triggers_missing"], 100);
    assert_eq!(
        record["losses"][1]["records"][0]["cause"],
        "seen_by_no_source"
    );
    let audited = audit_json(out);
    assert_eq!(audited["triggers"]["triggers_missing"], 100);
    assert_eq!(
        audited["triggers"]["triggers_missing_ranges"],
        json["triggers_missing_ranges"]
    );
    let text = audit(out).stdout;
    assert!(
        text.contains("efficiency 80.00 %: 400 complete events of 500 triggers"),
        "{text}"
    );
    assert!(text.contains("7100 to 7149, 7300 to 7348, 7420"), "{text}");
    let last = text.trim_end().lines().last().unwrap();
    assert!(
        last.starts_with("Missing: 100 of 500 triggers (20.00 %)"),
        "{text}"
    );
    assert!(
        last.contains("All of it is accounted for: the books close"),
        "{text}"
    );
    let page = start(forebay().args(["audit", "--format", "prometheus"]).arg(out)).end();
    assert!(
        page.stdout
            .contains("\nforebay_triggers_missing{group=\"builder\",owner=\"\"} 100.0"),
        "{}",
        page.stdout
    );
    assert!(
        page.stdout
            .contains("\nforebay_triggers_span_total{group=\"builder\",owner=\"\"} 500.0"),
        "{}",
        page.stdout
    );
    let top = start(
        forebay()
            .args(["top", "--once", "--format", "json"])
            .arg(out),
    )
    .end();
    assert_eq!(top.json_of(0)["events"]["triggers_missing"], 100);
    for file in files(json) {
        let found = start(forebay().args(["inspect", "--format", "json"]).arg(file)).end();
        let found = found.json_of(0);
        assert_eq!(
            (&found["triggers_missing"], &found["sequence_jumps"]),
            (&100.into(), &0.into())
        );
        assert_eq!(
            found["triggers_missing_ranges"],
            json["triggers_missing_ranges"]
        );
    }
}

/// A message of one sub-event with a tag, a decoding word and a number of its own.
fn one(source: u16, trigger: u32, tag: u32, decoding: u32) -> Vec<u8> {
    let mut writer = MessageWriter::new(ByteOrder::Big);
    let sub = SubEventRepr {
        id: address(source),
        trigger_word: trigger << 8 | tag,
        decoding,
        ..SubEventRepr::default()
    };
    writer.push(&sub, &[7; 24]).unwrap();
    writer.finish().to_vec()
}

/// Sources 0 and 1 are sound (of source 0 some sub-events have a decoding word that nobody can follow), source 2 sends wrong tags, source
/// 3 wrong numbers, source 4 falls silent, sends some late and some never.
#[test]
fn what_came_and_was_dropped_is_told_once() {
    const SOUND: u32 = 0x0002_0001;
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(5);
    let run = start(&mut evb(
        folder.path(),
        5,
        base_port,
        &["--timeout", "100ms"],
    ));
    run.wait_stages(&["receiver", "builder"]);
    let mut sender = Sender::new(base_port);
    let mut sent = [0_u64; 5];
    let mut send = |source: u16, trigger: u32| {
        let (number, tag, decoding) = match (source, trigger) {
            (0, 3 | 4) => (trigger, 0x5a, 0x0009_0001),
            (2, 10..15) => (trigger, 0x77, SOUND),
            (3, 20 | 25) => (trigger + (1 << 20), 0x5a, SOUND),
            _ => (trigger, 0x5a, SOUND),
        };
        sender.send(source, &one(source, number, tag, decoding));
        sent[usize::from(source)] += 1;
    };
    for trigger in 0..60 {
        (0..5)
            .filter(|source| *source < 4 || trigger < 30)
            .for_each(|source| send(source, trigger));
    }
    wait_built(folder.path(), 60);
    (30..50).for_each(|trigger| send(4, trigger));
    (60..100).for_each(|trigger| (0..5).for_each(|source| send(source, trigger)));
    wait_built(folder.path(), 100);
    let json = end(run).json_of(0);
    let events = hld::events(&files(&json));
    for source in 0..5 {
        let built = events.iter().flat_map(|event| &event.subs);
        let built = built.filter(|sub| sub.0 == address(source)).count() as u64;
        let owner = format!("source{source}");
        let named: u64 = [
            "tag_mismatch",
            "out_of_window",
            "late",
            "duplicate",
            "broken_subevent",
        ]
        .iter()
        .map(|reason| dropped(&json, &format!("builder.{reason}.{owner}")))
        .sum();
        assert_eq!(built + named, sent[usize::from(source)], "{owner}: {json}");
    }
    let named = |reason: &str| dropped_in_all(&json, &format!("builder.{reason}"));
    let told = (named("tag_mismatch"), named("out_of_window"), named("late"));
    assert_eq!(told, (5, 2, 20), "{json}");
    assert_eq!(
        number(&json, "subevents_missing"),
        10,
        "50 to 59 of source 4: {json}"
    );
    assert_eq!(
        (
            number(&json, "triggers_span"),
            number(&json, "triggers_missing")
        ),
        (100, 0)
    );
    assert_eq!(number(&json, "odd_decoding"), 2, "{json}");
    assert_closed(&json, folder.path());
    let found = start(
        forebay()
            .args(["inspect", "--format", "json"])
            .arg(&files(&json)[0]),
    )
    .end();
    assert_eq!(found.json_of(0)["odd_decoding_subevents"], 2);
}

/// The last line says first what is lost; a run that saw nothing says so.
#[test]
fn the_last_line_says_first_what_is_not_whole() {
    for (triggers, wanted) in [
        (0..0, "Nothing came"),
        (0..9, "Incomplete: 9 of 9 triggers (100.00 %)"),
    ] {
        let folder = TempDir::new().unwrap();
        let base_port = free_ports(2).to_string();
        let mut command = forebay();
        command.args([
            "evb",
            "--sources",
            "2",
            "--base-port",
            &base_port,
            "--timeout",
            "50ms",
            "--out",
        ]);
        let run = start(command.arg(folder.path()));
        run.wait_stages(&["receiver", "builder"]);
        let mut sender = Sender::new(base_port.parse().unwrap());
        let events = u64::from(triggers.end);
        if events > 0 {
            sender.send_message(0, &message(0, triggers, 40));
            wait_built(folder.path(), events);
        }
        let ended = end(run);
        let last = ended.stdout.trim_end().lines().last().unwrap().to_owned();
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        assert!(last.starts_with(wanted), "{}", ended.stdout);
        assert!(
            last.contains("All of it is accounted for: the books close"),
            "{}",
            ended.stdout
        );
        assert!(!ended.stdout.contains(": complete"), "{}", ended.stdout);
    }
}

const LIFE_EVENTS: u64 = 300;

/// Five senders start, give 300 triggers from `first` on, and end.
fn live_once(base_port: u16, first: u32) {
    let mut command = forebay();
    command.args(["emulate", "hades", "--group", "5:100", "--rate", "2000"]);
    command.args(["--water-mark", "500", "--format", "json"]);
    command.args(["--events", &LIFE_EVENTS.to_string()]);
    command.args(["--first-trigger", &first.to_string()]);
    command.args(["--base-port", &base_port.to_string()]);
    let sent = start(&mut command).end().json_of(0);
    assert_eq!(number(&sent, "events_sent"), LIFE_EVENTS);
}

/// Senders that are started again, longer after the last ones than the time-out: they count from 0, which the builder remembers.
#[test]
fn senders_started_again_lose_nothing() {
    const LIVES: u64 = 3;
    const EVENTS: u64 = LIFE_EVENTS;
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(5);
    let run = start(&mut evb(folder.path(), 5, base_port, &[]));
    run.wait_stages(&["receiver", "builder"]);
    for life in 1..=LIVES {
        live_once(base_port, 0);
        wait_built(folder.path(), life * EVENTS);
        let ended = Instant::now();
        wait_for("a pause", || {
            (ended.elapsed() > Duration::from_millis(1_200)).then_some(())
        });
    }
    let json = end(run).json_of(0);
    let built = (
        number(&json, "events_built"),
        number(&json, "events_partial"),
    );
    assert_eq!(built, (LIVES * EVENTS, 0), "{json}");
    let events = hld::events(&files(&json));
    let triggers = events.iter().map(|event| event.subs[0].1);
    let expected = (0..LIVES).flat_map(|_| 0..EVENTS as u32);
    assert!(triggers.eq(expected));
    assert_eq!(number(&json, "resynchronised"), LIVES - 1);
    assert_eq!(number(&json, "subevents_repeated"), 0);
    assert_closed(&json, folder.path());
    let told = audit(folder.path()).stdout;
    assert!(told.contains("numbers began anew 2 times"), "{told}");
}

/// The same at a number that no restart begins at: what is not known as a restart is said by name.
#[test]
fn senders_that_repeat_triggers_are_said() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(5);
    let run = start(&mut evb(folder.path(), 5, base_port, &[]));
    run.wait_stages(&["receiver", "builder"]);
    live_once(base_port, 6_000);
    wait_built(folder.path(), LIFE_EVENTS);
    live_once(base_port, 6_000);
    live_once(base_port, 7_000);
    wait_built(folder.path(), 2 * LIFE_EVENTS);
    let json = end(run).json_of(0);
    let repeated = 5 * LIFE_EVENTS;
    let keys = ["resynchronised", "sources_repeating", "subevents_repeated"];
    assert_eq!(keys.map(|key| number(&json, key)), [0, 5, repeated]);
    assert_eq!(
        dropped_in_all(&json, "builder.duplicate"),
        repeated,
        "{json}"
    );
    let told = audit(folder.path()).stdout;
    let said =
        format!("5 of 5 sources sent triggers that were built already ({repeated} subevents");
    assert!(told.contains(&said), "{told}");
}
