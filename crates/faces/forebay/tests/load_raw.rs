//! Generated load as frames of Ethernet: the real binary on a virtual wire in a network namespace that ends with its test, against an echo of its own, against stations that are
//! emulated here, and on interfaces that cannot carry it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;

use forebay_link::packet::{FrameBatch, FramePort, FrameRingSize, SendPort};
use forebay_sys::netlink::links;
use forebay_testing::wire::{self, carries, lay, sh};
use forebay_wire::load::{ETHERTYPE, LoadHead};
use rig::{
    Run, account_items, assert_closed, audit_json, forebay, number, signal, start, wait_for,
    wait_items,
};
use serde_json::Value;
use tempfile::TempDir;

/// Addresses of both ends, and of stations that are nobody's.
const NEAR: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 3];
/// A time-out that no process of a busy host oversleeps.
const LONG: &str = "20s";

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Whether this process is in a namespace of its own, with a wire whose ends have the addresses above. If not, the test named runs in one, as a process of its own.
fn is_inside(test: &str) -> bool {
    let is_inside = wire::is_inside(test);
    if is_inside {
        lay();
        for (end, mac) in [("near", NEAR), ("far", FAR)] {
            sh(&format!("ip link set {end} address {}", text(mac)));
        }
        carries();
    }
    is_inside
}

fn load(args: &[&str]) -> Run {
    load_leaking("", args)
}

fn load_leaking(leak: &str, args: &[&str]) -> Run {
    let mut command = leaking(leak);
    command.args(["load", "--raw", "near"]);
    start(command.args(args).args(["--format", "json"]))
}

/// The binary, in which items vanish there.
fn leaking(leak: &str) -> Command {
    let mut command = forebay();
    if !leak.is_empty() {
        command.env("FOREBAY_LEAK", leak);
    }
    command
}

/// An echo of frames at the far end.
fn echo(args: &[&str]) -> Run {
    echo_leaking("", args)
}

fn echo_leaking(leak: &str, args: &[&str]) -> Run {
    let mut command = leaking(leak);
    command.args(["load", "--echo", "--raw", "far", "--format", "json"]);
    let run = start(command.args(args));
    wait_for("the echo", || {
        run.said().contains("takes frames").then_some(())
    });
    run
}

fn end(run: Run) -> Value {
    assert!(signal("INT", run.pid()));
    run.end().json_of(0)
}

/// Frames that came in at an interface, by the count of its driver.
fn came_in(interface: &str) -> u64 {
    let links = links().unwrap();
    let link = links.iter().find(|link| link.name == interface).unwrap();
    link.counters["rx_packets"]
}

fn frame(to: [u8; 6], from: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &from, &ethertype.to_be_bytes(), payload].concat()
}

/// Sends frames at the far end, all of them.
fn send(port: &mut SendPort, frames: &[Vec<u8>]) {
    for some in frames.chunks(32) {
        let mut batch = FrameBatch::new(1_514);
        for frame in some {
            batch.room().unwrap()[..frame.len()].copy_from_slice(frame);
            batch.push(frame.len());
        }
        let sent = port.send(&batch, 0..some.len());
        assert_eq!(sent.frames, some.len(), "{:?}", sent.stopped);
    }
}

#[test]
fn frames_are_echoed_and_answered_and_four_parties_count_the_same() {
    if !is_inside("frames_are_echoed_and_answered_and_four_parties_count_the_same") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let [echo_out, out] = ["echo", "load"].map(|name| folder.path().join(name));
    let run = echo(&["--out", &echo_out.display().to_string()]);
    let before = ["near", "far"].map(came_in);
    let mut all = [0, 0];
    for pace in [["--rate", "2000pps"], ["--closed", "5"]] {
        let out = out.join(pace[0]);
        let place = out.display().to_string();
        let args = [
            "--size",
            "60,700,1514",
            "--duration",
            "500ms",
            "--timeout",
            LONG,
            "--out",
            &place,
        ];
        let json = load(&[&[text(FAR).as_str()], &args[..], &pace].concat());
        let json = json.end().json_of(0);
        assert_closed(&json, &out);
        let target = &json["targets"][0];
        let sent = number(target, "packets_sent");
        assert!(sent > 5, "{json}");
        assert!(pace[0] != "--rate" || sent <= 1_000, "{json}");
        assert_eq!(number(target, "packets_answered"), sent, "{json}");
        let others = [
            "packets_lost",
            "packets_refused",
            "late",
            "duplicate",
            "reordered",
            "corrupt",
            "foreign",
            "errors",
            "socket_drops",
        ];
        assert_eq!(others.map(|key| number(target, key)), [0; 9], "{json}");
        let rtt = &target["rtt_ns"];
        assert_eq!(
            (&rtt["source"], &json["transport"]),
            (&"kernel".into(), &"raw".into())
        );
        let times = ["min", "p50", "p90", "p99", "p999", "max"].map(|key| number(rtt, key));
        assert!(times.is_sorted() && times[0] > 0, "{times:?}");
        assert_eq!(target["address"], text(FAR), "{json}");
        all[0] += sent;
        let sizes = [60, 700, 1_514];
        all[1] += (0..sent).map(|at| sizes[at as usize % 3]).sum::<u64>();
    }
    let echoed = end(run);
    assert_closed(&echoed, &echo_out);
    let raw = &echoed["raw"];
    let counts = ["came", "came_bytes", "returned", "returned_bytes"].map(|key| number(raw, key));
    assert_eq!(counts, [all[0], all[1], all[0], all[1]], "{echoed}");
    assert_eq!(
        (&raw["mac"], number(raw, "ring_drops")),
        (&text(FAR).into(), 0)
    );
    let after = ["near", "far"].map(came_in);
    assert_eq!([after[0] - before[0], after[1] - before[1]], [all[0]; 2]);
}

#[test]
fn frames_that_vanish_are_named_by_the_books_of_load_or_echo() {
    if !is_inside("frames_that_vanish_are_named_by_the_books_of_load_or_echo") {
        return;
    }
    for hop in ["load_ring", "echo_ring", "echo"] {
        let folder = TempDir::new().unwrap();
        let [echo_out, out] = ["echo", "load"].map(|name| folder.path().join(name));
        let is_of_echo = hop != "load_ring";
        let leak = format!("{hop}:3");
        let [of_echo, of_load] = if is_of_echo {
            [&*leak, ""]
        } else {
            ["", &leak]
        };
        let run = echo_leaking(of_echo, &["--out", &echo_out.display().to_string()]);
        let place = out.display().to_string();
        let args = [
            text(FAR).as_str(),
            "--rate",
            "500pps",
            "--duration",
            "500ms",
            "--timeout",
            "500ms",
            "--out",
            &place,
        ]
        .map(str::to_owned);
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        load_leaking(of_load, &args)
            .end()
            .json_of(i32::from(!is_of_echo));
        assert!(signal("INT", run.pid()));
        run.end().json_of(i32::from(is_of_echo));
        let books = if is_of_echo { echo_out } else { out };
        rig::offenders::assert_leaked(&books, hop, "packets", 3);
    }
}

/// The station at the far end: each frame that comes there is given to `answers` with its number of those for its station, and what that makes is sent. It ends with the test.
fn far_end(mut answers: impl FnMut(u64, &[u8]) -> Vec<Vec<u8>> + Send + 'static) {
    let size = FrameRingSize {
        frame_bytes: 1_514,
        frames: 4_096,
    };
    let mut port = FramePort::open_shut("far", size).unwrap();
    port.ignore_outgoing().unwrap();
    port.accept(u32::MAX).unwrap();
    let mut back = SendPort::open("far").unwrap();
    thread::spawn(move || {
        let (never, _open) = rustix::pipe::pipe().unwrap();
        let mut numbers = HashMap::<Vec<u8>, u64>::new();
        loop {
            port.wait(never.as_fd(), u64::MAX).unwrap();
            while let Some(mut place) = port.take() {
                let frame = place.frame().unwrap().bytes;
                let number = numbers.entry(frame[..6].to_vec()).or_default();
                send(&mut back, &answers(*number, frame));
                *number += 1;
            }
        }
    });
}

/// The frame as its station sends it back.
fn turned(came: &[u8]) -> Vec<u8> {
    [&came[6..12], &came[..6], &came[12..]].concat()
}

#[test]
fn stations_are_told_apart_and_what_is_not_theirs_is_not_seen() {
    if !is_inside("stations_are_told_apart_and_what_is_not_theirs_is_not_seen") {
        return;
    }
    far_end(|number, came| {
        let whole = turned(came);
        if came[..6] == OTHER {
            return vec![whole];
        }
        let (mut last, mut magic) = (whole.clone(), whole.clone());
        last[99] ^= 1;
        magic[14] ^= 1;
        let answers = match number % 5 {
            0 => vec![],
            1 => vec![whole.clone(), whole.clone()],
            2 => vec![last],
            3 => vec![magic],
            _ => vec![whole.clone()],
        };
        // None of these is for the generator, or of its kind.
        let payload = &whole[14..];
        let foreign = [
            frame(NEAR, FAR, ETHERTYPE + 1, payload),
            frame([0xff; 6], FAR, ETHERTYPE, payload),
            frame([3, 0, 0, 0, 0, 9], FAR, ETHERTYPE, payload),
            frame([2, 0, 0, 0, 0, 9], FAR, ETHERTYPE, payload),
            frame(NEAR, [2, 0, 0, 0, 0, 9], ETHERTYPE, payload),
        ];
        answers.into_iter().chain(foreign).collect()
    });
    let folder = TempDir::new().unwrap();
    let out = folder.path().display().to_string();
    sh("ip link set near promisc on");
    let stations = [FAR, OTHER].map(text);
    let args = [
        "--rate",
        "1000pps",
        "--rate",
        "B=500pps",
        "--size",
        "100",
        "--duration",
        "500ms",
        "--timeout",
        "10s",
        "--out",
        &out,
    ];
    let all = [&stations.each_ref().map(String::as_str)[..], &args].concat();
    let json = load(&all).end().json_of(0);
    assert_closed(&json, folder.path());
    let [first, second] = [0, 1].map(|at| &json["targets"][at]);
    let sent = number(first, "packets_sent");
    let of = |rests: &[u64]| (0..sent).filter(|it| rests.contains(&(it % 5))).count() as u64;
    let keys = ["packets_lost", "duplicate", "corrupt", "foreign", "late"];
    let lost = of(&[0, 2, 3]);
    assert_eq!(
        keys.map(|key| number(first, key)),
        [lost, of(&[1]), of(&[2]), of(&[3]), 0],
        "{json}"
    );
    assert!(
        sent >= 5 && json["drops"]["load_flight.time_out.A"]["items"] == lost,
        "{json}"
    );
    assert_eq!(keys.map(|key| number(second, key)), [0; 5], "{json}");
    let answered = number(second, "packets_answered");
    assert_eq!(number(second, "packets_sent"), answered);
    // The kernel let in what was answered, and nothing else.
    let came = account_items(
        &audit_json(folder.path()),
        ("load_ring", "packets"),
        "incoming",
    );
    assert_eq!(came, sent - of(&[0]) + of(&[1]) + answered);
}

#[test]
fn frames_that_find_no_room_are_counted_by_the_kernel_and_the_books_close() {
    if !is_inside("frames_that_find_no_room_are_counted_by_the_kernel_and_the_books_close") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().display().to_string();
    let station = text(FAR);
    let args = [
        &station,
        "--closed",
        "1",
        "--timeout",
        "500ms",
        "--out",
        &out,
    ];
    let run = load(&args);
    wait_for("the books", || {
        folder.path().join("ledger").exists().then_some(())
    });
    wait_items(folder.path(), ("load_flight", "packets"), "incoming", 1);
    let pid = run.pid();
    assert!(signal("STOP", pid));
    wait_for("the stop", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')')
            .next()
            .unwrap()
            .starts_with(" T")
            .then_some(())
    });
    let head = LoadHead {
        run: 1,
        bytes: 46,
        ..LoadHead::default()
    };
    let strange = [&head.emit()[..], &[0; 22]].concat();
    let garbage = [strange, vec![0xff; 46], vec![]];
    let frames: Vec<Vec<u8>> = (0..6_000)
        .map(|at| frame(NEAR, FAR, ETHERTYPE, &garbage[at % 3]))
        .collect();
    send(&mut SendPort::open("far").unwrap(), &frames);
    assert!(signal("CONT", pid));
    assert!(signal("INT", pid));
    let json = run.end().json_of(0);
    assert_closed(&json, folder.path());
    let target = &json["targets"][0];
    let (foreign, dropped) = (number(target, "foreign"), number(target, "socket_drops"));
    assert!(foreign > 0 && dropped > 0, "{json}");
    assert_eq!(foreign + dropped, 6_000, "{json}");
    assert_eq!(
        json["drops"]["load_ring.ring_full.A"]["items"], dropped,
        "{json}"
    );
    assert!(
        json["limit"]
            .as_str()
            .unwrap()
            .contains("dropped at its socket"),
        "{json}"
    );
}

#[test]
fn an_interface_that_goes_down_ends_a_generator_and_not_an_echo() {
    if !is_inside("an_interface_that_goes_down_ends_a_generator_and_not_an_echo") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let echoing = echo(&[]);
    let station = text(FAR);
    for pace in [["--rate", "1000pps"], ["--closed", "3"]] {
        let out = folder.path().join(pace[0]);
        let place = out.display().to_string();
        let args = [
            &station,
            "--duration",
            "39s",
            "--out",
            &place,
            pace[0],
            pace[1],
        ];
        let run = load(&args);
        wait_for("the books", || out.join("ledger").exists().then_some(()));
        wait_items(&out, ("load_flight", "packets"), "outgoing", 10);
        sh("ip link set near down");
        let json = run.end().json_of(2);
        assert_eq!(json["residual_items"], 0, "{json}");
        let said = "near went down: `ip link set near up`";
        assert_eq!(
            (&json["failed"], &json["targets"][0]["error"]),
            (&said.into(), &said.into())
        );
        let target = &json["targets"][0];
        let sum = number(target, "packets_answered") + number(target, "packets_lost");
        assert_eq!(number(target, "packets_sent"), sum, "{json}");
        assert!(json["sending_s"].as_f64().unwrap() < 38.0, "{json}");
        assert!(json["limit"].is_null(), "{json}");
        sh("ip link set near up");
        carries();
    }
    sh("ip link set far down");
    wait_for("what the echo says", || {
        echoing.said().contains("far went down").then_some(())
    });
    sh("ip link set far up");
    carries();
    let args = [
        &station,
        "--closed",
        "1",
        "--duration",
        "100ms",
        "--timeout",
        LONG,
    ];
    let json = load(&args).end().json_of(0);
    assert_eq!(number(&json["targets"][0], "packets_lost"), 0, "{json}");
    sh("ip link delete near");
    let json = echoing.end().json_of(2);
    assert_eq!(
        (&json["failed"], &json["residual_items"]),
        (&"far is there no more".into(), &0.into())
    );
}

#[test]
fn frames_that_have_become_too_long_are_lost_by_name() {
    if !is_inside("frames_that_have_become_too_long_are_lost_by_name") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().display().to_string();
    let echoing = echo(&[]);
    let station = text(FAR);
    let args = [
        &station,
        "--rate",
        "500pps",
        "--timeout",
        "2s",
        "--out",
        &out,
    ];
    let run = load(&args);
    wait_for("the books", || {
        folder.path().join("ledger").exists().then_some(())
    });
    wait_items(folder.path(), ("load_flight", "packets"), "outgoing", 10);
    sh("ip link set near mtu 1000");
    wait_for("frames that are too long", || {
        let verdict = audit_json(folder.path());
        let mut lines = verdict["balance"]["accounts"].as_array().unwrap().iter();
        let send = lines.find(|line| line["place"] == "load_send" && line["unit"] == "packets");
        (send.unwrap()["dropped"][0]["items"].as_u64() >= Some(10)).then_some(())
    });
    let json = end(run);
    let target = &json["targets"][0];
    // One that was under way at that moment is longer than its receiver takes now.
    let lost = json["drops"]["load_flight.time_out.A"]["items"].as_u64();
    assert_eq!(number(target, "packets_lost"), lost.unwrap_or(0), "{json}");
    let refused = number(target, "packets_refused");
    assert_eq!(
        json["drops"]["load_send.too_long.A"]["items"], refused,
        "{json}"
    );
    assert!(
        target["error"].as_str().unwrap().contains("too long"),
        "{json}"
    );
    // The echo has no room for frames that its interface did not take when it began.
    sh("ip link set near mtu 3000; ip link set far mtu 3000");
    let args = [
        &station,
        "--size",
        "2500",
        "--rate",
        "200pps",
        "--duration",
        "100ms",
        "--timeout",
        "200ms",
    ];
    let json = load(&args).end().json_of(0);
    let sent = number(&json["targets"][0], "packets_sent");
    assert_eq!(
        json["drops"]["load_flight.time_out.A"]["items"], sent,
        "{json}"
    );
    let json = end(echoing);
    assert_eq!(json["drops"]["echo.cut.raw"]["items"], sent, "{json}");
    assert_eq!(json["residual_items"], 0, "{json}");
}

#[test]
fn what_cannot_be_is_told_before_anything_is_sent() {
    if !is_inside("what_cannot_be_is_told_before_anything_is_sent") {
        return;
    }
    let (near, far) = (text(NEAR), text(FAR));
    sh("ip link add idle type veth peer name other; ip link set lo up");
    let cases: [(&[&str], &str); 14] = [
        (
            &["--raw", "near", &far, "--size", "60,1515"],
            "frames of 1515 bytes: near takes 1514 at most, with its MTU of 1500 bytes: ask for shorter ones, or `ip link set near mtu 1501`",
        ),
        (
            &["--raw", "near", &far, "--size", "59"],
            "frames of 59 bytes: one of Ethernet has 60 at least",
        ),
        (
            &["--raw", "lo", &far],
            "lo is loopback, where each frame comes back to its own sender",
        ),
        (&["--raw", "nothing", &far], "no such interface"),
        (
            &["--raw", "idle", &far],
            "idle is down: `ip link set idle up`",
        ),
        (
            &["--raw", "near", &near],
            "target A: 02:00:00:00:00:01 is the address of near itself",
        ),
        (
            &["--raw", "near", &far, &far],
            "target B: 02:00:00:00:00:02 is the address of target A already",
        ),
        (
            &["--raw", "near", "127.0.0.1:9500"],
            "over raw a target is an address of Ethernet",
        ),
        (
            &[&far],
            "over udp a target is the address of a host, and a port",
        ),
        (
            &["--raw", "near", "ff:ff:ff:ff:ff:ff"],
            "the address of a group",
        ),
        (
            &["--raw", "near", &far, "--ethertype", "0x0800"],
            "the kernel reads such frames itself",
        ),
        (&["--echo"], "--echo --raw INTERFACE"),
        (
            &["127.0.0.1:9500", "--ipbench", "127.0.0.1:8038"],
            "cannot be used with '--ipbench",
        ),
        (
            &["127.0.0.1:9500", "--tcp", "--ethertype", "0x88b6"],
            "cannot be used with '--ethertype",
        ),
    ];
    for (args, says) in cases {
        let mut command = forebay();
        let ended = start(command.arg("load").args(args).args(["--duration", "1s"])).end();
        assert_eq!(ended.code(), Some(2), "{args:?}: {}", ended.stdout);
        assert!(ended.stderr.contains(says), "{args:?}: {}", ended.stderr);
    }
    for args in [&["--raw", "near", &far][..], &["--echo", "--raw", "far"]] {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"]);
        command.arg(forebay().get_program()).arg("load").args(args);
        let ended = start(command.args(["--duration", "1s"])).end();
        assert_eq!(ended.code(), Some(2), "{args:?}: {}", ended.stdout);
        assert!(
            ended.stderr.contains("needs the capability CAP_NET_RAW"),
            "{args:?}: {}",
            ended.stderr
        );
    }
}
