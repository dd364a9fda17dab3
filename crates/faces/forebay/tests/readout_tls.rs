//! Link readout over TLS: to-host, to-flx and `forebay evb` have certificates in their files, subscribers and senders as options.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::path::Path;

use forebay_wire::felix::{Elink, Fid};
use rig::{certificates, forebay, free_ports, number, signal, start, wait_for};

const TRIGGERS: u64 = 2000;

/// The keys of a file that name what the options name.
fn keys(options: &[String]) -> String {
    let pairs = options.chunks_exact(2);
    let line = |pair: &[String]| {
        let key = pair[0].trim_start_matches('-').replace('-', "_");
        format!("{key} = {:?}\n", pair[1])
    };
    pairs.map(line).collect()
}

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn all_parts_of_link_readout_speak_tls() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let options = certificates::make(directory, vec!["127.0.0.1".into()]);
    let tls = keys(&options);
    let port = free_ports(2);
    let [published, taken] = [port, port + 1].map(|port| format!("tcp://127.0.0.1:{port}"));
    let socket = directory.join("card.sock");
    let card = format!(
        "[card]\nsocket = {socket:?}\ndrain_s = 20\n[ttc]\ntriggers = {TRIGGERS}\nrate_hz = 10000\n[[links]]\nlinks = [0]\n"
    );
    let tohost = format!(
        "[tohost]\ndirectory = {:?}\nsubscribers_min = 2\n[[devices]]\nsocket = {socket:?}\naddress = {published:?}\n{tls}",
        directory.join("tohost")
    );
    let toflx = format!(
        "[toflx]\ndirectory = {:?}\naddress = {taken:?}\n{tls}[[devices]]\nsocket = {socket:?}\n",
        directory.join("toflx")
    );
    let chunks = format!(
        "[run]\nname = \"tls\"\ndirectory = {:?}\n[[sources]]\naddress = {published:?}\nelinks = [0]\n[elinks]\n{tls}[[sinks]]\nkind = \"null\"\n",
        directory.join("events")
    );
    let run = |command: &[&str], name: &str, text: &str| {
        let mut all = forebay();
        all.args(command).arg(write(directory, name, text));
        start(all.args(["--format", "json"]))
    };
    let card = run(&["emulate", "card"], "card.toml", &card);
    wait_for("the card", || socket.exists().then_some(()));
    let toflx = run(&["toflx"], "toflx.toml", &toflx);
    let send = |security: &[String]| {
        let tag = Fid::to_host(0, 0, Elink::of_link(0).unwrap()).from_host();
        let mut send = forebay();
        send.args(["net", "send", &taken, "--input", "generate"]);
        send.args(["--count", "10", "--block", "2s", "--format", "json"]);
        send.args(["--tag", &tag.0.to_string()]).args(security);
        start(&mut send).end()
    };
    // The first one may be there before to-flx is.
    wait_for("ten messages", || {
        (send(&options).code() == Some(0)).then_some(())
    });
    assert_ne!(send(&[]).code(), Some(0), "without certificates");
    assert!(signal("INT", toflx.pid()));
    let toflx = toflx.end().json_of(0);
    assert!(number(&toflx, "written") >= 10, "{toflx}");
    let tohost = run(&["tohost"], "tohost.toml", &tohost);
    let events = run(&["evb"], "chunks.toml", &chunks);
    let mut swrod = forebay();
    let swrod = swrod.args(["swrod", &published, "--format", "json"]);
    let swrod = start(swrod.args(&options));
    assert_eq!(number(&swrod.end().json_of(0), "chunks"), TRIGGERS);
    assert_eq!(number(&events.end().json_of(0), "events_built"), TRIGGERS);
    tohost.end().json_of(0);
    card.end().json_of(0);
}

#[test]
fn certificates_that_cannot_be_used_are_mistakes_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let device = "[[devices]]\nsocket = \"card.sock\"\n";
    let cases = [
        ("tls_key = \"key.pem\"\n", "tls_authority is not named"),
        (
            "tls_certificate = \"/no/a\"\ntls_key = \"/no/b\"\ntls_authority = \"/no/c\"\n",
            "No such file",
        ),
        (
            "plain = true\ntls_certificate = \"/no/a\"\ntls_key = \"/no/b\"\ntls_authority = \"/no/c\"\n",
            "no plain here",
        ),
    ];
    for (keys, says) in cases {
        let tohost = format!("{device}address = \"tcp://127.0.0.1:7200\"\n{keys}");
        let toflx = format!("[toflx]\naddress = \"tcp://127.0.0.1:7200\"\n{keys}{device}");
        let chunks = format!(
            "[[sources]]\naddress = \"tcp://127.0.0.1:7200\"\nelinks = [0]\n[elinks]\n{keys}"
        );
        for (command, text) in [("tohost", tohost), ("toflx", toflx), ("evb", chunks)] {
            let file = write(directory, "file.toml", &text);
            let ended = start(forebay().args([command, &file])).end();
            assert_eq!(ended.code(), Some(2), "{command}: {}", ended.stderr);
            assert!(ended.stderr.contains(says), "{command}: {}", ended.stderr);
        }
    }
}
