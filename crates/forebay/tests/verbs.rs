//! Each verb's JSON: one object, and the keys that were agreed; and each verb's exit code for a mistake.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rig::{Ended, Run, demo, evb, forebay, free_ports, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// The keys of each verb; `UPDATE_DOCS=1` with the test writes it anew.
const KEYS: &str = "tests/verbs.txt";

fn example(name: &str) -> String {
    let file = format!("examples/{name}.toml");
    let path = forebay_testing::root().join(file);
    path.to_str().unwrap().to_owned()
}

fn ended(words: &[&str]) -> Ended {
    start(forebay().args(words)).end()
}

/// Ends a run that is at work, and gives what it said.
fn stopped(run: Run, is_at_work: impl FnMut() -> Option<()>) -> Value {
    wait_for("a run at work", is_at_work);
    signal("INT", run.pid());
    run.end().json_of(0)
}

/// What the verbs say, by their names.
struct Said(BTreeMap<String, Value>);

impl Said {
    fn add(&mut self, verb: &str, json: Value) {
        assert!(json.is_object(), "{verb}: {json}");
        self.0.insert(verb.to_owned(), json);
    }

    fn run(&mut self, verb: &str, words: &[&str]) {
        self.add(verb, ended(words).json_of(0));
    }

    /// A line for each verb, its keys in their order.
    fn keys(&self) -> String {
        let line = |(verb, json): (&String, &Value)| {
            let keys = json.as_object().unwrap().keys().map(String::as_str);
            format!("{verb}: {}\n", keys.collect::<Vec<_>>().join(" "))
        };
        self.0.iter().map(line).collect()
    }
}

/// The event builder and what reads its output.
fn builder(said: &mut Said, folder: &Path) {
    let out = folder.join("demo");
    let args = ["--sources", "2", "--duration", "100ms"];
    let json = start(&mut demo(&out, &args)).end().json_of(0);
    let file = rig::files(&json)[0].display().to_string();
    said.add("demo", json);
    let out = out.to_str().unwrap();
    said.run("audit", &["audit", "--format", "json", out]);
    said.run("top", &["top", "--once", "--format", "json", out]);
    said.run("inspect", &["inspect", "--format", "json", &file]);
    let out = folder.join("evb");
    let run = start(&mut evb(&out, 1, free_ports(1), &[]));
    run.wait_stages(&["receiver", "builder"]);
    said.add("evb", stopped(run, || Some(())));
    let capture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../forebay-wire/tests/data/six_sources.pcap"
    );
    let (out, moved) = (folder.join("replay"), folder.join("moved"));
    let [out, moved] = [&out, &moved].map(|path| path.to_str().unwrap());
    said.run(
        "replay",
        &["replay", capture, "--format", "json", "--out", out],
    );
    let listen = format!("127.0.0.1:{}", free_ports(1));
    let mover = ["mover", "--format", "json", "--out", moved, "--listen"];
    let run = start(forebay().args(mover).arg(&listen));
    let is_there = || std::net::TcpStream::connect(&listen).ok().map(drop);
    said.add("mover", stopped(run, is_there));
    let port = free_ports(1).to_string();
    let emulate = ["emulate", "hades", "--group", "1:116", "--events", "1"];
    let more = ["--format", "json", "--base-port", &port];
    said.run("emulate hades", &[&emulate[..], &more].concat());
}

/// Link readout, its files, and messaging.
fn readout(said: &mut Said, folder: &Path) {
    let out = folder.join("tohost");
    let out = out.to_str().unwrap();
    let words = ["demo", "tohost", "--links", "1", "--duration", "200ms"];
    let more = ["--format", "json", "--out", out];
    said.run("demo tohost", &[&words[..], &more].concat());
    let card = example("card");
    for verb in ["show", "check"] {
        let words = ["elinks", verb, "--format", "json", &card];
        said.run(&format!("elinks {verb}"), &words);
    }
    for file in ["hades", "chunks", "card", "tohost", "toflx", "batch"] {
        let words = ["check", "--format", "json", &example(file)];
        said.run(&format!("check {file}"), &words);
    }
    let blocks = folder.join("blocks");
    std::fs::write(&blocks, rig::blocks::blocks(2).concat()).unwrap();
    let words = ["fcheck", "--format", "json", blocks.to_str().unwrap()];
    said.run("fcheck", &words);
    let address = format!("tcp://127.0.0.1:{}", free_ports(1));
    let to = folder.join("received");
    let mut recv = forebay();
    recv.args(["net", "recv", &address, "--once", "--format", "json"]);
    let recv = start(recv.arg("--output").arg(&to));
    let from = example("hades");
    let words = ["net", "send", &address, "--format", "json", "--input"];
    said.run("net send", &[&words[..], &[&from]].concat());
    said.add("net recv", recv.end().json_of(0));
}

/// Time division, and the host.
fn others(said: &mut Said, folder: &Path) {
    said.run("tdm plan", &["tdm", "plan", "--format", "json"]);
    let address = format!("127.0.0.1:{}", free_ports(1));
    let mut receive = forebay();
    receive.args(["tdm", "receive", "--format", "json", "--bind", &address]);
    receive.args(["--senders", "1", "--link-rate", "200M"]);
    receive.args(["--port-buffer", "128K", "--output"]);
    let receive = start(receive.arg(folder.join("datagrams")));
    let mut send = rig::tdm_send(&address, "north");
    let send = start(send.args(["--input", &example("hades")])).end();
    said.add("tdm send", send.json_of(0));
    said.add("tdm receive", receive.end().json_of(0));
    // What it says of the host decides its exit code.
    said.add("doctor", ended(&["doctor", "--format", "json"]).json());
}

#[test]
fn the_json_of_each_verb_is_one_object_with_the_keys_that_were_agreed() {
    let folder = TempDir::new().unwrap();
    let mut said = Said(BTreeMap::new());
    builder(&mut said, folder.path());
    readout(&mut said, folder.path());
    others(&mut said, folder.path());
    let keys = said.keys();
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), KEYS].iter().collect();
    let agreed = std::fs::read_to_string(&path).unwrap_or_default();
    if agreed != keys && std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &keys).unwrap();
        return;
    }
    for (agreed, found) in agreed.lines().zip(keys.lines()) {
        assert_eq!(
            agreed, found,
            "UPDATE_DOCS=1 with this test writes {KEYS} anew"
        );
    }
    assert_eq!(agreed.lines().count(), keys.lines().count());
}

/// Each verb says a flag that it does not have, and a thing that is not there, by an exit code of 2 and nothing on standard output.
#[test]
fn a_mistake_on_the_command_line_of_any_verb_exits_with_2() {
    let nothing = "/nonexistent/nothing";
    for verb in [
        &["demo"][..],
        &["demo", "tohost"],
        &["evb"],
        &["run"],
        &["replay"],
        &["mover"],
        &["net", "send"],
        &["net", "recv"],
        &["net", "pub"],
        &["net", "sub"],
        &["elinks", "show"],
        &["elinks", "check"],
        &["tohost"],
        &["toflx"],
        &["emulate", "hades"],
        &["emulate", "card"],
        &["inspect"],
        &["fcheck"],
        &["swrod"],
        &["tdm", "send"],
        &["tdm", "receive"],
        &["tdm", "plan"],
        &["audit"],
        &["top"],
        &["check"],
        &["doctor"],
    ] {
        for wrong in ["--no-such-flag", nothing] {
            if wrong == nothing && matches!(verb, ["tdm", "receive" | "plan"]) {
                continue;
            }
            let ended = start(forebay().args(verb).arg(wrong)).end();
            let (said, told) = (&ended.stderr, &ended.stdout);
            assert_eq!(ended.code(), Some(2), "{verb:?} {wrong}: {told}{said}");
            assert!(told.is_empty(), "{verb:?} {wrong}: {told}");
            assert!(!said.trim().is_empty(), "{verb:?} {wrong}");
        }
    }
}

/// Nothing lost, lost by name, lost without one: 0, 3 where losses are asked for, 1.
#[test]
fn a_run_says_by_its_exit_code_what_became_of_its_data() {
    let sound = rig::sender::message(0, 0..3, 40);
    let rubbish = vec![0xee; 64];
    let cases: [(&[&str], &str, &[u8], i32); 5] = [
        (&[], "", &sound, 0),
        (&["--strict"], "", &sound, 0),
        (&[], "", &rubbish, 0),
        (&["--strict"], "", &rubbish, 3),
        (&["--strict"], "receiver:1", &sound, 1),
    ];
    for (flags, leak, datagram, code) in cases {
        let folder = TempDir::new().unwrap();
        let base_port = free_ports(1);
        let mut command = evb(folder.path(), 1, base_port, flags);
        if !leak.is_empty() {
            command.env("FOREBAY_LEAK", leak);
        }
        let run = start(&mut command);
        run.wait_stages(&["receiver", "builder"]);
        rig::sender::Sender::new(base_port).send(0, datagram);
        rig::wait_arrived(folder.path(), 1);
        signal("INT", run.pid());
        let json = run.end().json_of(code);
        let left = json["residual_items"].as_u64().unwrap();
        assert_eq!(left > 0, code == 1, "{flags:?} {leak}: {json}");
    }
}
