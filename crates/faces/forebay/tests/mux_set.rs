//! A multiplexer that is asked and changed while it works, as people do it: two clients whose packets wait, other settings half-way, and the far end of a virtual wire that counts.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay_client::Client;
use forebay_testing::wire::{carries, is_inside, lay};
use rig::{Ended, Run, forebay, number, signal, start, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(30);
const NOBODY: u32 = 65_534;
const PACKETS: u32 = 200;
const BYTES: usize = 1_000;

/// A wire, and a daemon at its end `far` with places for two clients, whose packets wait at first: 8 kb/s.
struct World {
    folder: TempDir,
    daemon: Run,
}

impl World {
    fn new(more: &str) -> Self {
        lay();
        carries();
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let uid = fs::metadata("/proc/self").unwrap().uid();
        let mut text = format!(
            "[mux]\ninterface = \"far\"\nsocket = \"{0}/socket\"\ndirectory = \"{0}/out\"\n{more}\n[[classes]]\npolicy = \"token-bucket\"\n",
            folder.path().display()
        );
        for (number, name) in ["one", "two"].iter().enumerate() {
            text += &format!(
                "[[clients]]\nname = \"{name}\"\nuid = {uid}\nmac = \"02:00:00:00:00:0{}\"\nrate_bps = 8000\nburst_bytes = 2000\nsojourn_max_us = 0\n",
                number + 1
            );
        }
        let file = folder.path().join("mux.toml");
        fs::write(&file, text).unwrap();
        let daemon = start(
            forebay()
                .args(["mux", "run", "--format", "json"])
                .arg(&file),
        );
        let world = Self { folder, daemon };
        let path = world.folder.path().join("socket.control");
        wait_for("the control socket", || path.exists().then_some(()));
        world
    }

    fn command(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.arg("mux").args(&words[..1]);
        command.arg("--control");
        command.arg(self.folder.path().join("socket.control"));
        command.args(["--format", "json"]).args(&words[1..]);
        command
    }

    fn asked(&self, words: &[&str]) -> Ended {
        let program = forebay().get_program().to_owned();
        start(&mut self.command(Path::new(&program), words)).end()
    }

    fn status(&self) -> Value {
        self.asked(&["status"]).json_of(0)
    }

    fn client(&self, name: &str) -> Client {
        wait_for("the place", || {
            Client::connect(&self.folder.path().join("socket"), name, LONG).ok()
        })
    }

    /// Ends the daemon; its record.
    fn end(self) -> (Value, TempDir) {
        assert!(signal("INT", self.daemon.pid()));
        (self.daemon.end().json_of(0), self.folder)
    }
}

/// Hands packets over, as many as there are buffers for at once.
fn send(client: &mut Client, number: u8) {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, number, 0x88, 0xb5];
    frame.resize(BYTES, number);
    for _ in 0..PACKETS {
        client.send(&frame).unwrap();
    }
    client.flush();
}

/// Frames that the kernel has counted at the other end of the wire.
fn arrived() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let mut lines = text.lines();
    let counts = lines.find_map(|line| line.trim_start().strip_prefix("near:"));
    let packets = counts.unwrap().split_whitespace().nth(1).unwrap();
    packets.parse().unwrap()
}

#[test]
fn a_policy_that_is_changed_while_packets_wait_loses_none_and_holds_from_then_on() {
    if !is_inside("a_policy_that_is_changed_while_packets_wait_loses_none_and_holds_from_then_on") {
        return;
    }
    let world = World::new("");
    let before = arrived();
    let (mut one, mut two) = (world.client("one"), world.client("two"));
    send(&mut one, 1);
    send(&mut two, 2);
    // At 8 kb/s a packet is a second: nearly all of them wait.
    let status = wait_for("all packets to wait", || {
        let status = world.status();
        let clients = status["clients"].as_array().unwrap();
        let asked = |at: &Value| number(at, "packets_asked") == u64::from(PACKETS);
        clients.iter().all(asked).then_some(status)
    });
    assert_eq!(status["classes"][0]["settings"]["policy"], "token-bucket");
    for client in status["clients"].as_array().unwrap() {
        assert_eq!(
            (&client["is_connected"], &client["pid"]),
            (&json!(true), &json!(std::process::id()))
        );
        assert!(number(client, "packets_waiting") > 0, "{client}");
    }
    // Faster, but no faster than that: the second one has its last packet after 200 × 8,000 bits at 2 Mb/s, less a burst and what was sent before.
    let set_at = Instant::now();
    let slowed = [
        "set",
        "client",
        "one",
        "rate_bps=4M",
        "client",
        "two",
        "rate_bps=2M",
    ];
    let changed = world.asked(&slowed).json_of(0);
    let first = &changed["changed"][0];
    assert_eq!(
        (&first["before"], &first["now"]),
        (&json!(8000), &json!(4_000_000))
    );
    let sent_before = arrived() - before;
    wait_for("all packets at the far end", || {
        let _ = one.wait(Instant::now() + Duration::from_millis(1));
        (arrived() - before >= u64::from(2 * PACKETS)).then_some(())
    });
    let took_s = set_at.elapsed().as_secs_f64();
    let left = f64::from(PACKETS) - sent_before as f64 - 2.0;
    assert!(
        took_s >= left * BYTES as f64 * 8.0 / 2e6,
        "{took_s} s for {left} packets"
    );
    // Another policy half-way, and as many again.
    send(&mut one, 1);
    send(&mut two, 2);
    let words = [
        "set",
        "class",
        "0",
        "policy=priority",
        "level_guard_us=1000",
        "client",
        "two",
        "level=1",
    ];
    assert_eq!(world.asked(&words).code(), Some(0));
    wait_for("all packets at the far end", || {
        let _ = two.wait(Instant::now() + Duration::from_millis(1));
        (arrived() - before >= u64::from(4 * PACKETS)).then_some(())
    });
    let status = world.status();
    assert_eq!(status["classes"][0]["settings"]["level_guard_us"], 1000);
    assert_eq!(status["changes"], 5);
    let confined = &status["confined"];
    for held in ["no_capabilities", "no_new_privileges", "system_calls"] {
        assert_eq!(confined[held], true, "{held}: {confined}");
    }
    let (json, folder) = world.end();
    assert_eq!(arrived() - before, u64::from(4 * PACKETS));
    for client in json["clients"].as_array().unwrap() {
        let counts = ["packets_asked", "packets_sent"].map(|key| number(client, key));
        assert_eq!(counts, [u64::from(2 * PACKETS); 2], "{client}");
    }
    assert_eq!(json["drops"], json!({}), "{json}");
    assert_eq!(json["changes"][2]["of"], json!({"class": 0}), "{json}");
    assert_eq!(json["changes_made"], 5);
    rig::assert_closed(&json, &folder.path().join("out"));
    assert!(
        !folder.path().join("socket").exists(),
        "the clients' socket stays"
    );
    assert!(
        !folder.path().join("socket.control").exists(),
        "the control socket stays"
    );
}

#[test]
fn a_user_that_may_not_ask_is_refused_and_changes_nothing() {
    if !is_inside("a_user_that_may_not_ask_is_refused_and_changes_nothing") {
        return;
    }
    let world = World::new("control_uid = [65533]");
    let program = world.folder.path().join("forebay");
    fs::copy(forebay().get_program(), &program).unwrap();
    for (user, code) in [(NOBODY, 2), (65_533, 0)] {
        for words in [&["status"][..], &["set", "client", "one", "rate_bps=9000"]] {
            let mut command = world.command(&program, words);
            let ended = start(command.uid(user).gid(NOBODY).current_dir("/")).end();
            assert_eq!(ended.code(), Some(code), "{words:?}: {}", ended.stderr);
            let is_told = ended
                .stderr
                .contains("user 65534 may not ask this multiplexer");
            assert_eq!(is_told, code == 2, "{}", ended.stderr);
            let refused = &ended.json()["refused"];
            let reason = if code == 2 {
                json!("not_allowed")
            } else {
                Value::Null
            };
            assert_eq!(refused["reason"], reason, "{refused}");
        }
    }
    let wrong = world.asked(&["set", "client", "one", "rate_bps=9000", "level=9"]);
    assert_eq!(wrong.code(), Some(2));
    for part in ["level = 9", "it is too large", "write 7 or less"] {
        assert!(wrong.stderr.contains(part), "{part}: {}", wrong.stderr);
    }
    let refused = &wrong.json()["refused"];
    assert_eq!(refused["reason"], "mistakes", "{refused}");
    let mistake = &refused["mistakes"][0];
    assert_eq!(
        [&mistake["of"], &mistake["key"], &mistake["value"]],
        ["client one", "level", "9"],
        "{refused}"
    );
    let unread = world.asked(&["set", "client"]);
    assert_eq!(unread.json()["refused"]["reason"], "words");
    // One that shows it again and again ends when nobody reads.
    let mut shows = world.command(
        Path::new(forebay().get_program()),
        &["status", "--watch", "100ms"],
    );
    let mut shows = shows.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(shows.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("uptime_s"));
    drop(lines);
    let code = wait_for("its end", || shows.try_wait().unwrap());
    assert_eq!(code.code(), Some(0));
    let (json, _folder) = world.end();
    assert_eq!(json["changes_made"], 1);
    assert_eq!(json["changes"][0]["uid"], 65_533);
    assert_eq!(json["refused"]["control_not_allowed"], 2, "{json}");
    assert_eq!(json["refused"]["control_mistakes"], 1, "{json}");
}

#[test]
fn a_multiplexer_that_is_not_there_is_told() {
    let mut command = forebay();
    command.args(["mux", "status", "--control", "/no_such_socket"]);
    let ended = start(command.args(["--format", "json"])).end();
    let refused = &ended.json_of(2)["refused"];
    assert_eq!(refused["reason"], "no_answer", "{refused}");
    assert!(
        ended.stderr.contains("is a multiplexer running"),
        "{}",
        ended.stderr
    );
}
