//! The multiplexer over each driver that its file can name, with clients over the library: what the far end has sent and got is what they count.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_client::{Client, Woken};
use forebay_link::packet::{FrameBatch, SendPort};
use forebay_link::pcap::Frames;
use forebay_sys::netlink::links;
use forebay_sys::sched;
use forebay_testing::wire::{carries, is_inside, lay, may_have_tun, sh};
use forebay_wire::pcap::{file_header, packet_header};
use rig::{Run, dropped_in_all, forebay, number, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(30);
const COMES: usize = 50;
const GOES: usize = 20;
/// Keys of a client that reads frames where the driver has received them.
const SHARES: &str = "trusted = true\nreceive = \"shared\"";

/// A daemon with places for the clients `one` and `two`, which has these keys for its card.
struct World {
    folder: TempDir,
    run: Run,
}

impl World {
    fn new(keys: &str) -> Self {
        Self::with(keys, "")
    }

    /// The same, with these keys for the client `one`.
    fn with(keys: &str, of_one: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let uid = fs::metadata("/proc/self").unwrap().uid();
        let place = |name: &str, last: u8| {
            format!(
                "[[clients]]\nname = \"{name}\"\nuid = {uid}\nmac = \"02:00:00:00:00:0{last}\"\n"
            )
        };
        let text = format!(
            "[mux]\n{keys}\nsocket = \"{0}/socket\"\ndirectory = \"{0}/out\"\n{1}{2}",
            folder.path().display(),
            place("one", 1) + of_one + "\n",
            place("two", 2)
        );
        let file = folder.path().join("mux.toml");
        fs::write(&file, text).unwrap();
        let mut command = forebay();
        let run = start(command.args(["mux", "run", "--format", "json"]).arg(file));
        Self { folder, run }
    }

    fn client(&self, name: &str) -> Client {
        wait_for("the place", || {
            Client::connect(&self.folder.path().join("socket"), name, LONG).ok()
        })
    }

    /// Ends the daemon, whose books close. What it says, of this driver.
    fn end(self, driver: &str) -> Value {
        assert!(signal("INT", self.run.pid()));
        let json = self.run.end().json_of(0);
        assert_eq!(json["driver"], driver, "{json}");
        rig::assert_closed(&json, &self.folder.path().join("out"));
        json
    }
}

/// A frame of a local experimental EtherType (IEEE 802) for the station with this last octet of its address.
fn frame(to: u8, from: u8, number: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
    frame.resize(100, number as u8);
    frame
}

/// Takes so many frames.
fn take(client: &mut Client, frames: usize) -> Vec<Vec<u8>> {
    let (mut taken, mut frame) = (Vec::new(), Vec::new());
    while taken.len() < frames {
        if client.receive_into(&mut frame).unwrap() {
            taken.push(frame.clone());
            continue;
        }
        let woken = client.wait(Instant::now() + LONG).unwrap();
        assert_ne!(woken, Woken::Due, "{} of {frames}", taken.len());
    }
    client.flush();
    taken
}

/// Sends frames of the client `one` to nobody.
fn give(client: &mut Client) {
    for number in 0..GOES {
        client.send(&frame(9, 1, number)).unwrap();
    }
    client.flush();
}

/// Frames that the interface has received, by its own count.
fn received(interface: &str) -> u64 {
    let links = links().unwrap();
    let link = links.iter().find(|link| link.name == interface).unwrap();
    link.counters["rx_packets"]
}

/// Frames go both ways over a virtual wire, whose far end the daemon has by this driver, with so many threads.
fn over_a_wire(driver: &str, threads: u64, modes: &[&str]) {
    over_a_wire_with(driver, threads, modes, ["", ""]);
}

/// The same, with these keys for the card and for the client.
fn over_a_wire_with(driver: &str, threads: u64, modes: &[&str], [keys, of_one]: [&str; 2]) {
    lay();
    carries();
    let card =
        format!("interface = \"far\"\ndriver = \"{driver}\"\ndriver_threads = {threads}\n{keys}");
    let world = World::with(&card, of_one);
    let mut client = world.client("one");
    let before = received("near");
    let mut port = SendPort::open("near").unwrap();
    let mut batch = FrameBatch::new(1_514);
    for number in 0..COMES {
        batch.room().unwrap()[..100].copy_from_slice(&frame(1, 9, number));
        batch.push(100);
    }
    assert_eq!(port.send(&batch, 0..COMES).frames, COMES);
    let wanted: Vec<_> = (0..COMES).map(|number| frame(1, 9, number)).collect();
    assert_eq!(take(&mut client, COMES), wanted);
    give(&mut client);
    wait_for("the far end", || {
        (received("near") - before == GOES as u64).then_some(())
    });
    let counts = client.counts();
    let json = world.end(driver);
    let one = &json["clients"][0];
    let places = ["frames_given", "packets_sent"].map(|key| number(one, key));
    assert_eq!(places, [COMES as u64, GOES as u64], "{json}");
    assert_eq!([counts.received, counts.sent], places);
    assert_eq!(one["is_sharing"], of_one == SHARES);
    let mode = json["driver_mode"].as_str().unwrap();
    assert!(modes.contains(&mode), "{mode}");
    assert_eq!(number(&json, "driver_threads"), threads);
    // No thread has kept a right, and the one that sends is there.
    let confined = &json["confined"];
    assert!(number(confined, "threads") >= threads, "{confined}");
    for held in ["no_capabilities", "no_new_privileges", "system_calls"] {
        assert_eq!(confined[held], true, "{held}: {confined}");
    }
}

#[test]
fn packet_sockets_have_frames_or_blocks() {
    if is_inside("packet_sockets_have_frames_or_blocks") {
        over_a_wire("packet", 1, &["frames"]);
        sh("ip link delete near");
        over_a_wire("packet-blocks", 1, &["blocks"]);
    }
}

#[test]
fn frames_go_in_a_thread_of_their_own() {
    if is_inside("frames_go_in_a_thread_of_their_own") {
        over_a_wire("packet", 2, &["frames"]);
        sh("ip link delete near");
        over_a_wire("packet-blocks", 2, &["blocks"]);
    }
}

/// Of each thread of a process, its policy and its real-time priority (`proc_pid_stat(5)`, fields 41 and 40) and the CPUs that it may use.
fn scheduled(pid: u32) -> Vec<([u64; 2], String)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let told = threads.map(|thread| {
        let path = thread.unwrap().path();
        let read = |file| fs::read_to_string(path.join(file)).unwrap();
        let (stat, status) = (read("stat"), read("status"));
        // The second field is the name, which may have blanks.
        let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let cpus = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list:"));
        let cpus = cpus.unwrap().rsplit('\t').next().unwrap().to_owned();
        ([38, 37].map(|at: usize| fields[at].parse().unwrap()), cpus)
    });
    told.collect()
}

#[test]
fn the_kernel_runs_the_daemon_where_and_with_which_priority_its_file_says() {
    if !is_inside("the_kernel_runs_the_daemon_where_and_with_which_priority_its_file_says") {
        return;
    }
    let tried = std::thread::spawn(|| sched::real_time(7)).join().unwrap();
    if tried.is_err() {
        lay();
        let ended = World::new("interface = \"far\"\nreal_time = 7").run.end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("CAP_SYS_NICE"), "{}", ended.stderr);
        forebay_testing::skip!("this user may have no real-time priority (CAP_SYS_NICE)");
        return;
    }
    lay();
    let last = *sched::cpus().last().unwrap();
    let world = World::new(&format!(
        "interface = \"far\"\ndriver_threads = 2\ncpu = {last}\nreal_time = 7"
    ));
    // It takes clients in when all threads are there.
    drop(world.client("one"));
    let threads = scheduled(world.run.pid());
    // SCHED_FIFO is 1 (sched.h).
    let fifo = 1;
    let with_priority = threads.iter().filter(|(how, _)| *how == [fifo, 7]);
    let cpus: Vec<_> = with_priority.map(|(_, cpus)| cpus.as_str()).collect();
    // The daemon's own thread, and that of the driver.
    assert_eq!(cpus.len(), 2, "{threads:?}");
    assert!(cpus.contains(&last.to_string().as_str()), "{threads:?}");
    if sched::cpu_count() > 1 {
        assert_ne!(cpus[0], cpus[1], "{threads:?}");
    }
    world.end("packet");
}

#[test]
fn a_port_past_the_stack_says_whether_it_copies() {
    if !is_inside("a_port_past_the_stack_says_whether_it_copies") {
        return;
    }
    // Without clang at the build there is no program, which is said of any interface.
    let mut command = forebay();
    command.args(["probe", "--input", "xdp", "--duration", "1s", "--interface"]);
    let ended = start(command.arg("no_such_card")).end();
    if ended.stderr.contains("apt-get install clang") {
        forebay_testing::skip!("clang was not there at the build (apt-get install clang)");
        return;
    }
    // A virtual cable moves no frames without a copy; native by Linux 5.9.
    let modes = ["native, copy", "generic, copy"];
    over_a_wire("xdp", 1, &modes);
    sh("ip link delete near");
    over_a_wire("xdp", 2, &modes);
    sh("ip link delete near");
    over_a_wire_with("xdp", 1, &modes, ["xdp_copy = \"always\"", ""]);
    for threads in [1, 2] {
        sh("ip link delete near");
        over_a_wire_with("xdp", threads, &modes, ["", SHARES]);
    }
    let world = World::new("interface = \"far\"\ndriver = \"xdp\"\nxdp_copy = \"never\"");
    let refused = world.run.end();
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
    for part in ["far", "without a copy", "allow one"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
}

#[test]
fn an_interface_that_is_made_has_the_host_at_its_other_end() {
    if !may_have_tun() {
        return;
    }
    if !is_inside("an_interface_that_is_made_has_the_host_at_its_other_end") {
        return;
    }
    let [copied, sent_apart, shared] = [
        (1, "", [false; 2]),
        (2, "", [false; 2]),
        (1, SHARES, [true, false]),
    ]
    .map(|(threads, of_one, sharing)| over_a_tap(threads, of_one, sharing));
    assert_eq!(copied, sent_apart);
    assert_eq!(copied, shared);
}

/// The host sends to both clients, and has what one sends. All frames of both, as they had them.
fn over_a_tap(threads: u64, of_one: &str, sharing: [bool; 2]) -> [Vec<Vec<u8>>; 2] {
    let world = World::with(
        &format!("interface = \"tap0\"\ndriver = \"tap\"\ndriver_threads = {threads}"),
        of_one,
    );
    let mut clients = ["one", "two"].map(|name| world.client(name));
    sh(
        "f=/proc/sys/net/ipv6/conf/tap0/disable_ipv6; [ ! -e $f ] || echo 1 > $f; ip link set tap0 address 02:00:00:00:00:09 up",
    );
    sh("ip address add 10.0.0.9/24 dev tap0");
    for place in [1, 2] {
        sh(&format!(
            "ip neighbour replace 10.0.0.{place} lladdr 02:00:00:00:00:0{place} dev tap0"
        ));
    }
    let mut port = SendPort::open("tap0").unwrap();
    for place in [1, 2] {
        let mut batch = FrameBatch::new(1_514);
        for number in 0..COMES {
            batch.room().unwrap()[..100].copy_from_slice(&frame(place, 9, number));
            batch.push(100);
        }
        assert_eq!(port.send(&batch, 0..COMES).frames, COMES);
    }
    let socket = UdpSocket::bind("10.0.0.9:9").unwrap();
    for number in 0..COMES {
        socket.send_to(&[number as u8; 30], "10.0.0.1:9").unwrap();
    }
    let [one, two] = &mut clients;
    let had = [take(one, 2 * COMES), take(two, COMES)];
    for (number, packet) in had[0][COMES..].iter().enumerate() {
        assert_eq!(packet[42..], [number as u8; 30]);
    }
    for (place, frames) in [1, 2].into_iter().zip(&had) {
        let wanted: Vec<_> = (0..COMES).map(|number| frame(place, 9, number)).collect();
        assert_eq!(frames[..COMES], wanted);
    }
    give(one);
    wait_for("the host", || {
        (received("tap0") == GOES as u64).then_some(())
    });
    let counts = clients.each_ref().map(Client::counts);
    let json = world.end("tap");
    assert_eq!(number(&json, "driver_threads"), threads);
    for (at, own) in counts.iter().enumerate() {
        let of = &json["clients"][at];
        let places = ["frames_given", "bytes_given", "packets_sent"].map(|key| number(of, key));
        assert_eq!(
            [own.received, own.received_bytes, own.sent],
            places,
            "{json}"
        );
        assert_eq!(of["is_sharing"], sharing[at], "{json}");
    }
    had.map(|frames| frames.into_iter().map(without_identification).collect())
}

/// Without what the host chooses anew for each packet: identification and check sum of the IPv4 header.
fn without_identification(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[12..14] == [8, 0] {
        frame[18..20].fill(0);
        frame[24..26].fill(0);
    }
    frame
}

/// A capture: frames for both clients, some for nobody, and some that are too long.
fn capture(path: &Path) {
    let long = [1; 1_600];
    let mut bytes = file_header(1, 65_535).to_vec();
    for number in 0..COMES {
        for packet in [
            &frame(1, 9, number)[..],
            &frame(2, 9, number),
            &frame(7, 9, number),
            &long,
        ] {
            let length = packet.len() as u32;
            bytes.extend(packet_header(1_000, length, length));
            bytes.extend_from_slice(packet);
        }
    }
    fs::write(path, bytes).unwrap();
}

fn packets_of(path: &Path) -> Vec<Vec<u8>> {
    let mut frames = Frames::new(fs::File::open(path).unwrap()).unwrap();
    let mut all = Vec::new();
    while frames.advance().unwrap() {
        all.push(frames.frame().bytes.to_vec());
    }
    all
}

#[test]
fn files_are_read_when_both_clients_are_there_and_have_all_that_goes() {
    let files = TempDir::new().unwrap();
    let (read, write) = (files.path().join("in.pcap"), files.path().join("out.pcap"));
    capture(&read);
    let world = World::new(&format!(
        "driver = \"pcap\"\npcap_read = {read:?}\npcap_write = {write:?}"
    ));
    let mut one = world.client("one");
    give(&mut one);
    wait_for("the file", || {
        (packets_of(&write).len() == GOES).then_some(())
    });
    // Nothing was read until now: the second client has all of its frames.
    let mut two = world.client("two");
    for (client, place) in [(&mut one, 1), (&mut two, 2)] {
        let wanted: Vec<_> = (0..COMES).map(|number| frame(place, 9, number)).collect();
        assert_eq!(take(client, COMES), wanted);
    }
    let json = world.end("pcap");
    assert_eq!(json["driver_mode"], "read and write");
    let given = [0, 1].map(|at| number(&json["clients"][at], "frames_given"));
    assert_eq!(given, [COMES as u64; 2], "{json}");
    let lost = ["mux_classify.unmatched", "mux_card_in.too_long"];
    let lost = lost.map(|place| dropped_in_all(&json, place));
    assert_eq!(lost, [COMES as u64; 2], "{json}");
    let sent: Vec<_> = (0..GOES).map(|number| frame(9, 1, number)).collect();
    assert_eq!(packets_of(&write), sent);
    assert_eq!(number(&json["clients"][0], "packets_sent"), GOES as u64);
}
