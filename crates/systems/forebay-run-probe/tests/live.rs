//! A probe at an interface, without a table below it: what it exports while it runs, and what it tells of its interface.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use forebay_ledger::{Leak, TaintKind};
use forebay_run::system::{Note, Tell};
use forebay_run::{Host, Stop, System, Urgency};
use forebay_run_probe::config::{InputChoice, ProbeSettings};
use forebay_run_probe::{ProbePlan, ProbeRecord};
use forebay_testing::wait_for;
use forebay_testing::wire::{carries, is_at_wire, sh};

/// Packets that are sent of each flow.
const PACKETS: u64 = 40;
const PATIENCE: Duration = Duration::from_secs(20);

/// What an operator is told.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Tell for Notes {
    fn tell(&self, note: Note<'_>) {
        if let Note::Warning(text) = note {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }

    fn untold(&self, _: Duration) -> u64 {
        0
    }
}

impl Notes {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A probe at `far`, which takes packets.
struct Probe {
    stop: Stop,
    notes: Notes,
    thread: thread::JoinHandle<Result<ProbeRecord, String>>,
    _folder: tempfile::TempDir,
}

impl Probe {
    /// None where the kernel takes no program of this process, or there is none.
    fn begin(settings: ProbeSettings) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let plan = ProbePlan {
            read: "".into(),
            out: Some(out.clone()),
            settings: ProbeSettings {
                interface: Some("far".into()),
                ..settings
            },
        };
        let (stop, notes) = (Stop::of_library().unwrap(), Notes::default());
        let host = Host::new(stop.clone(), Leak::off(), notes.clone());
        let thread = thread::spawn(move || plan.run(&host).map_err(|error| error.to_string()));
        // Its books are opened when it takes packets.
        wait_for(|| out.join("ledger").exists() || thread.is_finished());
        if thread.is_finished() {
            forebay_testing::skip!("{}", thread.join().unwrap().unwrap_err());
            return None;
        }
        Some(Self {
            stop,
            notes,
            thread,
            _folder: folder,
        })
    }

    fn end(self) -> (ProbeRecord, Vec<String>) {
        self.stop.order(Urgency::Drain);
        (self.thread.join().unwrap().unwrap(), self.notes.all())
    }
}

/// Sends a flow that goes on over several looks of a probe; the port that it comes from.
fn send() -> u16 {
    let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
    for _ in 0..PACKETS {
        socket.send_to(b"it", "10.0.0.2:5000").unwrap();
        thread::sleep(Duration::from_millis(10));
    }
    socket.local_addr().unwrap().port()
}

/// Reads messages of IPFIX until there is a record with these ports.
fn read_record(collector: &mut TcpStream, port: u16) {
    collector.set_read_timeout(Some(PATIENCE)).unwrap();
    let ports = [port, 5_000].map(u16::to_be_bytes).concat();
    let mut message = Vec::new();
    while !message.windows(4).any(|bytes| bytes == ports) {
        let mut head = [0; 4];
        collector.read_exact(&mut head).unwrap();
        message.resize(usize::from(u16::from_be_bytes([head[2], head[3]])) - 4, 0);
        collector.read_exact(&mut message).unwrap();
    }
}

#[test]
fn a_flow_that_is_over_is_exported_at_once_also_behind_a_pause_of_the_interface() {
    if !is_at_wire("a_flow_that_is_over_is_exported_at_once_also_behind_a_pause_of_the_interface") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("ipfix+tcp://{}", listener.local_addr().unwrap());
    let probe = Probe::begin(ProbeSettings {
        idle_timeout_s: 1,
        export: vec![to.parse().unwrap()],
        ..ProbeSettings::default()
    })
    .unwrap();
    let (mut collector, _) = listener.accept().unwrap();
    read_record(&mut collector, send());
    sh("ip link set far down");
    wait_for(|| !probe.notes.all().is_empty());
    // It is told of once, however often it is looked at meanwhile.
    thread::sleep(Duration::from_millis(400));
    sh("ip link set far up");
    carries();
    read_record(&mut collector, send());
    // The probe ends when its collector has seen that it does.
    let collected = thread::spawn(move || collector.read_to_end(&mut Vec::new()).unwrap());
    let (record, notes) = probe.end();
    collected.join().unwrap();
    let said = &record.summary;
    assert_eq!(notes, ["far is down; its packets are awaited"]);
    assert!(record.is_closed() && record.envelope.taints.is_empty());
    assert_eq!(said.input, Some("packet socket"));
    // It can only be written when it is over.
    assert!(said.exports[0].late_max_ns.is_some_and(|ns| ns > 0));
    assert_eq!(
        [said.packets_in, said.packets_exported, said.flows_exported],
        [2 * PACKETS, 2 * PACKETS, 2]
    );
    assert_eq!(
        [said.interface_downs, said.packets_dropped_by_kernel],
        [1, 0]
    );
}

#[test]
fn an_interface_that_goes_ends_the_run_which_says_so() {
    if !is_at_wire("an_interface_that_goes_ends_the_run_which_says_so") {
        return;
    }
    let probe = Probe::begin(ProbeSettings::default()).unwrap();
    send();
    sh("ip link delete far");
    wait_for(|| probe.thread.is_finished());
    let (record, _) = probe.end();
    assert!(record.is_closed() && record.envelope.is_tainted(TaintKind::CaptureBroken));
    assert_eq!(record.envelope.taints[0].text, "far is there no more");
    assert_eq!(record.summary.packets_exported, PACKETS);
}

/// Packets that came in at `far`, by the kernel.
fn came() -> u64 {
    let all = std::fs::read_to_string("/proc/self/net/dev").unwrap();
    let line = all
        .lines()
        .find_map(|line| line.trim().strip_prefix("far:"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

/// A block of the ring is handed over some time after its first packet: the last one has packets when the order to end comes.
#[test]
fn packets_that_came_just_before_the_end_are_in_records() {
    if !is_at_wire("packets_that_came_just_before_the_end_are_in_records") {
        return;
    }
    const BURST: u64 = 200;
    let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
    for _ in 0..5 {
        let probe = Probe::begin(ProbeSettings::default()).unwrap();
        let before = came();
        for _ in 0..BURST {
            socket.send_to(b"it", "10.0.0.2:5000").unwrap();
        }
        wait_for(|| came() == before + BURST);
        let (record, notes) = probe.end();
        assert!(record.is_closed() && notes.is_empty(), "{notes:?}");
        assert_eq!(record.summary.packets_exported, BURST);
    }
}

/// The number of the program that is on `far`.
fn program_at_far() -> u32 {
    let mut ip = Command::new("ip");
    let shown = ip.args(["-d", "link", "show", "far"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let (_, number) = shown.split_once("prog/xdp id ").unwrap();
    number.split_whitespace().next().unwrap().parse().unwrap()
}

/// Past the kernel's stack: no packet comes any more, which is told once.
#[test]
fn a_program_that_steers_packets_and_was_taken_off_is_told() {
    if !is_at_wire("a_program_that_steers_packets_and_was_taken_off_is_told") {
        return;
    }
    let Some(probe) = Probe::begin(ProbeSettings {
        input: InputChoice::Xdp,
        ..ProbeSettings::default()
    }) else {
        return;
    };
    send();
    assert_eq!(probe.notes.all(), [""; 0]);
    assert!(forebay_xdp::take_off_program(program_at_far()).unwrap());
    wait_for(|| !probe.notes.all().is_empty());
    // Over several looks.
    thread::sleep(Duration::from_millis(400));
    let (record, notes) = probe.end();
    assert!(
        notes[0].contains("was taken off") && notes.len() == 1,
        "{notes:?}"
    );
    assert_eq!(record.summary.packets_exported, PACKETS);
}

/// More records than one datagram has, all at the end: there is time for the pace of a collector.
#[test]
fn records_of_the_end_go_to_a_collector_with_a_pace() {
    const FLOWS: u64 = 1_000;
    if !is_at_wire("records_of_the_end_go_to_a_collector_with_a_pace") {
        return;
    }
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = format!("ipfix+udp://{}", collector.local_addr().unwrap());
    let probe = Probe::begin(ProbeSettings {
        export: vec![to.parse().unwrap()],
        ..ProbeSettings::default()
    })
    .unwrap();
    let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
    let before = came();
    for port in (1..=FLOWS as u16).map(|n| 5_000 + n) {
        socket.send_to(b"it", ("10.0.0.2", port)).unwrap();
    }
    wait_for(|| came() == before + FLOWS);
    let (record, notes) = probe.end();
    assert!(record.is_closed() && notes.is_empty(), "{notes:?}");
    let said = &record.summary;
    assert_eq!([said.flows_exported, said.exports[0].flows], [FLOWS; 2]);
    let mut message = [0; 9_000];
    assert!(collector.recv(&mut message).unwrap() > 0);
}

/// With nothing else that goes on.
#[test]
fn a_collector_that_goes_is_told_of() {
    if !is_at_wire("a_collector_that_goes_is_told_of") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("ipfix+tcp://{}", listener.local_addr().unwrap());
    let probe = Probe::begin(ProbeSettings {
        export: vec![to.parse().unwrap()],
        ..ProbeSettings::default()
    })
    .unwrap();
    listener.set_nonblocking(true).unwrap();
    let accepted = || {
        let mut found = None;
        wait_for(|| {
            found = listener.accept().ok();
            found.is_some()
        });
        let (collector, _) = found.unwrap();
        collector.set_nonblocking(false).unwrap();
        collector
    };
    drop(accepted());
    wait_for(|| !probe.notes.all().is_empty());
    let collector = accepted();
    wait_for(|| probe.notes.all().len() > 1);
    let collected = thread::spawn(move || (&collector).read_to_end(&mut Vec::new()).unwrap());
    let (record, notes) = probe.end();
    collected.join().unwrap();
    assert!(record.is_closed());
    let told = ["is away", "is there again"];
    assert!(
        notes
            .iter()
            .zip(told)
            .all(|(note, told)| note.contains(told)),
        "{notes:?}"
    );
}
