//! The multiplexer while its card goes down and up, gets another MTU, and goes away: what the far end's kernel counts, what the client counts and what the books say is the same, and
//! what was lost has a name.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forebay_client::Client;
use forebay_link::packet::{FrameBatch, SendPort};
use forebay_sys::netlink::links;
use forebay_testing::wire::{carries, is_on_wire, sh};
use rig::at_card::{client, daemon, file, next_frame};
use rig::{Run, forebay, number, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(30);
const FRAMES: usize = 20;

/// A daemon on the far end of a wire, and its one client.
struct World {
    folder: TempDir,
    run: Run,
    client: Client,
    /// Frames that the near end had received before.
    before: u64,
}

impl World {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let run = daemon(&file(folder.path(), ""));
        let client = client(folder.path());
        Self {
            folder,
            run,
            client,
            before: received(),
        }
    }

    /// The near end sends frames of this length, all of which the client has.
    fn come(&mut self, bytes: usize) {
        let mut port = SendPort::open("near").unwrap();
        let mut batch = FrameBatch::new(bytes);
        for number in 0..FRAMES {
            batch.room().unwrap()[..bytes].copy_from_slice(&frame(1, number, bytes));
            batch.push(bytes);
        }
        assert_eq!(port.send(&batch, 0..FRAMES).frames, FRAMES);
        for number in 0..FRAMES {
            let came = next_frame(&mut self.client);
            assert!(came == frame(1, number, bytes), "{number}");
        }
        self.client.flush();
    }

    /// The client sends frames of this length.
    fn go(&mut self, bytes: usize) {
        for number in 0..FRAMES {
            self.client.send(&frame(9, number, bytes)).unwrap();
        }
        self.client.flush();
    }

    /// Waits until all that the client has handed over is out of the daemon's hands.
    fn gone(&mut self) {
        wait_for("the packets", || {
            (self.client.frames_on_their_way().unwrap() == 0).then_some(())
        });
    }

    /// Waits until so many frames of the client have come to the near end, by its kernel's count.
    fn arrived(&self, frames: usize) {
        wait_for("the near end", || {
            (received() - self.before == frames as u64).then_some(())
        });
    }

    fn status(&self) -> Value {
        let mut command = forebay();
        command.args(["mux", "status", "--format", "json", "--control"]);
        start(command.arg(self.folder.path().join("socket.control")))
            .end()
            .json_of(0)
    }

    fn told(&self, part: &str) {
        wait_for(part, || self.run.said().contains(part).then_some(()));
    }

    /// Ends the daemon, whose books close and say the same as the client.
    fn end(self) -> Value {
        let counts = self.client.counts();
        drop(self.client);
        assert!(signal("INT", self.run.pid()));
        let json = self.run.end().json_of(0);
        rig::assert_closed(&json, &self.folder.path().join("out"));
        let one = &json["clients"][0];
        let places = ["frames_given", "packets_asked"].map(|key| number(one, key));
        assert_eq!([counts.received, counts.sent], places, "{json}");
        json
    }
}

/// A frame of a local experimental EtherType (IEEE 802), for the station with this last octet.
fn frame(to: u8, number: usize, bytes: usize) -> Vec<u8> {
    let from = 10 - to;
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
    frame.resize(bytes, number as u8);
    frame
}

/// Frames that the near end has received, by its kernel's count.
fn received() -> u64 {
    let links = links().unwrap();
    let link = links.iter().find(|link| link.name == "near").unwrap();
    link.counters["rx_packets"]
}

/// What was dropped, by its name.
fn drops(json: &Value) -> BTreeMap<&str, u64> {
    let drops = json["drops"].as_object().unwrap();
    drops
        .iter()
        .map(|(name, of)| (name.as_str(), number(of, "items")))
        .collect()
}

#[test]
fn a_link_goes_down_and_up_and_each_packet_is_sent_or_lost_by_name() {
    if !is_on_wire("a_link_goes_down_and_up_and_each_packet_is_sent_or_lost_by_name") {
        return;
    }
    let mut world = World::new();
    world.come(100);
    world.go(100);
    world.arrived(FRAMES);
    for (round, (end, told)) in (1..).zip([("near", "far has no carrier"), ("far", "far is down")])
    {
        sh(&format!("ip link set {end} down"));
        world.told(told);
        world.go(100);
        world.gone();
        let link = ["no-carrier", "down"][round - 1];
        assert_eq!(world.status()["link"], link);
        sh(&format!("ip link set {end} up"));
        carries();
        world.come(100);
        world.go(100);
        world.arrived(FRAMES * (round + 1));
    }
    let json = world.end();
    let one = &json["clients"][0];
    let [asked, sent] = ["packets_asked", "packets_sent"].map(|key| number(one, key));
    assert_eq!(
        [asked, sent],
        [5 * FRAMES as u64, 3 * FRAMES as u64],
        "{json}"
    );
    let lost = FRAMES as u64;
    let wanted = [
        ("mux_card_out.device.far", lost),
        ("mux_card_out.down.far", lost),
        ("mux_transmit.card.one", 2 * lost),
    ];
    assert_eq!(drops(&json), wanted.into());
}

#[test]
fn longer_packets_go_where_the_card_takes_them_and_are_lost_by_name_where_it_does_no_more() {
    if !is_on_wire(
        "longer_packets_go_where_the_card_takes_them_and_are_lost_by_name_where_it_does_no_more",
    ) {
        return;
    }
    for end in ["near", "far"] {
        sh(&format!("ip link set {end} mtu 9000"));
    }
    let mut world = World::new();
    for bytes in [100, 9_014] {
        world.come(bytes);
        world.go(bytes);
    }
    world.arrived(2 * FRAMES);
    sh("ip link set far mtu 1500");
    world.told("far has an MTU of 1500 bytes instead of 9000");
    for bytes in [1_514, 1_515, 9_014] {
        world.go(bytes);
    }
    world.arrived(3 * FRAMES);
    world.gone();
    // What comes and is longer than frames were at the start is lost at the card, and told.
    for end in ["near", "far"] {
        sh(&format!("ip link set {end} mtu 9100"));
    }
    let mut port = SendPort::open("near").unwrap();
    let mut batch = FrameBatch::new(9_114);
    batch.room().unwrap().fill(2);
    batch.push(9_114);
    assert_eq!(port.send(&batch, 0..1).frames, 1);
    world.told("far: frames are lost as they come (too_long, 1 so far; told once)");
    let status = world.status();
    assert_eq!(
        (&status["link"], &status["mtu_bytes"]),
        (&"up".into(), &9_100.into())
    );
    let lost = &status["drops"];
    let wanted = serde_json::json!({"mux_card_in.too_long": 1, "mux_card_out.too_long": 40});
    assert_eq!(lost, &wanted);
    let json = world.end();
    let lost = 2 * FRAMES as u64;
    let wanted = [
        ("mux_card_in.too_long.far", 1),
        ("mux_card_out.too_long.far", lost),
        ("mux_transmit.card.one", lost),
    ];
    assert_eq!(drops(&json), wanted.into());
}

#[test]
fn a_second_multiplexer_of_a_card_is_warned() {
    if !is_on_wire("a_second_multiplexer_of_a_card_is_warned") {
        return;
    }
    const TWO: &str = "another multiplexer has far as well";
    let first = World::new();
    let second = World::new();
    second.told(TWO);
    assert!(!first.run.said().contains(TWO), "{}", first.run.said());
    first.end();
    second.end();
    // The mark goes with its process, however that ends.
    let third = World::new();
    assert!(signal("KILL", third.run.pid()));
    drop(third.run.end());
    let last = World::new();
    assert!(signal("INT", last.run.pid()));
    let last = last.run.end();
    assert_eq!(last.code(), Some(0), "{}", last.stderr);
    assert!(!last.stderr.contains(TWO), "{}", last.stderr);
}

#[test]
fn a_card_that_is_taken_away_ends_the_daemon_whose_books_close() {
    if !is_on_wire("a_card_that_is_taken_away_ends_the_daemon_whose_books_close") {
        return;
    }
    let mut world = World::new();
    world.come(100);
    world.go(100);
    world.arrived(FRAMES);
    sh("ip link delete near");
    let out = world.folder.path().join("out");
    let ended = world.run.end();
    let json = ended.json_of(2);
    let failed = &json["failed"];
    assert_eq!(failed, "far is gone; start again when it is back");
    rig::assert_closed(&json, &out);
    assert!(world.client.wait(Instant::now() + LONG).is_err());
}
