//! `forebay replay`: captures of others rebuilt equal, damaged captures, held-back files, killed stages.

#![allow(clippy::unwrap_used, clippy::panic)]

mod replaying;
mod rig;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use replaying::*;
use tempfile::TempDir;

/// Options under which the independent builder wrote its file.
const AS_RECORDED: [&str; 4] = ["--completion", "discard", "--check-tag", "off"];

/// Our file's events against the other builder's: all equal but the event's error bit, which only ours sets.
fn assert_equal(ours: &[Event], theirs: &[Event]) {
    assert_eq!(ours.len(), theirs.len());
    for (our, their) in ours.iter().zip(theirs) {
        let in_subs = our
            .subs
            .iter()
            .any(|sub| u32::from_be_bytes(sub[8..12].try_into().unwrap()) >> 31 == 1);
        assert_eq!(our.data_error, in_subs, "event {}", our.sequence);
        let our = Event {
            data_error: their.data_error,
            ..our.clone()
        };
        assert_eq!(&our, their);
    }
}

#[test]
fn a_cut_builds_into_the_events_of_an_independent_builder() {
    let folder = TempDir::new().unwrap();
    let capture = data("six_sources.pcap");
    let output = replay(&capture, folder.path(), &AS_RECORDED);
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["events_built"], 16);
    assert_eq!(summary["subevents_in"], 106);
    assert_eq!(summary["bytes_in"], 85_304);
    assert_eq!(summary["residual_items"], 0);
    assert_eq!(summary["reason"], "input_ended");
    assert_eq!(dropped(&summary, "builder.incomplete.source5"), 10);
    let ours = events(&files(&summary)[0]);
    assert_equal(&ours, &events(&data("six_sources.hld")));
}

#[test]
fn the_whole_recording_when_it_is_there() {
    let Some(folder) = std::env::var_os("FOREBAY_VECTORS").map(PathBuf::from) else {
        forebay_testing::skip!("FOREBAY_VECTORS names no folder with the whole recording");
        return;
    };
    let recorded = |name: &str| folder.join("hades").join(name);
    let out = TempDir::new().unwrap();
    let output = replay(&recorded("mixed_6src.pcap"), out.path(), &AS_RECORDED);
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["events_built"], 400);
    assert_eq!(summary["drops"], serde_json::json!({}));
    let file = &files(&summary)[0];
    let ours = events(file);
    assert_equal(&ours, &events(&recorded("mixed_6src.hld")));
    assert_eq!(ours.iter().filter(|event| event.data_error).count(), 8);
    let mut inspect = forebay();
    let printed = inspect
        .arg("inspect")
        .arg(file)
        .arg("--events")
        .output()
        .unwrap();
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.contains("***"));
        lines.map(without_what_differs).collect()
    };
    let golden = std::fs::read_to_string(recorded("mixed_6src.hldprint.txt")).unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(lines(&printed), lines(&golden));
}

/// An event's line without run number and error bit.
fn without_what_differs(line: &str) -> String {
    let line = line.replace("fullid=0x8000200d", "fullid=0x200d");
    match line.split_once(" runid=") {
        Some((front, back)) => format!("{front}{}", &back["0x237b6407".len()..]),
        None => line,
    }
}

#[test]
fn sources_told_apart_by_id_and_by_sender_build_the_same() {
    let folder = TempDir::new().unwrap();
    let capture = folder.path().join("four.pcap");
    let traffic = Traffic {
        sources: 4,
        events: 100,
        per_message: 7,
        payload_bytes: 200,
        spacing_us: 1,
    };
    traffic.write(&capture);
    let built = |by: &str| {
        let out = folder.path().join(by);
        let output = replay(&capture, &out, &["--source-by", by]);
        assert_eq!(output.status.code(), Some(0), "{by}");
        events(&files(&json(&output))[0])
    };
    let by_port = built("port");
    assert_eq!(by_port.len(), 100);
    assert!(by_port.iter().all(|event| event.subs.len() == 4));
    assert_eq!(built("id"), by_port);
    assert_eq!(built("sender"), by_port);
    let ours = replay(
        &data("six_sources.pcap"),
        &folder.path().join("ids"),
        &[&AS_RECORDED[..], &["--source-by", "id"]].concat(),
    );
    let ours = events(&files(&json(&ours))[0]);
    assert_equal(&ours, &events(&data("six_sources.hld")));
}

#[test]
fn long_messages_of_several_datagrams_are_joined() {
    let folder = TempDir::new().unwrap();
    let capture = folder.path().join("long.pcap");
    let traffic = Traffic {
        sources: 2,
        events: 6,
        per_message: 2,
        payload_bytes: 70_000,
        spacing_us: 10,
    };
    traffic.write(&capture);
    for by in ["port", "id"] {
        let out = folder.path().join(by);
        let output = replay(&capture, &out, &["--source-by", by]);
        let summary = json(&output);
        assert_eq!(summary["events_built"], 6, "{summary}");
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(summary["drops"], serde_json::json!({}));
    }
}

/// A message with one sub-event of source `id`, padded as hardware does it.
fn padded_by_hardware(id: u32, payload_bytes: usize) -> Vec<u8> {
    let mut message = message(id, 5, 1, payload_bytes);
    let end = message.len() - 32;
    message[8 + 16 + payload_bytes..end].fill(0xaa);
    // The trailer: its first 32 bytes again.
    message.copy_within(..32, end);
    message
}

/// The bytes of an event in the file, as `docs/wire/hades.md` has them: sizes without the padding, and the padding as it came.
#[test]
fn golden_bytes_of_a_written_event_with_its_padding() {
    let folder = TempDir::new().unwrap();
    let capture = folder.path().join("padded.pcap");
    let mut pcap = Pcap::new();
    for (source, payload_bytes) in [(0, 5), (1, 8), (2, 1)] {
        let message = padded_by_hardware(0x8000 + u32::from(source), payload_bytes);
        pcap.push(0, 50_000 + source, &message);
    }
    pcap.write(&capture);
    let output = replay(&capture, &folder.path().join("out"), &[]);
    let summary = json(&output);
    assert_eq!(summary["drops"], serde_json::json!({}));
    let file = std::fs::read(&files(&summary)[0]).unwrap();
    let subs: [&[u8]; 3] = [
        b"\x00\x00\x00\x15\x00\x02\x00\x01\x00\x00\x80\x00\x00\x00\x05\x42\x05\x05\x05\x05\x05\xaa\xaa\xaa",
        b"\x00\x00\x00\x18\x00\x02\x00\x01\x00\x00\x80\x01\x00\x00\x05\x42\x04\x04\x04\x04\x04\x04\x04\x04",
        b"\x00\x00\x00\x11\x00\x02\x00\x01\x00\x00\x80\x02\x00\x00\x05\x42\x07\xaa\xaa\xaa\xaa\xaa\xaa\xaa",
    ];
    let (start, rest) = file.split_at(32);
    let (event, stop) = rest.split_at(32 + 72);
    assert_eq!(stop.len(), 32);
    assert_eq!(event[..8], *b"\x68\x00\x00\x00\x01\x00\x03\x00");
    assert_eq!(event[12..16], *b"\x01\x00\x00\x00", "the first event");
    assert_eq!(event[24..28], start[24..28], "of the file's run");
    assert_eq!(event[28..32], [0; 4]);
    assert_eq!(event[32..], subs.concat());
}

#[test]
fn a_file_larger_than_the_rings_is_held_back_and_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let capture = folder.path().join("large.pcap");
    let traffic = Traffic {
        sources: 3,
        events: 9_000,
        per_message: 25,
        payload_bytes: 1_200,
        spacing_us: 1,
    };
    traffic.write(&capture);
    let output = replay(&capture, &folder.path().join("out"), &[]);
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["events_built"], 9_000, "{summary}");
    assert_eq!(summary["events_partial"], 0);
    assert_eq!(summary["drops"], serde_json::json!({}));
    let rings = summary["memory"]["source_rings_bytes"].as_u64().unwrap();
    assert!(
        rings < capture.metadata().unwrap().len(),
        "the rings hold it all: the test shows nothing"
    );
}

#[test]
fn a_killed_replay_goes_on_where_its_books_say() {
    let folder = TempDir::new().unwrap();
    let capture = folder.path().join("paced.pcap");
    let traffic = Traffic {
        sources: 3,
        events: 8_000,
        per_message: 5,
        payload_bytes: 300,
        spacing_us: 300,
    };
    traffic.write(&capture);
    let out = folder.path().join("out");
    let mut command = replay_command(&capture, &out, &["--speed", "1.0"]);
    let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    for (kill, role) in ["receiver", "builder", "receiver", "receiver"]
        .iter()
        .enumerate()
    {
        let mark = (kill as u64 + 1) * 500_000;
        wait_for("bytes on disk", || {
            (written_bytes(&out) >= mark).then_some(())
        });
        signal(stage(running.pid(), role), "KILL");
    }
    let output = running.output(Duration::from_secs(20));
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["events_built"], 8_000, "{summary}");
    assert_eq!(summary["drops"], serde_json::json!({}));
    assert_eq!(summary["restarts"]["receiver"], 3);
    let sequences: Vec<u32> = events_in(&out).iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=8_000).collect::<Vec<_>>());
}

#[test]
fn a_replay_killed_and_then_asked_to_end_closes_its_books() {
    let folder = TempDir::new().unwrap();
    let capture = folder.path().join("paced.pcap");
    let traffic = Traffic {
        sources: 3,
        events: 40_000,
        per_message: 1,
        payload_bytes: 40,
        spacing_us: 100,
    };
    traffic.write(&capture);
    // The order to end comes while the successor is on its way back to where its predecessor was.
    for delay_ms in [0, 5, 12, 25] {
        let out = folder.path().join(format!("out{delay_ms}"));
        let mut command = replay_command(&capture, &out, &["--speed", "1.0"]);
        let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        wait_for("bytes on disk", || {
            (written_bytes(&out) >= 2_500_000).then_some(())
        });
        let first = stage(running.pid(), "receiver");
        signal(first, "KILL");
        wait_for("a successor", || {
            (stage(running.pid(), "receiver") != first).then_some(())
        });
        std::thread::sleep(Duration::from_millis(delay_ms));
        signal(running.pid(), "INT");
        let output = running.output(Duration::from_secs(20));
        let summary = json(&output);
        assert_eq!(output.status.code(), Some(0), "{delay_ms} ms: {summary}");
        assert_eq!(summary["restarts"]["receiver"], 1);
        assert_eq!(summary["drops"], serde_json::json!({}));
        let built = summary["events_built"].as_u64().unwrap();
        assert!(built < 40_000, "the replay was over before the order came");
        let sequences: Vec<u32> = events_in(&out).iter().map(|event| event.sequence).collect();
        assert_eq!(
            sequences.len() as u64,
            built + summary["events_partial"].as_u64().unwrap()
        );
        assert!(sequences.is_sorted_by(|a, b| a < b));
    }
}

#[test]
fn a_leak_of_a_capture_is_named() {
    for (hop, items) in [("capture", 3), ("reassembly", 5)] {
        let folder = TempDir::new().unwrap();
        let mut command = replay_command(&data("six_sources.pcap"), folder.path(), &AS_RECORDED);
        let leak = format!("{hop}:{items}");
        let output = command.env("FOREBAY_LEAK", leak).output().unwrap();
        let summary = json(&output);
        assert_eq!(output.status.code(), Some(1), "{hop}: {summary}");
        assert_eq!(summary["residual_items"], items, "{hop}");
        rig::offenders::assert_only(folder.path(), hop, "datagrams", items);
    }
}

/// Replays a changed copy of the recording.
fn with_capture(
    change: impl FnOnce(&mut Vec<u8>),
    args: &[&str],
) -> (TempDir, std::process::Output) {
    let folder = TempDir::new().unwrap();
    let mut bytes = std::fs::read(data("six_sources.pcap")).unwrap();
    change(&mut bytes);
    let capture = folder.path().join("changed.pcap");
    std::fs::write(&capture, bytes).unwrap();
    let output = replay(&capture, &folder.path().join("out"), args);
    (folder, output)
}

#[test]
fn a_capture_cut_short_gives_what_is_before_the_cut_and_says_so() {
    let theirs = events(&data("six_sources.hld"));
    let mut built = Vec::new();
    let six = ["--base-port", "50000", "--sources", "6"];
    let args = [&AS_RECORDED[..], &six].concat();
    for kept in [40_000, 86_314 - 1_500, 86_313] {
        let (_folder, output) = with_capture(|bytes| bytes.truncate(kept), &args);
        let summary = json(&output);
        assert_eq!(output.status.code(), Some(0), "{summary}");
        assert_eq!(dropped(&summary, "capture.file_broken.file"), 1, "{kept}");
        assert_eq!(summary["condition"], "tainted");
        let taint = rig::taint(&summary);
        assert!(
            taint.starts_with("capture_broken: the file ends"),
            "{taint}"
        );
        assert_eq!(summary["residual_items"], 0);
        let ours = files(&summary)
            .first()
            .map_or_else(Vec::new, |file| events(file));
        assert_equal(&ours, &theirs[..ours.len()]);
        built.push(ours.len());
    }
    assert!(built.is_sorted() && built[2] > 0, "{built:?}");
    let (_folder, output) = with_capture(|bytes| bytes.truncate(80_000), &["--strict"]);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn packets_cut_by_the_snap_length_are_counted_by_name() {
    let folder = TempDir::new().unwrap();
    let mut pcap = Pcap::new();
    for trigger in 0..20 {
        for source in 0..2_u16 {
            let message = message(0x8000 + u32::from(source), trigger, 1, 400);
            let frame = frame(50_000 + source, &message);
            let cut = source == 1 && trigger % 5 == 0;
            pcap.push_frame(1, &frame, if cut { 96 } else { frame.len() });
        }
    }
    let capture = folder.path().join("snap.pcap");
    pcap.write(&capture);
    let output = replay(&capture, &folder.path().join("out"), &[]);
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(dropped(&summary, "capture.truncated.file"), 4);
    assert_eq!(summary["events_built"], 16);
    assert_eq!(summary["events_partial"], 4);
    let warning = summary["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("4 packets") && warning.contains("snap length"),
        "{warning}"
    );
}

#[test]
fn foreign_traffic_and_garbage_are_counted_by_name() {
    let folder = TempDir::new().unwrap();
    let mut pcap = Pcap::new();
    for trigger in 0..10 {
        pcap.push(1, 50_000, &message(0x8000, trigger, 1, 100));
        pcap.push(1, 53, b"a question about a name");
        pcap.push(1, 50_000, &[0xff; 100]);
        let mut arp = vec![0; 12];
        arp.extend([0x08, 0x06]);
        arp.extend([0; 28]);
        pcap.push_frame(1, &arp, arp.len());
        let mut broken = frame(50_000, b"bad");
        broken[14] = 0x42;
        pcap.push_frame(1, &broken, broken.len());
    }
    let capture = folder.path().join("mixed.pcap");
    pcap.write(&capture);
    let output = replay(&capture, &folder.path().join("out"), &[]);
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["events_built"], 10);
    assert_eq!(dropped(&summary, "capture.not_selected.file"), 10);
    assert_eq!(dropped(&summary, "capture.not_udp.file"), 10);
    assert_eq!(dropped(&summary, "capture.malformed.file"), 10);
    assert_eq!(dropped(&summary, "receiver.malformed_header.source0"), 10);
    assert_eq!(summary["residual_items"], 0);
}

#[test]
fn more_sources_than_the_capture_holds_are_refused() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let capture = data("six_sources.pcap");
    for by in ["port", "sender"] {
        let output = replay(&capture, &out, &["--sources", "7", "--source-by", by]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("7 sources are asked for"), "{text}");
    }
    assert!(!out.exists());
}

#[test]
fn what_holds_nothing_for_the_builder_is_refused_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let capture = folder.path().join("none.pcap");
    let refused = |args: &[&str]| -> (Option<i32>, String) {
        let output = replay(&capture, &folder.path().join("out"), args);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    assert!(refused(&[]).1.contains("none.pcap"));
    std::fs::write(&capture, [0x5a; 4_000]).unwrap();
    let (code, text) = refused(&[]);
    assert_eq!(code, Some(2));
    assert!(text.contains("not a capture"), "{text}");
    let mut pcap = Pcap::new();
    pcap.push(1, 50_000, &[0x5a; 200]);
    pcap.write(&capture);
    let (code, text) = refused(&[]);
    assert_eq!(code, Some(2));
    assert!(
        text.contains("0 sources of HADTU messages in 1 UDP datagrams"),
        "{text}"
    );
    // Ports that are named are replayed whatever came to them.
    let named = ["--base-port", "50000", "--sources", "2"];
    let output = replay(&capture, &folder.path().join("out"), &named);
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(dropped(&summary, "receiver.malformed_header.source0"), 1);
    assert!(folder.path().join("out/run.json").exists());
}
