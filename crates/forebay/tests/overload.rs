//! More is sent than the receiver can take: lost = sent − received, each loss with its name.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::time::Duration;

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
        "1500ms",
        "--water-mark",
        "0",
        "--socket-buffer",
        "16Ki",
    ];
    args.extend(gro.then_some("--gro"));
    let run = start(&mut demo(folder.path(), &args));
    let receiver = run.wait_stages(&["generator", "receiver", "builder"])["receiver"];
    std::thread::sleep(Duration::from_millis(300));
    signal("STOP", receiver);
    std::thread::sleep(Duration::from_millis(400));
    signal("CONT", receiver);
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
    std::thread::sleep(Duration::from_millis(200));
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
            .contains("keep no books: unknown")
    );
    assert_closed(&json, folder.path());
}

#[test]
fn a_full_queue_holds_the_data_in_the_socket_until_that_is_full() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--sources",
        "2",
        "--rate",
        "4000",
        "--duration",
        "1500ms",
        "--water-mark",
        "0",
        "--socket-buffer",
        "16Ki",
    ];
    let run = start(&mut demo(folder.path(), &args));
    let builder = run.wait_stages(&["generator", "receiver", "builder"])["builder"];
    std::thread::sleep(Duration::from_millis(200));
    signal("STOP", builder);
    std::thread::sleep(Duration::from_millis(700));
    signal("CONT", builder);
    let json = run.end().json_of(0);
    assert_eq!(
        dropped_in_all(&json, "receiver.ring_full"),
        0,
        "the default is to hold: {json}"
    );
    assert_closed(&json, folder.path());
}
