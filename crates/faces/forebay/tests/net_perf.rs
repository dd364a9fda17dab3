//! `forebay net perf` with a publisher and its subscribers: both sides count the same copies, and each subscriber gets its own tags.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use rig::{Run, forebay, start, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn side(address: &str, role: &str, arguments: &[&str]) -> Run {
    start(
        forebay()
            .args(["net", "perf", address, "--format", "json", "--role", role])
            .args(["--message-bytes", "100", "--buffer-bytes", "8Ki"])
            .args(["--buffer-count", "8"])
            .args(arguments),
    )
}

fn count(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key}: {of}"))
}

/// What the publisher and the process of its subscribers say.
fn both(backend: &str, name: &str, arguments: &[&str]) -> (Value, Value) {
    let address = match backend {
        "shm" => format!("shm://perf-{name}-{}", std::process::id()),
        _ => format!(
            "tcp://127.{}.{}.{}:7100",
            1 + (std::process::id() >> 8) % 250,
            std::process::id() % 256,
            name.len()
        ),
    };
    let publisher = side(
        &address,
        "pub",
        &[arguments, &["--duration", "300ms"]].concat(),
    );
    let subscribers = side(
        &address,
        "sub",
        &[arguments, &["--duration", "20s"]].concat(),
    );
    let ends = [publisher.end(), subscribers.end()];
    let [published, received] = ends.map(|end| end.json_of(0));
    for side in [&published, &received] {
        for key in ["dropped", "unconfirmed", "residual_items", "residual_bytes"] {
            assert_eq!(count(side, key), 0, "{key}: {side}");
        }
        assert_eq!(side["end_point"]["missing_at_peers"], 0, "{side}");
        assert_eq!(count(side, "bytes"), 100 * count(side, "messages"));
        assert!(side["message_rate_hz"].as_f64().unwrap() > 0.0, "{side}");
    }
    (published, received)
}

#[test]
fn every_subscriber_gets_a_copy_of_every_message() {
    for backend in ["tcp", "shm"] {
        let arguments = ["--tags", "100", "--subscribers", "5"];
        let (published, received) = both(backend, "copies", &arguments);
        let messages = count(&published, "messages");
        assert!(messages > 0, "{published}");
        assert_eq!(count(&received, "messages"), 5 * messages);
        assert_eq!(count(&received["end_point"], "messages"), 5 * messages);
        let connections = received["end_point"]["connections"].as_array().unwrap();
        let each: Vec<u64> = connections
            .iter()
            .map(|one| count(one, "messages_received"))
            .collect();
        assert_eq!(each, [messages; 5]);
    }
}

#[test]
fn tags_that_are_dealt_out_come_once() {
    let arguments = ["--tags", "7", "--subscribers", "3", "--deal-tags"];
    let (published, received) = both("tcp", "dealt", &arguments);
    let messages = count(&published, "messages");
    assert_eq!(count(&received, "messages"), messages);
    let connections = received["end_point"]["connections"].as_array().unwrap();
    // Of seven tags in turn, the first subscriber has the first, the fourth and the seventh.
    for (number, connection) in connections.iter().enumerate() {
        let tags = (number as u64..7).step_by(3);
        let expected: u64 = tags
            .map(|tag| messages / 7 + u64::from(messages % 7 > tag))
            .sum();
        assert_eq!(count(connection, "messages_received"), expected);
    }
}

#[test]
fn a_measurement_whose_connection_is_lost_is_no_result() {
    let address = format!("shm://perf-cut-{}", std::process::id());
    let receiver = side(&address, "recv", &["--duration", "20s"]);
    let sender = side(&address, "send", &["--duration", "20s"]);
    // Something is on its way as soon as the sender uses its processor.
    wait_for("traffic", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", sender.pid())).ok()?;
        let user: u64 = stat
            .rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(11)?
            .parse()
            .ok()?;
        (user >= 10).then_some(())
    });
    kill_process(Pid::from_raw(sender.pid() as i32).unwrap(), Signal::KILL).unwrap();
    let ended = receiver.end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("cut off") && ended.stderr.contains("connection_lost"),
        "{}",
        ended.stderr
    );
    let told: Value = serde_json::from_str(ended.stdout.trim()).unwrap();
    assert_eq!(count(&told, "residual_items"), 0, "{told}");
}
