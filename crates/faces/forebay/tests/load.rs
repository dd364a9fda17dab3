//! Generated load and its echo: the real binary over loopback, against an echo of its own and against far ends that lose, damage, or are not there.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::thread;
use std::time::Duration;

use rig::{Run, assert_closed, forebay, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// An echo of the binary at work, and where it listens.
fn echo(out: &TempDir) -> (Run, String) {
    echo_leaking(out, "")
}

fn echo_leaking(out: &TempDir, leak: &str) -> (Run, String) {
    let mut command = forebay();
    if !leak.is_empty() {
        command.env("FOREBAY_LEAK", leak);
    }
    command.args(["load", "--echo", "127.0.0.1:0", "--format", "json", "--out"]);
    let run = start(command.arg(out.path().join("echo")));
    let address = wait_for("the echo", || {
        let said = run.said();
        let behind = said.split("listens on ").nth(1)?;
        behind.split(' ').next().map(str::to_owned)
    });
    (run, address)
}

fn end(run: Run, code: i32) -> Value {
    assert!(signal("INT", run.pid()));
    run.end().json_of(code)
}

fn load(args: &[&str]) -> Run {
    let mut command = forebay();
    start(command.arg("load").args(args).args(["--format", "json"]))
}

fn number(target: &Value, key: &str) -> u64 {
    target[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key}: {target}"))
}

/// A far end in this test, which gives each datagram that comes, by its number, to `answers`; it ends with the test.
fn far_end(mut answers: impl FnMut(u64, &mut [u8], &dyn Fn(&[u8])) + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut bytes = [0; 2048];
        for number in 0.. {
            let (length, from) = socket.recv_from(&mut bytes).unwrap();
            let send = |bytes: &[u8]| {
                socket.send_to(bytes, from).unwrap();
            };
            answers(number, &mut bytes[..length], &send);
        }
    });
    address
}

/// A time-out that no process of a busy host oversleeps.
const LONG: &str = "20s";

#[test]
fn what_vanishes_in_load_or_echo_is_named_by_its_books() {
    for hop in ["load_send", "load_flight", "load_answer", "echo"] {
        let folder = TempDir::new().unwrap();
        let is_of_echo = hop == "echo";
        let leak = format!("{hop}:3");
        let (run, address) = echo_leaking(&folder, if is_of_echo { &leak } else { "" });
        let out = folder.path().join("load");
        let mut command = forebay();
        command.args(["load", &address, "--rate", "500pps", "--duration", "1s"]);
        command.args(["--timeout", "500ms", "--format", "json", "--out"]);
        if !is_of_echo {
            command.env("FOREBAY_LEAK", &leak);
        }
        let code = i32::from(!is_of_echo);
        start(command.arg(&out)).end().json_of(code);
        end(run, i32::from(is_of_echo));
        let books = if is_of_echo {
            folder.path().join("echo")
        } else {
            out
        };
        rig::offenders::assert_leaked(&books, hop, "packets", 3);
    }
}

#[test]
fn what_vanishes_of_a_connection_is_named_by_the_books_of_its_echo() {
    let folder = TempDir::new().unwrap();
    let (run, address) = echo_leaking(&folder, "echo:1");
    rig::offenders::lose_first_read(&address);
    end(run, 1);
    rig::offenders::assert_leaked(&folder.path().join("echo"), "echo", "packets", 1);
}

#[test]
fn what_is_sent_is_echoed_and_answered() {
    let folder = TempDir::new().unwrap();
    let (run, address) = echo(&folder);
    let out = folder.path().join("load");
    let args = [
        "--rate",
        "2000pps",
        "--size",
        "24,700..",
        "--duration",
        "500ms",
    ];
    let wrong = load(&[&[address.as_str()], &args[..]].concat()).end();
    assert_eq!(wrong.code(), Some(2), "{}", wrong.stderr);
    let text = out.display().to_string();
    let args = [
        "--rate",
        "2000pps",
        "--size",
        "24,700,1472",
        "--duration",
        "500ms",
        "--timeout",
        LONG,
        "--out",
        &text,
    ];
    let json = load(&[&[address.as_str()], &args[..]].concat())
        .end()
        .json_of(0);
    assert_closed(&json, &out);
    let target = &json["targets"][0];
    let sent = number(target, "packets_sent");
    // Fewer than 1,000 where the host did not let it run at the end.
    assert!((1..=1_000).contains(&sent), "{json}");
    assert_eq!(number(target, "packets_answered"), sent, "{json}");
    let others = [
        "packets_lost",
        "packets_refused",
        "late",
        "duplicate",
        "corrupt",
        "foreign",
        "errors",
    ];
    assert_eq!(others.map(|key| number(target, key)), [0; 7], "{json}");
    let rtt = &target["rtt_ns"];
    assert_eq!(rtt["source"], "kernel", "{json}");
    let times = ["min", "p50", "p90", "p99", "p999", "max"].map(|key| number(rtt, key));
    assert!(times.is_sorted() && times[0] > 0, "{times:?}");
    let echoed = end(run, 0);
    assert_closed(&echoed, &folder.path().join("echo"));
    assert_eq!(
        (
            number(&echoed["udp"], "came"),
            number(&echoed["udp"], "returned")
        ),
        (sent, sent)
    );
    let sizes = [24, 700, 1472];
    let bytes: u64 = (0..sent).map(|number| sizes[number as usize % 3]).sum();
    assert_eq!(number(&echoed["udp"], "came_bytes"), bytes);
}

#[test]
fn packets_on_a_connection_are_answered_too() {
    let folder = TempDir::new().unwrap();
    let (run, address) = echo(&folder);
    for pace in [["--rate", "1000pps"], ["--closed", "5"]] {
        let args = [
            "--tcp",
            "--size",
            "24..9000",
            "--duration",
            "300ms",
            "--timeout",
            LONG,
        ];
        let json = load(&[&[address.as_str()], &args[..], &pace].concat())
            .end()
            .json_of(0);
        let target = &json["targets"][0];
        let (sent, answered) = (
            number(target, "packets_sent"),
            number(target, "packets_answered"),
        );
        assert_eq!(sent, answered, "{json}");
        assert!(pace[0] != "--rate" || sent <= 300, "{json}");
        assert!(sent > 5 && number(target, "reordered") == 0, "{json}");
        assert_eq!(target["rtt_ns"]["source"], "program", "{json}");
    }
    let echoed = end(run, 0);
    assert_eq!(
        echoed["tcp"]["came_bytes"], echoed["tcp"]["returned_bytes"],
        "{echoed}"
    );
    assert_eq!(number(&echoed, "connections"), 2);
}

#[test]
fn each_loss_and_each_damage_has_its_number() {
    let address = far_end(|number, packet, send| match number % 7 {
        0 => {}
        1 => {
            send(packet);
            send(packet);
        }
        2 => {
            let last = packet.len() - 1;
            packet[last] ^= 1;
            send(packet);
        }
        3 => {
            packet[0] ^= 1;
            send(packet);
        }
        _ => send(packet),
    });
    let folder = TempDir::new().unwrap();
    let out = folder.path().display().to_string();
    let args = [
        "--rate",
        "1400pps",
        "--size",
        "100",
        "--duration",
        "500ms",
        "--timeout",
        "3s",
        "--out",
        &out,
    ];
    let json = load(&[&[address.to_string().as_str()], &args[..]].concat())
        .end()
        .json_of(0);
    assert_closed(&json, folder.path());
    let target = &json["targets"][0];
    let keys = [
        "packets_sent",
        "packets_answered",
        "packets_lost",
        "duplicate",
        "corrupt",
        "foreign",
        "late",
    ];
    let sent = number(target, "packets_sent");
    let of = |rests: &[u64]| (0..sent).filter(|it| rests.contains(&(it % 7))).count() as u64;
    let lost = of(&[0, 2, 3]);
    assert_eq!(
        keys.map(|key| number(target, key)),
        [sent, sent - lost, lost, of(&[1]), of(&[2]), of(&[3]), 0],
        "{json}"
    );
    assert!(sent >= 7, "{json}");
    assert_eq!(
        json["drops"]["load_flight.time_out.A"]["items"], lost,
        "{json}"
    );
}

#[test]
fn an_answer_behind_its_time_is_late_and_its_packet_lost() {
    let address = far_end(|number, packet, send| {
        if number % 10 == 0 {
            thread::sleep(Duration::from_millis(150));
        }
        send(packet);
    });
    // One at a time: those behind a slow one wait until it is given up.
    let args = [
        "--closed",
        "1",
        "--size",
        "64",
        "--duration",
        "1500ms",
        "--timeout",
        "20ms",
    ];
    let json = load(&[&[address.to_string().as_str()], &args[..]].concat())
        .end()
        .json_of(0);
    let target = &json["targets"][0];
    let lost = number(target, "packets_lost");
    assert!(lost > 0 && number(target, "late") > 0, "{json}");
    let sum = lost + number(target, "packets_answered");
    assert_eq!(number(target, "packets_sent"), sum, "{json}");
}

#[test]
fn a_target_that_is_not_there_is_named_and_stops_no_other() {
    let folder = TempDir::new().unwrap();
    let (run, address) = echo(&folder);
    let nobody = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let gone = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    for transport in [&[][..], &["--tcp"]] {
        let args = ["--rate", "500pps", "--duration", "200ms", "--timeout", "2s"];
        let json = load(&[&[gone.as_str(), &address], &args[..], transport].concat())
            .end()
            .json_of(2);
        let [first, second] = [0, 1].map(|at| &json["targets"][at]);
        assert!(
            first["error"]
                .as_str()
                .unwrap()
                .to_lowercase()
                .contains("connection refused"),
            "{json}"
        );
        assert_eq!(number(first, "packets_answered"), 0);
        let sent = number(second, "packets_sent");
        assert!((1..=100).contains(&sent), "{json}");
        assert_eq!(number(second, "packets_answered"), sent, "{json}");
        assert!(
            json["failed"].as_str().unwrap().contains("target A"),
            "{json}"
        );
        assert_eq!(json["residual_items"], 0, "{json}");
    }
    end(run, 0);
}

#[test]
fn a_connection_that_is_lost_or_speaks_otherwise_is_named() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let far = thread::spawn(move || {
        let (mut closes, _) = listener.accept().unwrap();
        closes.read_exact(&mut [0; 100]).unwrap();
        drop(closes);
        let (mut speaks, _) = listener.accept().unwrap();
        speaks.write_all(&[b'?'; 100]).unwrap();
        // Held open until the other end has read it.
        let _ = speaks.read_to_end(&mut Vec::new());
    });
    for says in ["clos", "no packets"] {
        let args = [
            address.as_str(),
            "--tcp",
            "--closed",
            "4",
            "--duration",
            "20s",
            "--size",
            "100",
        ];
        let json = load(&args).end().json_of(2);
        let error = json["targets"][0]["error"].as_str().unwrap().to_lowercase();
        // Of a far end that closes with bytes unread the kernel says it in its own ways.
        let says = [says, "reset", "broken pipe"];
        assert!(says.iter().any(|it| error.contains(it)), "{json}");
        assert_eq!(json["residual_items"], 0, "{json}");
    }
    far.join().unwrap();
}

#[test]
fn a_far_end_that_does_not_read_holds_nobody_up_for_ever() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let args = [
        "--tcp",
        "--rate",
        "10G",
        "--size",
        "60000",
        "--duration",
        "500ms",
        "--timeout",
        "100ms",
    ];
    let run = load(&[&[address.as_str()], &args[..]].concat());
    let held = listener.accept().unwrap();
    let json = run.end().json_of(0);
    drop(held);
    assert_eq!(json["residual_items"], 0, "{json}");
    assert!(
        json["drops"]["load_send.not_sent.A"]["items"]
            .as_u64()
            .unwrap()
            > 0,
        "{json}"
    );
    assert!(
        json["limit"].as_str().unwrap().contains("no room"),
        "{json}"
    );
}

#[test]
fn who_cannot_send_what_is_asked_for_says_so() {
    let folder = TempDir::new().unwrap();
    let (run, address) = echo(&folder);
    // No host sends so much over one socket.
    let args = [
        address.as_str(),
        "--rate",
        "500000000pps",
        "--size",
        "24",
        "--duration",
        "300ms",
        "--timeout",
        "100ms",
    ];
    let json = load(&args).end().json_of(0);
    assert!(
        json["limit"]
            .as_str()
            .unwrap()
            .contains("% of what was due was not sent"),
        "{json}"
    );
    let target = &json["targets"][0];
    assert!(target["short_fraction"].as_f64().unwrap() > 0.5, "{json}");
    let (sent, asked) = (
        target["sent_bps"].as_f64().unwrap(),
        target["requested_bps"].as_f64().unwrap(),
    );
    assert!(sent < asked / 2.0 && json["residual_items"] == 0, "{json}");
    let text = forebay()
        .args(["load", &address, "--closed", "1", "--duration", "200ms"])
        .args(["--timeout", LONG])
        .output()
        .unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("answered, 0 lost; 0 late"), "{text}");
    assert!(!text.contains("was the limit"), "{text}");
    end(run, 0);
}

#[test]
fn the_columns_of_ipbench_are_a_line_for_each_target() {
    let folder = TempDir::new().unwrap();
    let (run, address) = echo(&folder);
    let args = [
        "load",
        &address,
        &address,
        "--rate",
        "1M",
        "--rate",
        "B=2M",
        "--size",
        "125",
        "--duration",
        "500ms",
        "--timeout",
        LONG,
        "--csv",
    ];
    let ended = start(forebay().args(args)).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let lines: Vec<Vec<&str>> = ended
        .stdout
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    let head = "requested,achieved,sent,size,rtt_min,rtt_avg,rtt_max,rtt_sd,rtt_median,bad_packets,idle,total";
    assert_eq!(lines[0].join(","), head);
    assert_eq!(lines.len(), 3);
    for (line, rate) in lines[1..].iter().zip(["1000000", "2000000"]) {
        assert_eq!((line.len(), line[0], line[3]), (12, rate, "125"));
        let [achieved, sent] = [1, 2].map(|at| line[at].parse::<u64>().unwrap());
        assert!(achieved > 0 && achieved == sent, "{line:?}");
        let times: Vec<f64> = [4, 8, 6].map(|at| line[at].parse().unwrap()).to_vec();
        assert!(times.is_sorted(), "{line:?}");
        let [idle, total] = [10, 11].map(|at| line[at].parse::<u64>().unwrap());
        assert!(idle <= total && total > 0 && line[9] == "0", "{line:?}");
    }
    end(run, 0);
}

#[test]
fn ctrl_c_closes_the_books() {
    let folder = TempDir::new().unwrap();
    let (run, address) = echo(&folder);
    let out = folder.path().join("load");
    let text = out.display().to_string();
    let at_work = load(&[&address, "--closed", "3", "--out", &text]);
    wait_for("the books", || out.join("ledger").exists().then_some(()));
    rig::wait_items(&out, ("load_flight", "packets"), "outgoing", 10);
    let json = end(at_work, 0);
    assert_closed(&json, &out);
    assert_eq!(json["reason"], "requested", "{json}");
    let echoed = end(run, 0);
    assert_eq!(
        number(&echoed["udp"], "returned"),
        number(&json["targets"][0], "packets_answered")
    );
}

/// Commands of ipbench's controller and its way to read answers: those of a command by one call, and data by their length.
struct Controller(std::net::TcpStream);

impl Controller {
    fn connect(address: &str) -> Self {
        let stream = std::net::TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut controller = Self(stream);
        assert_eq!(controller.answer(), "100 IPBENCH V1.0\n");
        controller
    }

    fn say(&mut self, line: &str) {
        self.0.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// What one call gives.
    fn answer(&mut self) -> String {
        let mut bytes = [0; 1024];
        let count = self.0.read(&mut bytes).unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.answer()
    }

    /// What comes until the target closes.
    fn rest(&mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        text
    }
}

#[test]
fn controllers_of_ipbench_are_told_how_busy_the_host_was() {
    let mut command = forebay();
    command.args(["load", "--echo", "127.0.0.1:0", "--ipbench", "127.0.0.1:0"]);
    let run = start(command.args(["--format", "json"]));
    let behind = |words: &str| {
        let said = run.said();
        let behind = said.split(words).nth(1)?;
        behind.split_whitespace().next().map(str::to_owned)
    };
    let address = wait_for("the target", || behind("answered at "));
    let echo = behind("listens on ").unwrap();
    let mut controller = Controller::connect(&address);
    assert_eq!(controller.ask("HELLO"), "200 OK (Ready to go)\n");
    // Another one has to wait, and what it says meanwhile changes nothing.
    let mut other = Controller::connect(&address);
    other.say("HELLO");
    assert_eq!(
        other.rest(),
        "421 SERVICE NOT AVAILABLE (Already Running)\n"
    );
    // One that says too much ends itself alone.
    let mut loud = Controller::connect(&address);
    loud.0.write_all(&[b'x'; 1_024]).unwrap();
    assert_eq!(loud.rest(), "500 SYNTAX ERROR\n");
    // As many as may be connected, and more: the test at hand stays.
    let many: Vec<_> = (0..20).map(|_| Controller::connect(&address)).collect();
    drop(many);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    socket.send_to(b"there and back", &echo).unwrap();
    assert_eq!(socket.recv(&mut [0; 64]).unwrap(), 14);
    assert_eq!(controller.ask("LOAD cpu_target_lukem"), "200 OK\n");
    assert_eq!(controller.ask("SETUP args::\"\""), "200 OK\n");
    controller.say("START");
    // It has begun when it answers what comes behind.
    let status = controller.ask("STATUS");
    assert_eq!(status, "Target Daemon mode\nRunning a test\n200 OK\n");
    let before = std::fs::read_to_string("/proc/stat").unwrap();
    wait_for("a tick of the host", || {
        let after = std::fs::read_to_string("/proc/stat").unwrap();
        (after.lines().next() != before.lines().next()).then_some(())
    });
    controller.say("STOP");
    let said = controller.rest();
    let (status, rest) = said.split_once('\n').unwrap();
    assert_eq!(status, "220 VALID DATA (Data to follow)");
    let (length, data) = rest.split_once('\n').unwrap();
    let length: usize = length
        .strip_prefix("Content-length: ")
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(data.len(), length);
    let busy: f64 = data.strip_suffix("\n\0").unwrap().parse().unwrap();
    assert!((0.0..=100.0).contains(&busy), "{busy}");
    // The target is free again.
    let mut next = Controller::connect(&address);
    assert_eq!(next.ask("HELLO"), "200 OK (Ready to go)\n");
    let mut ender = Controller::connect(&address);
    ender.say("ABORT");
    assert_eq!((ender.rest(), next.rest()), (String::new(), String::new()));
    let record = end(run, 0);
    assert_eq!(record["ipbench_tests"], 1);
}
