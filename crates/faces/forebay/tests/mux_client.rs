//! Clients of the multiplexer as people start them: on a virtual wire in a network namespace, with a daemon, a client of a user without rights, and
//! `forebay load` or a socket of the kernel at the far end.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::{self, Permissions};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use forebay_sys::socket::raise_receive_buffer;
use forebay_testing::wire::{carries, is_inside, lay, sh};
use rig::{Run, forebay, number, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// A user that has no rights, and is not the one that starts the test.
const NOBODY: u32 = 65_534;
const CLIENT: &str = "10.0.0.1:9500";
const DATAGRAMS: [&str; 5] = [CLIENT, "--rate", "200pps", "--size", "24,700,1472"];
const LONG: Duration = Duration::from_secs(30);

/// A wire, a daemon at its end `far`, and a place for a user without rights.
struct World {
    folder: TempDir,
    program: PathBuf,
    daemon: Run,
}

impl World {
    fn new() -> Self {
        lay();
        sh("ip address add 10.0.0.9/24 dev near");
        carries();
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        // Where that user can find it.
        let program = folder.path().join("forebay");
        fs::copy(forebay().get_program(), &program).unwrap();
        let text = format!(
            "[mux]\ninterface = \"far\"\nsocket = \"{0}/socket\"\ndirectory = \"{0}/mux\"\nreceive_buffers = 2048\ntransmit_buffers = 2048\n\
             [[clients]]\nname = \"one\"\nuid = {NOBODY}\nmac = \"02:00:00:00:00:01\"\naddress = [\"10.0.0.1\"]\nqueue = 2048\ntransmit_queue = 2048\n",
            folder.path().display()
        );
        fs::write(folder.path().join("mux.toml"), text).unwrap();
        let daemon = start(&mut Self::daemon(folder.path()));
        Self {
            folder,
            program,
            daemon,
        }
    }

    fn daemon(folder: &Path) -> Command {
        let mut command = forebay();
        command.args(["mux", "run", "--format", "json"]);
        command.arg(folder.join("mux.toml"));
        command
    }

    /// Another daemon and a client, of which one has an item vanish: its books name the place.
    fn leak(&self, hop: &str, is_of_daemon: bool) {
        let mut daemon = Self::daemon(self.folder.path());
        let leak = format!("{hop}:1");
        if is_of_daemon {
            daemon.env("FOREBAY_LEAK", &leak);
        }
        let daemon = start(&mut daemon);
        // The far end asks for the client's address anew.
        sh("ip neighbour flush dev near");
        let mut client = self.command("echo", &[]);
        if !is_of_daemon {
            client.env("FOREBAY_LEAK", &leak);
        }
        let client = self.started(&mut client);
        let mut asked = forebay();
        asked.args(["load", CLIENT, "--rate", "200pps", "--duration", "1s"]);
        let asked = start(asked.args(["--timeout", "500ms"])).end();
        assert_eq!(asked.code(), Some(0), "{hop}: {}", asked.stderr);
        let ended = |run: Run, is_leaking: bool| {
            assert!(signal("INT", run.pid()));
            let json = run.end().json_of(i32::from(is_leaking));
            assert_eq!(
                number(&json, "residual_items"),
                u64::from(is_leaking),
                "{json}"
            );
        };
        ended(client, !is_of_daemon);
        ended(daemon, is_of_daemon);
        let books = self.path(if is_of_daemon { "mux" } else { "client" });
        rig::offenders::assert_leaked(&books, hop, "packets", 1);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, workload: &str, more: &[&str]) -> Command {
        wait_for("the socket", || self.path("socket").exists().then_some(()));
        let mut command = Command::new(&self.program);
        command.args(["mux", "client", workload, "--name", "one", "--socket"]);
        command.arg(self.path("socket")).args(more);
        command.args(["--format", "json", "--out"]);
        command.arg(self.path("client"));
        command
    }

    /// A client at its place.
    fn client(&self, workload: &str, more: &[&str]) -> Run {
        self.started(&mut self.command(workload, more))
    }

    fn started(&self, command: &mut Command) -> Run {
        let run = start(command.uid(NOBODY).gid(NOBODY).current_dir("/"));
        wait_for("the place", || {
            run.said()
                .contains("one is 02:00:00:00:00:01")
                .then_some(())
        });
        meet();
        run
    }

    /// Ends the daemon; its record.
    fn end(self) -> (Value, TempDir) {
        (end(self.daemon), self.folder)
    }
}

/// Has this host ask for the client's Ethernet address, by a datagram to another port, and waits until it is known: of what is sent before, a host drops what
/// is more than it has room for.
fn meet() {
    let socket = UdpSocket::bind("10.0.0.9:0").unwrap();
    wait_for("the neighbour", || {
        socket.send_to(b"who?", "10.0.0.1:9").unwrap();
        let known = fs::read_to_string("/proc/thread-self/net/arp").unwrap();
        known.contains("02:00:00:00:00:01").then_some(())
    });
}

fn end(run: Run) -> Value {
    assert!(signal("INT", run.pid()));
    run.end().json_of(0)
}

/// Asks the client by `forebay load`; the record's target.
#[track_caller]
fn load(more: &[&str]) -> Value {
    let mut command = forebay();
    command.args(["load", "--duration", "500ms", "--format", "json"]);
    command.args(["--timeout", "20s"]);
    let json = start(command.args(more)).end().json_of(0);
    let target = json["targets"][0].clone();
    let lost = ["packets_lost", "late", "duplicate", "corrupt", "foreign"];
    assert_eq!(lost.map(|key| number(&target, key)), [0; 5], "{target}");
    assert_eq!(
        number(&target, "packets_sent"),
        number(&target, "packets_answered")
    );
    target
}

/// What the daemon and the client say of the frames between them is the same.
fn assert_agreed(client: &Value, daemon: &Value) {
    let place = &daemon["clients"][0];
    // What came behind the last look of a client that ends is in the daemon's books.
    let left = |of| {
        let lost = &daemon["drops"]["mux_receive.client_gone.one"];
        lost[of].as_u64().unwrap_or(0)
    };
    for (of_client, of_daemon, left) in [
        ("frames_received", "frames_given", left("items")),
        ("frames_received_bytes", "bytes_given", left("bytes")),
        ("frames_sent", "packets_asked", 0),
        ("frames_sent", "packets_sent", 0),
        ("frames_sent_bytes", "bytes_sent", 0),
    ] {
        assert_eq!(
            number(client, of_client) + left,
            number(place, of_daemon),
            "{of_client}, {of_daemon}: {client}\n{daemon}"
        );
    }
    assert_eq!(place["lies"], serde_json::json!({}), "{daemon}");
    assert_eq!(client["drops"], serde_json::json!({}), "{client}");
}

/// Asks at 200 packets in a second, each of which may take a block of the card's ring, and compares what the three say.
fn echoed(workload: &str, more: &[&str], asks: &[&str]) -> (Value, u64) {
    let world = World::new();
    let client = world.client(workload, more);
    let asked = load(asks);
    let sent = number(&asked, "packets_sent");
    assert!((1..=100).contains(&sent), "{asked}");
    let json = end(client);
    let (daemon, folder) = world.end();
    let counts = ["datagrams_came", "datagrams_answered", "datagrams_sent"];
    assert_eq!(counts.map(|key| number(&json, key)), [sent; 3], "{json}");
    assert_eq!(number(&json, "connections"), 1);
    assert_agreed(&json, &daemon);
    rig::assert_closed(&json, &folder.path().join("client"));
    rig::assert_closed(&daemon, &folder.path().join("mux"));
    (json, sent)
}

#[test]
fn an_echo_over_a_stack_answers_all_and_all_books_agree() {
    if is_inside("an_echo_over_a_stack_answers_all_and_all_books_agree") {
        let (json, sent) = echoed("echo", &[], &DATAGRAMS);
        assert_eq!(json["raw"], false);
        // The sender was asked for its Ethernet address.
        assert!(number(&json, "frames_sent") > sent, "{json}");
    }
}

#[test]
fn an_echo_of_raw_frames_answers_all_and_all_books_agree() {
    if is_inside("an_echo_of_raw_frames_answers_all_and_all_books_agree") {
        let (json, sent) = echoed("echo", &["--raw"], &DATAGRAMS);
        assert_eq!(json["raw"], true);
        assert_eq!(number(&json, "frames_sent"), sent, "{json}");
    }
}

#[test]
fn an_echo_of_raw_frames_answers_load_without_datagrams() {
    if is_inside("an_echo_of_raw_frames_answers_load_without_datagrams") {
        let station = "02:00:00:00:00:01";
        let asks = [
            "--raw",
            "near",
            station,
            "--rate",
            "200pps",
            "--size",
            "60,700,1514",
        ];
        let (json, sent) = echoed("echo", &["--raw"], &asks);
        assert_eq!(number(&json, "frames_sent"), sent, "{json}");
    }
}

#[test]
fn heavy_work_is_done_for_each_datagram() {
    if is_inside("heavy_work_is_done_for_each_datagram") {
        let (json, _) = echoed("heavy", &[], &DATAGRAMS);
        assert!(number(&json, "byte_sum") > 0, "{json}");
    }
}

#[test]
fn an_echo_over_tcp_sends_back_each_byte() {
    if !is_inside("an_echo_over_tcp_sends_back_each_byte") {
        return;
    }
    let world = World::new();
    let client = world.client("echo", &[]);
    let asked = load(&[CLIENT, "--tcp", "--closed", "4", "--size", "24,700,1472"]);
    let json = end(client);
    let (daemon, _folder) = world.end();
    let sizes = [24, 700, 1472];
    let bytes: u64 = (0..number(&asked, "packets_sent"))
        .map(|packet| sizes[packet as usize % 3])
        .sum();
    assert!(bytes > 0);
    let tcp = &json["tcp"];
    let said = ["came_bytes", "returned_bytes"].map(|key| number(tcp, key));
    assert_eq!(said, [bytes; 2], "{asked}\n{json}");
    assert_agreed(&json, &daemon);
}

/// A far end of the kernel's that has room for all that comes.
fn far_end() -> UdpSocket {
    let socket = UdpSocket::bind("10.0.0.9:0").unwrap();
    raise_receive_buffer(&socket, 64 << 20).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.connect(CLIENT).unwrap();
    socket
}

fn take(socket: &UdpSocket, packets: usize) {
    let mut bytes = [0; 64];
    for number in 0..packets {
        let taken = socket.recv(&mut bytes);
        let taken = taken.unwrap_or_else(|error| panic!("{number} of {packets}: {error}"));
        assert_eq!(&bytes[..taken], b"as many as you like");
    }
}

#[test]
fn what_was_asked_to_send_sends_exactly_so_many_and_ends() {
    if !is_inside("what_was_asked_to_send_sends_exactly_so_many_and_ends") {
        return;
    }
    let world = World::new();
    let client = world.client("tx-initiated", &["--packets", "5000"]);
    let socket = far_end();
    socket.send(b"as many as you like").unwrap();
    take(&socket, 5_000);
    let json = client.end().json_of(0);
    assert_eq!(number(&json, "datagrams_sent"), 5_000, "{json}");
    assert_eq!(number(&json, "datagrams_sent_bytes"), 5_000 * 19, "{json}");
    let (daemon, _folder) = world.end();
    assert_agreed(&json, &daemon);
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 64]).is_err(), "one more came");
}

#[test]
fn what_mostly_sends_sends_ten_thousand_for_each() {
    if !is_inside("what_mostly_sends_sends_ten_thousand_for_each") {
        return;
    }
    let world = World::new();
    let client = world.client("tx-mostly", &[]);
    let socket = far_end();
    socket.send(b"as many as you like").unwrap();
    take(&socket, 10_000);
    let json = end(client);
    assert_eq!(number(&json, "datagrams_came"), 1, "{json}");
    assert_eq!(number(&json, "datagrams_sent"), 10_000, "{json}");
    let (daemon, _folder) = world.end();
    assert_agreed(&json, &daemon);
}

#[test]
fn what_mostly_receives_does_not_answer_and_says_so() {
    if !is_inside("what_mostly_receives_does_not_answer_and_says_so") {
        return;
    }
    let world = World::new();
    let client = world.client("rx-mostly", &[]);
    let socket = far_end();
    for _ in 0..20 {
        socket.send(b"no answer").unwrap();
    }
    rig::wait_items(
        &world.path("client"),
        ("client_work", "packets"),
        "incoming",
        20,
    );
    let json = end(client);
    let (daemon, _folder) = world.end();
    let counts = ["datagrams_came", "datagrams_by_design"].map(|key| number(&json, key));
    assert_eq!(counts, [20; 2], "{json}");
    let left = &daemon["drops"]["mux_receive.client_gone.one"]["items"];
    assert_eq!(
        number(&json, "frames_received") + left.as_u64().unwrap_or(0),
        number(&daemon["clients"][0], "frames_given")
    );
    let lost = &json["drops"]["client_work.by_design.rx-mostly"]["items"];
    assert_eq!(lost, 20, "{json}");
}

#[test]
fn a_client_takes_its_place_again_when_a_killed_multiplexer_is_back() {
    if !is_inside("a_client_takes_its_place_again_when_a_killed_multiplexer_is_back") {
        return;
    }
    let mut world = World::new();
    let client = world.client("echo", &[]);
    let before = load(&[CLIENT, "--rate", "200pps"]);
    assert!(signal("KILL", world.daemon.pid()));
    wait_for("the news", || {
        client.said().contains("is gone").then_some(())
    });
    world.daemon = start(&mut World::daemon(world.folder.path()));
    wait_for("the place", || {
        client
            .said()
            .contains("the multiplexer is back")
            .then_some(())
    });
    let after = load(&[CLIENT, "--rate", "200pps"]);
    let json = end(client);
    let (daemon, folder) = world.end();
    let asked = number(&before, "packets_sent") + number(&after, "packets_sent");
    assert_eq!(number(&json, "datagrams_sent"), asked, "{json}");
    let times = ["connections", "daemon_gone"].map(|key| number(&json, key));
    assert_eq!(times, [2, 1], "{json}");
    let place = &daemon["clients"][0];
    assert!(number(place, "frames_given") >= number(&after, "packets_sent"));
    assert!(number(place, "frames_given") < number(&json, "frames_received"));
    rig::assert_closed(&json, &folder.path().join("client"));
}

#[test]
fn what_vanishes_at_a_hop_of_daemon_or_client_is_named_by_its_books() {
    if !is_inside("what_vanishes_at_a_hop_of_daemon_or_client_is_named_by_its_books") {
        return;
    }
    let mut world = World::new();
    let of_daemon = [
        "mux_card_in",
        "mux_card_out",
        "mux_classify",
        "mux_deliver",
        "mux_queue",
        "mux_receive",
        "mux_transmit",
        "mux_answer",
    ];
    let idle = std::mem::replace(&mut world.daemon, start(&mut Command::new("true")));
    wait_for("the socket", || world.path("socket").exists().then_some(()));
    end(idle);
    for hop in of_daemon {
        world.leak(hop, true);
    }
    for hop in ["client_work", "client_send"] {
        world.leak(hop, false);
    }
}

#[test]
fn what_vanishes_of_a_connection_is_named_by_the_books_of_its_client() {
    if !is_inside("what_vanishes_of_a_connection_is_named_by_the_books_of_its_client") {
        return;
    }
    let world = World::new();
    let mut command = world.command("echo", &[]);
    let client = world.started(command.env("FOREBAY_LEAK", "client_tcp:1"));
    rig::offenders::lose_first_read(CLIENT);
    assert!(signal("INT", client.pid()));
    client.end().json_of(1);
    rig::offenders::assert_leaked(&world.path("client"), "client_tcp", "packets", 1);
    world.end();
}

/// The slice of CPU time of a process's first thread as the kernel has it, in ns; nothing: it does not show it, or cannot change it (before Linux 6.12).
fn slice_ns(pid: u32) -> Option<u64> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|it| it.parse().ok());
    let version: (u32, u32) = (numbers.next()?, numbers.next()?);
    let sched = fs::read_to_string(format!("/proc/{pid}/sched")).ok()?;
    let line = sched.lines().find(|line| line.starts_with("se.slice"))?;
    let slice = line.rsplit(' ').next()?.parse().ok()?;
    (version >= (6, 12)).then_some(slice)
}

#[test]
fn the_kernel_gives_daemon_and_client_their_time_in_short_pieces() {
    if !is_inside("the_kernel_gives_daemon_and_client_their_time_in_short_pieces") {
        return;
    }
    let Some(usual) = slice_ns(std::process::id()) else {
        forebay_testing::skip!(
            "this kernel shows no slices of CPU time that can be changed (Linux 6.12, /proc/PID/sched)"
        );
        return;
    };
    let world = World::new();
    let client = world.client("echo", &[]);
    assert_ne!(usual, 100_000, "the test's own slice is the usual one");
    assert_eq!(slice_ns(world.daemon.pid()), Some(100_000));
    assert_eq!(slice_ns(client.pid()), Some(100_000));
    end(client);
    world.end();
}

#[test]
fn without_reconnecting_a_client_ends_with_its_multiplexer() {
    if !is_inside("without_reconnecting_a_client_ends_with_its_multiplexer") {
        return;
    }
    let world = World::new();
    let client = world.client("echo", &["--reconnect", "false"]);
    assert!(signal("KILL", world.daemon.pid()));
    let ended = client.end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("is gone"), "{}", ended.stderr);
}

#[test]
fn a_user_without_a_place_is_refused() {
    if !is_inside("a_user_without_a_place_is_refused") {
        return;
    }
    let world = World::new();
    wait_for("the daemon", || {
        // The test's own user, which the file does not name.
        let ended = start(&mut world.command("echo", &[])).end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        ended.stderr.contains("not_allowed").then_some(())
    });
    let (daemon, _folder) = world.end();
    assert!(number(&daemon["refused"], "not_allowed") >= 1, "{daemon}");
}

#[test]
fn what_cannot_be_is_told() {
    for (args, said) in [
        (&["heavy", "--raw"][..], "--raw is for echo"),
        (&["echo", "--packets", "7"], "--packets is for tx-initiated"),
        (&["echo"], "no_such_socket"),
    ] {
        let mut command = forebay();
        command.args([
            "mux",
            "client",
            "--socket",
            "/no_such_socket",
            "--name",
            "x",
        ]);
        let ended = start(command.args(args)).end();
        assert_eq!(ended.code(), Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{args:?}: {}", ended.stderr);
    }
}
