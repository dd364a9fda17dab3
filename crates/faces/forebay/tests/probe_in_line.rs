//! Flows that are counted at the probe's sockets (`--offload filter`) on a host that is reached through the interface: their records against those of a probe that reads
//! all packets itself and against what both ends sent, and the host receives all of it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and the peer says what it did"
)]

mod rig;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay_testing::wire::{self, carries, lay, sh};
use rig::{Ended, Run, forebay, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// Octets of the headers of a datagram.
const HEADERS: u64 = 28;
/// Set for the process at the other end of the wire.
const PEER: &str = "FOREBAY_TEST_PEER";
const HOST: &str = "10.0.0.2:5000";
/// Sockets of the peer, each a flow.
const FLOWS: usize = 20;

/// Packets and octets from the peer and to it.
type Sums = [u64; 4];

/// What both ends sent, or a probe's records have, by the peer's port.
type ByPort = BTreeMap<u64, Sums>;

fn add(sums: &mut ByPort, port: u64, more: Sums) {
    let sum = sums.entry(port).or_default();
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

/// The process at the other end: with each line that it reads, it sends some on each flow and waits for each answer.
#[test]
fn peer() {
    if std::env::var_os(PEER).is_none() {
        return;
    }
    let sockets: Vec<_> = (0..FLOWS)
        .map(|_| UdpSocket::bind("10.0.0.1:0").unwrap())
        .collect();
    for socket in &sockets {
        socket.connect(HOST).unwrap();
        let soon = Duration::from_secs(20);
        socket.set_read_timeout(Some(soon)).unwrap();
    }
    let (mut sums, mut room) = (ByPort::new(), [0; 2_000]);
    println!("\nready");
    for line in std::io::stdin().lines() {
        assert_eq!(line.unwrap(), "go");
        for round in 0..25 {
            for socket in &sockets {
                let payload = vec![7; 2 + round * 37 % 1_400];
                socket.send(&payload).unwrap();
                let answer = socket.recv(&mut room).unwrap();
                let port = socket.local_addr().unwrap().port();
                let octets = [payload.len(), answer].map(|bytes| HEADERS + bytes as u64);
                add(&mut sums, port.into(), [1, octets[0], 1, octets[1]]);
            }
        }
        println!("done");
    }
    for (port, sum) in sums {
        println!("sum {port} {} {} {} {}", sum[0], sum[1], sum[2], sum[3]);
    }
}

/// The peer, in a namespace of its own with the other end of the wire.
struct Peer {
    child: Child,
    to: Option<ChildStdin>,
    from: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn begin() -> Self {
        let mut holder = Command::new("unshare")
            .args(["--net", "sleep", "60"])
            .spawn()
            .unwrap();
        let namespace = format!("/proc/{}/ns/net", holder.id());
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        wait_for("a namespace of the peer", || {
            let there = fs::read_link(&namespace).ok()?;
            (there != own).then_some(())
        });
        sh(&format!("ip link set near netns {}", holder.id()));
        let inside = "f=/proc/sys/net/ipv6/conf/near/disable_ipv6; [ ! -e $f ] || echo 1 > $f; \
             ip link set near address 02:00:00:00:00:01 up; ip address add 10.0.0.1/24 dev near; \
             ip neighbour add 10.0.0.2 lladdr 02:00:00:00:00:02 dev near";
        sh(&format!("nsenter --net={namespace} sh -c '{inside}'"));
        let mut child = Command::new("nsenter")
            .arg(format!("--net={namespace}"))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "peer", "--nocapture"])
            .env(PEER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut peer = Self { child, to, from };
        peer.hears("ready");
        // The namespace is there as long as the peer is.
        holder.kill().unwrap();
        holder.wait().unwrap();
        peer
    }

    fn hears(&mut self, wanted: &str) {
        let mut lines = self.from.by_ref().map_while(Result::ok);
        assert!(lines.any(|line| line == wanted), "no '{wanted}'");
    }

    /// Has it send some, all of which were answered then.
    fn go(&mut self) {
        writeln!(self.to.as_mut().unwrap(), "go").unwrap();
        self.hears("done");
    }

    fn end(mut self) -> ByPort {
        drop(self.to.take());
        let mut sums = ByPort::new();
        for line in self.from.by_ref().map_while(Result::ok) {
            if let Some(rest) = line.strip_prefix("sum ") {
                let numbers = rest.split(' ').map(|word| word.parse().unwrap());
                let numbers: Vec<u64> = numbers.collect();
                add(&mut sums, numbers[0], numbers[1..].try_into().unwrap());
            }
        }
        assert!(self.child.wait().unwrap().success());
        sums
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this process is in a namespace of its own, where it is the host `10.0.0.2` at `far`.
fn is_inside(test: &str) -> bool {
    let is_inside = wire::is_inside(test);
    if is_inside {
        lay();
        // No address is asked for on the wire: what is on it is what the test sends.
        sh("ip link set lo up; ip link set far address 02:00:00:00:00:02");
        sh("ip address add 10.0.0.2/24 dev far");
        sh("ip neighbour add 10.0.0.1 lladdr 02:00:00:00:00:01 dev far");
        carries();
    }
    is_inside
}

/// A probe at `far` whose books and records are at `out`; none where there is no program.
fn probe(out: &Path, offload: &str, leak: &str, args: &[&str]) -> Option<Run> {
    let mut command = forebay();
    command.args(["probe", "--interface", "far", "--queues", "2"]);
    command.args(["--offload", offload, "--offload-after", "5"]);
    command.args(["--idle-timeout", "5s", "--format", "json"]);
    command.args(args);
    command.arg("--export").arg(out.with_extension("jsonl"));
    if !leak.is_empty() {
        command.env("FOREBAY_LEAK", leak);
    }
    let mut run = start(command.arg("--out").arg(out));
    let begun = wait_for("the ledger or an end", || {
        if out.join("ledger").exists() {
            return Some(true);
        }
        run.is_over().then_some(false)
    });
    if begun {
        return Some(run);
    }
    let Ended { stderr, .. } = run.end();
    assert!(stderr.contains("Install clang"), "{stderr}");
    forebay_testing::skip!("this build has no program for the kernel: {stderr}");
    None
}

/// Packets that came into an account of a probe until now.
fn came(out: &Path, account: &str) -> u64 {
    rig::account_items(&rig::audit_json(out), (account, "packets"), "incoming")
}

/// Has host and peer talk until the table at the sockets has counted so many packets; what they sent, and datagrams that the host received.
fn talk(out: &Path, packets: u64) -> (ByPort, u64) {
    talk_until("packets that are counted at the sockets", || {
        came(out, "offload") >= packets
    })
}

/// Has them talk on as long as it is not done.
fn talk_until(what: &str, mut is_done: impl FnMut() -> bool) -> (ByPort, u64) {
    let mut peer = Peer::begin();
    let socket = UdpSocket::bind(HOST).unwrap();
    let received = AtomicU64::new(0);
    let sums = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut room = [0; 2_000];
            loop {
                let (bytes, from) = socket.recv_from(&mut room).unwrap();
                // The test itself ends it.
                if bytes == 0 {
                    return;
                }
                received.fetch_add(1, Ordering::Relaxed);
                socket.send_to(&room[..bytes / 2], from).unwrap();
            }
        });
        wait_for(what, || {
            peer.go();
            is_done().then_some(())
        });
        let sums = peer.end();
        let end = UdpSocket::bind("10.0.0.2:0").unwrap();
        end.send_to(b"", HOST).unwrap();
        sums
    });
    (sums, received.into_inner())
}

/// What the records of a probe have of the peer's flows.
fn recorded(out: &Path) -> ByPort {
    let mut found = ByPort::new();
    for line in fs::read_to_string(out.with_extension("jsonl"))
        .unwrap()
        .lines()
    {
        let line: Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| line[key].as_u64().unwrap_or_default();
        let to = [number("packets"), number("octets")];
        let back = [number("packets_rev"), number("octets_rev")];
        let (port, [to, back]) = if line["src"] == "10.0.0.1" {
            (number("src_port"), [to, back])
        } else {
            assert_eq!(line["dst"], "10.0.0.1", "{line}");
            (number("dst_port"), [back, to])
        };
        add(&mut found, port, [to[0], to[1], back[0], back[1]]);
    }
    found
}

#[test]
fn the_host_receives_all_and_records_are_those_of_a_probe_that_reads_all() {
    if !is_inside("the_host_receives_all_and_records_are_those_of_a_probe_that_reads_all") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let [off, on] = ["off", "filter"].map(|name| folder.path().join(name));
    let reading = probe(&off, "off", "", &[]).unwrap();
    let Some(counting) = probe(&on, "filter", "", &[]) else {
        return;
    };
    let (sent, received) = talk(&on, 10_000);
    assert_eq!(sent.len(), FLOWS);
    assert_eq!(sent.values().map(|sums| sums[0]).sum::<u64>(), received);
    for run in [&reading, &counting] {
        assert!(signal("TERM", run.pid()));
    }
    let jsons = [reading, counting].map(|run| run.end().json_of(0));
    assert_eq!(recorded(&off), sent);
    assert_eq!(recorded(&on), sent);
    for (json, out) in jsons.iter().zip([&off, &on]) {
        rig::assert_closed(json, out);
    }
    for key in ["packets_in", "octets_in"] {
        assert_eq!(jsons[0][key], jsons[1][key]);
    }
    let offload = &jsons[1]["offload"];
    assert_eq!(offload["kind"], "filter, at the sockets");
    let counted = jsons[1]["packets_offloaded"].as_u64();
    assert!(counted >= Some(10_000), "{offload}");
    assert_eq!(offload["frames_counted"].as_u64(), counted);
    // All that came to the probe came to the program: each once, in whichever queue.
    assert_eq!(offload["frames"], jsons[1]["packets_in"]);
    assert_eq!(jsons[0]["packets_offloaded"], 0);
}

/// Lengths and directions of the first packets of each flow, as the plugin `pstats` has them.
fn first_packets(out: &Path) -> Vec<String> {
    let text = fs::read_to_string(out.with_extension("jsonl")).unwrap();
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        [
            "src_port",
            "dst_port",
            "pstats_payload_bytes",
            "pstats_directions",
        ]
        .map(|key| line[key].to_string())
        .join(" ")
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

#[test]
fn frames_that_come_up_cut_have_the_lengths_of_whole_ones() {
    if !is_inside("frames_that_come_up_cut_have_the_lengths_of_whole_ones") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let [off, on] = ["off", "filter"].map(|name| folder.path().join(name));
    // One of them wants headers to the end.
    let wanted = ["--plugins", "pstats,bursts", "--offload-trim", "on"];
    let reading = probe(&off, "off", "", &wanted[..2]).unwrap();
    let Some(cutting) = probe(&on, "filter", "", &wanted) else {
        return;
    };
    // What comes behind the packets that the probe has seen of each flow is cut.
    let mut more = 0..3;
    let (sent, _) = talk_until("packets of flows that are lent", || {
        came(&on, "packets") >= FLOWS as u64 * 50 && more.next().is_none()
    });
    for run in [&reading, &cutting] {
        assert!(signal("TERM", run.pid()));
    }
    let jsons = [reading, cutting].map(|run| run.end().json_of(0));
    assert_eq!(recorded(&off), sent);
    assert_eq!(recorded(&on), sent);
    let first = first_packets(&on);
    assert!(first.len() >= FLOWS && first[0].contains(','), "{first:?}");
    assert_eq!(first, first_packets(&off));
    let cut = jsons[1]["offload"]["frames_trimmed"].as_u64();
    assert!(cut >= Some(FLOWS as u64), "{}", jsons[1]);
    for (json, out) in jsons.iter().zip([&off, &on]) {
        rig::assert_closed(json, out);
    }
}

#[test]
fn what_was_counted_at_the_sockets_and_did_not_come_is_found() {
    if !is_inside("what_was_counted_at_the_sockets_and_did_not_come_is_found") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let Some(run) = probe(&out, "filter", "offload:1", &[]) else {
        return;
    };
    talk(&out, 2_000);
    assert!(signal("TERM", run.pid()));
    let json = run.end().json_of(1);
    assert!(json["residual_items"].as_u64() > Some(0), "{json}");
    let verdict = rig::audit_json(&out);
    let accounts = verdict["balance"]["accounts"].as_array().unwrap().iter();
    let open = accounts.filter(|line| line["residual"]["items"] != 0);
    let open: Vec<_> = open.map(|line| &line["place"]).collect();
    assert_eq!(open, ["offload"]);
}

#[test]
fn an_interface_without_ethernet_is_named() {
    if !is_inside("an_interface_without_ethernet_is_named") {
        return;
    }
    let made = Command::new("ip")
        .args(["tuntap", "add", "bare", "mode", "tun"])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        forebay_testing::skip!("this kernel makes no tunnel of bare IP");
        return;
    }
    sh("ip link set bare up");
    let mut command = forebay();
    command.args(["probe", "--interface", "bare", "--offload", "filter"]);
    let ended = start(&mut command).end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    let wrong = "bare has no Ethernet frames";
    assert!(ended.stderr.contains(wrong), "{}", ended.stderr);
}
