//! Where events go: files that follow one another, two sinks at once, one that hangs, a disk that is full.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;
mod small_disk;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use rig::sender::{Sender, message};
use rig::{
    assert_closed, audit, demo, dropped, evb, files, forebay, free_ports, hld, number, signal,
    start,
};
use rustix::fs::OFlags;
use serde_json::Value;
use small_disk::on_small_disk;
use tempfile::TempDir;

/// Runs `evb` with `args` and 1,000 events of about 1 kB from each of two sources, `pause_ms` between tenths.
fn take(args: &[&str], pause_ms: u64) -> (TempDir, Value) {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(2);
    let run = start(&mut evb(folder.path(), 2, base_port, args));
    run.wait_stages(&["receiver", "builder"]);
    let mut sender = Sender::new(base_port);
    for part in 0..10 {
        for source in 0..2 {
            for first in (part * 100..part * 100 + 100).step_by(20) {
                sender.send(source, &message(source, first..first + 20, 500));
            }
        }
        std::thread::sleep(Duration::from_millis(pause_ms));
    }
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    assert_eq!(
        (
            number(&json, "events_built"),
            number(&json, "events_partial")
        ),
        (1000, 0),
        "{json}"
    );
    assert_closed(&json, folder.path());
    (folder, json)
}

/// Each file has a name and a run number of its own, which all of its events carry; nothing is missing.
fn assert_rotated(json: &Value) -> Vec<hld::ReadFile> {
    let paths = files(json);
    let mut read: Vec<_> = paths.iter().map(|path| hld::read(path)).collect();
    let runs: BTreeSet<_> = read.iter().map(|file| file.run.unwrap()).collect();
    assert_eq!(runs.len(), paths.len(), "{paths:?}");
    for file in &read {
        assert!(file.is_ended && file.broken == 0);
        assert!(file.events.iter().all(|event| Some(event.run) == file.run));
    }
    assert_eq!(hld::count_once(&hld::events(&paths)), 2000);
    assert_eq!(
        read.iter().map(|file| file.bytes).sum::<u64>(),
        number(json, "bytes_written")
    );
    read.sort_by_key(|file| file.run);
    read
}

#[test]
fn a_new_file_after_so_many_events() {
    let (_folder, json) = take(&["--file-events", "150"], 0);
    let read = assert_rotated(&json);
    assert_eq!(
        read.iter()
            .map(|file| file.events.len())
            .collect::<Vec<_>>(),
        [150, 150, 150, 150, 150, 150, 100]
    );
}

#[test]
fn a_new_file_before_this_one_is_too_large() {
    let (_folder, json) = take(&["--file-size", "100000"], 0);
    let read = assert_rotated(&json);
    assert!(
        read.len() >= 10 && read.iter().all(|file| file.bytes <= 100_000),
        "{} files",
        read.len()
    );
}

#[test]
fn a_new_file_after_so_much_time() {
    let (_folder, json) = take(&["--file-time", "1s"], 300);
    assert!((2..=4).contains(&assert_rotated(&json).len()));
}

#[test]
fn two_file_sinks_in_one_directory_do_not_write_into_each_other() {
    let (_folder, json) = take(
        &[
            "--sink",
            "file",
            "--sink",
            "file",
            "--sink",
            "null",
            "--file-events",
            "250",
        ],
        0,
    );
    let paths = files(&json);
    let names: BTreeSet<_> = paths.iter().collect();
    assert_eq!(
        (paths.len(), names.len()),
        (8, 8),
        "four files of 250 events in each sink: {paths:?}"
    );
    let read: Vec<_> = paths.iter().map(|path| hld::read(path)).collect();
    for file in &read {
        assert!(file.is_ended && file.broken == 0 && file.events.len() == 250);
        assert!(file.events.iter().all(|event| Some(event.run) == file.run));
    }
    let sequences = read.iter().flat_map(|file| &file.events);
    let mut sequences: Vec<_> = sequences.map(|event| event.sequence).collect();
    sequences.sort_unstable();
    assert_eq!(sequences.len(), 2000);
    assert!(
        sequences.chunks(2).all(|pair| pair[0] == pair[1]),
        "each event is in both"
    );
}

/// Sinks that begin new files at different events give one event different run numbers.
#[test]
fn each_sink_writes_its_own_run_number_into_its_copy() {
    let chain = |file: &str, events: u32, number: u32| {
        format!(
            "[[sinks]]\nname = \"{file}\"\nkind = \"file\"\nbuilder_number = {number}\nfile_events_max = {events}\n"
        )
    };
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("chain.toml");
    let text = format!(
        "[[sources]]\nport = 1\n[[sinks]]\nkind = \"null\"\n{}{}",
        chain("quarters", 250, 1),
        chain("tenths", 100, 2)
    );
    std::fs::write(&path, text).unwrap();
    let (_folder, json) = take(&[path.to_str().unwrap()], 0);
    let paths = files(&json);
    let mut sizes = Vec::new();
    let mut sequences = Vec::new();
    for path in &paths {
        let file = hld::read(path);
        assert!(file.is_ended && file.broken == 0);
        assert!(
            file.events.iter().all(|event| Some(event.run) == file.run),
            "{} has events of another file's run",
            path.display()
        );
        sizes.push(file.events.len());
        sequences.extend(file.events.iter().map(|event| event.sequence));
    }
    sizes.sort_unstable();
    assert_eq!(sizes, [[100; 10].as_slice(), &[250; 4]].concat());
    sequences.sort_unstable();
    assert!(
        sequences.chunks(2).all(|pair| pair[0] == pair[1]),
        "each event is in both"
    );
}

/// 2 MB of events against a queue of 1 MiB, of which the sink writes nothing for 10 s.
#[test]
fn a_sink_that_hangs_holds_nobody_else_up() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(2);
    let small = ["--sink-queue", "1Mi", "--event-size", "64Ki"];
    let args = [&["--sink", "file", "--sink", "file"], &small[..]].concat();
    let (hold, told) = rig::held_up(folder.path(), "file2");
    let run = start(evb(folder.path(), 2, base_port, &args).env("FOREBAY_STALL", told));
    run.wait_stages(&["receiver", "builder"]);
    let mut sender = Sender::new(base_port);
    for first in (0..2000).step_by(50) {
        for source in 0..2 {
            sender.send(source, &message(source, first..first + 50, 500));
        }
        if first % 200 == 150 {
            // No more than the smallest buffer of a socket takes.
            let sent = u64::from(first) + 50;
            rig::wait_items(folder.path(), ("queue", "subevents"), "outgoing", 2 * sent);
        }
    }
    let written = rig::wait_for("all events in the other sink", || {
        let verdict = rig::audit_json(folder.path());
        let lines = verdict["balance"]["accounts"].as_array().unwrap();
        let out = |owner: &str| {
            lines
                .iter()
                .find(|line| line["place"] == "sink" && line["owner"] == owner)
                .unwrap()["outgoing"]["items"]
                .as_u64()
        };
        (out("file") == Some(2000)).then(|| out("file2"))
    });
    assert_eq!(written, Some(0), "the other one does not hang");
    std::fs::remove_file(hold).unwrap();
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    assert_closed(&json, folder.path());
    // Its own policy, at its own queue, and nobody else's loss.
    let lost = dropped(&json, "offer.queue_full.file2");
    assert!((800..1200).contains(&lost), "{json}");
    assert_eq!(json["drops"].as_object().unwrap().len(), 1, "{json}");
    assert_eq!(json["condition"], "ended", "{json}");
    assert_eq!(
        hld::events(&files(&json)).len() as u64,
        4000 - lost,
        "what waited in the queue is written in the end"
    );
}

/// Waits until a datagram to `base_port` finds its receiver.
fn wait_until_served(run: &rig::Run, base_port: u16, has_stages: bool) {
    if has_stages {
        run.wait_stages(&["receiver", "builder"]);
        return;
    }
    rig::wait_for("the socket", || {
        std::net::UdpSocket::bind(("127.0.0.1", base_port))
            .is_err()
            .then_some(())
    });
}

/// Flags are held to the same sizes as a chain file.
#[test]
fn a_queue_that_could_never_take_an_event_is_refused() {
    let folder = TempDir::new().unwrap();
    let small = ["--sink-queue", "1Mi"];
    let ended = start(&mut evb(folder.path(), 1, free_ports(1), &small)).end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    for said in [
        "sink file",
        "--sink-queue",
        "1048576",
        "25165824",
        "67108864 bytes or more",
        "524288",
    ] {
        assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
    }
    let args = [
        &small[..],
        &["--event-size", "512Ki", "--duration", "100ms"],
    ]
    .concat();
    start(&mut evb(folder.path(), 1, free_ports(1), &args))
        .end()
        .json_of(0);
}

#[test]
fn a_sink_that_never_ends_is_given_up_by_name() {
    give_up_one(&[]);
}

#[test]
fn a_sink_that_never_ends_is_given_up_by_name_in_a_run_of_threads_too() {
    give_up_one(&["--threads"]);
}

/// A user who cannot wait kills the builder; what its sink left behind has a name all the same.
#[test]
fn what_a_killed_builder_leaves_to_a_sink_is_lost_by_name() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(1);
    let args = ["--sink-full", "block=90s"];
    let (_hold, told) = rig::held_up(folder.path(), "file");
    let mut run = start(evb(folder.path(), 1, base_port, &args).env("FOREBAY_STALL", told));
    run.wait_stages(&["receiver", "builder"]);
    Sender::new(base_port).send(0, &message(0, 0..100, 500));
    rig::wait_items(folder.path(), ("offer", "events"), "outgoing", 100);
    rig::wait_for("the end of the run", || {
        signal("INT", run.pid());
        run.is_over().then_some(())
    });
    let json = run.end().json_of(0);
    assert_eq!(json["condition"], "tainted", "{json}");
    assert_eq!(dropped(&json, "sink.stalled.file"), 100, "{json}");
    assert_closed(&json, folder.path());
}

fn give_up_one(manner: &[&str]) {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(1);
    let args = [&["--sink", "file", "--sink", "file"], manner].concat();
    let (_hold, told) = rig::held_up(folder.path(), "file2");
    let run = start(evb(folder.path(), 1, base_port, &args).env("FOREBAY_STALL", told));
    wait_until_served(&run, base_port, manner.is_empty());
    Sender::new(base_port).send(0, &message(0, 0..100, 500));
    rig::wait_items(folder.path(), ("offer", "events"), "outgoing", 200);
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    assert_eq!(json["condition"], "tainted", "{json}");
    assert!(
        rig::taint(&json).starts_with("sink_stalled: sink file2"),
        "{json}"
    );
    assert_eq!(dropped(&json, "sink.stalled.file2"), 100, "{json}");
    assert_eq!(hld::events(&files(&json)).len(), 100);
    assert_closed(&json, folder.path());
}

#[test]
fn a_full_disk_is_a_named_condition_and_harms_nothing_written() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let plain = demo(
        &out,
        &["--sources", "9", "--rate", "4000", "--duration", "2s"],
    );
    let Some(mut command) = on_small_disk(&plain, &out, 8 << 20) else {
        return;
    };
    let ended = start(&mut command).end();
    let json = ended.json_of(0);
    assert_eq!(
        (&json["condition"], &json["reason"]),
        (&"tainted".into(), &"disk_full".into()),
        "{json}"
    );
    assert!(rig::taint(&json).starts_with("disk_full: "), "{json}");
    let lost = dropped(&json, "sink.disk_full.file");
    assert!(lost > 0, "{json}");
    let kept = folder.path().join("out.kept");
    let paths: Vec<PathBuf> = files(&json)
        .iter()
        .map(|path| kept.join(path.file_name().unwrap()))
        .collect();
    let events = hld::events(&paths);
    assert_eq!(
        events.len() as u64 + lost,
        number(&json, "events_built") + number(&json, "events_partial")
    );
    assert!(
        hld::count_once(&events) > 9 * 1000,
        "{} events",
        events.len()
    );
    // The ledger and the record had their room from the start.
    assert!(kept.join("run.json").is_file());
    let audit = audit(&kept);
    assert_eq!(audit.code(), Some(0), "{}", audit.stdout);
    assert!(
        audit.stdout.contains("tainted (disk full)"),
        "{}",
        audit.stdout
    );
    assert_eq!(
        (
            number(&json, "residual_items"),
            number(&json, "residual_bytes")
        ),
        (0, 0)
    );
}

/// Whether a process has a file of events open past the page cache, as the kernel says (`O_DIRECT`).
fn writes_past_the_cache(pid: u32) -> bool {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let is_direct = |fd: &std::ffi::OsStr| {
        let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", fd.display()));
        let info = info.unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
        flags.is_some_and(|flags| OFlags::from_bits_retain(flags).contains(OFlags::DIRECT))
    };
    let files = entries.flatten().filter(|entry| {
        let to = std::fs::read_link(entry.path()).unwrap_or_default();
        to.extension().is_some_and(|end| end == "hld")
    });
    files.into_iter().any(|entry| is_direct(&entry.file_name()))
}

/// Runs a demo into `out`; whether it wrote past the page cache, its record, and what it said.
fn written_into(out: &std::path::Path, args: &[&str]) -> (bool, Value, String) {
    let fixed = ["demo", "--sources", "3", "--duration", "30s", "--out"];
    let mut command = rig::forebay();
    let run = start(command.args(fixed).arg(out).args(args));
    let builder = run.wait_stages(&["receiver", "builder", "generator"])["builder"];
    rig::wait_items(out, ("sink", "events"), "outgoing", 100);
    let is_direct = writes_past_the_cache(builder);
    signal("INT", run.pid());
    let ended = run.end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let record = std::fs::read(out.join("run.json")).unwrap();
    (
        is_direct,
        serde_json::from_slice(&record).unwrap(),
        ended.stderr,
    )
}

#[test]
fn how_files_are_written_is_said_at_the_start_and_in_the_record() {
    let on_disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let takes_direct = forebay_sys::direct::is_taken_in(on_disk.path()).unwrap();
    let check = |out: &std::path::Path, args: &[&str], expected: [&str; 2]| {
        let (is_direct, record, said) = written_into(out, args);
        let [io, because] = expected;
        assert_eq!(is_direct, io == "direct", "{said}");
        let own = serde_json::json!([{"sink": "file", "io": io, "because": because}]);
        assert_eq!(record["file_io"], own, "{said}");
        assert!(
            said.contains(&format!("(io = {io:?}): {because}")),
            "{said}"
        );
    };
    let not_taken = "the file system does not say that it writes past the page cache";
    if takes_direct {
        let does = ["direct", "the file system does that"];
        check(&on_disk.path().join("default"), &[], does);
    } else {
        forebay_testing::skip!("this file system does not write past the page cache");
    }
    let asked = ["--file-io", "buffered"];
    let settings = ["buffered", "the settings say so"];
    check(&on_disk.path().join("asked"), &asked, settings);
    let Ok(in_memory) = tempfile::tempdir_in("/dev/shm") else {
        forebay_testing::skip!("there is no /dev/shm");
        return;
    };
    let out = in_memory.path().join("out");
    check(&out, &[], ["buffered", not_taken]);
    let refused = start(&mut demo(&out, &["--file-io", "direct"])).end();
    assert_eq!(refused.code(), Some(2));
    let remedy = "remedy: io = \"buffered\", or another directory";
    assert!(refused.stderr.contains(remedy), "{}", refused.stderr);
    // The supervisor has nothing to add to what the stage said.
    let told = "the builder did not begin (exit status: 2); what it said stands above";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
}

/// What `forebay check` says of a chain whose files are to lie there.
fn checked(directory: &std::path::Path, keys: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let chain = folder.path().join("chain.toml");
    let text = format!(
        "[[sources]]\nport = 50000\n[[sinks]]\nkind = \"file\"\ndirectory = {directory:?}\n{keys}\n"
    );
    std::fs::write(&chain, text).unwrap();
    let mut command = forebay();
    let ended = start(command.arg("check").arg(&chain)).end();
    (ended.code(), ended.stdout + &ended.stderr)
}

#[test]
fn how_files_would_be_written_is_known_before_the_run() {
    let Ok(in_memory) = tempfile::tempdir_in("/dev/shm") else {
        forebay_testing::skip!("there is no /dev/shm");
        return;
    };
    // Made when the run begins: the directory above it tells.
    let directory = in_memory.path().join("new").join("files");
    let (code, said) = checked(&directory, "");
    assert_eq!(code, Some(0), "{said}");
    let buffered =
        "io = \"buffered\": the file system does not say that it writes past the page cache";
    assert!(said.contains(buffered), "{said}");
    let not_there = "its directory is not there yet, and the one above it was looked at";
    let (code, said) = checked(&directory, "io = \"direct\"");
    assert_eq!(code, Some(0), "a disk may be mounted there: {said}");
    assert!(said.contains(not_there), "{said}");
    let (code, said) = checked(in_memory.path(), "io = \"direct\"");
    assert_eq!(code, Some(2), "{said}");
    for part in [
        "chain.toml: sink file: io = \"direct\": the file system of /dev/shm",
        "remedy: io = \"buffered\", or another directory",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!directory.exists(), "nothing was made");
    let on_disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    if forebay_sys::direct::is_taken_in(on_disk.path()).unwrap() {
        let (_, said) = checked(on_disk.path(), "");
        assert!(
            said.contains("io = \"direct\": the file system does that"),
            "{said}"
        );
    }
}

#[test]
fn flags_of_files_are_refused_where_no_files_are_written() {
    for flag in [["--file-io", "direct"], ["--prefix", "xy"]] {
        let mut command = forebay();
        command.args([
            "evb",
            "--sources",
            "1",
            "--base-port",
            "0",
            "--sink",
            "null",
        ]);
        let ended = start(command.args(flag).args(["--duration", "1s"])).end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        let told = format!(
            "{} has no meaning: no sink of this run writes files here",
            flag[0]
        );
        assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    }
}
