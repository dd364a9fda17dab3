//! A client in C with sockets over an IP stack: on a virtual wire in a network namespace, with a daemon, as a user without rights, and `forebay load` at the far end.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::{self, Permissions};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay_testing::wire::{carries, is_inside, lay, sh};
use rig::{forebay, number, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// A user that has no rights, and is not the one that starts the test.
const NOBODY: u32 = 65_534;
const MAC: &str = "02:00:00:00:00:01";

fn done(command: &mut Command) {
    let ended = command.output().unwrap();
    let complains = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{command:?}: {complains}");
}

/// The example, with the library inside, so that any user can start it.
fn compiled(folder: &Path) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let target = own.ancestors().nth(3).unwrap();
    let root = forebay_testing::root();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--offline", "--package"]);
    cargo.args(["forebay-client-c", "--target-dir"]).arg(target);
    done(cargo.current_dir(&root));
    let program = folder.join("echo");
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
    cc.arg(root.join("crates/faces/forebay-client-c/include"));
    cc.arg(root.join("examples/client_echo_udp.c"));
    cc.arg(target.join("debug/libforebay_client.a"));
    done(cc.args(["-ldl", "-lm", "-o"]).arg(&program));
    program
}

/// Has this host ask for the client's Ethernet address, by a datagram to a port that nobody has; how many it took.
fn meet(from: &str, to: &str) -> u64 {
    let socket = UdpSocket::bind(from).unwrap();
    let mut sent = 0;
    wait_for("the neighbour", || {
        // What nobody takes is an error of the call after.
        sent += u64::from(socket.send_to(b"who?", to).is_ok());
        let shown = Command::new("ip").args(["neighbour"]).output().unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let address = to.trim_start_matches('[');
        let address = address.split(']').next().unwrap();
        let address = address.strip_suffix(":9").unwrap_or(address);
        let known = |line: &str| line.starts_with(&format!("{address} ")) && line.contains(MAC);
        shown.lines().any(known).then_some(())
    });
    sent
}

/// The number behind a word in a line of the program.
fn said(text: &str, line: &str, word: &str) -> u64 {
    let line = text.lines().find(|one| one.starts_with(line));
    let line = line.unwrap();
    let words: Vec<_> = line
        .split([' ', ','])
        .filter(|one| !one.is_empty())
        .collect();
    let at = words.iter().position(|one| *one == word).unwrap();
    let number = |at: usize| words.get(at).and_then(|one| one.parse().ok());
    // In a list of losses the number is before its name.
    number(at + 1)
        .filter(|_| !line.starts_with("lost"))
        .or_else(|| number(at - 1))
        .unwrap()
}

#[test]
fn a_program_in_c_answers_over_a_stack_and_all_books_agree() {
    if Command::new("cc").arg("--version").output().is_err() {
        forebay_testing::skip!("no C compiler is there (cc)");
        return;
    }
    if !is_inside("a_program_in_c_answers_over_a_stack_and_all_books_agree") {
        return;
    }
    lay();
    sh("f=/proc/sys/net/ipv6/conf/near/disable_ipv6; [ ! -e $f ] || echo 0 > $f");
    sh("ip address add 10.0.0.9/24 dev near; ip address add fd00::9/64 dev near nodad");
    carries();
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let text = format!(
        "[mux]\ninterface = \"far\"\nsocket = \"{0}/socket\"\ndirectory = \"{0}/mux\"\nreceive_buffers = 2048\ntransmit_buffers = 2048\n\
         [[clients]]\nname = \"one\"\nuid = {NOBODY}\nmac = \"{MAC}\"\naddress = [\"10.0.0.1\", \"fd00::1\"]\nqueue = 2048\ntransmit_queue = 2048\n",
        folder.path().display()
    );
    fs::write(folder.path().join("mux.toml"), text).unwrap();
    let mut command = forebay();
    command.args(["mux", "run", "--format", "json"]);
    let daemon = start(command.arg(folder.path().join("mux.toml")));
    let socket = folder.path().join("socket");
    wait_for("the socket", || socket.exists().then_some(()));
    let mut program = Command::new(compiled(folder.path()));
    program.arg(&socket).args(["one", "9500"]);
    program.uid(NOBODY).gid(NOBODY).current_dir("/");
    let program = program.stdout(Stdio::piped()).spawn().unwrap();
    let mut unclaimed = meet("10.0.0.9:0", "10.0.0.1:9");
    unclaimed += meet("[fd00::9]:0", "[fd00::1]:9");
    let mut load = forebay();
    load.args([
        "load",
        "10.0.0.1:9500",
        "[fd00::1]:9500",
        "--rate",
        "200pps",
    ]);
    load.args([
        "--size",
        "24,700,1452",
        "--duration",
        "500ms",
        "--timeout",
        "20s",
    ]);
    let asked = start(load.args(["--format", "json"])).end().json_of(0);
    let of = |key: &str| -> u64 {
        let targets = asked["targets"].as_array().unwrap();
        targets.iter().map(|target| number(target, key)).sum()
    };
    let sent = of("packets_sent");
    assert!((2..=200).contains(&sent), "{asked}");
    assert_eq!((of("packets_answered"), of("packets_lost")), (sent, 0));
    assert!(signal("INT", daemon.pid()));
    let record: Value = daemon.end().json_of(0);
    let ended = program.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{text}");
    assert!(text.contains("one has port 9500"), "{text}");
    for word in ["received", "sent"] {
        assert_eq!(said(&text, "datagrams", word), sent, "{text}");
    }
    assert_eq!(said(&text, "frames", "datagrams"), sent, "{text}");
    let lost = ["queue_full", "unresolved"].map(|word| said(&text, "lost", word));
    assert_eq!(lost, [0; 2], "{text}");
    assert_eq!(said(&text, "lost", "unclaimed"), unclaimed, "{text}");
    // Frames, of which questions for neighbours and their answers are some.
    let place = &record["clients"][0];
    let left = &record["drops"]["mux_receive.client_gone.one"]["items"];
    let had = said(&text, "frames", "received") + left.as_u64().unwrap_or(0);
    assert_eq!(had, number(place, "frames_given"), "{text}\n{record}");
    let gave = said(&text, "frames", "sent");
    let daemon = ["packets_asked", "packets_sent"].map(|key| number(place, key));
    assert_eq!(daemon, [gave; 2], "{text}\n{record}");
    assert!(gave > sent, "the sender was asked for");
    assert_eq!(place["lies"], serde_json::json!({}), "{record}");
    rig::assert_closed(&record, &folder.path().join("mux"));
}
