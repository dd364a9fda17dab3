//! Files beside a session: windows as Parquet and histograms, read back and held against the books.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;
mod small_disk;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use rig::stream::assert_same_but_for_lost;
use rig::{Ended, Run, forebay, number, signal, start, wait_for};
use serde_json::Value;
use small_disk::on_small_disk;

/// A receiver for two senders at this address, with a port that is so slow that this host is never the limit.
fn receive(address: &str, more: &[&str]) -> Run {
    let mut receiver = forebay();
    receiver.args(["tdm", "receive", "--format", "json", "--bind", address]);
    receiver.args(["--senders", "2", "--link-rate", "100M"]);
    receiver.args(["--window", "5ms", "--dead-time", "2ms"]);
    start(receiver.args(more))
}

/// A session of two senders with 12 windows each.
fn session(more: &[&str]) -> Value {
    let address = format!("127.0.0.1:{}", rig::free_ports(1));
    let windows = ["--windows", "12"];
    let receiver = receive(&address, &[&windows, more].concat());
    let senders = ["north", "south"].map(|name| start(&mut rig::tdm_send(&address, name)));
    for sender in senders {
        sender.end().json_of(0);
    }
    receiver.end().json_of(0)
}

type Window = BTreeMap<String, Field>;

fn windows(path: &Path) -> Vec<Window> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().into_columns().into_iter().collect())
        .collect()
}

fn sum(windows: &[&Window], name: &str) -> u64 {
    let of = |window: &&Window| match window[name] {
        Field::Long(number) => number.cast_unsigned(),
        ref other => panic!("{name} is {other}"),
    };
    windows.iter().map(of).sum()
}

/// Windows of the file against what the receiver says of each sender.
fn hold_against_books(windows: &[Window], said: &Value) {
    assert_eq!(windows.len() as u64, number(said, "windows"));
    for sender in said["by_sender"].as_array().unwrap() {
        let name = sender["name"].as_str().unwrap();
        let of: Vec<&Window> = windows
            .iter()
            .filter(|window| window["sender_name"] == Field::Str(name.to_owned()))
            .collect();
        assert_eq!(of.len() as u64, number(sender, "windows"), "{name}");
        assert_eq!(sum(&of, "sent_packets"), number(sender, "sent"));
        assert_eq!(sum(&of, "received_packets"), number(sender, "received"));
        assert_eq!(sum(&of, "payload_bytes"), number(sender, "payload_bytes"));
        for (cause, packets) in sender["lost"].as_object().unwrap() {
            let column = format!("lost_{cause}_packets");
            assert_eq!(sum(&of, &column), packets.as_u64().unwrap(), "{cause}");
        }
        let overlaps = sum(&of, "overlap_front_packets") + sum(&of, "overlap_back_packets");
        assert_eq!(overlaps, number(sender, "overlaps"));
    }
}

#[test]
fn windows_in_parquet_sum_to_the_books() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("windows.parquet");
    let said = session(&["--rows", path.to_str().unwrap()]);
    let windows = windows(&path);
    assert!(number(&said["schemes"][0], "received") > 100, "{said}");
    hold_against_books(&windows, &said);
    for window in &windows {
        let (Field::Long(first), Field::Long(last)) =
            (&window["first_sent_unix_ns"], &window["last_came_unix_ns"])
        else {
            panic!("{window:?}");
        };
        assert!(1_600_000_000_000_000_000 < *first && first < last);
    }
    assert!(!directory.path().join("windows.parquet.part").exists());
}

/// Base64 as bytes.
fn of_text(text: &str) -> Vec<u8> {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> = text
        .bytes()
        .filter(|letter| *letter != b'=')
        .map(|letter| letters.iter().position(|it| *it == letter).unwrap() as u32)
        .collect();
    let of_four = |four: &[u32]| {
        let bits = four.iter().enumerate();
        let bits: u32 = bits.map(|(at, digit)| digit << (18 - 6 * at)).sum();
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(of_four).collect()
}

fn histograms(path: &Path) -> BTreeMap<String, Histogram<u64>> {
    let text = fs::read(path).unwrap();
    let entries = IntervalLogIterator::new(&text);
    let interval = |entry| match entry {
        Ok(LogEntry::Interval(it)) => Some(it),
        Ok(_) => None,
        Err(error) => panic!("{error:?}"),
    };
    let mut deserializer = Deserializer::new();
    entries
        .filter_map(interval)
        .map(|it| {
            let bytes = of_text(it.encoded_histogram());
            let histogram = deserializer.deserialize(&mut bytes.as_slice()).unwrap();
            (it.tag().unwrap().as_str().to_owned(), histogram)
        })
        .collect()
}

#[test]
fn histograms_hold_every_packet_and_every_reported_window() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("times.hlog");
    let said = session(&["--histograms", path.to_str().unwrap()]);
    let histograms = histograms(&path);
    assert_eq!(histograms.len(), 6, "{:?}", histograms.keys());
    for sender in said["by_sender"].as_array().unwrap() {
        let of = |what: &str| &histograms[&format!("{what}:{}", sender["name"].as_str().unwrap())];
        let reported = number(sender, "windows") - number(sender, "unreported");
        assert_eq!(of("travel_ns").len(), number(sender, "received"));
        assert_eq!(of("window_lateness_ns").len(), reported);
        assert_eq!(of("clock_error_ns").len(), reported);
        // One host: a packet takes longer than nothing and less than the session.
        let longest_ns = of("travel_ns").max();
        assert!((100..20_000_000_000).contains(&longest_ns), "{longest_ns}");
    }
}

#[test]
fn ctrl_c_leaves_whole_files_of_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let rows = directory.path().join("windows.parquet");
    let times = directory.path().join("times.hlog");
    let address = format!("127.0.0.1:{}", rig::free_ports(1));
    let out = directory.path().join("out");
    let more = [
        "--rows",
        rows.to_str().unwrap(),
        "--histograms",
        times.to_str().unwrap(),
        "--per-window",
        "--output",
        out.to_str().unwrap(),
    ];
    let receiver = receive(&address, &more);
    let senders = ["north", "south"].map(|name| start(&mut rig::tdm_send(&address, name)));
    wait_for("windows", || {
        let bytes = fs::read_to_string(out.join("windows.csv")).unwrap_or_default();
        (bytes.lines().count() > 20).then_some(())
    });
    assert!(signal("INT", receiver.pid()));
    for sender in senders {
        sender.end();
    }
    let said = receiver.end().json_of(0);
    assert_eq!(said["end"], "interrupted");
    hold_against_books(&windows(&rows), &said);
    assert_eq!(histograms(&times).len(), 6);
}

fn refused(more: &[&str]) -> Ended {
    let ended = receive("127.0.0.1:0", more).end();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    ended
}

#[test]
fn a_file_that_cannot_be_is_refused_before_anybody_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let there = directory.path().join("there.parquet");
    fs::write(&there, "precious").unwrap();
    for option in ["--rows", "--histograms", "--report"] {
        let told = refused(&[option, there.to_str().unwrap()]).stderr;
        assert!(told.contains("there.parquet is there already"), "{told}");
        assert!(told.contains(option), "{told}");
        let nowhere = directory.path().join("none/it.parquet");
        let told = refused(&[option, nowhere.to_str().unwrap()]).stderr;
        assert!(
            told.contains("none/it.parquet") && told.contains(option),
            "{told}"
        );
    }
    let told = refused(&["--rows", "windows.csv"]).stderr;
    assert!(
        told.contains(".parquet") && told.contains("--per-window"),
        "{told}"
    );
    assert_eq!(fs::read_to_string(&there).unwrap(), "precious");
}

#[test]
fn files_lie_in_the_directory_of_streams_and_a_second_session_there_is_told_what_is_in_its_way() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("not/yet/there");
    let rows = out.join("all.parquet");
    let paths = [out.to_str().unwrap(), rows.to_str().unwrap()];
    let more = ["--per-window", "--output", paths[0], "--rows", paths[1]];
    let said = session(&more);
    hold_against_books(&windows(&rows), &said);
    let told = refused(&more[..3]).stderr;
    let csv = out.join("windows.csv");
    assert!(told.contains(csv.to_str().unwrap()), "{told}");
    assert!(
        told.contains("--output") && told.contains("remove it"),
        "{told}"
    );
}

#[test]
fn what_a_full_disk_did_not_take_is_missing_by_name_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let (out, input) = (directory.path().join("out"), directory.path().join("input"));
    fs::create_dir(&out).unwrap();
    let content: Vec<u8> = (0_u64..20_000_000)
        .map(|at| ((at * at) >> 9) as u8 | 1)
        .collect();
    fs::write(&input, &content).unwrap();
    let address = format!("127.0.0.1:{}", rig::free_ports(1));
    let mut plain = forebay();
    plain.args(["tdm", "receive", "--format", "json", "--bind", &address]);
    plain.args(["--senders", "1", "--link-rate", "200M", "--output"]);
    let Some(mut command) = on_small_disk(plain.arg(&out), &out, 6 << 20) else {
        return;
    };
    let receiver = start(&mut command);
    let mut sender = rig::tdm_send(&address, "north");
    let sent = start(sender.arg("--input").arg(&input)).end().json_of(2);
    let ended = receiver.end();
    let received = ended.json_of(2);
    assert!(ended.stderr.contains("out/north"), "{}", ended.stderr);
    // The sender is told no packet as come that is not on the disk.
    let north = &received["by_sender"][0];
    let unwritten = number(&north["not_written"], "write_failed");
    assert!(unwritten > 0, "{north}");
    let lost = north["lost"].as_object().unwrap().values();
    let lost: u64 = lost.filter_map(Value::as_u64).sum();
    assert_eq!(
        ["received", "lost"].map(|key| number(&sent, key)),
        [number(north, "received") - unwritten, lost + unwritten],
        "{sent}"
    );
    assert_eq!(
        number(&sent, "received") + number(&sent, "lost"),
        number(&sent, "packets")
    );
    let kept = directory.path().join("out.kept/north");
    let went = &content[..number(&sent, "payload_bytes") as usize];
    let missing = assert_same_but_for_lost(&kept, went);
    assert_eq!(number(&received, "lost_bytes"), missing);
    let list = fs::read_to_string(kept.with_file_name("north.lost.csv")).unwrap();
    assert!(list.contains(",not_written"), "{list}");
    assert_eq!(
        (&received["residual_items"], &received["residual_bytes"]),
        (&0.into(), &0.into())
    );
}
