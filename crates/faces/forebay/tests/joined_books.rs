//! The books of a sender and of a receiver are two parties': joined they say what is missing between them, and where.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rig::{Ended, forebay, number, signal, start, wait_for};
use serde_json::Value;

const SOURCES: u16 = 3;
const EVENTS: u64 = 200;

/// The address of the way that loses some.
const WAY: &str = "127.0.0.2";

/// Carries datagrams from a port of [`WAY`] to the same one of the receiver, and swallows every one whose turn it is.
struct Relay {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Relay {
    fn start(port: u16, every: u64) -> Self {
        let socket = UdpSocket::bind((WAY, port)).unwrap();
        let out = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut buffer, mut came, mut swallowed) = ([0; 65_536], 0, 0);
            loop {
                match socket.recv(&mut buffer) {
                    Ok(length) => {
                        came += 1;
                        if came % every == 0 {
                            swallowed += 1;
                        } else {
                            out.send_to(&buffer[..length], ("127.0.0.1", port)).unwrap();
                        }
                    }
                    // Only when nothing is left.
                    Err(_) if asked.load(Ordering::Relaxed) => return swallowed,
                    Err(_) => {}
                }
            }
        });
        Self { stop, thread }
    }

    /// How many it swallowed.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn sender(port: u16, out: &Path, more: &[&str]) -> Ended {
    let mut command = forebay();
    command.args(["emulate", "hades", "--group", &format!("{SOURCES}:100")]);
    command.args(["--rate", "2000", "--water-mark", "0", "--format", "json"]);
    command.args([
        "--events",
        &EVENTS.to_string(),
        "--base-port",
        &port.to_string(),
    ]);
    start(command.arg("--out").arg(out).args(more)).end()
}

fn joined(directories: &[&Path], format: &str) -> Ended {
    start(
        forebay()
            .args(["audit", "--format", format])
            .args(directories),
    )
    .end()
}

/// A receiver and what it came to when its sender was through.
fn received(out: &Path, port: u16, send: impl FnOnce()) -> Value {
    let run = start(&mut rig::evb(out, SOURCES, port, &["--sink", "null"]));
    run.wait_stages(&["receiver", "builder"]);
    send();
    signal("INT", run.pid());
    run.end().json()
}

fn link(sheet: &Value, port: u16) -> &Value {
    let which = format!("port {port}");
    let links = sheet["links"].as_array().unwrap();
    links.iter().find(|link| link["which"] == which).unwrap()
}

struct Hosts {
    folder: tempfile::TempDir,
}

impl Hosts {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn both(&self) -> [PathBuf; 2] {
        ["sender", "receiver"].map(|name| self.folder.path().join(name))
    }
}

#[test]
fn what_the_sender_says_it_sent_is_what_the_receiver_says_it_received() {
    let hosts = Hosts::new();
    let [from, to] = hosts.both();
    let port = rig::free_ports(SOURCES);
    received(&to, port, || {
        let sent = sender(port, &from, &[]).json_of(0);
        assert_eq!(number(&sent, "datagrams_sent"), EVENTS * u64::from(SOURCES));
    });
    let sheet = joined(&[&from, &to], "json");
    let told = sheet.json();
    assert_eq!(
        (sheet.code(), &told["closed"]),
        (Some(0), &true.into()),
        "{told}"
    );
    for at in port..port + SOURCES {
        let link = link(&told, at);
        assert_eq!(link["sent"]["items"], EVENTS, "{link}");
        assert_eq!(link["unexplained"]["items"], 0, "{link}");
    }
    let text = joined(&[&to, &from], "text");
    assert_eq!(text.code(), Some(0), "{}", text.stdout);
    assert!(
        text.stdout.contains("balance, link by link"),
        "{}",
        text.stdout
    );
    // One of them alone says nothing of the other end.
    let alone = joined(&[&to], "text");
    assert!(alone.stdout.contains("unknown"), "{}", alone.stdout);
}

#[test]
fn what_is_swallowed_between_them_is_missing_on_that_link_exactly() {
    let hosts = Hosts::new();
    let [from, to] = hosts.both();
    let port = rig::free_ports(SOURCES);
    let mut swallowed = Vec::new();
    received(&to, port, || {
        let every = [7, 1000, 50];
        let relays: Vec<_> = (port..)
            .zip(every)
            .map(|(at, every)| Relay::start(at, every))
            .collect();
        sender(port, &from, &["--dest", WAY]).json_of(0);
        swallowed.extend(relays.into_iter().map(Relay::end));
    });
    assert_eq!(swallowed, [EVENTS / 7, 0, EVENTS / 50]);
    let sheet = joined(&[&from, &to], "json");
    let told = sheet.json();
    assert_eq!(
        (sheet.code(), &told["closed"]),
        (Some(1), &false.into()),
        "{told}"
    );
    for (at, missing) in (port..).zip(swallowed) {
        let link = link(&told, at);
        assert_eq!(link["place"], "socket");
        assert_eq!(link["unexplained"]["items"], missing, "{link}");
    }
    let text = joined(&[&from, &to], "text").stdout;
    let line = format!("socket port {port}: {} datagrams", EVENTS / 7);
    assert!(
        text.contains("DO NOT BALANCE") && text.contains(&line),
        "{text}"
    );
}

#[test]
fn books_without_a_link_in_common_are_not_said_to_balance() {
    let hosts = Hosts::new();
    let [from, to] = hosts.both();
    let ports = [rig::free_ports(SOURCES), rig::free_ports(SOURCES)];
    received(&to, ports[0], || {
        // Nobody listens there.
        sender(ports[1], &from, &[]).json_of(0);
    });
    let apart = joined(&[&from, &to], "text");
    assert_eq!(apart.code(), Some(1), "{}", apart.stdout);
    for part in ["no link has both of its ends", "nobody's books here say"] {
        assert!(apart.stdout.contains(part), "{part}: {}", apart.stdout);
    }
}

#[test]
fn what_overflowed_at_the_receiver_is_the_links_loss_by_name() {
    let hosts = Hosts::new();
    let [from, to] = hosts.both();
    let port = rig::free_ports(SOURCES);
    let run = start(&mut rig::evb(
        &to,
        SOURCES,
        port,
        &["--sink", "null", "--socket-buffer", "16Ki"],
    ));
    let receiver = run.wait_stages(&["receiver", "builder"])["receiver"];
    signal("STOP", receiver);
    let sent = sender(port, &from, &[]).json_of(0);
    signal("CONT", receiver);
    signal("INT", run.pid());
    run.end();
    let told = joined(&[&from, &to], "json").json();
    assert_eq!(told["closed"], true, "{told}");
    let links = told["links"].as_array().unwrap();
    let sum = |of: &dyn Fn(&Value) -> u64| links.iter().map(of).sum::<u64>();
    let lost = sum(&|link| link["dropped"][0]["items"].as_u64().unwrap_or(0));
    let came = sum(&|link| link["received"]["items"].as_u64().unwrap());
    assert!(lost > 0, "{told}");
    assert_eq!(came + lost, number(&sent, "datagrams_sent"), "{told}");
    assert_eq!(links[0]["dropped"][0]["reason"], "buffer_full", "{told}");
}

#[test]
fn messages_are_joined_too() {
    let hosts = Hosts::new();
    let [from, to] = hosts.both();
    let address = format!("shm://joined-{}", std::process::id());
    let end = |role: &str, out: &Path, more: &[&str]| {
        let mut command = forebay();
        command
            .args(["net", role, &address, "--out"])
            .arg(out)
            .args(more);
        start(&mut command)
    };
    let receiver = end("recv", &to, &["--once", "--output", "null"]);
    end("send", &from, &["--input", "generate", "--count", "5000"]).end();
    receiver.end();
    let told = joined(&[&from, &to], "json").json();
    assert_eq!(told["closed"], true, "{told}");
    let link = &told["links"][0];
    assert_eq!(
        (&link["place"], &link["sent"]["items"]),
        (&"messaging".into(), &5000.into())
    );
    // Without the receiver's books nobody says what came of them.
    let alone = joined(&[&from, &from.join("nothing")], "text");
    assert_eq!(alone.code(), Some(1), "{}", alone.stdout);
    for part in ["nobody's books here", "NOT PART OF THIS", "nothing"] {
        assert!(alone.stdout.contains(part), "{part}: {}", alone.stdout);
    }
}

#[test]
fn books_of_another_version_are_named_and_hide_nobody_elses() {
    let hosts = Hosts::new();
    let [from, to] = hosts.both();
    let port = rig::free_ports(SOURCES);
    received(&to, port, || {
        sender(port, &from, &[]).json_of(0);
    });
    let other = hosts.folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let mut ledger = std::fs::read(from.join("ledger")).unwrap();
    // The version follows the magic word.
    ledger[8] ^= 0x55;
    std::fs::write(other.join("ledger"), &ledger).unwrap();
    let sheet = joined(&[&from, &to, &other], "text");
    assert_eq!(sheet.code(), Some(1), "{}", sheet.stdout);
    assert!(
        sheet.stdout.contains("NOT PART OF THIS"),
        "{}",
        sheet.stdout
    );
    assert!(
        sheet.stdout.contains("balance, link by link"),
        "{}",
        sheet.stdout
    );
}

/// A source that sends 2,000 datagrams in a second to `port`, for so long, and keeps its books in `out`.
fn sends_for(duration: &str, port: u16, out: &Path) -> rig::Run {
    let mut command = forebay();
    command.args(["emulate", "hades", "--group", "1:100", "--rate", "2000"]);
    command.args(["--water-mark", "0", "--base-port", &port.to_string()]);
    start(command.args(["--duration", duration, "--out"]).arg(out))
}

/// Datagrams that it has sent by its books; none before there are any.
fn sent_by(out: &Path) -> Option<u64> {
    out.join("ledger").exists().then_some(())?;
    let books = rig::audit_json(out);
    let datagrams = ("generator", "datagrams");
    Some(rig::account_items(&books, datagrams, "outgoing"))
}

#[test]
fn a_sender_that_was_killed_leaves_its_books() {
    let hosts = Hosts::new();
    let [from, to] = hosts.both();
    let port = rig::free_ports(1);
    let run = start(&mut rig::evb(&to, 1, port, &["--sink", "null"]));
    run.wait_stages(&["receiver", "builder"]);
    let emulator = sends_for("20s", port, &from);
    wait_for("datagrams in its books", || {
        sent_by(&from).filter(|sent| *sent > 100)
    });
    signal("KILL", emulator.pid());
    emulator.end();
    signal("INT", run.pid());
    run.end();
    let told = joined(&[&from, &to], "json").json();
    assert_eq!(
        told["parties"][0]["verdict"]["condition"], "interrupted",
        "{told}"
    );
    // What it sent after its last commit is in no books of its own: no more than a few datagrams.
    let link = link(&told, port);
    let left = link["unexplained"]["items"].as_i64().unwrap();
    assert!((-200..=0).contains(&left), "{link}");
}

#[test]
fn what_leaks_in_a_sender_with_books_of_its_own_is_told_by_them() {
    let hosts = Hosts::new();
    let [from, _] = hosts.both();
    let port = rig::free_ports(1);
    let mut command = forebay();
    command.env("FOREBAY_LEAK", "generator:7");
    command.args(["emulate", "hades", "--group", "1:100", "--events", "500"]);
    command.args(["--base-port", &port.to_string(), "--format", "json"]);
    let ended = start(command.arg("--out").arg(&from)).end();
    assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
    assert_eq!(ended.json()["residual_items"], 7);
    assert_eq!(rig::audit_json(&from)["balance"]["residual_items"], 7);
}

/// The last line of a text.
fn last(text: &str) -> &str {
    text.trim_end().lines().last().unwrap()
}

#[test]
fn what_each_audit_says_stands_in_the_joined_one_and_the_verdict_is_last() {
    let hosts = Hosts::new();
    let [from, to] = hosts.both();
    let port = rig::free_ports(SOURCES);
    received(&to, port, || {
        sender(port, &from, &["--fault", "1:silent,from=50"]).json_of(0);
    });
    let alone = joined(&[&to], "json").json();
    // Of the first 50 events all sources have something.
    let incomplete = EVENTS - 50;
    let said = format!("Incomplete: {incomplete} of {EVENTS} triggers");
    let text = joined(&[&from, &to], "text");
    assert_eq!(text.code(), Some(0), "{}", text.stdout);
    let stdout = &text.stdout;
    let party = format!("{}: run ", to.display());
    let top = stdout.find(&party).unwrap();
    let links = stdout.find("\nlink ").unwrap();
    assert!(stdout[top..links].contains(&said), "{stdout}");
    assert!(
        stdout[top..links].contains("efficiency 25.00 %"),
        "{stdout}"
    );
    // A source that said nothing more is named.
    let silent = alone["silent_sources"].as_array().unwrap();
    for heard in silent {
        let name = format!("{} silent for", heard["source"].as_str().unwrap());
        assert!(stdout[top..links].contains(&name), "{stdout}");
    }
    let end = last(stdout);
    for part in [&said, "All of it is accounted for", "balance, link by link"] {
        assert!(end.contains(part), "{part}: {stdout}");
    }
    assert!(!stdout.contains("complete ("), "{stdout}");
    let told = joined(&[&from, &to], "json").json();
    for key in ["triggers", "silent_sources", "subevents_missing"] {
        assert_eq!(told["parties"][1][key], alone[key], "{key}");
    }
}

#[test]
fn a_sender_that_goes_on_after_the_end_of_the_receiving_run_is_named() {
    let hosts = Hosts::new();
    let [from, to] = hosts.both();
    let port = rig::free_ports(1);
    let run = start(&mut rig::evb(&to, 1, port, &["--sink", "null"]));
    run.wait_stages(&["receiver", "builder"]);
    let emulator = sends_for("60s", port, &from);
    let sent = || sent_by(&from);
    wait_for("datagrams in its books", || {
        sent().filter(|sent| *sent > 100)
    });
    signal("INT", run.pid());
    run.end();
    let until = sent().unwrap() + 1000;
    wait_for("more of them", || sent().filter(|sent| *sent > until));
    signal("INT", emulator.pid());
    emulator.end();
    let told = joined(&[&from, &to], "json").json();
    let link = link(&told, port);
    let left = link["unexplained"]["items"].as_u64().unwrap();
    assert!(left >= 1000, "{link}");
    let seconds = link["sent_after_s"].as_f64().unwrap();
    // 1,000 datagrams at 2 kHz, and no more than the whole test.
    assert!((0.3..60.0).contains(&seconds), "{link}");
    assert_eq!(link["sent_before_s"], 0.0, "{link}");
    let text = joined(&[&from, &to], "text");
    assert_eq!(text.code(), Some(1), "{}", text.stdout);
    let name = from.display();
    let said = format!(
        "{name} went on for {seconds:.1} s after the end of the receiving run: what was sent then is among them"
    );
    assert!(text.stdout.contains(&said), "{}", text.stdout);
}

#[test]
fn what_a_killed_receiver_did_not_confirm_closes_the_link() {
    let hosts = Hosts::new();
    let [from, to] = hosts.both();
    let address = format!("shm://joined-killed-{}", std::process::id());
    let end = |role: &str, out: &Path, more: &[&str]| {
        let mut command = forebay();
        command.args(["net", role, &address, "--out"]).arg(out);
        start(command.args(more))
    };
    let receiver = end("recv", &to, &["--output", "null"]);
    let sender = end("send", &from, &["--input", "generate", "--format", "json"]);
    let items = |out: &Path, account, term| {
        out.join("ledger").exists().then_some(())?;
        Some(rig::account_items(&rig::audit_json(out), account, term))
    };
    let taken = || items(&to, ("deliver", "messages"), "outgoing");
    wait_for("messages that came", || {
        taken().filter(|items| *items > 1000)
    });
    signal("STOP", receiver.pid());
    let unconfirmed = || items(&from, ("send", "messages"), "unconfirmed");
    wait_for("messages that nobody reads", || {
        unconfirmed().filter(|items| *items > 1000)
    });
    signal("KILL", receiver.pid());
    receiver.end();
    signal("INT", sender.pid());
    signal("INT", sender.pid());
    let sent = sender.end().json_of(4);
    let sheet = joined(&[&from, &to], "json");
    let told = sheet.json();
    let link = &told["links"][0];
    assert_eq!(
        (sheet.code(), &told["closed"]),
        (Some(0), &true.into()),
        "{link}"
    );
    let of = |term: &str| number(&link[term], "items");
    assert!(of("unconfirmed") > 0, "{link}");
    assert!(of("unconfirmed") <= number(&sent, "unconfirmed"), "{link}");
    assert_eq!(of("sent"), of("received") + of("unconfirmed"), "{link}");
    assert_eq!(link["unexplained"]["items"], 0, "{link}");
    let text = joined(&[&from, &to], "text").stdout;
    for part in [
        "Unconfirmed: ",
        "All of it is counted",
        "balance, link by link",
    ] {
        assert!(last(&text).contains(part), "{part}: {text}");
    }
    // Without the books of the receiver nobody says more.
    let alone = joined(&[&from, &from.join("nothing")], "json").json();
    let link = &alone["links"][0];
    assert_eq!(link["unconfirmed"]["items"], sent["unconfirmed"], "{link}");
}
