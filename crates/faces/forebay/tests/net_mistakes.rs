//! What people get wrong with messaging, and what they are told: what is wrong, and what would be right.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

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
    behind.stderr(Stdio::null());
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

/// A program that says the same to everybody, on a port of its own.
fn chatter(says: &'static [u8]) -> String {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", door.local_addr().unwrap());
    std::thread::spawn(move || {
        for came in door.incoming() {
            // A peer that has gone already does not hear it. What is left unread would cut the answer off.
            let _ = came.and_then(|mut stream| {
                stream.write_all(says)?;
                stream.read(&mut [0; 64])
            });
        }
    });
    address
}

#[test]
fn something_else_that_listens_ends_the_attempts() {
    let generated = ["--input", "generate", "--count", "3", "--block", "60s"];
    let ssh = chatter(b"SSH-2.0-OpenSSH_9.2\r\n");
    let newer = chatter(b"FN\x03\x02\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    for (address, said) in [
        (&ssh, "no end point of `forebay net`"),
        (&newer, "same version"),
    ] {
        refused(
            &[&["send", address][..], &generated].concat(),
            &[address, "3 times in a row", said],
        );
        refused(&["sub", address], &[address, "3 times in a row", said]);
    }
    // Another one may still come where nobody listens.
    let nobody = address(50);
    let both = start(&mut net(&["sub", &ssh, &nobody, "--once"]));
    let pieces = ["--input", "generate", "--count", "3"];
    let publisher = start(&mut net(&[&["pub", &nobody][..], &pieces].concat()));
    assert_eq!(publisher.end().code(), Some(0));
    assert!(rig::signal("INT", both.pid()));
    let both = both.end();
    assert_eq!(both.stdout.lines().count(), 3, "{}", both.stderr);
}

#[test]
fn the_wrong_kind_of_end_is_told_at_once() {
    let (receiver, publisher) = (address(60), address(61));
    let listening = [
        start(&mut net(&["recv", &receiver, "--output", "null"])),
        start(&mut net(&["pub", &publisher, "--input", "generate"])),
    ];
    let generated = ["--input", "generate", "--count", "3", "--block", "60s"];
    refused(
        &["sub", &receiver],
        &[&receiver, "role", "needs a publisher"],
    );
    refused(
        &[&["send", &publisher][..], &generated].concat(),
        &[&publisher, "role", "a sender a receiver"],
    );
    for one in listening {
        assert!(rig::signal("INT", one.pid()));
        assert_eq!(one.end().code(), Some(0));
    }
}

#[test]
fn each_verb_says_what_its_exit_codes_mean() {
    for verb in ["perf", "pub", "sub", "send", "recv", "bus"] {
        let help = start(&mut net(&[verb, "--help"])).end();
        let (_, codes) = help.stdout.split_once("Exit codes:").unwrap();
        for line in [
            "0  done",
            "1  the books do not close",
            "2  it could not be done",
            "4  of send and pub: messages are unconfirmed",
        ] {
            assert!(codes.contains(line), "{verb}: {codes}");
        }
    }
    refused(&["recv", "nowhere"], &["no such backend"]);
}

#[test]
fn a_subscriber_says_why_it_still_waits() {
    let address = address(70);
    let mut command = net(&["sub", &address]);
    let mut waits = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(waits.stderr.take().unwrap()).lines();
    let line = said.next().unwrap().unwrap();
    assert!(
        line.contains("no publisher yet") && line.contains(&address) && line.contains("refused"),
        "{line}"
    );
    assert!(rig::signal("INT", waits.id()));
    assert!(waits.wait().unwrap().success());
}
