//! The way to the front ends with the real binary: senders, to-flx, a card that sends back, to-host and subscribers as processes, on good days and on bad ones.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use forebay_wire::felix::{Elink, Fid};
use rig::{Run, account_items, audit, audit_json, forebay, signal, start, wait_for};
use serde_json::Value;

/// Packets that a card takes between two commits of its books.
const BATCH: u64 = 4096;

/// A card with E-links 0 and 64 that send back and 128 that does not, and what belongs to it.
struct Chain {
    directory: tempfile::TempDir,
    backend: &'static str,
    name: String,
    port: u16,
}

fn fid(link: u16) -> Fid {
    Fid::to_host(0, 0, Elink::of_link(link).unwrap()).from_host()
}

fn number(object: &Value, path: &str) -> u64 {
    let found = object.pointer(path).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{path} in {object}"))
}

impl Chain {
    fn new(backend: &'static str, name: &str) -> Self {
        let chain = Self {
            directory: tempfile::tempdir().unwrap(),
            backend,
            name: format!("{name}-{}", std::process::id()),
            port: rig::free_ports(2),
        };
        chain.describe_card("card", "");
        chain
    }

    /// Writes the file of the card whose books lie in `out`.
    fn describe_card(&self, out: &str, more: &str) {
        let text = format!(
            "[card]\nsocket = {socket:?}\ndirectory = {out:?}\ndrain_s = 20\nwait_for_readers = false\n{more}\n[ttc]\nrate_hz = 1000\n\
             [[links]]\nlinks = [0, 1]\nloop_back = true\n[[links]]\nlinks = [2]\n",
            socket = self.path("card.sock"),
            out = self.path(out),
        );
        fs::write(self.path("card.toml"), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn address(&self, of: &str, nth: u16) -> String {
        match self.backend {
            "tcp" => format!("tcp://127.0.0.1:{}", self.port + nth),
            _ => format!("shm://{of}-{}", self.name),
        }
    }

    fn card(&self) -> Run {
        self.card_with(None)
    }

    fn card_with(&self, leak: Option<&str>) -> Run {
        let mut command = forebay();
        let command = command.args(["emulate", "card", "--format", "json"]);
        command.envs(leak.map(|leak| ("FOREBAY_LEAK", leak)));
        let mut run = start(command.arg(self.path("card.toml")));
        let socket = self.path("card.sock");
        wait_for("the card", || {
            let there = forebay_run_felix::device::Device::describe(&socket).is_ok();
            (there || run.is_over()).then_some(())
        });
        run
    }

    /// To-flx with its books in `out`; `more` goes below [toflx].
    fn toflx(&self, out: &str, more: &str) -> Run {
        start(&mut self.toflx_command(out, more))
    }

    fn toflx_command(&self, out: &str, more: &str) -> Command {
        let text = format!(
            "[toflx]\naddress = {address:?}\ndirectory = {directory:?}\n{more}\n[[devices]]\nsocket = {socket:?}\n",
            address = self.address("toflx", 0),
            directory = self.path(out),
            socket = self.path("card.sock"),
        );
        let file = self.path(&format!("{out}.toml"));
        fs::write(&file, text).unwrap();
        let mut command = forebay();
        command.arg("toflx").arg(file).args(["--format", "json"]);
        command
    }

    fn tohost(&self, subscribers: u32) -> Run {
        let text = format!(
            "[tohost]\ndirectory = {directory:?}\nsubscribers_min = {subscribers}\n[[devices]]\nsocket = {socket:?}\naddress = {address:?}\n",
            directory = self.path("tohost"),
            socket = self.path("card.sock"),
            address = self.address("tohost", 1),
        );
        let file = self.path("tohost.toml");
        fs::write(&file, text).unwrap();
        start(forebay().arg("tohost").arg(file).args(["--format", "json"]))
    }

    /// Writes what comes from a link into the file `out`.
    fn subscriber(&self, link: u16, out: &str) -> Run {
        let tag = fid(link).0 & !(1 << 15);
        let mut command = forebay();
        let command = command.args(["net", "sub", "--once", "--format", "json", "--tag"]);
        let command = command
            .arg(tag.to_string())
            .arg("--output")
            .arg(self.path(out));
        start(command.arg(self.address("tohost", 1)))
    }

    /// Sends with that tag; `more` says what.
    fn sender(&self, tag: Fid, more: &[&str]) -> Run {
        let mut command = forebay();
        let command = command.args(["net", "send", "--format", "json", "--block", "30s", "--tag"]);
        let command = command.arg(tag.0.to_string()).args(more);
        start(command.arg(self.address("toflx", 0)))
    }

    /// The books of to-flx in `out`: a term of its messages.
    fn encoded(&self, out: &str, term: &str) -> u64 {
        let directory = self.path(out);
        if !directory.join("ledger").exists() {
            return 0;
        }
        account_items(&audit_json(&directory), ("encode", "messages"), term)
    }

    fn assert_closed(&self, names: &[&str]) {
        for name in names {
            let verdict = audit_json(&self.path(name));
            assert_eq!(verdict["closed"], true, "{name}: {verdict}");
        }
    }
}

fn ends(run: Run, code: i32) -> Value {
    assert!(signal("INT", run.pid()));
    let json = run.end().json_of(code);
    assert_eq!(number(&json, "/residual_items"), 0, "{json}");
    assert_eq!(number(&json, "/residual_bytes"), 0, "{json}");
    json
}

/// Lines of many lengths, all different.
fn lines(link: u16, count: usize) -> String {
    let line = |n: usize| {
        let bytes = [1, 29, 30, 31, 60, 200, 2900][n % 7] + n % 5;
        let text = format!("{link} {n} ").repeat(bytes / 4 + 1);
        format!("{}\n", &text[..bytes])
    };
    (0..count).map(line).collect()
}

fn what_is_sent_comes_back(backend: &'static str) {
    const COUNT: usize = 8000;
    let chain = Chain::new(backend, "loop");
    let card = chain.card();
    let tohost = chain.tohost(2);
    let subscribers = [0, 1].map(|link| chain.subscriber(link, &format!("back{link}")));
    let toflx = chain.toflx("toflx", "");
    let senders = [0, 1].map(|link| {
        let file = chain.path(&format!("sent{link}"));
        fs::write(&file, lines(link, COUNT)).unwrap();
        chain.sender(fid(link), &["--input", file.to_str().unwrap()])
    });
    let mut sent = [0; 2];
    for sender in senders {
        let json = sender.end().json_of(0);
        sent[0] += number(&json, "/messages");
        sent[1] += number(&json, "/bytes");
    }
    assert_eq!(sent[0], 2 * COUNT as u64);
    let toflx = ends(toflx, 0);
    // A card that is told to end does not wait for a process that has not opened it yet.
    rig::at_work(&chain.path("tohost"), 1);
    let card = ends(card, 0);
    let tohost = tohost.end().json_of(0);
    for (link, subscriber) in subscribers.into_iter().enumerate() {
        let json = subscriber.end().json_of(0);
        assert_eq!(number(&json, "/messages"), COUNT as u64, "{json}");
        let [sent, back] = ["sent", "back"].map(|name| {
            let file = chain.path(&format!("{name}{link}"));
            fs::read_to_string(file).unwrap()
        });
        let differs = sent
            .lines()
            .zip(back.lines())
            .position(|(one, other)| one != other);
        assert_eq!((differs, sent.len()), (None, back.len()), "{link}");
    }
    // What one hop says that it gave, the next one says that it got.
    assert_eq!(
        [number(&toflx, "/messages"), number(&toflx, "/bytes")],
        sent
    );
    assert_eq!(number(&toflx, "/written"), sent[0]);
    assert_eq!(toflx["drops"], serde_json::json!({}));
    let packets = number(&toflx, "/packets");
    assert_eq!(number(&toflx, "/cards/0/packets_taken"), packets);
    assert_eq!(number(&card, "/from_host/packets"), packets);
    for path in ["/from_host/messages", "/from_host/looped"] {
        assert_eq!(number(&card, path), sent[0], "{path}");
    }
    assert_eq!(number(&card, "/from_host/looped_bytes"), sent[1]);
    let triggers = number(&card, "/triggers");
    assert_eq!(number(&card, "/chunks_out"), sent[0] + triggers);
    assert_eq!(number(&tohost, "/chunks"), sent[0] + triggers);
    assert_eq!(number(&tohost, "/residual_items"), 0);
    chain.assert_closed(&[
        "card",
        "toflx",
        "toflx/receiver",
        "tohost",
        "tohost/publisher0",
    ]);
}

#[test]
fn what_is_sent_comes_back_over_shared_memory() {
    what_is_sent_comes_back("shm");
}

#[test]
fn what_is_sent_comes_back_over_tcp() {
    what_is_sent_comes_back("tcp");
}

#[test]
fn what_has_nowhere_to_go_is_lost_by_name_and_the_rest_goes_on() {
    let chain = Chain::new("shm", "names");
    let card = chain.card();
    let toflx = chain.toflx("toflx", "message_bytes_max = 100");
    let other_detector = Fid::to_host(7, 0, Elink::default()).from_host();
    let far_link = Fid(fid(2).0 | 1 << 30);
    let cases = [
        (Fid(1), "10", "unknown_fid"),
        (other_detector, "10", "unknown_fid"),
        (far_link, "10", "unknown_fid"),
        (Fid(fid(2).0 & !(1 << 15)), "10", "wrong_direction"),
        (fid(9), "10", "unknown_elink"),
        (fid(2), "101", "too_long"),
        // Stream and protocol do not matter.
        (Fid(fid(2).0 | 0x7f05), "100", "taken"),
    ];
    for (tag, bytes, _) in cases {
        let more = [
            "--input",
            "generate",
            "--count",
            "10",
            "--message-bytes",
            bytes,
        ];
        assert_eq!(
            number(&chain.sender(tag, &more).end().json_of(0), "/messages"),
            10
        );
    }
    let toflx = ends(toflx, 0);
    let card = ends(card, 2);
    let expected = serde_json::json!({
        "route.unknown_fid": 30, "route.wrong_direction": 10,
        "encode.unknown_elink": 10, "encode.too_long": 10,
    });
    assert_eq!(rig::lost_by_reason(&toflx), expected);
    assert_eq!(
        (number(&toflx, "/messages"), number(&toflx, "/written")),
        (70, 10)
    );
    assert_eq!(number(&card, "/from_host/sunk"), 10);
    assert_eq!(number(&card, "/from_host/sunk_bytes"), 1000);
    chain.assert_closed(&["card", "toflx", "toflx/receiver"]);
}

#[test]
fn what_is_leaked_at_a_hop_is_named() {
    for (hop, unit, of) in [
        ("route", "messages", "toflx"),
        ("encode", "messages", "toflx"),
        ("ring", "packets", "toflx"),
        ("from_host", "messages", "card"),
    ] {
        let chain = Chain::new("shm", hop);
        let leak = format!("{hop}:3");
        let card = chain.card_with((of == "card").then_some(&*leak));
        let mut command = chain.toflx_command("toflx", "");
        command.envs((of == "toflx").then_some(("FOREBAY_LEAK", &leak)));
        let toflx = start(&mut command);
        let more = ["--input", "generate", "--count", "100"];
        let sender = chain.sender(fid(2), &more);
        assert_eq!(number(&sender.end().json_of(0), "/messages"), 100);
        assert!(signal("INT", toflx.pid()));
        let toflx = toflx.end().json_of(i32::from(of == "toflx"));
        assert_eq!(number(&toflx["receiver"], "/residual_items"), 0);
        // Nobody reads its chunks.
        assert!(signal("INT", card.pid()));
        let card = card.end().json_of(if of == "card" { 1 } else { 2 });
        let leaked = if of == "card" { &card } else { &toflx };
        assert_eq!(number(leaked, "/residual_items"), 3, "{hop}: {leaked}");
        assert_eq!(number(leaked, "/left_items"), 0, "{hop}: {leaked}");
        assert_eq!(audit(&chain.path(of)).code(), Some(1), "{hop}");
        rig::offenders::assert_named(&chain.path(of), hop, unit, 3);
        let whole = ["card", "toflx", "toflx/receiver"];
        let whole = whole.into_iter().filter(|name| *name != of);
        chain.assert_closed(&whole.collect::<Vec<_>>());
    }
}

#[test]
fn a_full_card_holds_senders_back_and_loses_nothing() {
    let chain = Chain::new("shm", "full");
    // Nobody reads it yet; one MiB is full at once.
    let metrics = rig::free_ports(2);
    let more = format!(
        "dma_bytes = 1048576\nmetrics = \"127.0.0.1:{}\"",
        metrics + 1
    );
    chain.describe_card("card", &more);
    let card = chain.card();
    let more = format!("buffer_count = 4\nmetrics = \"127.0.0.1:{metrics}\"");
    let toflx = chain.toflx("toflx", &more);
    let more = [
        "--input",
        "generate",
        "--count",
        "6000",
        "--message-bytes",
        "2000",
    ];
    let mut sender = chain.sender(fid(1), &more);
    wait_for("messages that wait for room", || {
        (chain.encoded("toflx", "held") > 0).then_some(())
    });
    assert!(!sender.is_over());
    let page = rig::scrape(&format!("127.0.0.1:{metrics}"));
    let full = page
        .lines()
        .find(|line| line.starts_with("forebay_ring_fill_packets"));
    let filled: f64 = full.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(filled > 0.0, "{page}");
    let of_elink = |name: &str| {
        let sample = format!("forebay_{name}_total{{owner=\"card0\",elink=\"64\"}} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&*sample));
        let value: Option<f64> = line.and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("{sample} in {page}"))
    };
    assert!(of_elink("elink_messages") > 0.0);
    let bytes = of_elink("elink_messages") * 2000.0;
    assert_eq!(of_elink("elink_message_bytes"), bytes);
    assert_eq!(of_elink("elink_messages_lost"), 0.0);
    for part in [
        "place=\"encode\"",
        "place=\"ring\"",
        "place=\"route\"",
        "forebay_held_up",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let of_card = rig::scrape(&format!("127.0.0.1:{}", metrics + 1));
    assert!(of_card.contains("place=\"from_host\""));
    let tohost = chain.tohost(1);
    let subscriber = chain.subscriber(1, "back");
    assert_eq!(number(&sender.end().json_of(0), "/messages"), 6000);
    let toflx = ends(toflx, 0);
    let card = ends(card, 0);
    tohost.end().json_of(0);
    assert_eq!(number(&subscriber.end().json_of(0), "/bytes"), 12_000_000);
    assert!(toflx["held_up_s"].as_f64().unwrap() > 0.0);
    assert_eq!(toflx["drops"], serde_json::json!({}));
    assert_eq!(number(&card, "/from_host/looped"), 6000);
    assert!(number(&card, "/from_host/held_up") > 0);
    chain.assert_closed(&["card", "toflx", "toflx/receiver"]);
}

#[test]
fn what_a_full_card_did_not_take_until_the_end_is_confirmed_as_lost() {
    let chain = Chain::new("shm", "stopped");
    // Nobody reads it.
    chain.describe_card("card", "dma_bytes = 1048576");
    let card = chain.card();
    let toflx = chain.toflx("toflx", "buffer_count = 4\ndrain_s = 1");
    let many = ["--input", "generate", "--message-bytes", "2000"];
    let sender = chain.sender(fid(1), &many);
    // One that is in hand for a moment waits for nothing: the card is full when nothing more goes out.
    let mut looks = Vec::new();
    wait_for("messages that wait for room", || {
        looks.push(["held", "outgoing"].map(|term| chain.encoded("toflx", term)));
        let last = looks.iter().rev().take(20);
        let is_full = last.filter(|look| look[0] > 0 && Some(*look) == looks.last());
        (is_full.count() == 20).then_some(())
    });
    let toflx = ends(toflx, 0);
    let sent: Value = serde_json::from_str(&sender.end().stdout).unwrap();
    assert!(signal("KILL", card.pid()));
    card.end();
    assert!(rig::lost(&toflx, "stopped") > 0, "{toflx}");
    assert_eq!(number(&toflx, "/receiver/held"), 0, "{toflx}");
    // What it did not come to is unconfirmed, and nothing else.
    let came = number(&toflx, "/messages");
    let not_taken = number(&sent, "/messages") - came;
    assert!(
        came > 0 && number(&sent, "/unconfirmed") <= not_taken,
        "{sent} {toflx}"
    );
    // What is in the ring is named there: the card may still take it.
    let left = number(&toflx["cards"][0], "/packets_left");
    assert!(left > 0, "{toflx}");
    assert_eq!(rig::lost(&toflx, "not_taken"), left, "{toflx}");
    chain.assert_closed(&["toflx", "toflx/receiver"]);
}

const LOAD: [&str; 6] = [
    "--input",
    "generate",
    "--message-bytes",
    "500",
    "--rate",
    "20000",
];

#[test]
fn a_killed_card_costs_what_was_in_its_buffer_and_the_next_one_is_written() {
    let chain = Chain::new("shm", "killed-card");
    let card = chain.card();
    let toflx = chain.toflx("toflx", "");
    let sender = chain.sender(fid(2), &LOAD);
    let written = |least| {
        wait_for("messages in rings", || {
            let written = chain.encoded("toflx", "outgoing");
            (written >= least).then_some(written)
        })
    };
    written(5000);
    assert!(signal("KILL", card.pid()));
    card.end();
    chain.describe_card("next", "");
    let next = chain.card();
    let before = chain.encoded("toflx", "outgoing");
    written(before + 5000);
    assert!(signal("INT", sender.pid()));
    let sent = sender.end().json_of(0);
    let toflx = ends(toflx, 2);
    let next = ends(next, 2);
    let one = &toflx["cards"][0];
    assert_eq!((number(one, "/opened"), number(one, "/times_lost")), (2, 1));
    let taken = number(one, "/packets_taken");
    let lost = number(one, "/packets_lost");
    assert_eq!(number(one, "/packets"), taken + lost, "{one}");
    assert_eq!(number(&toflx, "/messages"), number(&sent, "/messages"));
    // The first card had in its books what it gave back, and at most a batch more.
    let of_first = account_items(
        &audit_json(&chain.path("card")),
        ("from_host", "packets"),
        "incoming",
    );
    let of_both = of_first + number(&next, "/from_host/packets");
    let more = of_both.checked_sub(taken);
    assert!(more.is_some_and(|more| more <= BATCH), "{of_both} {taken}");
    chain.assert_closed(&["card", "next", "toflx", "toflx/receiver"]);
}

#[test]
fn a_killed_toflx_leaves_whole_messages_and_the_next_one_goes_on() {
    let chain = Chain::new("shm", "killed-toflx");
    let card = chain.card();
    let first = chain.toflx("first", "");
    let sender = chain.sender(fid(2), &LOAD);
    let written = |out: &str| {
        wait_for("messages in rings", || {
            (chain.encoded(out, "outgoing") >= 5000).then_some(())
        });
    };
    written("first");
    assert!(signal("KILL", first.pid()));
    first.end();
    let second = chain.toflx("second", "");
    written("second");
    assert!(signal("INT", sender.pid()));
    sender.end();
    let second = ends(second, 0);
    let card = ends(card, 2);
    assert_eq!(card["from_host"]["dropped"], serde_json::json!({}));
    let packets = number(&card, "/from_host/packets");
    // A message of 500 bytes is 17 packets.
    assert_eq!(packets, 17 * number(&card, "/from_host/sunk"));
    let of_first = account_items(
        &audit_json(&chain.path("first")),
        ("ring", "packets"),
        "incoming",
    );
    // What it had in its books and not shown is lost with it: what one turn reads, at most.
    let both = of_first + number(&second, "/packets");
    assert!(packets <= both, "{packets} of {both}");
    chain.assert_closed(&["card", "first", "second", "second/receiver"]);
}

#[test]
fn a_killed_sender_costs_no_other_one() {
    let chain = Chain::new("tcp", "killed-sender");
    let card = chain.card();
    let toflx = chain.toflx("toflx", "");
    let victim = chain.sender(fid(2), &LOAD);
    let more = [&LOAD[..], &["--count", "20000"]].concat();
    let other = chain.sender(fid(1), &more);
    wait_for("messages in rings", || {
        (chain.encoded("toflx", "outgoing") >= 5000).then_some(())
    });
    assert!(signal("KILL", victim.pid()));
    victim.end();
    // What comes back of the other one is read by nobody, and fits.
    assert_eq!(number(&other.end().json_of(0), "/messages"), 20_000);
    let toflx = ends(toflx, 0);
    let card = ends(card, 2);
    let messages = number(&toflx, "/messages");
    assert_eq!(number(&toflx, "/written"), messages);
    assert_eq!(number(&card, "/from_host/looped"), 20_000);
    assert_eq!(number(&card, "/from_host/sunk"), messages - 20_000);
    chain.assert_closed(&["card", "toflx", "toflx/receiver"]);
}

#[test]
fn one_of_two_cards_goes_and_the_other_one_is_written_on() {
    let (one, other) = (Chain::new("shm", "two-a"), Chain::new("shm", "two-b"));
    let (card, second) = (one.card(), other.card());
    let socket = other.path("card.sock");
    // The first one's [[devices]] comes behind.
    let more = format!("card_wait_s = 30\n[[devices]]\nsocket = {socket:?}\nconnector = 9\n");
    let toflx = one.toflx("toflx", &more);
    let of_second = Fid::to_host(0, 9, Elink::of_link(2).unwrap()).from_host();
    let count = ["--input", "generate", "--count", "1000"];
    for tag in [fid(2), of_second] {
        one.sender(tag, &count).end().json_of(0);
    }
    wait_for("messages in rings", || {
        (one.encoded("toflx", "outgoing") == 2000).then_some(())
    });
    let card = ends(card, 2);
    wait_for("the farewell of the card", || {
        // What is for it is lost by name from then on.
        one.sender(fid(2), &count).end().json_of(0);
        (one.encoded("toflx", "incoming") > one.encoded("toflx", "outgoing")).then_some(())
    });
    one.sender(of_second, &count).end().json_of(0);
    let toflx = ends(toflx, 0);
    let second = ends(second, 2);
    let lost = rig::lost(&toflx, "no_card");
    assert!(lost > 0, "{toflx}");
    let sunk = ["/from_host/sunk"; 2];
    assert_eq!(
        [number(&card, sunk[0]), number(&second, sunk[1])],
        [1000, 2000]
    );
    assert_eq!(toflx["cards"][1]["end"], "in_order");
    one.assert_closed(&["card", "toflx", "toflx/receiver"]);
    other.assert_closed(&["card"]);
}

#[test]
fn a_card_that_is_not_there_and_files_with_mistakes_are_told() {
    let chain = Chain::new("shm", "nobody");
    let ended = chain.toflx("toflx", "card_wait_s = 0").end();
    assert_eq!(ended.code(), Some(2));
    assert!(ended.stderr.contains("no card answers"), "{}", ended.stderr);
    let example = forebay_testing::root().join("examples/toflx.toml");
    let good = start(forebay().arg("check").arg(example)).end();
    assert!(good.stdout.contains("to-flx, cards: 1"), "{}", good.stdout);
    let file = chain.path("wrong.toml");
    fs::write(&file, "[toflx]\naddress = \"shm://a\"\ndrain = 1\n").unwrap();
    let wrong = start(forebay().arg("check").arg(&file)).end();
    assert_eq!(wrong.code(), Some(2));
    assert!(wrong.stderr.contains("drain_s"), "{}", wrong.stderr);
}
