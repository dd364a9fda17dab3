//! More is sent than the receiver can take: lost = sent − received, each loss with its name.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::path::Path;

use rig::{
    account_items, assert_closed, audit, audit_json, demo, dropped, dropped_in_all, evb,
    free_ports, number, sender, signal, start,
};
use serde_json::Value;
use tempfile::TempDir;

fn link<'a>(verdict: &'a Value, place: &str, owner: &str) -> &'a Value {
    let links = verdict["balance"]["links"].as_array().unwrap();
    links
        .iter()
        .find(|line| line["place"] == place && line["owner"] == owner)
        .unwrap()
}

/// A `demo` with small socket buffers whose receiver stands still for a moment.
fn overloaded(gro: bool) -> (TempDir, Value, Value) {
    let folder = TempDir::new().unwrap();
    let mut args = vec![
        "--sources",
        "4",
        "--rate",
        "4000",
        "--duration",
        "10m",
        "--water-mark",
        "0",
        "--socket-buffer",
        "16Ki",
    ];
    args.extend(gro.then_some("--gro"));
    let run = start(&mut demo(folder.path(), &args));
    let receiver = run.wait_stages(&["generator", "receiver", "builder"])["receiver"];
    let out = folder.path();
    let sent = || account_items(&audit_json(out), ("generator", "datagrams"), "outgoing");
    rig::wait_items(out, ("receiver", "datagrams"), "incoming", 1000);
    signal("STOP", receiver);
    // Of each source some hundred more than a socket's buffer takes.
    rig::wait_items(out, ("generator", "datagrams"), "outgoing", sent() + 4000);
    signal("CONT", receiver);
    let taken = account_items(&audit_json(out), ("receiver", "datagrams"), "incoming");
    rig::wait_items(out, ("receiver", "datagrams"), "incoming", taken + 1000);
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    let verdict = audit_json(folder.path());
    (folder, json, verdict)
}

#[test]
fn lost_is_sent_less_received_for_every_source() {
    let (folder, json, verdict) = overloaded(false);
    for source in 0..4 {
        let line = link(&verdict, "socket", &format!("source{source}"));
        let lost = number(&line["sent"], "items") - number(&line["received"], "items");
        assert!(lost > 500, "source{source} lost {lost}");
        assert_eq!(
            dropped(&json, &format!("socket.buffer_full.source{source}")),
            lost
        );
        assert_eq!(line["dropped"][0]["items"], line["dropped"][0]["items_max"]);
    }
    assert_closed(&json, folder.path());
}

#[test]
fn merging_makes_the_count_a_bound_and_the_run_says_so() {
    let (folder, json, verdict) = overloaded(true);
    assert!(
        json["warnings"][0]
            .as_str()
            .unwrap()
            .contains("lower bound"),
        "{json}"
    );
    for source in 0..4 {
        let line = link(&verdict, "socket", &format!("source{source}"));
        let lost = number(&line["sent"], "items") - number(&line["received"], "items");
        let (least, most) = (
            number(&line["dropped"][0], "items"),
            number(&line["dropped"][0], "items_max"),
        );
        assert!(
            least > 0 && least <= lost && lost <= most,
            "{least} to {most}, but {lost} are lost"
        );
    }
    assert!(audit(folder.path()).stdout.contains("at least"));
    assert_closed(&json, folder.path());
}

#[test]
fn a_foreign_sender_that_is_too_fast_is_lost_by_name() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(1);
    let run = start(&mut evb(
        folder.path(),
        1,
        base_port,
        &["--socket-buffer", "8Ki"],
    ));
    let receiver = run.wait_stages(&["receiver", "builder"])["receiver"];
    rig::wait_for("readiness", || {
        (rig::audit_json(folder.path())["condition"] == "running").then_some(())
    });
    signal("STOP", receiver);
    let mut sender = sender::Sender::new(base_port);
    for trigger in 0..3000 {
        sender.send(0, &sender::message(0, [trigger], 40));
    }
    signal("CONT", receiver);
    // What the kernel kept is taken in and drawn into the books before the end.
    rig::wait_arrived(folder.path(), 3000);
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    let received = account_items(
        &audit_json(folder.path()),
        ("receiver", "datagrams"),
        "incoming",
    );
    assert!(received < 3000);
    assert_eq!(
        dropped(&json, "socket.buffer_full.source0"),
        3000 - received,
        "{}",
        json["drops"]
    );
    assert!(
        audit(folder.path())
            .stdout
            .contains("1 sender keeps no books: unknown")
    );
    assert_closed(&json, folder.path());
}

/// A run from a file: one source whose queue is the smallest that there is, a socket buffer of `socket_bytes`, no file.
fn small_queue(out: &Path, base_port: u16, socket_bytes: u32) -> rig::Run {
    let path = out.join("chain.toml");
    let text = format!(
        "[run]\ndirectory = \"run\"\n[receiver]\nsocket_buffer_bytes = {socket_bytes}\nmessage_bytes_max = 16384\n\
         [[sources]]\nname = \"board\"\nport = {base_port}\nqueue_bytes = 131072\n[[sinks]]\nkind = \"null\"\n"
    );
    std::fs::write(&path, text).unwrap();
    let run = out.join("run");
    let mut command = rig::forebay();
    command.args(["evb", "--format", "json", "--out"]);
    start(command.arg(&run).arg(&path))
}

#[test]
fn a_full_queue_holds_the_data_in_the_socket_until_that_is_full() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(1);
    let run = small_queue(folder.path(), base_port, 65_536);
    let out = folder.path().join("run");
    let builder = run.wait_stages(&["receiver", "builder"])["builder"];
    rig::wait_for("readiness", || {
        (rig::audit_json(&out)["condition"] == "running").then_some(())
    });
    signal("STOP", builder);
    let mut sender = sender::Sender::new(base_port);
    // Far more than the queue and the socket's buffer together: 4 MB.
    for trigger in 0..1000 {
        sender.send(0, &sender::message(0, [trigger], 4000));
    }
    // The queue is full, and nothing is lost for that; the socket's buffer is full, and that is lost.
    let held = rig::wait_for("a full queue and a full socket", || {
        let verdict = audit_json(&out);
        let socket = link(&verdict, "socket", "board");
        // The list is empty until the first drop is in the books.
        let lost = socket["dropped"][0]["items"].as_u64().unwrap_or(0);
        let taken = account_items(&verdict, ("receiver", "datagrams"), "incoming");
        (lost > 500).then_some(taken)
    });
    assert!(
        (12..=32).contains(&held),
        "a queue of 128 KiB holds {held} messages of 4 kB"
    );
    signal("CONT", builder);
    rig::wait_arrived(&out, 1000);
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    let received = account_items(&audit_json(&out), ("receiver", "datagrams"), "incoming");
    assert!(
        received > held,
        "what the socket held came when there was room: {received}"
    );
    assert_eq!(dropped(&json, "socket.buffer_full.board"), 1000 - received);
    assert_eq!(
        dropped_in_all(&json, "receiver.ring_full"),
        0,
        "the default is to hold: {json}"
    );
    assert_closed(&json, &out);
}

/// Sleeps of the receiver so far.
fn gathers(out: &Path) -> u64 {
    let text = start(
        rig::forebay()
            .args(["audit", "--format", "prometheus"])
            .arg(out),
    )
    .end()
    .stdout;
    let line = text
        .lines()
        .find(|line| line.starts_with("forebay_receiver_gathers_total"))
        .unwrap_or_else(|| panic!("{text}"));
    let value: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    value as u64
}

#[test]
fn a_receiver_does_not_pause_while_a_socket_has_more_than_a_turn_takes() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(1);
    let run = start(&mut evb(folder.path(), 1, base_port, &["--sink", "null"]));
    let receiver = run.wait_stages(&["receiver", "builder"])["receiver"];
    rig::wait_for("readiness", || {
        (rig::audit_json(folder.path())["condition"] == "running").then_some(())
    });
    signal("STOP", receiver);
    let mut sender = sender::Sender::new(base_port);
    for trigger in 0..3000 {
        sender.send(0, &sender::message(0, [trigger], 40));
    }
    let before = gathers(folder.path());
    signal("CONT", receiver);
    let received = |verdict: &Value| account_items(verdict, ("receiver", "datagrams"), "incoming");
    rig::wait_arrived(folder.path(), 3000);
    let all = received(&audit_json(folder.path()));
    let (pauses, turns) = (gathers(folder.path()) - before, all / 64);
    // A small socket buffer (without privilege) keeps few; with a large one it is 46 turns.
    assert!(
        pauses <= 2 + turns / 8,
        "{pauses} pauses in {turns} full turns"
    );
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    assert_closed(&json, folder.path());
}
