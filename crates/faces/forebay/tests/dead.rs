//! One dead source of ninety costs the others nothing, over real sockets: the books of the builder against those of the emulator.
//!
//! What a user met was 4,000 triggers in a second, a water mark of 32 KiB and queues of 4 MiB. Here all of them are an eighth, so that a
//! loaded host keeps up: water marks and full queues come in the same rhythm.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::collections::BTreeMap;
use std::path::Path;

use rig::{
    assert_closed, audit_json, dropped_in_all, forebay, free_ports, number, signal, start, wait_for,
};
use serde_json::Value;
use tempfile::TempDir;

const SOURCES: u16 = 90;
const DEAD: &str = "source17";

/// Sub-events that left `place`, by owner.
fn outgoing(sheet: &Value, place: &str) -> BTreeMap<String, u64> {
    let lines = sheet["balance"]["accounts"].as_array().unwrap().iter();
    let own = lines.filter(|line| line["place"] == place && line["unit"] == "subevents");
    own.map(|line| {
        let owner = line["owner"].as_str().unwrap().to_owned();
        (owner, line["outgoing"]["items"].as_u64().unwrap())
    })
    .collect()
}

/// How often a wait was ended for a full queue.
fn full_queues(out: &Path) -> f64 {
    let mut command = forebay();
    let page = start(command.args(["audit", "--format", "prometheus"]).arg(out)).end();
    let (_, rest) = page
        .stdout
        .split_once("\nforebay_waits_ended_full_queue_total{group=\"builder\",owner=\"\"} ")
        .unwrap();
    rest.lines().next().unwrap().parse().unwrap()
}

fn dies_at(from: u64) {
    let folder = TempDir::new().unwrap();
    let [to, sender] = ["run", "sender"].map(|name| folder.path().join(name));
    let base_port = free_ports(SOURCES);
    let text = format!(
        "[run]\ndirectory = \"run\"\n[receiver]\nmessage_bytes_max = 65536\nqueue_bytes = 524288\n\
         [[sources]]\nname = \"source\"\ncount = {SOURCES}\nbase_port = {base_port}\n[[sinks]]\nkind = \"null\"\n"
    );
    let file = folder.path().join("chain.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = forebay();
    command.args(["evb", "--format", "json", "--out"]);
    let run = start(command.arg(&to).arg(&file));
    run.wait_stages(&["receiver", "builder"]);
    let triggers = from + 1_000;
    let mut command = forebay();
    command.args(["emulate", "hades", "--group", "60:116", "20:338", "10:1170"]);
    command.args(["--rate", "500", "--water-mark", "4096", "--duration", "60s"]);
    command.args(["--events", &triggers.to_string()]);
    command.args(["--fault", &format!("17:silent,from={from}")]);
    command.args(["--base-port", &base_port.to_string()]);
    let sent = start(command.args(["--format", "json", "--out"]).arg(&sender)).end();
    assert_eq!(number(&sent.json_of(0), "events_sent"), triggers);
    wait_for("the last event", || {
        (audit_json(&to)["triggers"]["triggers_span"] == triggers).then_some(())
    });
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    assert!(
        full_queues(&to) > 0.0,
        "no queue was full, and the test shows nothing: {json}"
    );
    assert_eq!(dropped_in_all(&json, "builder.late"), 0, "{json}");
    assert_eq!(json["drops"], serde_json::json!({}), "{json}");
    let (sent, built) = (
        outgoing(&audit_json(&sender), "generator"),
        outgoing(&audit_json(&to), "builder"),
    );
    assert_eq!(sent.len(), usize::from(SOURCES));
    assert_eq!(sent, built, "what was sent is in an event");
    assert!(
        sent.iter()
            .all(|(owner, items)| (owner == DEAD) == (*items < triggers))
    );
    assert_eq!(
        number(&json, "events_partial"),
        triggers - sent[DEAD],
        "{json}"
    );
    assert_closed(&json, &to);
}

#[test]
fn a_dead_source_between_two_water_marks_costs_the_others_nothing() {
    dies_at(1_012);
}

#[test]
fn a_dead_source_costs_the_others_nothing() {
    dies_at(1_500);
}
