//! Messaging over TLS: what a user has to give, what he is told when it does not fit, and which peers are let in.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rig::{Ended, Run, certificates, forebay, start, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A host of this test's own on the loopback network.
fn host(number: u8) -> String {
    let pid = std::process::id();
    format!("127.{}.{}.{number}", 1 + (pid >> 8) % 250, pid % 256)
}

/// A receiver there, and where it listens.
fn receiver(number: u8, security: &[String]) -> (Run, String) {
    let place = format!("{}:7300", host(number));
    let address = format!("tcp://{place}");
    let run = start(
        forebay()
            .args([
                "net", "recv", &address, "--format", "json", "--output", "null",
            ])
            .args(security),
    );
    drop(connect(&place));
    (run, address)
}

fn connect(place: &str) -> TcpStream {
    wait_for("the port", || TcpStream::connect(place).ok())
}

/// Sends ten messages; nobody is waited for longer than two seconds.
fn send(address: &str, security: &[String]) -> Ended {
    let generated = ["--input", "generate", "--count", "10", "--block", "2s"];
    start(
        forebay()
            .args(["net", "send", address])
            .args(generated)
            .args(security),
    )
    .end()
}

fn end(run: Run) -> Value {
    kill_process(Pid::from_raw(run.pid() as i32).unwrap(), Signal::INT).unwrap();
    let summary = run.end().json_of(0);
    assert_eq!(summary["residual_items"], 0, "{summary}");
    summary
}

fn told(ended: &Ended, parts: &[&str]) {
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    for part in parts {
        assert!(
            ended.stderr.contains(part),
            "no '{part}' in: {}",
            ended.stderr
        );
    }
}

fn made(directory: &Path, number: u8) -> Vec<String> {
    std::fs::create_dir_all(directory).unwrap();
    certificates::make(directory, vec![host(number)])
}

#[test]
fn beyond_this_host_nothing_starts_without_certificates_or_a_word() {
    let remedies = [
        "--tls-certificate",
        "--tls-key",
        "--tls-authority",
        "--plain",
    ];
    let listen = [
        &["recv"][..],
        &["pub"],
        &["perf", "--role", "recv"],
        &["perf", "--role", "echo"],
        &["perf", "--role", "pub"],
        &["bus"],
    ];
    let connect = [
        &["send"][..],
        &["sub"],
        &["perf", "--role", "send"],
        &["perf", "--role", "sub"],
    ];
    let net = |verb: &[&str], address: &str, more: &[&str]| {
        let mut forebay = forebay();
        start(forebay.arg("net").args(verb).arg(address).args(more)).end()
    };
    for verb in listen.iter().chain(&connect) {
        for address in [
            "tcp://0.0.0.0:0",
            "tcp://192.0.2.1:7100",
            "tcp://[::]:7100",
            "tcp://[2001:db8::1]:7100",
            "tcp://[::ffff:10.1.2.3]:7100",
        ] {
            let ended = net(verb, address, &[]);
            told(&ended, &remedies);
            told(&ended, &[address, "is not on this host's loopback"]);
        }
    }
    // With the word they go on, to an address that no host has.
    for verb in listen {
        let ended = net(verb, "tcp://192.0.2.1:7100", &["--plain"]);
        told(&ended, &["192.0.2.1"]);
        assert!(!ended.stderr.contains("--plain"), "{}", ended.stderr);
    }
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    for options in [
        &["--tls-certificate", "a"][..],
        &["--tls-key", "a"],
        &["--tls-authority", "a"],
        &[
            "--plain",
            "--tls-certificate",
            "a",
            "--tls-key",
            "b",
            "--tls-authority",
            "c",
        ],
    ] {
        let recv = ["net", "recv", "tcp://127.0.0.1:0", "--count", "0"];
        told(
            &start(forebay().args(recv).args(options)).end(),
            &["--tls-"],
        );
    }
    let missing = [
        "--tls-certificate",
        "/no/a",
        "--tls-key",
        "/no/b",
        "--tls-authority",
        "/no/c",
    ];
    let recv = ["net", "recv", "tcp://127.0.0.1:0", "--count", "0"];
    let ended = start(forebay().args(recv).args(missing)).end();
    told(&ended, &["--tls-certificate /no/a", "No such file"]);
}

#[test]
fn who_does_not_speak_tls_is_counted_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let certificates = made(directory.path(), 1);
    let (run, address) = receiver(1, &certificates);
    told(
        &send(&address, &[]),
        &["it speaks TLS, and this side does not"],
    );
    // Something else altogether, and a peer that says nothing.
    let place = address.strip_prefix("tcp://").unwrap();
    connect(place).write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let silent = connect(place);
    let begun = Instant::now();
    assert_eq!(send(&address, &certificates).code(), Some(0));
    silent.set_read_timeout(Some(rig::LIMIT)).unwrap();
    // It is let go after the time that a greeting may take.
    let _ = std::io::Read::read(&mut &silent, &mut [0; 16]);
    let seconds = begun.elapsed().as_secs_f64();
    assert!((4.9..9.0).contains(&seconds), "5 s were {seconds}");
    let summary = end(run);
    assert_eq!(summary["messages"], 10);
    assert_eq!(summary["parted"]["no_greeting"], 1, "{summary}");
    assert!(
        summary["parted"]["plain_peer"].as_u64().unwrap() >= 2,
        "{summary}"
    );
}

#[test]
fn who_speaks_tls_to_one_that_does_not_is_counted_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let certificates = made(directory.path(), 2);
    let (run, address) = receiver(2, &[]);
    told(
        &send(&address, &certificates),
        &["messaging without TLS", "--plain"],
    );
    let summary = end(run);
    assert_eq!(summary["messages"], 0);
    assert!(
        summary["parted"]["tls_peer"].as_u64().unwrap() > 0,
        "{summary}"
    );
}

#[test]
fn another_authority_is_counted_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let [ours, other] = ["ours", "other"].map(|name| made(&directory.path().join(name), 3));
    let (run, address) = receiver(3, &ours);
    told(
        &send(&address, &other),
        &["of another authority", "--tls-authority"],
    );
    assert_eq!(send(&address, &ours).code(), Some(0));
    let summary = end(run);
    assert_eq!(summary["messages"], 10);
    assert!(
        summary["parted"]["certificate_refused"].as_u64().unwrap() > 0,
        "{summary}"
    );
}

#[test]
fn a_key_that_others_can_read_is_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let certificates = made(directory.path(), 4);
    let key = directory.path().join("host.key");
    let recv = [
        "net",
        "recv",
        "tcp://127.0.0.1:0",
        "--count",
        "0",
        "--output",
        "null",
    ];
    for (mode, warned) in [("600", false), ("644", true)] {
        let changed = Command::new("chmod").arg(mode).arg(&key).status().unwrap();
        assert!(changed.success());
        let ended = start(forebay().args(recv).args(&certificates)).end();
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        assert_eq!(
            ended.stderr.contains("chmod 600"),
            warned,
            "{}",
            ended.stderr
        );
    }
}

/// The commands of a page between two markers.
fn commands(page: &str, mark: &str) -> String {
    let text = std::fs::read_to_string(forebay_testing::root().join(page)).unwrap();
    let begun = text
        .split_once(&format!("<!-- {mark} -->\n```sh\n"))
        .unwrap()
        .1;
    begun.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_documented_commands_make_certificates_that_work() {
    if Command::new("openssl").arg("version").output().is_err() {
        forebay_testing::skip!("openssl is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = commands("docs/CONFIGURATION.md", "make certificates");
    let made = Command::new("sh")
        .args(["-euc", &script])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let script = commands("docs/CONFIGURATION.md", "use certificates");
    let program = assert_cmd::cargo::cargo_bin!("forebay").parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let used = start(
        Command::new("sh")
            .args(["-euc", &script.replace("daq07.example.org", "localhost")])
            .env("PATH", path)
            .current_dir(directory.path()),
    );
    let ended = used.end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "hello\n", "{}", ended.stderr);
}

#[test]
fn a_registry_speaks_tls_with_those_of_its_authority_alone() {
    let directory = tempfile::tempdir().unwrap();
    let [ours, other] = ["ours", "other"].map(|name| made(&directory.path().join(name), 6));
    let place = format!("{}:7300", host(6));
    let bus = format!("tcp://{place}");
    let net = |words: &[&str], security: &[String]| {
        let mut command = forebay();
        command.arg("net").args(words).args(["--format", "json"]);
        start(command.args(security))
    };
    let registry = net(&["bus", &bus], &ours);
    // It says nothing, not even a hand-shake.
    let mut silent = connect(&place);
    let find = [
        "sub", "--bus", &bus, "--tag", "7", "--output", "null", "--count", "5",
    ];
    let subscriber = net(&find, &ours);
    // These two find nobody: one is no stranger to the authority, but speaks plainly; the other is of another one.
    let strangers = [net(&find, &[]), net(&find, &other)];
    let listen = format!("tcp://{}:0", host(6));
    let publisher = net(
        &[
            "pub",
            &listen,
            "--bus",
            &bus,
            "--tag",
            "7",
            "--name",
            "p",
            "--input",
            "generate",
            "--count",
            "5",
            "--subscribers",
            "1",
        ],
        &ours,
    );
    assert_eq!(publisher.end().json_of(0)["messages"], 5);
    assert_eq!(subscriber.end().json_of(0)["messages"], 5);
    let says = strangers.map(|run| {
        kill_process(Pid::from_raw(run.pid() as i32).unwrap(), Signal::INT).unwrap();
        run.end().stderr
    });
    assert!(
        says[0].contains("it speaks TLS, and this side does not"),
        "{}",
        says[0]
    );
    assert!(says[1].contains("--tls-authority"), "{}", says[1]);
    let limit = Duration::from_secs(30);
    silent.set_read_timeout(Some(limit)).unwrap();
    assert_eq!(silent.read(&mut [0]).unwrap(), 0, "it is let go");
    kill_process(Pid::from_raw(registry.pid() as i32).unwrap(), Signal::INT).unwrap();
    let summary = registry.end().json_of(0);
    for reason in ["plain_peer", "certificate_refused", "silent"] {
        assert!(
            summary["refused"][reason].as_u64() > Some(0),
            "{reason}: {summary}"
        );
    }
    // Beyond loopback it does not begin without a word about it.
    told(
        &net(&["bus", "tcp://0.0.0.0:0"], &[]).end(),
        &["--tls-authority", "--plain"],
    );
}
