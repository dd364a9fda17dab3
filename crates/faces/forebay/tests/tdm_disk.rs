//! What a receiver of time-division UDP does while its disk, or it itself, stands still.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and one that is skipped says why"
)]

mod rig;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rig::stream::{assert_same_but_for_lost, lost_packets};
use rig::{account_items, audit, audit_json, forebay, number, signal, start, wait_for};
use serde_json::Value;

/// A file of so many MiB, no two of which are the same.
fn input(path: &Path, mebibytes: u64) -> Vec<u8> {
    let block: Vec<u8> = (0..1 << 20_u32)
        .map(|at| (at * 7 + at / 251) as u8)
        .collect();
    let mut content = block.repeat(mebibytes as usize);
    for (number, block) in content.chunks_mut(1 << 20).enumerate() {
        block[..8].copy_from_slice(&number.to_le_bytes());
    }
    fs::write(path, &content).unwrap();
    content
}

fn receive(address: &str, output: &Path) -> Command {
    receive_at("200M", address, output)
}

/// At a port of this rate.
fn receive_at(rate: &str, address: &str, output: &Path) -> Command {
    let mut command = forebay();
    command.args(["tdm", "receive", "--format", "json", "--bind", address]);
    command.args(["--senders", "1", "--link-rate", rate]);
    command.args(["--port-buffer", "128K"]);
    command.args(["--silence", "30s", "--output"]);
    command.arg(output);
    command
}

/// Runs `command` where `directory` is a disk of its own; none where that cannot be made.
fn on_own_disk(command: &Command, directory: &Path) -> Option<Command> {
    let image = format!("{}.image", directory.display());
    fs::create_dir_all(directory).unwrap();
    fs::File::create(&image)
        .unwrap()
        .set_len(500 << 20)
        .unwrap();
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F", &image])
        .status();
    let script = format!("mount -o loop {image:?} {directory:?}");
    let mounts = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]);
        command
    };
    let tried = mounts(&script).stderr(Stdio::null()).status();
    let works =
        |tried: std::io::Result<std::process::ExitStatus>| tried.is_ok_and(|it| it.success());
    if !works(made) || !works(tried) {
        forebay_testing::skip!(
            "no file system can be mounted from a file here (needs root, loop devices, mkfs.ext4 and unshare)"
        );
        return None;
    }
    let mut own = mounts(&format!("{script} && exec \"$@\""));
    own.arg(command.get_program()).args(command.get_args());
    Some(own)
}

/// A disk that stands still until this is dropped.
struct Frozen(PathBuf);

impl Frozen {
    fn new(disk: PathBuf) -> Self {
        assert!(
            Command::new("fsfreeze")
                .arg("--freeze")
                .arg(&disk)
                .status()
                .unwrap()
                .success()
        );
        Self(disk)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze")
            .arg("--unfreeze")
            .arg(&self.0)
            .status();
    }
}

/// Packets that were handed to the writer, and that it took.
fn queued(out: &Path) -> (u64, u64) {
    let verdict = audit_json(out);
    (
        account_items(&verdict, ("hand_over", "packets"), "outgoing"),
        account_items(&verdict, ("write", "packets"), "incoming"),
    )
}

fn lost_by(sender: &Value, cause: &str) -> u64 {
    number(&sender["lost"], cause)
}

/// What a session over a port of `bps` told whose disk stood still for 2 s of the port; all of its `mebibytes` came, or are lost by name. None where no disk
/// can be made.
fn with_a_frozen_disk((rate, bps): (&str, u64), mebibytes: u64) -> Option<Value> {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    let address = format!("127.0.0.1:{}", rig::free_ports(1));
    let mut command = on_own_disk(&receive_at(rate, &address, &disk.join("out")), &disk)?;
    let went = input(&directory.path().join("north.dat"), mebibytes);
    let receiver = start(&mut command);
    // The disk is its alone: it is seen where the receiver sees it.
    let own =
        |path: &Path| PathBuf::from(format!("/proc/{}/root{}", receiver.pid(), path.display()));
    let out = own(&disk.join("out"));
    wait_for("the ledger", || out.join("ledger").exists().then_some(()));
    let file = directory.path().join("north.dat");
    let mut send = rig::tdm_send(&address, "north");
    let sender = start(send.args(["--input", file.to_str().unwrap()]));
    wait_for("packets on the disk", || {
        (queued(&out).1 > 1_000).then_some(())
    });
    let frozen = Frozen::new(own(&disk));
    // What comes in 2 s at that rate, while nothing is written.
    let waiting = 2 * bps / 8 / 1_472;
    wait_for("2 s of packets in the queue", || {
        let (handed, taken) = queued(&out);
        (handed > taken + waiting).then_some(())
    });
    drop(frozen);
    sender.end().json_of(0);
    // The disk goes with the receiver, but for what is open.
    let written = fs::File::open(out.join("north")).unwrap();
    let received = receiver.end().json_of(0);
    let north = &received["by_sender"][0];
    assert_eq!(number(&north["not_written"], "queue_full"), 0, "{received}");
    assert!(
        number(&received, "writer_queue_most_bytes") > waiting * 1_300,
        "{received}"
    );
    let named = lost_by(north, "receiver_stalled") + lost_by(north, "socket_overflow");
    assert_eq!(lost_packets(north), named, "{received}");
    if named == 0 {
        assert_eq!(number(north, "payload_bytes"), went.len() as u64);
        assert_eq!(number(&received, "lost_bytes"), 0);
        let mut came = vec![0; went.len()];
        written.read_exact_at(&mut came, 0).unwrap();
        assert!(came == went, "each byte is at its place");
    }
    assert_eq!(number(&received, "residual_items"), 0, "{received}");
    println!(
        "at {rate}: {named} lost by name, queue {}, stalls {}",
        received["writer_queue_most_bytes"], received["stalls"]
    );
    Some(received)
}

#[test]
fn a_disk_that_stands_still_costs_nothing_that_the_queue_has_room_for() {
    if let Some(received) = with_a_frozen_disk(("200M", 200_000_000), 80) {
        // A busy machine may hold the receiver up, but for no time like that of the disk.
        assert!(
            number(&received["stalls"], "longest_ns") < 1_000_000_000,
            "{received}"
        );
    }
}

#[test]
fn two_seconds_of_a_port_of_1_gbit_find_room_while_the_disk_stands_still() {
    with_a_frozen_disk(("1G", 1_000_000_000), 380);
}

#[test]
fn what_is_lost_while_the_receiver_stands_still_is_not_called_the_networks_fault() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let address = format!("127.0.0.1:{}", rig::free_ports(1));
    let file = directory.path().join("north.dat");
    let went = input(&file, 48);
    let receiver = start(&mut receive(&address, &out));
    let sender = start(rig::tdm_send(&address, "north").args(["--input", file.to_str().unwrap()]));
    wait_for("the ledger", || out.join("ledger").exists().then_some(()));
    wait_for("packets", || (queued(&out).1 > 1_000).then_some(()));
    let stands_since = Instant::now();
    assert!(signal("STOP", receiver.pid()));
    wait_for("datagrams that the kernel drops", || {
        (rig::socket_drops(&address) > 20).then_some(())
    });
    assert!(signal("CONT", receiver.pid()));
    let stood = stands_since.elapsed();
    sender.end().json_of(0);
    let received = receiver.end().json_of(0);
    let north = &received["by_sender"][0];
    let stalled = lost_by(north, "receiver_stalled");
    assert!(stalled > 20, "{received}");
    assert_eq!(
        lost_packets(north),
        stalled + lost_by(north, "socket_overflow"),
        "{received}"
    );
    let longest = Duration::from_nanos(number(&received["stalls"], "longest_ns"));
    let most = stood + Duration::from_secs(20);
    assert!(
        longest > stood / 2 && longest < most,
        "{stood:?}: {received}"
    );
    assert_eq!(
        number(north, "sent"),
        number(north, "received") + lost_packets(north)
    );
    assert_same_but_for_lost(&out.join("north"), &went);
    assert_eq!(audit(&out).code(), Some(0));
}

#[test]
fn a_second_order_to_end_waits_for_no_reader_that_stands_still_and_names_what_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let pipe = directory.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    // Somebody holds the pipe and does not read.
    let _unread = fs::File::options()
        .read(true)
        .write(true)
        .open(&pipe)
        .unwrap();
    let address = format!("127.0.0.1:{}", rig::free_ports(1));
    let mut receive = receive(&address, Path::new("-"));
    receive.arg("--out").arg(&out);
    let mut command = Command::new("sh");
    command.args(["-c", "pipe=$1; shift; exec \"$@\" >\"$pipe\"", "sh"]);
    command.arg(&pipe).arg(receive.get_program());
    let receiver = start(command.args(receive.get_args()));
    let file = directory.path().join("north.dat");
    input(&file, 16);
    wait_for("the ledger", || out.join("ledger").exists().then_some(()));
    let sender = start(rig::tdm_send(&address, "north").args(["--input", file.to_str().unwrap()]));
    wait_for("packets that nobody writes", || {
        let (handed, taken) = queued(&out);
        (handed > taken + 2_000).then_some(())
    });
    assert!(signal("INT", receiver.pid()));
    // Told once, it waits for the process that takes the stream.
    std::thread::sleep(Duration::from_millis(500));
    assert!(rig::is_alive(receiver.pid()));
    assert!(signal("INT", receiver.pid()));
    let ended = receiver.end();
    drop(sender.end());
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    let line = ended.stderr.lines().find(|line| line.starts_with('{'));
    let received: Value = serde_json::from_str(line.unwrap()).unwrap();
    let north = &received["by_sender"][0];
    let stalled = number(&north["not_written"], "writer_stalled");
    assert!(stalled > 2_000, "{received}");
    let failed = received["failed"].as_str().unwrap();
    assert!(failed.contains("writer_stalled"), "{failed}");
    assert_eq!(number(&received, "residual_items"), 0, "{received}");
    assert_eq!(number(&received, "residual_bytes"), 0, "{received}");
    // What came = what is written + what is named, by the books that are left.
    let verdict = audit_json(&out);
    let write = |term| account_items(&verdict, ("write", "packets"), term);
    assert_eq!(write("incoming"), number(north, "received"), "{verdict}");
    assert_eq!(
        write("outgoing") + stalled,
        number(north, "received"),
        "{verdict}"
    );
}
