//! Messaging between processes, over every backend: what was sent came, or is lost by name, and both ends close their books.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one that is skipped says why"
)]

mod rig;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rig::{Ended, Run, forebay, start, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The same tests for every backend.
macro_rules! on_every_backend {
    ($($test:ident),* $(,)?) => {
        mod over_tcp {
            $(#[test] fn $test() { super::$test("tcp"); })*
        }
        mod over_tls {
            $(#[test] fn $test() { super::$test("tls"); })*
        }
        mod over_shm {
            $(#[test] fn $test() { super::$test("shm"); })*
        }
        mod over_fabric_tcp {
            $(#[test] fn $test() { super::with_libfabric(super::$test, "fabric+tcp"); })*
        }
    };
}

on_every_backend!(
    a_file_goes_through,
    a_subscriber_gets_its_tags,
    who_comes_first_waits_for_the_other,
    a_publisher_that_comes_again_is_found,
    both_sides_measure_the_same,
    round_trips_are_told_by_both_sides,
    interrupted_on_either_side_the_books_close,
    a_killed_sender_costs_nothing_that_came,
    a_killed_receiver_leaves_its_sender_with_closed_books,
    a_message_longer_than_a_buffer_is_refused,
    an_address_in_use_is_named,
    a_leak_is_found_where_it_is,
    a_subscriber_that_never_reads_costs_itself,
    one_that_is_waited_for_is_waited_for_so_long_and_no_longer,
);

/// Asks for the library itself: an error of our own must not turn the tests off.
fn has_libfabric() -> bool {
    let debian = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let others = ["/usr/lib64", "/usr/local/lib"].map(PathBuf::from);
    let folders = debian.map(|entry| entry.path()).chain(others);
    folders
        .map(|folder| folder.join("libfabric.so.1"))
        .any(|file| file.exists())
}

/// Tests over libfabric need it installed, and say so where it is not.
fn with_libfabric(test: fn(&str), backend: &str) {
    if has_libfabric() {
        test(backend);
    } else {
        forebay_testing::skip!("libfabric is not installed (Debian package libfabric1)");
    }
}

/// Addresses with this port are spoken to over TLS.
const TLS_PORT: &str = ":7143";

/// This process's host of a number on the loopback network: no port has to be free.
fn host(number: u32) -> String {
    let pid = std::process::id();
    format!("127.{}.{}.{number}", 1 + (pid >> 8) % 250, pid % 256)
}

/// Certificates for all of them, as options.
fn certificates() -> &'static [String] {
    static MADE: LazyLock<Vec<String>> = LazyLock::new(|| {
        let hosts = (1..=250).map(host).collect();
        rig::certificates::make(&rig::certificates::directory("net"), hosts)
    });
    &MADE
}

/// An address that nobody else has.
fn address(backend: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let pid = std::process::id();
    match backend {
        "tcp" | "fabric+tcp" => format!("{backend}://{}:7100", host(1 + number)),
        "tls" => format!("tcp://{}{TLS_PORT}", host(1 + number)),
        backend => format!("{backend}://test-{pid}-{number}"),
    }
}

fn net(verb: &str, address: &str, more: &[&str]) -> Command {
    let mut command = forebay();
    command
        .args(["net", verb, address, "--format", "json"])
        .args(more);
    if address.ends_with(TLS_PORT) {
        command.args(certificates());
    }
    command
}

fn signal(run: &Run, signal: Signal) {
    kill_process(Pid::from_raw(run.pid() as i32).unwrap(), signal).unwrap();
}

/// A summary whose books close.
fn closed(ended: &Ended) -> Value {
    let summary = ended.json_of(0);
    assert_eq!(summary["residual_items"], 0, "{summary}");
    assert_eq!(summary["residual_bytes"], 0, "{summary}");
    assert_eq!(summary["left_items"], 0, "{summary}");
    assert_eq!(summary["left_bytes"], 0, "{summary}");
    summary
}

fn count(summary: &Value, key: &str) -> u64 {
    summary[key]
        .as_u64()
        .unwrap_or_else(|| panic!("no {key}: {summary}"))
}

/// What comes is written now and then: until something is.
fn wait_for_bytes(to: &Path) {
    wait_for("the first messages", || {
        let bytes = std::fs::metadata(to).map_or(0, |file| file.len());
        (bytes > 0).then_some(())
    });
}

#[test]
fn a_provider_that_is_refused_is_told_with_what_to_use_in_its_place() {
    for (address, remedy) in [
        ("fabric+shm://run7", "use shm://NAME"),
        ("fabric+sockets://127.0.0.1:7100", "its successor is tcp"),
    ] {
        for verb in ["send", "recv", "pub", "sub"] {
            let refused = net(verb, address, &[]).output().unwrap();
            let text = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{text}");
            assert!(text.contains(remedy), "{text}");
        }
    }
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn a_file_goes_through(backend: &str) {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    let bytes: Vec<u8> = (0..3_000_000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    std::fs::write(&from, &bytes).unwrap();
    let address = address(backend);
    let receiver = start(&mut net(
        "recv",
        &address,
        &["--once", "--as", "raw", "--output", to.to_str().unwrap()],
    ));
    // Pieces that do not divide the file, in buffers that hold a few of them.
    let sender = start(&mut net(
        "send",
        &address,
        &[
            "--input",
            from.to_str().unwrap(),
            "--cut",
            "pieces",
            "--message-bytes",
            "777",
            "--buffer-bytes",
            "3000",
            "--buffer-count",
            "4",
        ],
    ));
    let (sent, received) = (closed(&sender.end()), closed(&receiver.end()));
    assert_eq!(count(&sent, "messages"), 3_000_000_u64.div_ceil(777));
    for key in ["messages", "bytes"] {
        assert_eq!(sent[key], received[key], "{sent}\n{received}");
    }
    assert_eq!(sent["connections"][0]["missing_at_peer"], 0);
    assert_eq!(
        (count(&sent, "dropped"), count(&received, "dropped")),
        (0, 0)
    );
    assert!(
        std::fs::read(&to).unwrap() == bytes,
        "the file has changed on its way"
    );
}

fn a_subscriber_gets_its_tags(backend: &str) {
    let directory = tempfile::tempdir().unwrap();
    let (from, to, all) = (
        directory.path().join("from"),
        directory.path().join("to"),
        directory.path().join("all"),
    );
    let text: String = (0..9_000).map(|number| format!("{number}\n")).collect();
    std::fs::write(&from, text).unwrap();
    let address = address(backend);
    let publisher = start(&mut net(
        "pub",
        &address,
        &[
            "--input",
            from.to_str().unwrap(),
            "--tag",
            "0x10",
            "--tags",
            "3",
            "--subscribers",
            "2",
            "--per-tag",
        ],
    ));
    let some = start(&mut net(
        "sub",
        &address,
        &[
            "--tag",
            "0x10,18/0xffffffffffffffff",
            "--once",
            "--output",
            to.to_str().unwrap(),
        ],
    ));
    let every = start(&mut net(
        "sub",
        &address,
        &[
            "--once",
            "--as",
            "tagged",
            "--output",
            all.to_str().unwrap(),
        ],
    ));
    let (published, some, every) = (
        closed(&publisher.end()),
        closed(&some.end()),
        closed(&every.end()),
    );
    assert_eq!(
        (count(&some, "messages"), count(&every, "messages")),
        (6_000, 9_000)
    );
    assert_eq!(count(&published, "messages"), 15_000);
    let by_tag: Vec<_> = published["tags"].as_array().unwrap().iter().collect();
    let copies = by_tag
        .iter()
        .map(|row| (count(row, "tag"), count(row, "messages")));
    // Two want the first and the last, one the middle one.
    let expected = [(0x10, 6_000), (0x11, 3_000), (0x12, 6_000)];
    assert!(copies.eq(expected), "{published}");
    let expected: Vec<String> = (0..9_000)
        .filter(|number| number % 3 != 1)
        .map(|number| number.to_string())
        .collect();
    assert_eq!(lines(&to), expected);
    let first = &lines(&all)[..3];
    assert_eq!(
        first,
        [
            "0x0000000000000010 1 0",
            "0x0000000000000011 1 1",
            "0x0000000000000012 1 2"
        ]
    );
}

fn who_comes_first_waits_for_the_other(backend: &str) {
    let address = address(backend);
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("to");
    let mut subscriber = start(&mut net(
        "sub",
        &address,
        &["--count", "5", "--output", to.to_str().unwrap()],
    ));
    std::thread::sleep(Duration::from_millis(150));
    assert!(!subscriber.is_over());
    let publisher = start(&mut net(
        "pub",
        &address,
        &[
            "--input",
            "generate",
            "--message-bytes",
            "8",
            "--count",
            "5",
        ],
    ));
    closed(&publisher.end());
    let got = closed(&subscriber.end());
    assert_eq!(count(&got, "messages"), 5);
    assert!(count(&got, "attempts") > 0, "{got}");
}

fn a_publisher_that_comes_again_is_found(backend: &str) {
    let address = address(backend);
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("to");
    let subscriber = start(&mut net(
        "sub",
        &address,
        &[
            "--tag",
            "7",
            "--as",
            "raw",
            "--output",
            to.to_str().unwrap(),
        ],
    ));
    // Each message has 8 bytes.
    let written = || std::fs::metadata(&to).map_or(0, |file| file.len()) / 8;
    let publish = |more: &[&str]| {
        let generated = ["--input", "generate", "--tag", "7", "--message-bytes", "8"];
        start(net("pub", &address, &generated).args(more))
    };
    closed(&publish(&["--count", "30"]).end());
    // This one dies in the middle of its work.
    let killed = publish(&["--rate", "1000"]);
    wait_for("messages of the second publisher", || {
        (written() > 60).then_some(())
    });
    signal(&killed, Signal::KILL);
    killed.end();
    let mut third = publish(&["--count", "50"]);
    wait_for("the third's end", || third.is_over().then_some(()));
    closed(&third.end());
    signal(&subscriber, Signal::INT);
    let got = closed(&subscriber.end());
    assert_eq!(count(&got, "connections_made"), 3);
    assert!(written() > 110, "{}", written());
    assert_eq!(count(&got, "messages"), written());
    assert_eq!(got["parted"]["connection_lost"], 1, "{got}");
}

fn both_sides_measure_the_same(backend: &str) {
    for mode in ["buffered", "in-place", "unbuffered"] {
        both_sides_measure(backend, mode);
    }
}

fn both_sides_measure(backend: &str, mode: &str) {
    let address = address(backend);
    let receiver = start(&mut net(
        "perf",
        &address,
        &["--role", "recv", "--duration", "20s"],
    ));
    let sender = start(&mut net(
        "perf",
        &address,
        &[
            "--role",
            "send",
            "--duration",
            "300ms",
            "--message-bytes",
            "100",
            "--buffer-bytes",
            "8Ki",
            "--buffer-count",
            "8",
            "--tags",
            "1000",
            "--mode",
            mode,
        ],
    ));
    let (sent, received) = (closed(&sender.end()), closed(&receiver.end()));
    assert_eq!(sent["messages"], received["messages"]);
    assert_eq!(count(&sent, "bytes"), 100 * count(&sent, "messages"));
    assert_eq!(count(&received, "bytes"), count(&sent, "bytes"));
    for result in [&sent, &received] {
        assert!(
            result["message_rate_hz"].as_f64().unwrap() > 0.0,
            "{result}"
        );
        let (bps, hz) = (
            result["goodput_bps"].as_f64().unwrap(),
            result["message_rate_hz"].as_f64().unwrap(),
        );
        assert!((bps / hz - 800.0).abs() < 1e-6, "{result}");
        assert!(result["cpu_s"].as_f64().unwrap() > 0.0, "{result}");
        assert_eq!(result["rtt_ns"], Value::Null);
        assert_eq!(
            (count(result, "dropped"), count(result, "unconfirmed")),
            (0, 0)
        );
    }
}

fn round_trips_are_told_by_both_sides(backend: &str) {
    let address = address(backend);
    let echo = start(&mut net(
        "perf",
        &address,
        &["--role", "echo", "--duration", "20s"],
    ));
    let sender = start(&mut net(
        "perf",
        &address,
        &[
            "--role",
            "send",
            "--duration",
            "2s",
            "--message-bytes",
            "64",
        ],
    ));
    let (sent, echoed) = (closed(&sender.end()), closed(&echo.end()));
    assert_eq!(sent["messages"], echoed["messages"]);
    for result in [&sent, &echoed] {
        let rtt = |key: &str| count(&result["rtt_ns"], key);
        assert!(rtt("samples") > 10, "{result}");
        let order = ["min", "p50", "p90", "p99", "p99.9", "max"].map(rtt);
        assert!(order.is_sorted() && order[0] > 100, "{result}");
    }
}

fn interrupted_on_either_side_the_books_close(backend: &str) {
    for first in ["sender", "receiver"] {
        let address = address(backend);
        let directory = tempfile::tempdir().unwrap();
        let to = directory.path().join("to");
        let receiver = start(&mut net(
            "recv",
            &address,
            &["--output", to.to_str().unwrap()],
        ));
        let generated = ["--input", "generate", "--rate", "50000"];
        let sender = start(net("send", &address, &generated).args(["--block", "20s"]));
        wait_for_bytes(&to);
        let (first, second) = if first == "sender" {
            (sender, receiver)
        } else {
            (receiver, sender)
        };
        signal(&first, Signal::INT);
        let one = closed(&first.end());
        signal(&second, Signal::INT);
        let ended = second.end();
        // A sender without a receiver ends with an error, and says what became of its messages all the same.
        assert!(matches!(ended.code(), Some(0 | 2)), "{}", ended.stderr);
        let other = ended.json();
        assert_eq!(other["residual_items"], 0, "{other}");
        assert!(count(&one, "messages") > 0);
        assert_eq!(one["messages"], other["messages"], "{one}\n{other}");
        let unconfirmed = [&one, &other].map(|summary| count(summary, "unconfirmed"));
        assert_eq!(unconfirmed, [0, 0]);
    }
}

fn a_killed_sender_costs_nothing_that_came(backend: &str) {
    for pause_ms in [0, 3, 47, 111] {
        let address = address(backend);
        let directory = tempfile::tempdir().unwrap();
        let to = directory.path().join("to");
        let raw = ["--as", "raw", "--output", to.to_str().unwrap()];
        let receiver = start(net("recv", &address, &["--once"]).args(raw));
        let generated = [
            "--input",
            "generate",
            "--message-bytes",
            "500",
            "--rate",
            "100000",
        ];
        let sender = start(&mut net("send", &address, &generated));
        wait_for_bytes(&to);
        std::thread::sleep(Duration::from_millis(pause_ms));
        signal(&sender, Signal::KILL);
        sender.end();
        let received = closed(&receiver.end());
        assert_eq!(count(&received, "dropped"), 0, "{received}");
        let written = std::fs::metadata(&to).unwrap().len();
        assert_eq!(written, 500 * count(&received, "messages"));
    }
}

fn a_killed_receiver_leaves_its_sender_with_closed_books(backend: &str) {
    let address = address(backend);
    let directory = tempfile::tempdir().unwrap();
    let to = ["first", "second"].map(|name| directory.path().join(name));
    let receive = |to: &Path| {
        start(&mut net(
            "recv",
            &address,
            &["--output", to.to_str().unwrap()],
        ))
    };
    let receiver = receive(&to[0]);
    let generated = [
        "--input",
        "generate",
        "--message-bytes",
        "500",
        "--rate",
        "20000",
    ];
    let sender = start(net("send", &address, &generated).args(["--block", "30s"]));
    wait_for_bytes(&to[0]);
    signal(&receiver, Signal::KILL);
    receiver.end();
    // Another one takes its place, and the sender goes on.
    let receiver = receive(&to[1]);
    wait_for_bytes(&to[1]);
    signal(&sender, Signal::INT);
    let ended = sender.end();
    let sent = ended.json();
    assert_eq!(count(&sent, "residual_items"), 0, "{sent}");
    signal(&receiver, Signal::INT);
    let received = closed(&receiver.end());
    assert_eq!(count(&sent, "connections_made"), 2, "{sent}");
    let lists = &sent["connections"];
    assert_ne!(lists[0]["end"], "over", "{sent}");
    assert_eq!(lists[1]["end"], "over", "{sent}");
    assert_eq!(
        lists[1]["messages_sent"], received["messages"],
        "{sent}\n{received}"
    );
    // What the dead one had not confirmed is told, and never more than was on its way.
    let unconfirmed = count(&sent, "unconfirmed");
    assert!(unconfirmed <= count(&lists[0], "messages_sent"), "{sent}");
    let code = if unconfirmed > 0 { 4 } else { 0 };
    assert_eq!(ended.code(), Some(code), "{sent}");
}

fn a_message_longer_than_a_buffer_is_refused(backend: &str) {
    let address = address(backend);
    let receiver = start(&mut net("recv", &address, &["--once", "--output", "null"]));
    let more = [
        "--input",
        "generate",
        "--count",
        "3",
        "--message-bytes",
        "1001",
        "--buffer-bytes",
        "1000",
    ];
    let refused = start(&mut net("send", &address, &more)).end();
    assert_eq!(refused.code(), Some(2));
    assert!(
        refused
            .stderr
            .contains("1001 bytes is longer than a buffer of 1000"),
        "{}",
        refused.stderr
    );
    assert_eq!(count(&closed(&receiver.end()), "messages"), 0);
}

fn an_address_in_use_is_named(backend: &str) {
    let address = address(backend);
    let receiver = start(&mut net("recv", &address, &["--output", "null"]));
    // It listens when somebody has reached it.
    closed(
        &start(&mut net(
            "send",
            &address,
            &["--input", "generate", "--count", "1"],
        ))
        .end(),
    );
    let refused = start(&mut net(
        "recv",
        &address,
        &["--count", "0", "--output", "null"],
    ))
    .end();
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains(&address), "{}", refused.stderr);
    assert!(
        refused.stderr.to_lowercase().contains("in use"),
        "{}",
        refused.stderr
    );
    signal(&receiver, Signal::INT);
    closed(&receiver.end());
}

fn a_leak_is_found_where_it_is(backend: &str) {
    leak_at_each_hop(backend, ["recv", "send"]);
}

#[test]
fn a_leak_is_found_where_it_is_between_publisher_and_subscriber() {
    leak_at_each_hop("shm", ["sub", "pub"]);
}

fn leak_at_each_hop(backend: &str, [receives, sends]: [&str; 2]) {
    for hop in ["publish", "copies", "send", "receive", "read", "deliver"] {
        let directory = tempfile::tempdir().unwrap();
        let address = address(backend);
        let path = |role: &str| directory.path().join(role).to_str().unwrap().to_owned();
        let (to, from) = (path("to"), path("from"));
        let mut receive = net(
            receives,
            &address,
            &["--once", "--output", "null", "--out", &to],
        );
        let generated = ["--input", "generate", "--count", "1000", "--out", &from];
        let mut send = net(sends, &address, &generated);
        if sends == "pub" {
            send.args(["--subscribers", "1"]);
        }
        let leak = format!("{hop}:3");
        receive.env("FOREBAY_LEAK", &leak);
        send.env("FOREBAY_LEAK", &leak);
        let (receiver, sender) = (start(&mut receive), start(&mut send));
        let (sent, received) = (sender.end(), receiver.end());
        let (wrong, right, place) = match hop {
            "publish" | "copies" | "send" => (sent, received, &from),
            _ => (received, sent, &to),
        };
        let summary = wrong.json_of(1);
        assert_eq!(summary["residual_items"], 3, "{hop}: {summary}");
        assert_eq!(summary["left_items"], 0, "{hop}: {summary}");
        closed(&right);
        rig::offenders::assert_only(Path::new(place), hop, "messages", 3);
    }
}

/// A publisher with a subscriber that is stopped, treated by `slow`, and one that is not; their summaries.
fn with_a_stopped_one(backend: &str, slow: &str, rate: &str) -> [Value; 3] {
    let address = address(backend);
    let directory = tempfile::tempdir().unwrap();
    let subscribe = |name: &str, slow: &str| {
        let to = directory.path().join(name);
        let small = ["--buffer-bytes", "10Ki", "--buffer-count", "4", "--once"];
        let more = ["--slow", slow, "--output", to.to_str().unwrap()];
        (start(net("sub", &address, &small).args(more)), to)
    };
    let (stopped, _) = subscribe("stopped", slow);
    let (other, to) = subscribe("other", "block");
    let generated = [
        "--input",
        "generate",
        "--message-bytes",
        "1000",
        "--rate",
        rate,
    ];
    let bounds = ["--count", "20000", "--subscribers", "2", "--block", "2s"];
    let publisher = start(net("pub", &address, &generated).args(bounds));
    wait_for_bytes(&to);
    signal(&stopped, Signal::STOP);
    // What the other one gets beyond what is on its way was published after the stop; the stopped one has room for a twentieth of it.
    let written = || std::fs::metadata(&to).map_or(0, |file| file.len());
    let before = written();
    wait_for("what comes behind the stop", || {
        (written() > before + (1 << 20)).then_some(())
    });
    signal(&stopped, Signal::CONT);
    let end = |run: Run| {
        let ended = run.end();
        let summary = ended.json();
        assert_eq!(summary["residual_items"], 0, "{summary}\n{}", ended.stderr);
        summary
    };
    let (published, other) = (end(publisher), end(other));
    // One that was let go looks for its publisher, and there is none any more.
    signal(&stopped, Signal::INT);
    [published, other, end(stopped)]
}

fn a_subscriber_that_never_reads_costs_itself(backend: &str) {
    for slow in ["drop-newest", "drop-oldest", "disconnect"] {
        let [published, other, stopped] = with_a_stopped_one(backend, slow, "10000");
        assert_eq!(count(&other, "messages"), 20_000, "{slow}: {other}");
        let lost = rig::lost(&published, "slow_receiver");
        assert!(lost > 0, "{slow}: {published}");
        if slow == "disconnect" {
            // Perhaps more than once: it comes again.
            assert!(
                count(&published["parted"], "slow_receiver") > 0,
                "{published}"
            );
            assert!(count(&stopped["parted"], "too_slow") > 0, "{stopped}");
            assert!(count(&stopped, "dropped_at_peers") > 0, "{stopped}");
        } else {
            assert_eq!(count(&stopped, "dropped_at_peers"), lost, "{stopped}");
            assert_eq!(
                count(&stopped, "messages") + lost,
                20_000,
                "{slow}: {published}\n{stopped}"
            );
        }
    }
}

fn one_that_is_waited_for_is_waited_for_so_long_and_no_longer(backend: &str) {
    let [published, other, stopped] = with_a_stopped_one(backend, "block", "10000");
    assert_eq!(count(&other, "messages"), 20_000, "{other}");
    assert_eq!(published["parted"]["slow_receiver"], 1, "{published}");
    // It is told that it was let go, and what it missed by then.
    assert_eq!(stopped["parted"]["too_slow"], 1, "{stopped}");
    assert!(count(&stopped, "dropped_at_peers") > 0, "{stopped}");
}

/// What was typed goes out at once, though no more is typed, and an order to end is obeyed meanwhile.
#[test]
fn an_input_that_is_quiet_holds_nothing_up() {
    let address = address("tcp");
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("to");
    let receiver = start(&mut net(
        "recv",
        &address,
        &["--output", to.to_str().unwrap()],
    ));
    let mut sender = net("send", &address, &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut typed = sender.stdin.take().unwrap();
    for line in ["first", "second"] {
        writeln!(typed, "{line}").unwrap();
        wait_for("the line", || {
            lines(&to).iter().any(|got| got == line).then_some(())
        });
    }
    kill_process(Pid::from_child(&sender), Signal::INT).unwrap();
    let status = wait_for("the end", || sender.try_wait().unwrap());
    assert!(status.success());
    signal(&receiver, Signal::INT);
    assert_eq!(count(&closed(&receiver.end()), "messages"), 2);
}
