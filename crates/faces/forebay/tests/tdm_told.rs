//! What an operator of time-division UDP is told: which senders are there, which are missing, and why a session ended as it did.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use forebay_wire::tdm::{Carries, Hello, Message, NO_SENDER, Packet};
use rig::{Ended, Run, forebay, number, signal, start, wait_for};

/// A receiver on loopback whose standard error is a file.
struct Session {
    directory: tempfile::TempDir,
    address: String,
}

impl Session {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            address: format!("127.0.0.1:{}", rig::free_ports(1)),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Small windows on a slow port.
    fn receive(&self, more: &[&str]) -> Run {
        File::create(self.path("told")).unwrap();
        let program = forebay();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "told=$1; shift; exec \"$@\" 2>\"$told\"", "sh"]);
        command.arg(self.path("told")).arg(program.get_program());
        command.args(["tdm", "receive", "--bind", &self.address]);
        command.args(["--link-rate", "200M", "--port-buffer", "128K"]);
        if !more.contains(&"--silence") {
            command.args(["--silence", "1500ms"]);
        }
        start(command.args(more))
    }

    fn send(&self, name: &str, more: &[&str]) -> Run {
        start(rig::tdm_send(&self.address, name).args(more))
    }

    /// What the receiver has told so far.
    fn told(&self) -> String {
        fs::read_to_string(self.path("told")).unwrap()
    }

    fn tells(&self, text: &str) {
        wait_for(text, || self.told().contains(text).then_some(()));
    }
}

fn refused(arguments: &[&str]) -> Ended {
    let ended = start(forebay().arg("tdm").args(arguments)).end();
    assert_eq!(ended.code(), Some(2), "{arguments:?}: {}", ended.stderr);
    ended
}

#[test]
fn who_joins_and_who_leaves_before_the_start_is_told_and_who_is_missing_then() {
    let session = Session::new();
    let receiver = session.receive(&["--senders", "3", "--wait", "2s"]);
    session.tells("waiting for 3 senders");
    let early = session.send("early", &[]);
    session.tells("early is here, 1 of 3");
    assert!(signal("INT", early.pid()));
    drop(early.end());
    session.tells("early has left before the start, 0 of 3 are here");
    let north = session.send("north", &["--bytes", "100000"]);
    session.tells("north is here, 1 of 3");
    session.tells("1 of 3 senders is here: 2 slots stay empty until others join");
    north.end().json_of(0);
    drop(receiver.end());
    let told = session.told();
    assert_eq!(told.matches("north").count(), 1, "{told}");
}

#[test]
fn a_session_with_a_dead_sender_that_is_stopped_ends_with_2_and_says_who_died() {
    let session = Session::new();
    let out = session.path("out");
    let out = out.to_str().unwrap();
    let receiver = session.receive(&["--senders", "2", "--out", out, "--format", "json"]);
    let doomed = session.send("doomed", &[]);
    let steady = session.send("steady", &[]);
    wait_for("the ledger", || {
        Path::new(out).join("ledger").exists().then_some(())
    });
    wait_for("packets in the books", || {
        let verdict = rig::audit_json(Path::new(out));
        (rig::account_items(&verdict, ("windows", "packets"), "outgoing") >= 300).then_some(())
    });
    assert!(signal("KILL", doomed.pid()));
    drop(doomed.end());
    session.tells("doomed has said nothing for 1.5 s and counts as dead");
    assert!(signal("INT", receiver.pid()));
    let received = receiver.end().json_of(2);
    drop(steady.end());
    assert_eq!(received["end"], "interrupted", "{received}");
    let told = session.told();
    let last = told.lines().last().unwrap();
    assert!(
        last.ends_with("doomed died: what it sent last is not known"),
        "{told}"
    );
}

#[test]
fn who_gets_no_place_is_told_and_counted_at_the_receiver_and_one_stopped_before_it_began_ends_with_2()
 {
    let session = Session::new();
    let receiver = session.receive(&["--senders", "2", "--format", "json"]);
    let north = session.send("north", &[]);
    session.tells("north is here, 1 of 2");
    let south = session.send("south", &[]);
    session.tells("south is here, 2 of 2");
    let third = session.send("third", &["--wait", "20s"]).end();
    assert_eq!(third.code(), Some(2), "{}", third.stderr);
    session.tells("third was refused: all places are taken");
    let again = session.send("third", &[]).end();
    assert_eq!(again.code(), Some(2), "{}", again.stderr);
    assert!(signal("INT", receiver.pid()));
    let received = receiver.end().json_of(0);
    drop((north.end(), south.end()));
    let refused = &received["hellos_refused"];
    assert!(number(refused, "no_place") >= 2, "{received}");
    assert_eq!(refused.as_object().unwrap().len(), 1, "{received}");
    let told = session.told();
    assert_eq!(told.matches("third").count(), 1, "{told}");
    // Nobody listens there any more.
    let out = session.path("out");
    let alone = session.send("alone", &["--out", out.to_str().unwrap()]);
    wait_for("its books", || out.join("ledger").exists().then_some(()));
    assert!(signal("INT", alone.pid()));
    let alone = alone.end();
    assert_eq!(alone.code(), Some(2), "{}", alone.stderr);
    let why = "stopped before a session began: nothing was sent";
    assert!(alone.stderr.contains(why), "{}", alone.stderr);
}

/// A sender whose receiver was killed when the first packets had come.
fn lost_in_session(session: &Session, more: &[&str]) -> Run {
    let output = session.path("output");
    let to = output.to_str().unwrap();
    let receiver = session.receive(&["--senders", "1", "--output", to]);
    let north = session.send("north", more);
    session.tells("slots-paced for 1 sender:");
    wait_for("the first packets", || {
        let file = fs::metadata(output.join("north"));
        file.is_ok_and(|file| file.len() > 0).then_some(())
    });
    assert!(signal("KILL", receiver.pid()));
    drop(receiver.end());
    north
}

#[test]
fn one_that_finds_no_receiver_after_the_one_that_it_lost_ends_with_4() {
    let session = Session::new();
    let north = lost_in_session(&session, &["--wait", "1s"]).end();
    assert_eq!(north.code(), Some(4), "{}", north.stderr);
    let why = " packets is not known, and no receiver answers at ";
    assert!(north.stderr.contains(why), "{}", north.stderr);
}

#[test]
fn one_that_is_stopped_while_it_looks_for_the_receiver_that_it_lost_ends_with_4() {
    let session = Session::new();
    let out = session.path("out");
    let north = lost_in_session(&session, &["--out", out.to_str().unwrap()]);
    wait_for("that it is lost", || {
        north
            .said()
            .contains("the receiver is silent")
            .then_some(())
    });
    assert!(signal("INT", north.pid()));
    let north = north.end();
    assert_eq!(north.code(), Some(4), "{}", north.stderr);
    let why = "stopped before another session began: what came of ";
    assert!(north.stderr.contains(why), "{}", north.stderr);
    assert_eq!(rig::audit_json(&out)["condition"], "tainted");
}

#[test]
fn one_whose_receiver_dies_before_the_start_and_that_is_stopped_ends_with_2() {
    let session = Session::new();
    let receiver = session.receive(&["--senders", "2"]);
    let out = session.path("out");
    let north = session.send("north", &["--out", out.to_str().unwrap()]);
    wait_for("that it is ready", || {
        north.said().contains("waiting for the start").then_some(())
    });
    assert!(signal("KILL", receiver.pid()));
    drop(receiver.end());
    assert!(signal("INT", north.pid()));
    let north = north.end();
    assert_eq!(north.code(), Some(2), "{}", north.stderr);
    let why = "stopped before a session began: nothing was sent";
    assert!(north.stderr.contains(why), "{}", north.stderr);
    let sent = north.json();
    assert_eq!(number(&sent, "packets"), 0, "{sent}");
    assert_eq!(number(&sent, "sessions_unconfirmed"), 0, "{sent}");
    assert_eq!(rig::audit_json(&out)["condition"], "interrupted");
}

#[test]
fn packets_that_are_none_of_the_test_stream_are_told_with_what_may_be_the_reason() {
    let session = Session::new();
    let file = session.path("file");
    fs::write(&file, vec![7; 100_000]).unwrap();
    let receiver = session.receive(&["--senders", "1", "--verify", "--format", "json"]);
    let sent = session.send("north", &["--input", file.to_str().unwrap()]);
    sent.end().json_of(0);
    let received = receiver.end().json_of(2);
    let wrong = number(&received, "wrong_payloads");
    assert!(wrong > 1, "{received}");
    let told = session.told();
    let why =
        format!("{wrong} packets differ from the test stream; was a sender started with --input?");
    assert!(told.lines().last().unwrap().ends_with(&why), "{told}");
    let help = start(forebay().args(["tdm", "receive", "--help"])).end();
    let help: Vec<&str> = help.stdout.split_whitespace().collect();
    let code = "--verify found packets that differ";
    assert!(help.join(" ").contains(code), "{help:?}");
}

#[test]
fn strangers_without_the_key_are_in_the_text_summary() {
    let session = Session::new();
    let key = session.path("key");
    fs::write(&key, "sixteen bytes of a key").unwrap();
    let key = key.to_str().unwrap();
    let receiver = session.receive(&["--senders", "1", "--key", key]);
    let stranger = session.send("stranger", &["--wait", "600ms"]).end();
    assert_eq!(stranger.code(), Some(2), "{}", stranger.stderr);
    let friend = session.send("friend", &["--key", key, "--bytes", "10000"]);
    friend.end().json_of(0);
    let ended = receiver.end();
    assert_eq!(ended.code(), Some(0));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let is_told = |it: &&str| it.starts_with("refused: ") && it.ends_with("without the right key");
    assert!(lines.iter().any(is_told), "{}", ended.stdout);
}

#[test]
fn one_with_a_key_has_no_place_at_a_receiver_without_one() {
    let session = Session::new();
    let key = session.path("key");
    fs::write(&key, "sixteen bytes of a key").unwrap();
    let receiver = session.receive(&["--senders", "1", "--format", "json"]);
    let sealed = session.send("sealed", &["--key", key.to_str().unwrap()]);
    session.tells("sealed was refused: ");
    let plain = session.send("plain", &["--bytes", "10000"]);
    plain.end().json_of(0);
    let received = receiver.end().json_of(0);
    assert!(number(&received["hellos_refused"], "key") > 0, "{received}");
    assert!(signal("INT", sealed.pid()));
    assert_eq!(sealed.end().code(), Some(2));
}

#[test]
fn times_with_which_nobody_gets_on_are_refused() {
    for silence in ["0s", "99ms", "2h"] {
        let ended = refused(&["receive", "--silence", silence]);
        assert!(ended.stderr.contains("100ms to 1h"), "{}", ended.stderr);
    }
    for (settle, silence, most) in [
        ("10h", "2s", "1"),
        ("2m", "1h", "60"),
        ("60ms", "100ms", "0.05"),
    ] {
        let ended = refused(&["receive", "--settle", settle, "--silence", silence]);
        let told = format!("it is at most {most} s");
        assert!(
            ended.stderr.contains("--settle") && ended.stderr.contains(&told),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_receiver_has_a_port_when_none_is_given_and_no_address_is_told_with_what_would_be_right() {
    // An address of documentation is none of this host: it is read, and cannot be listened at.
    for (bind, told) in [
        ("192.0.2.1", "192.0.2.1:8081"),
        ("2001:db8::1", "[2001:db8::1]:8081"),
        ("[2001:db8::1]", "[2001:db8::1]:8081"),
        ("nowhere", "write ADDR or ADDR:PORT"),
        ("127.0.0.1:http", "write ADDR or ADDR:PORT"),
    ] {
        let ended = refused(&["receive", "--bind", bind]);
        assert!(ended.stderr.contains(told), "{bind}: {}", ended.stderr);
    }
}

#[test]
fn a_bench_takes_schemes_with_commas_and_blanks_and_its_errors_name_its_own_options() {
    let schemes: [&[&str]; 2] = [&["incast,slots"], &["incast", "slots", "slots-paced"]];
    for schemes in schemes {
        // Nothing is sent: what comes after the schemes is refused.
        let arguments = [&["bench", "--duration", "0s", "--schemes"], schemes].concat();
        let ended = refused(&arguments);
        assert!(ended.stderr.contains("--duration is 0"), "{}", ended.stderr);
    }
    for (more, told) in [
        (["--port-rate", "1"], "(--port-rate) is 1 bit/s"),
        (["--port-buffer", "0"], "(--port-buffer) is 0 bytes"),
        (["--port-burst", "1"], "1 bytes pass at once (--port-burst)"),
    ] {
        let ended = refused(&[&["bench"], &more[..]].concat());
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
        let foreign = ["--link-rate", "--packet-bytes", "--utilisation"];
        assert!(
            !foreign.iter().any(|it| ended.stderr.contains(it)),
            "{}",
            ended.stderr
        );
    }
    let help = start(forebay().args(["tdm", "bench", "--help"])).end();
    let default = "[default: incast,slots,slots-paced]";
    assert!(help.stdout.contains(default), "{}", help.stdout);
}

/// A hello as anybody can say it.
fn hello(name: &str, nonce: u64) -> Vec<u8> {
    let packet = Packet {
        session: 0,
        sender: NO_SENDER,
        start: 0,
        message: Message::Hello(Hello {
            nonce,
            share: 1,
            packet_bytes_max: 1472,
            carries: Carries::Bytes,
            name,
        }),
        tag: None,
    };
    let mut out = [0; 256];
    let bytes = packet.emit(false, &mut out).unwrap();
    out[..bytes].to_vec()
}

#[test]
fn hellos_of_a_stranger_take_no_place_from_the_sender_that_comes() {
    let session = Session::new();
    let receiver = session.receive(&["--senders", "2", "--verify", "--format", "json"]);
    session.tells("waiting for 2 senders");
    let strangers = [(); 8].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let mut nonce = 0;
    let mut say_hello = || {
        for stranger in &strangers {
            nonce += 1;
            let said = hello(&format!("stranger{nonce}"), nonce);
            stranger.send_to(&said, &session.address).unwrap();
        }
    };
    say_hello();
    let north = session.send("north", &["--bytes", "2000000", "--wait", "30s"]);
    wait_for("north", || {
        say_hello();
        session.told().contains("north is here").then_some(())
    });
    let south = session.send("south", &["--bytes", "2000000", "--wait", "30s"]);
    wait_for("south", || {
        say_hello();
        session.told().contains("south is here").then_some(())
    });
    for sender in [north, south] {
        sender.end().json_of(0);
    }
    let received = receiver.end().json_of(0);
    let senders = received["by_sender"].as_array().unwrap();
    assert_eq!(senders.len(), 2, "{received}");
    for sender in senders {
        let lost: u64 = sender["lost"]
            .as_object()
            .unwrap()
            .values()
            .map(|it| it.as_u64().unwrap())
            .sum();
        assert_eq!(
            number(sender, "sent"),
            number(sender, "received") + lost,
            "{received}"
        );
        // What a loaded host's socket may drop is named; nothing else is lost.
        assert!(number(sender, "payload_bytes") > 1_000_000, "{received}");
    }
    assert!(number(&received, "hellos_unanswered") >= 8, "{received}");
    assert!(
        !session.told().contains("stranger1 is here"),
        "{}",
        session.told()
    );
}

#[test]
fn a_receiver_that_other_hosts_come_to_wants_a_key_or_a_word() {
    for bind in ["0.0.0.0:0", "[::]:0", "192.0.2.1"] {
        let ended = refused(&["receive", "--bind", bind, "--link-rate", "200M"]);
        for word in [bind, "--key FILE", "--no-key"] {
            assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
        }
    }
    let mut session = Session::new();
    fs::write(session.path("key"), [7; 32]).unwrap();
    let key = session.path("key");
    let port = session.address.rsplit(':').next().unwrap().to_owned();
    session.address = format!("0.0.0.0:{port}");
    for word in [vec!["--no-key"], vec!["--key", key.to_str().unwrap()]] {
        let receiver = session.receive(&word);
        session.tells(&format!("at 0.0.0.0:{port}"));
        assert!(signal("INT", receiver.pid()));
        drop(receiver.end());
    }
    let help = start(forebay().args(["tdm", "receive", "--help"])).end();
    let help = help.stdout;
    assert!(help.contains("[default: 127.0.0.1:8081]"), "{help}");
}

#[test]
fn the_last_line_says_first_what_is_not_whole_also_where_nobody_came() {
    let last = |ended: &Ended| ended.stdout.lines().last().unwrap().to_owned();
    let session = Session::new();
    let receiver = session.receive(&[]);
    session.tells("waiting for 2 senders");
    assert!(signal("INT", receiver.pid()));
    let ended = receiver.end();
    assert_eq!(
        last(&ended),
        "Nothing came: no sender took part. All of it is accounted for: the books close."
    );
    let receiver = session.receive(&["--senders", "1"]);
    session.tells("waiting for 1 sender");
    let mut send = forebay();
    send.args([
        "tdm",
        "send",
        &session.address,
        "--id",
        "north",
        "--no-realtime",
    ]);
    let sender = start(send.args(["--bytes", "100000"])).end();
    let received = receiver.end();
    // A loaded host may lose some; then both say so, and nothing else.
    for (ended, whole) in [(sender, "0 lost"), (received, "0 lost")] {
        let is_whole = ended.stdout.contains(whole);
        let said = last(&ended);
        match is_whole {
            true => assert_eq!(said, "The books close."),
            false => assert!(said.starts_with("Lost: "), "{said}"),
        }
    }
    let mut send = forebay();
    send.args([
        "tdm",
        "send",
        &session.address,
        "--no-realtime",
        "--wait",
        "300ms",
    ]);
    let alone = start(&mut send).end();
    assert_eq!(alone.code(), Some(2), "{}", alone.stderr);
    assert!(
        last(&alone).starts_with("Nothing was sent"),
        "{}",
        alone.stdout
    );
}
