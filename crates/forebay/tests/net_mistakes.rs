//! What people get wrong with messaging, and what they are told: what is wrong, and what would be right.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::{self, File};
use std::process::Command;

use rig::{Ended, forebay, start};

/// An address on the loopback network that nobody else has.
fn address(number: u8) -> String {
    let pid = std::process::id();
    let [high, low] = [1 + (pid >> 8) % 250, pid % 256];
    format!("tcp://127.{high}.{low}.{number}:7300")
}

fn net(arguments: &[&str]) -> Command {
    let mut command = forebay();
    command.arg("net").args(arguments);
    command
}

/// It could not be done, and all of `said` is told.
fn refused(arguments: &[&str], said: &[&str]) -> Ended {
    let ended = start(&mut net(arguments)).end();
    assert_eq!(ended.code(), Some(2), "{arguments:?}: {}", ended.stderr);
    for text in said {
        assert!(ended.stderr.contains(text), "{text}: {}", ended.stderr);
    }
    ended
}

#[test]
fn a_measurement_to_which_nobody_came_is_no_result() {
    for (role, peer, number) in [
        ("recv", "sender", 1),
        ("echo", "sender", 2),
        ("sub", "publisher", 3),
    ] {
        let address = address(number);
        let said = [
            &format!("no {peer} came at {address} within 0.3 s")[..],
            "--role",
        ];
        let arguments = ["perf", &address, "--role", role, "--duration", "300ms"];
        refused(&arguments, &said);
        let json = refused(&[&arguments[..], &["--format", "json"]].concat(), &said);
        let result = json.json();
        assert_eq!(result["messages"], 0, "{result}");
        assert!(
            result["nobody_came"].as_str().unwrap().contains(peer),
            "{result}"
        );
    }
}

#[test]
fn what_is_mistyped_is_told_with_what_would_be_right() {
    let address = address(10);
    refused(
        &["send", &address, "--input", "nowhere/it/is"],
        &["nowhere/it/is", "generate", "No such file"],
    );
    refused(&["send", &address, "--block", "0s"], &["--block", "1ms"]);
    refused(&["sub", "tcp://::1:7100"], &["tcp://[::1]:7100"]);
}

#[test]
fn pipes_and_devices_take_what_comes() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let receive = |to: &str, number: u8| {
        let address = address(number);
        let receiver = start(&mut net(&["recv", &address, "--once", "--output", to]));
        let generated = [
            "--input",
            "generate",
            "--count",
            "3",
            "--message-bytes",
            "9",
        ];
        let sender = start(&mut net(&[&["send", &address][..], &generated].concat()));
        (receiver, sender)
    };
    for (number, to) in ["/dev/null", "/dev/stdout", pipe.to_str().unwrap()]
        .into_iter()
        .enumerate()
    {
        let (receiver, sender) = receive(to, 20 + number as u8);
        let read = to.ends_with("pipe").then(|| fs::read(&pipe).unwrap());
        let ended = receiver.end();
        assert_eq!(ended.code(), Some(0), "{to}: {}", ended.stderr);
        assert_eq!(sender.end().code(), Some(0), "{to}");
        let bytes = if to == "/dev/null" { 0 } else { 30 };
        let came = read.map_or(ended.stdout.len(), |read| read.len());
        assert_eq!(came, bytes, "{to}");
    }
    // A file that is there is not overwritten, also by the way of a link.
    let (file, link) = (directory.path().join("file"), directory.path().join("link"));
    fs::write(&file, "kept").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&file, &link] {
        refused(
            &["recv", &address(29), "--output", path.to_str().unwrap()],
            &["not overwritten"],
        );
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    // Behind what stands in a file already.
    let mut behind = net(&[
        "recv",
        &address(28),
        "--count",
        "0",
        "--output",
        "/dev/stdout",
    ]);
    behind.stderr(std::process::Stdio::null());
    let status = behind
        .stdout(File::options().append(true).open(&file).unwrap())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
}

#[test]
fn a_second_run_in_a_directory_warns_of_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    for _ in 0..3 {
        let ended = start(&mut net(&[
            "recv",
            &address(30),
            "--count",
            "0",
            "--out",
            out,
        ]))
        .end();
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        assert!(!ended.stderr.contains("WARN"), "{}", ended.stderr);
    }
    let names = fs::read_dir(out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.collect();
    for front in ["ledger-net-receiver-", "run-net-receiver-"] {
        let older = names.iter().filter(|name| name.starts_with(front));
        assert_eq!(older.count(), 2, "{names:?}");
    }
}

#[test]
fn a_bus_without_a_registry_is_told_with_what_to_do() {
    let bus = address(40);
    let generated = ["--input", "generate", "--count", "1", "--subscribers", "0"];
    let publisher = address(41);
    let said = |bus: &str| {
        let ended = start(&mut net(&[
            &["pub", &publisher, "--bus", bus][..],
            &generated,
        ]
        .concat()))
        .end();
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        ended.stderr
    };
    let nobody = said(&bus);
    assert!(
        nobody.contains(&format!("`forebay net bus {bus}`")),
        "{nobody}"
    );
    // A receiver is no registry.
    let receiver = address(42);
    let listening = start(&mut net(&["recv", &receiver, "--output", "null"]));
    let port = receiver.strip_prefix("tcp://").unwrap();
    rig::wait_for("the receiver", || std::net::TcpStream::connect(port).ok());
    let other = said(&receiver);
    assert!(other.contains("is no registry"), "{other}");
    assert!(rig::signal("INT", listening.pid()));
    listening.end();
}
