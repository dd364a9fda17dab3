//! Time-division UDP with the real binary over real sockets: streams arrive byte for byte, and every bad day ends with books that close.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rig::stream::{
    PAYLOAD_BYTES_MAX, assert_same_but_for_lost, assert_stream, lost_packets, lost_ranges,
};
use rig::{Ended, Run, audit, forebay, number, signal, start, wait_for};
use serde_json::Value;

/// A receiver on loopback and its directory.
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

    /// Small windows on a slow port: whatever happens, happens in the middle of one.
    fn receive(&self, senders: &str, more: &[&str]) -> Run {
        let mut command = forebay();
        command.args([
            "tdm",
            "receive",
            "--format",
            "json",
            "--bind",
            &self.address,
        ]);
        command.args([
            "--senders",
            senders,
            "--link-rate",
            "200M",
            "--port-buffer",
            "128K",
        ]);
        if !more.contains(&"--silence") {
            // Long enough for a machine on which many tests run at once.
            command.args(["--silence", "1500ms"]);
        }
        start(command.args(more))
    }

    fn send(&self, name: &str, more: &[&str]) -> Run {
        start(rig::tdm_send(&self.address, name).args(more))
    }

    /// A file with so many bytes that nobody else has.
    fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let mut state = bytes as u64 + name.len() as u64;
        let content: Vec<u8> = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .take(bytes)
        .collect();
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn out(&self) -> String {
        self.path("out").display().to_string()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn sender<'a>(received: &'a Value, name: &str) -> &'a Value {
    let senders = received["by_sender"].as_array().unwrap();
    let found = senders.iter().find(|sender| sender["name"] == name);
    found.unwrap_or_else(|| panic!("{name} in {received}"))
}

/// What was sent came or is lost by name, for each sender and in the ledger.
fn assert_closed(received: &Value, out: &Path) {
    rig::stream::assert_nothing_left(received);
    rig::stream::assert_lost_by_the_kernel_alone(received);
    for sender in received["by_sender"].as_array().unwrap() {
        assert_eq!(
            number(sender, "sent"),
            number(sender, "received") + lost_packets(sender),
            "{sender}"
        );
    }
    let datagrams = received["datagrams"].as_object().unwrap();
    let named: u64 = datagrams
        .iter()
        .filter(|(name, _)| *name != "came")
        .map(|(_, count)| count.as_u64().unwrap())
        .sum();
    assert_eq!(datagrams["came"].as_u64().unwrap(), named, "{received}");
    let audit = audit(out);
    assert_eq!(audit.code(), Some(0), "{}", audit.stdout);
}

/// Waits until a receiver's books have so many packets written.
fn at_work(out: &Path, packets: u64) {
    wait_for("the ledger", || out.join("ledger").exists().then_some(()));
    wait_for("packets in the books", || {
        let verdict = rig::audit_json(out);
        (rig::account_items(&verdict, ("windows", "packets"), "outgoing") >= packets).then_some(())
    });
}

#[test]
fn windows_that_end_before_the_input_cut_it_short_and_the_sender_says_so() {
    let session = Session::new();
    let file = session.file("north", 10_000_000);
    let receiver = session.receive("1", &["--output", &session.out(), "--windows", "4"]);
    let sent = session.send("north", &["--input", text(&file)]).end();
    let told = sent.json_of(2);
    assert_eq!(told["end"], "cut_short", "{told}");
    assert!(
        told["why"].as_str().unwrap().contains("--windows"),
        "{told}"
    );
    let received = receiver.end().json_of(0);
    assert_closed(&received, &session.path("out"));
    assert!(number(&received["by_sender"][0], "payload_bytes") < 10_000_000);
}

/// A receiver stands still until its socket is full, and its sender is killed: what it told, after the books were held against the kernel's count.
fn after_a_full_socket(more: &[&str]) -> Value {
    let session = Session::new();
    let file = session.file("north", 100_000_000);
    let receiver = session.receive(
        "1",
        &[&["--output", &session.out(), "--silence", "10s"], more].concat(),
    );
    let sender = session.send("north", &["--input", text(&file)]);
    at_work(&session.path("out"), 100);
    assert!(signal("STOP", receiver.pid()));
    // 25 MB/s, into a socket that holds a third of a second: no longer than its sender takes it for alive.
    let begun = std::time::Instant::now();
    while rig::socket_drops(&session.address) == 0 && begun.elapsed() < Duration::from_secs(9) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(signal("KILL", sender.pid()));
    drop(sender.end());
    // Nobody sends any more: this is what the kernel itself has counted when the receiver reads again.
    let drops = rig::socket_drops(&session.address);
    assert!(drops > 0);
    assert!(signal("CONT", receiver.pid()));
    let received = receiver.end().json_of(2);
    assert_eq!(number(&received, "socket_drops"), drops, "{received}");
    let verdict = rig::audit_json(&session.path("out"));
    let links = verdict["balance"]["links"].as_array().unwrap();
    let link = links.iter().find(|link| link["place"] == "socket").unwrap();
    let dropped = &link["dropped"][0];
    assert_eq!(dropped["reason"], "socket_overflow", "{link}");
    assert_eq!(number(dropped, "items"), drops, "{link}");
    // It never came in.
    let came = number(&received["datagrams"], "came");
    let incoming = rig::account_items(&verdict, ("datagrams", "datagrams"), "incoming");
    assert_eq!(
        (incoming, number(&link["received"], "items")),
        (came, came),
        "{link}"
    );
    assert_closed(&received, &session.path("out"));
    received
}

#[test]
fn what_the_kernel_drops_at_a_receiver_that_stands_still_is_in_the_books_by_the_kernels_own_count()
{
    after_a_full_socket(&[]);
    // Without merging each packet of it is charged to a window, or no window misses it.
    let received = after_a_full_socket(&["--no-gro"]);
    let lost = &sender(&received, "north")["lost"];
    let charged = number(lost, "receiver_stalled") + number(lost, "socket_overflow");
    let elsewhere = number(&received, "socket_drops_elsewhere");
    assert_eq!(
        charged + elsewhere,
        number(&received, "socket_drops"),
        "{received}"
    );
}

#[test]
fn each_senders_stream_becomes_a_file_of_its_name() {
    let session = Session::new();
    let files = [
        session.file("north", 3_000_000),
        session.file("south", 1_234_567),
        session.file("empty", 0),
    ];
    let out = session.out();
    let receiver = session.receive("3", &["--output", &out, "--per-window"]);
    let names = ["north", "south", "empty"];
    let senders: Vec<Run> = names
        .iter()
        .zip(&files)
        .map(|(name, file)| session.send(name, &["--input", text(file)]))
        .collect();
    let sent: Vec<Value> = senders
        .into_iter()
        .map(|sender| sender.end().json_of(0))
        .collect();
    let received = receiver.end().json_of(0);
    assert_closed(&received, Path::new(&out));
    assert_eq!(received["end"], "ended");
    assert_eq!(
        received["socket_overflow_exact"], false,
        "datagrams are merged"
    );
    let scheme = &received["schemes"][0];
    assert_eq!(
        (&scheme["scheme"], number(scheme, "senders")),
        (&Value::from("slots-paced"), 3)
    );
    for ((name, file), sent) in names.iter().zip(&files).zip(&sent) {
        assert_eq!(sent["end"], "ended", "{sent}");
        assert_eq!(sent["sessions_residual_items"], 0, "{sent}");
        let (was, of) = (fs::read(file).unwrap(), sender(&received, name));
        let lost_bytes = assert_stream(&session.path("out").join(name), &was, lost_packets(of));
        assert_eq!(number(of, "payload_bytes") + lost_bytes, was.len() as u64);
    }
    let windows = fs::read_to_string(session.path("out").join("windows.csv")).unwrap();
    assert_eq!(
        windows.lines().count() as u64,
        number(&received, "windows") + 1
    );
}

#[test]
fn a_pipe_is_carried_from_standard_input_to_standard_output() {
    let session = Session::new();
    let program = forebay().get_program().to_str().unwrap().to_owned();
    // No more than the smallest buffer of a socket takes, however long nobody reads.
    let line = format!(
        "seq 1 10000 | {program} tdm send {} --no-realtime --id pipe --input - --format json",
        session.address
    );
    let expected: String = (1..=10_000).map(|number| format!("{number}\n")).collect();
    let receiver = session.receive("1", &["--output", "-"]);
    let sent = start(Command::new("sh").args(["-c", &line]))
        .end()
        .json_of(0);
    let ended = receiver.end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert_eq!(number(&sent, "payload_bytes"), expected.len() as u64);
    assert_eq!(number(&sent, "lost"), 0, "{sent}");
    // Its own report goes to standard error: standard output is the stream's.
    assert_eq!(ended.stdout, expected);
    let refused = session.receive("2", &["--output", "-"]).end();
    assert_eq!(refused.code(), Some(2));
    assert!(
        refused.stderr.contains("--output DIR"),
        "{}",
        refused.stderr
    );
}

#[test]
fn granted_windows_are_all_used_by_both_senders() {
    let session = Session::new();
    let more = [
        "--mode",
        "credit",
        "--window",
        "2ms",
        "--windows",
        "40",
        "--verify",
        "--no-gro",
    ];
    let receiver = session.receive("2", &more);
    let senders = ["a", "b"].map(|name| session.send(name, &[]));
    for sender in senders {
        let sent = sender.end().json_of(0);
        assert_eq!(sent["end"], "ended", "{sent}");
        assert_eq!(number(&sent, "windows"), 40, "{sent}");
    }
    let ended = receiver.end().json_of(0);
    let scheme = &ended["schemes"][0];
    assert_eq!(scheme["scheme"], "credit");
    assert_eq!(number(scheme, "residual_items"), 0);
    assert_eq!(number(&ended, "wrong_payloads"), 0);
    assert_eq!(ended["socket_overflow_exact"], true, "--no-gro");
}

#[test]
fn a_session_of_some_packets_fills_no_more_than_the_port() {
    for (bytes, rate) in [("1000", "10M"), ("11000", "1G")] {
        let session = Session::new();
        let mut receiver = forebay();
        receiver.args([
            "tdm",
            "receive",
            "--format",
            "json",
            "--bind",
            &session.address,
        ]);
        let receiver = start(receiver.args(["--senders", "1", "--link-rate", rate]));
        session.send("few", &["--bytes", bytes]).end().json_of(0);
        let received = receiver.end().json_of(0);
        let filled = received["schemes"][0]["port_utilisation"].as_f64().unwrap();
        assert!(filled > 0.0 && filled <= 1.0, "{received}");
    }
}

#[test]
fn books_are_shown_in_packets_and_by_names() {
    let session = Session::new();
    let (out, own) = (session.out(), session.path("own").display().to_string());
    let receiver = session.receive("1", &["--output", &out]);
    let sender = session.send("north", &["--bytes", "300000", "--out", &own]);
    let (sent, received) = (sender.end().json_of(0), receiver.end().json_of(0));
    let of = &received["by_sender"][0];
    for (ledger, packets, windows) in [
        (&own, &sent["packets"], &sent["windows"]),
        (&out, &of["received"], &of["windows"]),
    ] {
        let top = |more: &[&str]| {
            let ended = start(forebay().args(["top", "--once", ledger]).args(more)).end();
            assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
            ended
        };
        let view = top(&["--format", "json"]).json();
        assert!(view.get("events").is_none(), "{view}");
        assert_eq!(
            (&view["packets"]["packets"], &view["packets"]["windows"]),
            (packets, windows)
        );
        let page = top(&[]).stdout;
        let told = format!("{packets} packets in {windows} windows");
        assert!(page.contains(&told) && !page.contains("events"), "{page}");
    }
    let sheet = audit(Path::new(&out)).stdout;
    assert!(!sheet.contains("sender0"), "{sheet}");
    let mut lines = sheet
        .lines()
        .skip_while(|line| !line.starts_with("windows"));
    let behind = lines.nth(1).unwrap_or_default();
    assert!(
        !behind.trim_start().starts_with("bytes"),
        "a window has packets: {sheet}"
    );
}

#[test]
fn a_file_that_cannot_be_used_is_told_with_its_option_and_the_remedy() {
    let session = Session::new();
    let refused = |arguments: &[&str], expected: &[&str]| {
        let mut command = forebay();
        let ended = start(command.arg("tdm").args(arguments)).end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        for text in expected {
            assert!(ended.stderr.contains(text), "{text}: {}", ended.stderr);
        }
    };
    let directory = session.path("");
    let nowhere = session.path("none/it");
    let (directory, nowhere) = (text(&directory), text(&nowhere));
    let fifo = session.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let send = ["send", &session.address, "--wait", "1s", "--no-realtime"];
    let with = |more: &[&'static str], file| [&send[..], more, &[file]].concat();
    refused(
        &with(&["--input"], directory),
        &["--input", directory, "directory", "tar -c"],
    );
    refused(
        &with(&["--input"], nowhere),
        &["--input", nowhere, "can be read"],
    );
    refused(
        &with(&["--key"], nowhere),
        &["--key", nowhere, "head -c 32"],
    );
    refused(
        &with(&["--repeat", "--input"], text(&fifo)),
        &["--repeat", "is a pipe", text(&fifo)],
    );
    refused(
        &["receive", "--key", nowhere],
        &["--key", nowhere, "head -c 32"],
    );
    refused(
        &["plan", "--svg", nowhere],
        &["--svg", nowhere, "a directory that is there"],
    );
    refused(&["plan", "--window", "10us"], &["10 us", "--window"]);
    let nobody = format!("no receiver answers at {}", session.address);
    refused(&send, &[&nobody]);
}

#[test]
fn a_plan_of_two_minds_and_a_bench_that_cannot_be_are_refused_at_once() {
    let plan = start(forebay().args(["tdm", "plan", "--shares", "1,2", "--senders", "3"])).end();
    assert_eq!(plan.code(), Some(2));
    assert!(
        plan.stderr.contains("--shares has 2 parts"),
        "{}",
        plan.stderr
    );
    let plan = start(forebay().args(["tdm", "plan", "--shares", "1,2,1", "--format", "json"]));
    assert_eq!(number(&plan.end().json_of(0), "senders"), 3);
    for (more, told) in [
        (["--window", "10us"], "100 us to 1 s"),
        (["--port-buffer", "1000"], "is 1000 bytes and a packet"),
        (["--duration", "0s"], "--duration is 0"),
    ] {
        let bench = start(forebay().args(["tdm", "bench"]).args(more)).end();
        assert_eq!(bench.code(), Some(2), "{more:?}");
        assert!(bench.stderr.contains(told), "{}", bench.stderr);
    }
}

#[test]
fn who_does_not_hold_the_key_takes_no_part() {
    let session = Session::new();
    let (right, wrong) = (session.path("right.key"), session.path("wrong.key"));
    fs::write(&right, "sixteen bytes of a key").unwrap();
    fs::write(&wrong, "another sixteen bytes!").unwrap();
    let out = session.out();
    let receiver = session.receive("1", &["--key", text(&right), "--output", &out]);
    for stranger in [&["--key", text(&wrong)][..], &[]] {
        let mut arguments = vec!["--wait", "600ms"];
        arguments.extend(stranger);
        let ended = session.send("stranger", &arguments).end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("key"), "{}", ended.stderr);
    }
    let file = session.file("friend", 500_000);
    let sent = session
        .send("friend", &["--key", text(&right), "--input", text(&file)])
        .end()
        .json_of(0);
    let received = receiver.end().json_of(0);
    assert_closed(&received, Path::new(&out));
    assert!(
        number(&received["datagrams"], "wrong_key") > 0,
        "{received}"
    );
    let was = fs::read(&file).unwrap();
    assert_stream(&session.path("out/friend"), &was, number(&sent, "lost"));
    let short = session.path("short.key");
    fs::write(&short, "short").unwrap();
    let refused = session.receive("1", &["--key", text(&short)]).end();
    assert_eq!(refused.code(), Some(2));
    assert!(refused.stderr.contains("at least 16"), "{}", refused.stderr);
    // The file may be one that was named by mistake: no remedy writes over it.
    let over = format!("> {}", text(&short));
    assert!(!refused.stderr.contains(&over), "{}", refused.stderr);
    assert!(refused.stderr.contains("> NEW-FILE"), "{}", refused.stderr);
}

#[test]
fn the_place_of_one_who_left_before_the_start_has_the_next_ones_name_and_stream() {
    let session = Session::new();
    let out = session.out();
    let files = [session.file("c", 300_000), session.file("right", 200_000)];
    let hlog = session.path("hlog");
    let more = ["--output", &out, "--histograms", text(&hlog)];
    let receiver = session.receive("2", &more);
    let joined = |name: &str| {
        let file = Path::new(&out).join(name);
        wait_for(name, || file.exists().then_some(()));
    };
    let wrong = session.send("wrong", &["--input", text(&files[0])]);
    joined("wrong");
    assert!(signal("INT", wrong.pid()));
    drop(wrong.end());
    let c = session.send("c", &["--input", text(&files[0])]);
    joined("c");
    let right = session.send("right", &["--input", text(&files[1])]);
    let sent = [c, right].map(|sender| sender.end().json_of(0));
    let received = receiver.end().json_of(0);
    assert_closed(&received, Path::new(&out));
    for ((name, sent), was) in ["c", "right"].iter().zip(&sent).zip(&files) {
        assert_eq!(sender(&received, name)["state"], "ended");
        let (came, went) = (session.path("out").join(name), fs::read(was).unwrap());
        let lost_bytes = assert_stream(&came, &went, number(sent, "lost"));
        assert!(lost_bytes < went.len() as u64, "something came of {name}");
    }
    let left = fs::read(session.path("out/wrong")).unwrap();
    assert!(left.is_empty(), "nothing came of it");
    let times = fs::read_to_string(&hlog).unwrap();
    assert!(times.contains("travel_ns:right") && !times.contains("wrong"));
}

#[test]
fn a_sender_that_is_killed_in_its_window_is_dead_and_the_others_complete() {
    let session = Session::new();
    let out = session.out();
    let file = session.file("whole", 4_000_000);
    let receiver = session.receive("2", &["--output", &out]);
    let doomed = session.send("doomed", &[]);
    let whole = session.send("whole", &["--input", text(&file)]);
    at_work(Path::new(&out), 500);
    assert!(signal("KILL", doomed.pid()));
    let sent = whole.end().json_of(0);
    let received = receiver.end().json_of(2);
    assert_closed(&received, Path::new(&out));
    let of = |name| sender(&received, name);
    assert_eq!(
        (&of("doomed")["state"], &of("whole")["state"]),
        (&"dead".into(), &"ended".into())
    );
    assert_eq!(
        (&of("doomed")["sent_known"], &of("whole")["sent_known"]),
        (&false.into(), &true.into())
    );
    let untold = format!(
        "doomed ended without a report: what it sent after window {} is not known",
        number(of("doomed"), "last_window")
    );
    assert_eq!(of("doomed")["not_known"], untold);
    let sheet = rig::audit(Path::new(&out)).stdout;
    assert!(
        sheet.contains(&untold) && !sheet.contains("sender0"),
        "{sheet}"
    );
    let told = rig::audit_json(Path::new(&out));
    let known = told["senders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (&it["name"], &it["sent_known"]));
    assert!(
        known
            .clone()
            .any(|it| it == (&"doomed".into(), &false.into())),
        "{told}"
    );
    assert!(
        known
            .clone()
            .any(|it| it == (&"whole".into(), &true.into())),
        "{told}"
    );
    assert_eq!(received["end"], "incomplete");
    assert_eq!(rig::audit_json(Path::new(&out))["condition"], "tainted");
    let was = fs::read(&file).unwrap();
    assert_stream(&session.path("out/whole"), &was, number(&sent, "lost"));
}

#[test]
fn a_sender_that_is_killed_comes_back_under_its_name_with_a_file_of_its_own() {
    let session = Session::new();
    let out = session.out();
    let file = session.file("again", 400_000);
    let receiver = session.receive("2", &["--output", &out]);
    let steady = session.send("steady", &[]);
    let first = session.send("again", &[]);
    at_work(Path::new(&out), 500);
    assert!(signal("KILL", first.pid()));
    // Until it has been silent long enough its name is taken.
    let sent = wait_for("its place", || {
        let ended = session.send("again", &["--input", text(&file)]).end();
        (ended.code() == Some(0)).then(|| ended.json())
    });
    assert!(signal("INT", steady.pid()));
    steady.end().json_of(0);
    let received = receiver.end().json_of(0);
    assert_closed(&received, Path::new(&out));
    assert_eq!(number(sender(&received, "again"), "restarts"), 1);
    assert_eq!(sender(&received, "again")["state"], "ended");
    let was = fs::read(&file).unwrap();
    assert_stream(&session.path("out/again.1"), &was, number(&sent, "lost"));
    assert!(
        !fs::read(session.path("out/again")).unwrap().is_empty(),
        "what came before is kept"
    );
}

#[test]
fn a_receiver_that_is_killed_and_started_again_is_found_and_the_stream_goes_on() {
    let session = Session::new();
    let (out, again) = (session.out(), session.path("again").display().to_string());
    let file = session.file("long", 30_000_000);
    let receiver = session.receive("1", &["--output", &out]);
    let sender = session.send("long", &["--input", text(&file)]);
    at_work(Path::new(&out), 300);
    assert!(signal("KILL", receiver.pid()));
    drop(receiver.end());
    let receiver = session.receive("1", &["--output", &again]);
    let sent = sender.end().json_of(0);
    let received = receiver.end().json_of(0);
    assert_closed(&received, Path::new(&again));
    assert_eq!(number(&sent, "receivers_lost"), 1, "{sent}");
    assert_eq!(
        sent["sessions_residual_items"], 0,
        "of the second session: {sent}"
    );
    let (was, came) = (fs::read(&file).unwrap(), session.path("again/long"));
    let missing = assert_same_but_for_lost(&came, &was);
    let of = self::sender(&received, "long");
    assert_eq!(number(of, "payload_bytes") + missing, was.len() as u64);
    // What the first receiver had, and what was on its way when it died, is a hole at the front, and listed.
    let (offset, hole) = lost_ranges(&came)[0];
    assert!(offset == 0 && hole > 0 && missing < was.len() as u64);
    assert!(missing - hole <= lost_packets(of) * PAYLOAD_BYTES_MAX);
}

#[test]
fn a_receiver_that_is_lost_before_the_first_packet_takes_none_of_standard_input_with_it() {
    let session = Session::new();
    let told = session.path("told");
    let program = forebay().get_program().to_str().unwrap().to_owned();
    let line = format!(
        "seq 1 200000 | {program} tdm send {} --no-realtime --wait 20s --id pipe --input - --format json 2>{}",
        session.address,
        text(&told)
    );
    // A second sender never comes: nothing is sent.
    let receiver = session.receive("2", &["--output", &session.out()]);
    let sender = start(Command::new("sh").args(["-c", &line]));
    wait_for("the start to be waited for", || {
        let told = fs::read_to_string(&told).unwrap_or_default();
        told.contains("waiting for the start").then_some(())
    });
    assert!(signal("KILL", receiver.pid()));
    drop(receiver.end());
    let again = session.path("again");
    let receiver = session.receive("1", &["--output", text(&again)]);
    let sent = sender.end().json_of(0);
    let received = receiver.end().json_of(0);
    assert_closed(&received, &again);
    assert_eq!(number(&sent, "receivers_lost"), 1, "{sent}");
    assert_eq!(sent["sessions_residual_items"], 0, "{sent}");
    let was: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    let lost = number(&sent, "lost");
    let lost_bytes = assert_stream(&again.join("pipe"), was.as_bytes(), lost);
    let came = number(self::sender(&received, "pipe"), "payload_bytes");
    assert_eq!(came + lost_bytes, was.len() as u64);
}

#[test]
fn an_order_to_end_lets_both_sides_tell_their_totals() {
    for who in ["receiver", "sender"] {
        let session = Session::new();
        let out = session.out();
        let receiver = session.receive("1", &["--verify", "--out", &out]);
        let sender = session.send("endless", &[]);
        at_work(Path::new(&out), 300);
        let ordered = if who == "receiver" {
            &receiver
        } else {
            &sender
        };
        assert!(signal("INT", ordered.pid()));
        let (sent, received) = (sender.end(), receiver.end());
        let received = received.json_of(0);
        assert_closed(&received, Path::new(&out));
        assert_eq!(number(&received, "wrong_payloads"), 0);
        let told: Value = sent.json();
        assert_eq!(told["sessions_residual_items"], 0, "{told}");
        assert_eq!(
            number(&told, "packets"),
            number(&received["by_sender"][0], "sent")
        );
        let expected = if who == "receiver" {
            ("stopped", Some(2))
        } else {
            ("interrupted", Some(0))
        };
        assert_eq!((told["end"].as_str().unwrap(), sent.code()), expected);
        assert_eq!(received["by_sender"][0]["interrupted"], who == "sender");
    }
}

#[test]
fn a_receiver_that_is_left_while_windows_are_open_has_their_packets_held() {
    let session = Session::new();
    let out = session.out();
    let mut receiver = session.receive("1", &["--output", &out]);
    let sender = session.send("still", &[]);
    at_work(Path::new(&out), 300);
    assert!(signal("STOP", sender.pid()));
    wait_for("the receiver's end", || {
        signal("INT", receiver.pid());
        receiver.is_over().then_some(())
    });
    assert!(signal("CONT", sender.pid()));
    assert!(signal("KILL", sender.pid()));
    drop(sender.end());
    let received = receiver.end();
    let received = received.json();
    assert_eq!(received["end"], "given_up", "{received}");
    assert_eq!(number(&received, "residual_items"), 0, "{received}");
    assert_eq!(
        number(&received["schemes"][0], "residual_items"),
        0,
        "{received}"
    );
    let verdict = rig::audit_json(Path::new(&out));
    assert_eq!(verdict["condition"], "interrupted", "{verdict}");
    let windows = |term| rig::account_items(&verdict, ("windows", "packets"), term);
    assert_eq!(
        windows("incoming"),
        windows("outgoing") + windows("held") + windows_lost(&received)
    );
    assert_eq!(
        windows("held"),
        number(&received["by_sender"][0], "held"),
        "{received}"
    );
}

fn windows_lost(received: &Value) -> u64 {
    let lost = received["schemes"][0]["lost"].as_object().unwrap();
    lost.values().map(|lost| lost.as_u64().unwrap()).sum()
}

#[test]
fn more_senders_than_planned_and_a_name_that_is_taken_are_refused() {
    let session = Session::new();
    let out = session.out();
    let receiver = session.receive("1", &["--out", &out]);
    let first = session.send("first", &[]);
    at_work(Path::new(&out), 100);
    let refused = |name: &str| -> Ended { session.send(name, &[]).end() };
    let second = refused("second");
    assert_eq!(second.code(), Some(2));
    assert!(
        second.stderr.contains("all places are taken"),
        "{}",
        second.stderr
    );
    let twin = refused("first");
    assert_eq!(twin.code(), Some(2));
    assert!(twin.stderr.contains("of that name"), "{}", twin.stderr);
    assert!(signal("INT", first.pid()));
    assert_eq!(first.end().json_of(0)["sessions_residual_items"], 0);
    assert_closed(&receiver.end().json_of(0), Path::new(&out));
}

#[test]
fn a_sender_that_repeats_takes_part_in_the_next_session() {
    let session = Session::new();
    let sender = session.send("again", &["--repeat", "--bytes", "200000"]);
    let mut came = 0;
    for _ in 0..2 {
        let received = session.receive("1", &["--verify"]).end().json_of(0);
        let (of, lost) = (
            self::sender(&received, "again"),
            number(&received, "lost_bytes"),
        );
        assert_eq!(number(of, "payload_bytes") + lost, 200_000, "{received}");
        assert_eq!(number(&received, "wrong_payloads"), 0);
        assert!(lost <= lost_packets(of) * PAYLOAD_BYTES_MAX);
        came += number(of, "received");
    }
    assert!(signal("INT", sender.pid()));
    let sent = sender.end().json_of(0);
    assert_eq!(
        (number(&sent, "sessions"), number(&sent, "received")),
        (2, came)
    );
    assert_eq!(number(&sent, "packets"), came + number(&sent, "lost"));
    assert_eq!(
        (
            &sent["sessions_residual_items"],
            &sent["sessions_unconfirmed"]
        ),
        (&0.into(), &0.into())
    );
    let refused = session.send("again", &["--repeat", "--input", "-"]).end();
    assert_eq!(refused.code(), Some(2));
    let why = "standard input comes once";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
}

#[test]
fn a_sender_whose_receiver_dies_before_it_confirms_says_so_in_time() {
    // One that repeats has waited for another receiver in vain when it ends.
    for (repeat, end) in [(&[][..], "unconfirmed"), (&["--repeat"], "no_receiver")] {
        let session = Session::new();
        let (out, own) = (session.out(), session.path("own"));
        let receiver = session.receive("1", &["--silence", "10m", "--out", &out]);
        let more = ["--bytes", "50M", "--wait", "2s", "--out", text(&own)];
        let sender = session.send("north", &[&more, repeat].concat());
        at_work(Path::new(&out), 100);
        assert!(signal("STOP", receiver.pid()));
        let ended = sender.end();
        let sent = ended.json_of(4);
        assert_eq!(sent["end"], end, "{sent}");
        assert_eq!(number(&sent, "payload_bytes"), 50_000_000);
        assert!(sent["received"].is_null() && sent["sessions_residual_items"].is_null());
        let sessions = ["sessions", "sessions_unconfirmed"].map(|key| number(&sent, key));
        assert_eq!(sessions, [1, 1]);
        assert_eq!(sent["packets_unconfirmed"], sent["packets"]);
        let verdict = rig::audit_json(&own);
        assert_eq!(verdict["condition"], "tainted");
        let [line] = verdict["unconfirmed"].as_array().unwrap().as_slice() else {
            panic!("{verdict}")
        };
        assert_eq!(
            (&line["place"], &line["owner"]),
            (&"send".into(), &"north".into())
        );
        let refused = number(&sent, "errors");
        assert_eq!(number(line, "items"), number(&sent, "packets") - refused);
        assert!(refused > 0 || number(line, "bytes") == 50_000_000, "{line}");
        let sheet = rig::audit(&own).stdout;
        assert!(
            sheet.contains("Unconfirmed: ") && sheet.contains("packets"),
            "{sheet}"
        );
        let why = format!(
            "all was sent; the receiver at {} did not confirm",
            session.address
        );
        let said = ended.stderr.contains(&why) || !repeat.is_empty();
        assert!(said, "{}", ended.stderr);
    }
}

#[test]
fn two_receivers_at_one_address_are_one_too_many() {
    let session = Session::new();
    let out = session.out();
    let first = session.receive("1", &["--out", &out]);
    wait_for("the ledger", || {
        Path::new(&out).join("ledger").exists().then_some(())
    });
    let second = session.receive("1", &[]).end();
    assert_eq!(second.code(), Some(2));
    assert!(
        second.stderr.contains(&session.address),
        "{}",
        second.stderr
    );
    assert!(signal("INT", first.pid()));
    first.end();
}

#[test]
fn a_plan_is_told_with_its_reasons_and_one_that_cannot_work_is_refused() {
    let plan = |more: &[&str]| {
        let mut command = forebay();
        command.args([
            "tdm",
            "plan",
            "--link-rate",
            "1G",
            "--port-buffer",
            "128K",
            "--senders",
            "3",
            "--packet-bytes",
            "1472",
        ]);
        start(command.args(more)).end()
    };
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("plan.svg");
    let json = plan(&["--format", "json", "--svg", text(&picture)]).json_of(0);
    assert_eq!(number(&json, "guard_ns"), 100_000 + 2 * 5_000 + 12_304);
    assert_eq!(json["pacing_ns"], 12_304.0);
    assert!(
        json["reasons"]["clock"]["why"]
            .as_str()
            .unwrap()
            .contains("the receiver's monotonic clock"),
        "{json}"
    );
    for what in ["window", "guard", "pace", "clock"] {
        assert!(
            !json["reasons"][what]["why"].as_str().unwrap().is_empty(),
            "{json}"
        );
    }
    assert_eq!(json["slots"].as_array().unwrap().len(), 3);
    assert_eq!(
        fs::read_to_string(&picture)
            .unwrap()
            .matches("<rect x")
            .count(),
        6,
        "two cycles of three"
    );
    let shown = plan(&[]);
    assert!(shown.stdout.contains("sender 2"), "{}", shown.stdout);
    let refused = plan(&["--utilisation", "1.01"]);
    assert_eq!(refused.code(), Some(2));
    assert!(refused.stderr.contains("101 %"), "{}", refused.stderr);
    let session = Session::new();
    let refused = session.receive("2", &["--utilisation", "1.01"]).end();
    assert_eq!(
        refused.code(),
        Some(2),
        "a receiver says so before anybody is waited for"
    );
}
