//! A client that does what harm it can, beside one that behaves: what both lose, and what the multiplexer's account says of each lie.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_testing::wire::{carries, is_inside, lay, sh};
use rig::{Run, forebay, number, signal, start, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A user that has no rights, and is not the one that starts the test.
const NOBODY: u32 = 65_534;
/// All ends of a connection, twice.
const CONNECTIONS: u64 = 14;
/// So many of one kind the daemon forgives.
const FAULTS_MAX: u64 = 20;

/// A daemon at the end `far` of a wire, with a place for a client that behaves and one for a client that does not, both of a user without rights.
struct World {
    folder: TempDir,
    program: PathBuf,
    daemon: Run,
}

impl World {
    fn new() -> Self {
        Self::of("")
    }

    /// With more keys of the one that does harm.
    fn of(more: &str) -> Self {
        lay();
        sh("ip address add 10.0.0.9/24 dev near");
        for place in [1, 2] {
            sh(&format!(
                "ip neighbour replace 10.0.0.{place} lladdr 02:00:00:00:00:0{place} dev near"
            ));
        }
        carries();
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let program = folder.path().join("forebay");
        fs::copy(forebay().get_program(), &program).unwrap();
        let place = |name: &str, last: u8| {
            format!(
                "[[clients]]\nname = \"{name}\"\nuid = {NOBODY}\nmac = \"02:00:00:00:00:0{last}\"\naddress = [\"10.0.0.{last}\"]\n"
            )
        };
        let text = format!(
            "[mux]\ninterface = \"far\"\nsocket = \"{0}/socket\"\ndirectory = \"{0}/mux\"\nfaults_of_a_kind_max = {FAULTS_MAX}\n{1}{2}{more}",
            folder.path().display(),
            place("good", 1),
            place("bad", 2)
        );
        let file = folder.path().join("mux.toml");
        fs::write(&file, text).unwrap();
        let mut command = forebay();
        let daemon = start(command.args(["mux", "run", "--format", "json"]).arg(file));
        wait_for("the socket", || {
            folder.path().join("socket").exists().then_some(())
        });
        Self {
            folder,
            program,
            daemon,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A client of the user without rights.
    fn client(&self, words: &[&str], name: &str) -> Run {
        start(&mut self.command(words, name))
    }

    fn command(&self, words: &[&str], name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("mux").args(words).args(["--name", name]);
        command.arg("--socket").arg(self.path("socket"));
        command.args(["--format", "json", "--out"]);
        command.arg(self.path(name));
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
        command
    }
}

fn end(run: Run) -> Value {
    assert!(signal("INT", run.pid()));
    run.end().json_of(0)
}

/// Load for a client, until it is ended.
fn load(target: &str, more: &[&str]) -> Run {
    let mut command = forebay();
    command.args(["load", target, "--format", "json"]);
    start(command.args(more))
}

/// What the daemon counts of the client that does harm is what that one counts.
fn assert_agreed(hostile: &Value, daemon: &Value, directory: &Path) {
    let [good, bad] = [0, 1].map(|at| &daemon["clients"][at]);
    assert_eq!(bad["lies"], hostile["lies"], "{daemon}\n{hostile}");
    let ends = |name: &str| hostile["ends"][name].as_u64().unwrap();
    let positions = ["sent_back", "sent_beyond", "freed_back", "freed_beyond"].map(ends);
    assert_eq!(positions, [2; 4], "{hostile}");
    let parted = json!({"ring": 8, "lied": ends("insists"), "left": ends("leaves")});
    assert_eq!(bad["parted"], parted, "{daemon}");
    assert_eq!(hostile["refusals"], json!({"faults": 8 + 4}), "{hostile}");
    assert_eq!(number(bad, "connected"), CONNECTIONS);
    let lies = hostile["lies"].as_object().unwrap();
    let of_kind = |kind: &str| -> u64 {
        let lies = lies.iter().filter(|(name, _)| name.starts_with(kind));
        lies.map(|(_, times)| times.as_u64().unwrap()).sum()
    };
    let packets = ["packets_asked", "packets_sent"].map(|key| number(bad, key));
    let sound = number(hostile, "packets_sound");
    // One that still waited for the card when its client was gone is lost with it.
    let gone = &daemon["drops"]["mux_transmit.client_gone.bad"]["items"];
    let sent = sound - gone.as_u64().unwrap_or(0);
    assert_eq!(packets, [of_kind("send.") + sound, sent], "{daemon}");
    assert_eq!(sound, CONNECTIONS, "{hostile}");
    // Each kind once in a connection, and two of them until it was one too many, twice.
    for (lie, times) in [
        ("send.buffer_unknown", CONNECTIONS),
        ("send.buffer_in_use", CONNECTIONS),
        ("send.range", CONNECTIONS),
        ("send.too_short", CONNECTIONS),
        ("send.too_long", CONNECTIONS),
        ("send.foreign_source", CONNECTIONS + 2 * FAULTS_MAX),
        ("return.buffer_unknown", CONNECTIONS + 2 * FAULTS_MAX),
    ] {
        assert_eq!(lies[lie], times, "{lie}: {hostile}");
    }
    assert!(of_kind("return.not_held") > 0, "{hostile}");
    // Of the pool that it sends from the peer's page alone is not its own; of the other one, frames as well.
    assert_eq!(number(hostile, "reaches"), CONNECTIONS * (2 + 4 + 2 * 4));
    assert_eq!(hostile["reached"], json!({}), "{hostile}");
    let frames = ["frames_given", "buffers_returned"].map(|key| number(bad, key));
    let own = ["frames_given", "frames_returned"].map(|key| number(hostile, key));
    assert_eq!(frames, own, "{daemon}\n{hostile}");
    assert!(frames[0] > frames[1], "it has kept some: {hostile}");
    assert_eq!(good["lies"], json!({}), "{daemon}");
    // It rang a thousand times in each connection, and had nothing.
    let [heard, idle] = ["bells", "idle_bells"].map(|key| number(bad, key));
    assert!(idle > 0 && idle < heard, "{daemon}");
    assert!(number(good, "bells") > 0, "{daemon}");
    assert!(number(good, "idle_bells") < idle, "{daemon}");
    let drops = daemon["drops"].as_object().unwrap();
    let of_good: Vec<_> = drops.keys().filter(|it| it.ends_with(".good")).collect();
    assert!(of_good.is_empty(), "{daemon}");
    for (of, json) in [("mux", daemon), ("bad", hostile)] {
        rig::assert_closed(json, &directory.join(of));
    }
}

#[test]
fn one_that_does_what_harm_it_can_costs_others_nothing_and_each_lie_is_counted() {
    if !is_inside("one_that_does_what_harm_it_can_costs_others_nothing_and_each_lie_is_counted") {
        return;
    }
    let world = World::new();
    let good = world.client(&["client", "echo"], "good");
    wait_for("the place", || {
        good.said().contains("good is 02:00").then_some(())
    });
    // It answers nothing of what it is sent, and keeps it.
    let feed = load(
        "10.0.0.2:9500",
        &["--rate", "2000pps", "--duration", "1m", "--timeout", "1ms"],
    );
    let connections = CONNECTIONS.to_string();
    let bad = world.client(&["hostile", "--connections", &connections], "bad");
    let asked = load(
        "10.0.0.1:9500",
        &["--rate", "500pps", "--duration", "2s", "--timeout", "20s"],
    );
    let asked = asked.end().json_of(0);
    let hostile = bad.end().json_of(0);
    assert!(signal("INT", feed.pid()));
    feed.end();
    let target = &asked["targets"][0];
    let [sent, answered] = ["packets_sent", "packets_answered"].map(|key| number(target, key));
    assert_eq!(sent, answered, "{target}");
    assert!(sent > 0, "{target}");
    let echo = end(good);
    rig::assert_closed(&echo, &world.path("good"));
    let World { folder, daemon, .. } = world;
    let daemon = end(daemon);
    assert_agreed(&hostile, &daemon, folder.path());
}

#[test]
fn one_in_a_vlan_speaks_in_another_one_and_is_found() {
    if !is_inside("one_in_a_vlan_speaks_in_another_one_and_is_found") {
        return;
    }
    let world = World::of("vlan = 7\n");
    let bad = world.client(&["hostile", "--connections", "7"], "bad");
    let hostile = bad.end().json_of(0);
    let World { daemon, .. } = world;
    let daemon = end(daemon);
    let place = &daemon["clients"][1];
    assert_eq!(place["lies"], hostile["lies"], "{daemon}");
    assert_eq!(hostile["lies"]["send.foreign_vlan"], 7, "{hostile}");
    assert_eq!(number(&hostile, "packets_sound"), 7);
    assert_eq!(number(place, "packets_sent"), 7, "{daemon}");
}

#[test]
fn what_vanishes_of_its_own_entries_is_named_by_its_books() {
    if !is_inside("what_vanishes_of_its_own_entries_is_named_by_its_books") {
        return;
    }
    let world = World::new();
    for hop in ["hostile_send", "hostile_return"] {
        let mut bad = world.command(&["hostile", "--connections", "1"], "bad");
        let bad = start(bad.env("FOREBAY_LEAK", format!("{hop}:1")));
        let json = bad.end().json_of(1);
        assert_eq!(number(&json, "residual_items"), 1, "{json}");
        rig::offenders::assert_leaked(&world.path("bad"), hop, "packets", 1);
    }
    // The multiplexer's own books close all the same.
    let daemon = end(world.daemon);
    rig::assert_closed(&daemon, &world.folder.path().join("mux"));
}

#[test]
fn one_that_does_harm_ends_with_the_multiplexer_and_says_so() {
    if !is_inside("one_that_does_harm_ends_with_the_multiplexer_and_says_so") {
        return;
    }
    let world = World::new();
    let bad = world.client(&["hostile"], "bad");
    wait_for("harm", || {
        bad.said().contains("what harm it can").then_some(())
    });
    let World { folder, daemon, .. } = world;
    end(daemon);
    let ended = bad.end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("the place bad at "),
        "{}",
        ended.stderr
    );
    drop(folder);
}
