//! The multiplexer as people start it: on the far end of a virtual wire in a network namespace, with a client over the library, and a daemon that is killed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::time::{Duration, Instant};

use forebay_client::{Client, ClientError, Woken};
use forebay_link::packet::{FrameBatch, SendPort};
use forebay_run_mux::driver::packet::{self, PacketOptions};
use forebay_testing::wire::is_on_wire;
use rig::at_card::{client, daemon, file, next_frame};
use rig::{Run, forebay, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(30);
const FRAMES: usize = 20;

/// Sends frames to the client, which takes all of them.
fn give(client: &mut Client) {
    let mut port = SendPort::open("near").unwrap();
    let mut batch = FrameBatch::new(1_514);
    for number in 0..FRAMES {
        let room = batch.room().unwrap();
        room[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
        room[14..100].fill(number as u8);
        batch.push(100);
    }
    assert_eq!(port.send(&batch, 0..FRAMES).frames, FRAMES);
    for number in 0..FRAMES {
        assert_eq!(next_frame(client)[14..], [number as u8; 86]);
    }
    client.flush();
}

#[test]
fn a_client_of_a_daemon_that_is_killed_comes_again_to_the_next_one() {
    if !is_on_wire("a_client_of_a_daemon_that_is_killed_comes_again_to_the_next_one") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = file(folder.path(), "");
    let run = daemon(&file);
    let mut before = client(folder.path());
    give(&mut before);
    assert!(signal("KILL", run.pid()));
    let gone = loop {
        match before.wait(Instant::now() + LONG) {
            Ok(woken) => assert_ne!(woken, Woken::Due),
            Err(error) => break error,
        }
    };
    assert!(matches!(gone, ClientError::Gone), "{gone}");
    drop(run);
    let run = daemon(&file);
    let mut after = client(folder.path());
    give(&mut after);
    let sent = b"\x02\x00\x00\x00\x00\x09\x02\x00\x00\x00\x00\x01\x88\xb5 from the client";
    after.send(sent).unwrap();
    let last = after.wait(Instant::now() + Duration::from_millis(1));
    assert!(last.is_ok(), "{last:?}");
    let counts = after.counts();
    drop(after);
    let json = end(run, &folder);
    let one = &json["clients"][0];
    assert_eq!(one["frames_given"], FRAMES, "{json}");
    assert_eq!(one["frames_given"], counts.received);
    assert_eq!(
        (&one["packets_asked"], &one["packets_sent"]),
        (&1.into(), &1.into())
    );
}

/// The record of a daemon that is told to end: it has dropped nothing, and its books close.
fn end(run: Run, folder: &TempDir) -> Value {
    assert!(signal("INT", run.pid()));
    let json = run.end().json_of(0);
    assert_eq!(json["drops"], serde_json::json!({}), "{json}");
    rig::assert_closed(&json, &folder.path().join("out"));
    json
}

/// A frame of the client, of a local experimental EtherType (IEEE 802).
fn frame(number: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    let rest = 0..number * 10;
    frame.extend(rest.map(|at| (at * 7 + number) as u8));
    frame
}

#[test]
fn packets_of_a_trusted_client_arrive_byte_for_byte_and_the_books_close() {
    if !is_on_wire("packets_of_a_trusted_client_arrive_byte_for_byte_and_the_books_close") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = file(folder.path(), "trusted = true\n");
    let mut far = packet::open("near", &PacketOptions::default()).unwrap();
    let run = daemon(&file);
    let mut client = client(folder.path());
    give(&mut client);
    let wanted: Vec<_> = (0..=150).map(frame).collect();
    wanted.iter().for_each(|frame| client.send(frame).unwrap());
    client.flush();
    let mut came = Vec::new();
    wait_for("all of them", || {
        let mut visit = |frame: &[u8]| {
            if frame[12..14] == [0x88, 0xb5] {
                came.push(frame.to_vec());
            }
        };
        far.receive.receive(256, &mut visit).unwrap();
        (came.len() >= wanted.len()).then_some(())
    });
    assert_eq!(came, wanted);
    let mut status = forebay();
    status.args(["mux", "status", "--format", "json", "--control"]);
    let status = start(status.arg(folder.path().join("socket.control"))).end();
    assert_eq!(status.json_of(0)["clients"][0]["is_trusted"], true);
    let counts = client.counts();
    drop(client);
    let json = end(run, &folder);
    let one = &json["clients"][0];
    assert_eq!(one["is_trusted"], true, "{json}");
    assert_eq!(one["packets_asked"], wanted.len(), "{json}");
    assert_eq!(one["packets_sent"], wanted.len(), "{json}");
    assert_eq!(one["frames_given"], FRAMES, "{json}");
    assert_eq!(counts.sent, wanted.len() as u64);
}

#[test]
fn frames_to_groups_come_to_the_client_that_asks_for_those() {
    if !is_on_wire("frames_to_groups_come_to_the_client_that_asks_for_those") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let groups = "groups = [\"239.1.2.3\", \"ff02::1:2345\", \"01:80:c2:00:00:0e\"]\n";
    let file = file(folder.path(), groups);
    let run = daemon(&file);
    let mut client = client(folder.path());
    let asked = [
        [0x01, 0x00, 0x5e, 1, 2, 3],
        [0x33, 0x33, 0, 1, 0x23, 0x45],
        [0x01, 0x80, 0xc2, 0, 0, 0x0e],
    ];
    let others = [
        [0x01, 0x00, 0x5e, 1, 2, 4],
        [0x33, 0x33, 0, 1, 0x23, 0x46],
        [0x01, 0x80, 0xc2, 0, 0, 0x0f],
        [0xff; 6],
    ];
    let mut port = SendPort::open("near").unwrap();
    let mut batch = FrameBatch::new(1_514);
    for to in others.iter().chain(&asked) {
        let room = batch.room().unwrap();
        room[..100].fill(7);
        room[..6].copy_from_slice(to);
        room[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
        batch.push(100);
    }
    assert_eq!(port.send(&batch, 0..7).frames, 7);
    for to in asked {
        assert_eq!(next_frame(&mut client)[..6], to);
    }
    drop(client);
    assert!(signal("INT", run.pid()));
    let json = run.end().json_of(0);
    rig::assert_closed(&json, &folder.path().join("out"));
    let one = &json["clients"][0];
    assert_eq!(one["frames_for"], 3, "{json}");
    let dropped = &json["drops"]["mux_classify.group_not_asked.card"]["items"];
    assert_eq!(dropped, 4, "{}", json["drops"]);
}

#[test]
fn what_cannot_be_shared_is_told_with_its_place() {
    let folder = TempDir::new().unwrap();
    let file = file(folder.path(), "");
    let text = fs::read_to_string(&file).unwrap();
    let two = text.replace("far", "no_such_card");
    let another = "[[clients]]\nname = \"two\"\nuid = 1\nmac = \"02:00:00:00:00:02\"\n";
    for (wrong, said) in [
        (
            text.replace("02:00:00:00:00:01", "03:00:00:00:00:01"),
            "no Ethernet address of one station",
        ),
        (
            text.replace("name = \"one\"", "guarantee = 5000\nqueue = 5000"),
            "it has no name",
        ),
        (
            format!("{text}guarantee = 5000\nqueue = 5000\n"),
            "clients[0]: one: 5000 buffers guaranteed",
        ),
        (
            text.replace("[[clients]]", "[[clients]]\nclass = 3"),
            "clients[0]: one: class is 3",
        ),
        (
            format!(
                "{text}address = [\"10.0.0.1\"]\n{}address = [\"10.0.0.1\"]\n",
                another
            ),
            "clients[1]: two: 10.0.0.1 is the address of client 0",
        ),
        (
            format!(
                "{text}slot_offset_us = 100\n{another}slot_offset_us = 500\n[[classes]]\npolicy = \"tdm\"\ncycle_us = 100000\n"
            ),
            "clients[1]: class 0: the window of client 1 at 500000 ns begins before the one before it is over, at 1100000 ns; client 1 is two",
        ),
        (
            format!("{text}groups = [\"192.0.2.1\"]\n"),
            "it is no address of a group",
        ),
        (
            format!("{text}groups = [\"ff:ff:ff:ff:ff:ff\"]\n"),
            "all stations are `broadcast = true`",
        ),
        (
            format!("{text}multicast = true\ngroups = [\"239.1.2.3\"]\n"),
            "it has frames to all groups already",
        ),
        (two, "no_such_card"),
    ] {
        fs::write(&file, &wrong).unwrap();
        let ended = daemon(&file).end();
        assert_eq!(ended.code(), Some(2), "{wrong}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
    }
}
