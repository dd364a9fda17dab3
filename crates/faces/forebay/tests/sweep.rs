//! Sweeps through the real binary: every row is in both files, what is there is kept, what cannot be used is named.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use rig::{children_of, forebay, start, wait_for};
use serde_json::Value;

/// A row by its columns; cells as text, missing ones empty.
type Cells = BTreeMap<String, String>;

fn sweep(out: &Path, more: &str) -> Command {
    let mut command = forebay();
    command
        .args(["sweep", "net", "--format", "json", "--out"])
        .arg(out)
        .args(more.split(' '));
    command
}

/// Two sizes of buffers, nothing beside ours.
const TINY: &str = "--no-references --buffer-bytes 1Ki,4Ki";

fn csv(out: &Path) -> Vec<Cells> {
    let text = std::fs::read_to_string(out.join("rows.csv")).unwrap();
    let mut lines = text.lines().map(cells);
    let names = lines.next().unwrap();
    lines
        .map(|cells| names.iter().cloned().zip(cells).collect())
        .collect()
}

/// No cell of these rows has a quote in it.
fn cells(line: &str) -> Vec<String> {
    let mut quoted = false;
    let comma = move |letter: char| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    };
    line.split(comma)
        .map(|cell| cell.trim_matches('"').to_owned())
        .collect()
}

fn parquet(out: &Path) -> Vec<Cells> {
    let file = File::open(out.join("rows.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let text = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Double(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| {
        let row = row.unwrap();
        let columns = row.get_column_iter();
        columns
            .map(|(name, field)| (name.clone(), text(field)))
            .collect()
    })
    .collect()
}

fn number(row: &Cells, name: &str) -> f64 {
    row[name]
        .parse()
        .unwrap_or_else(|_| panic!("{name}: {row:?}"))
}

#[test]
fn every_run_is_a_row_in_both_files() {
    let directory = tempfile::tempdir().unwrap();
    let grid = "--backend tcp,shm --buffer-count 2,8 --repeat 2 --duration 20ms --rtt --seed 7";
    let mut command = sweep(directory.path(), &format!("{TINY} {grid}"));
    let report = start(&mut command).end().json_of(0);
    let rows = csv(directory.path());
    assert_eq!(rows, parquet(directory.path()));
    // Backends × sizes × counts × (stream, round trips) × repeats.
    assert_eq!(rows.len(), 2 * 2 * 2 * 2 * 2);
    assert_eq!(report["points"].as_array().unwrap().len(), 16);
    assert_eq!(
        (&report["seed"], &report["rows_with_residual"]),
        (&7.into(), &0.into())
    );
    for row in &rows {
        assert_eq!(row["message_bytes"], row["buffer_bytes"]);
        for zero in ["residual_items", "residual_bytes", "dropped"] {
            assert_eq!(row[zero], "0", "{row:?}");
        }
        for more in [
            "messages",
            "message_rate_hz",
            "goodput_bps",
            "cpu_sender_s",
            "cpu_receiver_s",
        ] {
            assert!(number(row, more) > 0.0, "{more}: {row:?}");
        }
        for said in ["host", "kernel", "cpu", "commit", "version", "date"] {
            assert!(!row[said].is_empty(), "{said}: {row:?}");
        }
        // The first 100 round trips do not count: a slow machine gets no further in so short a time.
        let timed = row["pattern"] == "rtt" && number(row, "messages") > 100.0;
        assert_eq!(timed, !row["rtt_ns_p50"].is_empty(), "{row:?}");
    }
}

#[test]
fn going_on_measures_only_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let run = |more: &str| {
        let grid = "--backend shm --repeat 2 --duration 20ms";
        start(&mut sweep(
            directory.path(),
            &format!("{TINY} {grid} {more}"),
        ))
        .end()
    };
    run("--buffer-count 2").json_of(0);
    let first = csv(directory.path());
    assert_eq!(first.len(), 4);
    let refused = run("--buffer-count 2,8");
    assert_eq!(refused.code(), Some(2));
    assert!(refused.stderr.contains("--resume"), "{}", refused.stderr);
    let second = run("--buffer-count 2,8 --resume");
    assert!(
        second.stderr.contains("4 points, 2 of them to be measured"),
        "{}",
        second.stderr
    );
    second.json_of(0);
    let rows = csv(directory.path());
    assert_eq!(rows.len(), 8);
    assert_eq!(rows[..4], first, "rows that were there are kept");
    assert_eq!(rows, parquet(directory.path()));
}

#[test]
fn going_on_takes_the_options_that_it_was_begun_with() {
    let directory = tempfile::tempdir().unwrap();
    let begun = "--no-references --backend shm --buffer-bytes 4Ki --buffer-count 2 --repeat 1 --duration 20ms --rtt";
    start(&mut sweep(directory.path(), begun)).end().json_of(0);
    assert_eq!(csv(directory.path()).len(), 2);
    let again = start(&mut sweep(directory.path(), "--resume")).end();
    assert!(
        again.stderr.contains("2 points, 0 of them to be measured"),
        "{}",
        again.stderr
    );
    again.json_of(0);
    let more = start(&mut sweep(directory.path(), "--resume --buffer-count 2,4")).end();
    assert!(
        more.stderr.contains("4 points, 2 of them to be measured"),
        "{}",
        more.stderr
    );
    more.json_of(0);
    assert_eq!(csv(directory.path()).len(), 4);
}

#[test]
fn an_interrupt_keeps_whole_points_and_leaves_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let grid = "--backend tcp --buffer-count 2,8 --duration 3s --repeat 1";
    let mut child = sweep(directory.path(), &format!("{TINY} {grid}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut says = BufReader::new(child.stderr.take().unwrap()).lines();
    wait_for("the second point", || {
        let line = says.next().unwrap().unwrap();
        line.starts_with("[2/4]").then_some(())
    });
    let sides = wait_for("both sides", || {
        let sides = children_of(child.id());
        (sides.len() == 2).then_some(sides)
    });
    let kill = format!("kill -INT {}", child.id());
    assert!(
        Command::new("sh")
            .args(["-c", &kill])
            .status()
            .unwrap()
            .success()
    );
    let status = wait_for("the end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    let report: Value = serde_json::from_reader(child.stdout.take().unwrap()).unwrap();
    assert_eq!(report["interrupted"], true);
    let rows = csv(directory.path());
    assert_eq!(rows.len(), 1);
    assert_eq!(rows, parquet(directory.path()));
    for pid in sides {
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "process {pid} goes on"
        );
    }
}

#[test]
fn a_backend_that_cannot_be_used_is_named_and_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let grid = "--backend shm,fabric+nothing --buffer-count 2 --duration 20ms --repeat 1";
    let mut command = sweep(directory.path(), &format!("{TINY} {grid}"));
    let report = start(&mut command).end().json_of(0);
    let skipped = report["skipped"].as_array().unwrap();
    assert_eq!(skipped.len(), 1, "{report}");
    assert_eq!(skipped[0]["what"], "fabric+nothing");
    assert!(!skipped[0]["reason"].as_str().unwrap().is_empty());
    assert!(
        csv(directory.path())
            .iter()
            .all(|row| row["backend"] == "shm")
    );
}

#[test]
fn a_run_whose_books_do_not_close_is_marked() {
    let directory = tempfile::tempdir().unwrap();
    let grid = "--backend shm --buffer-count 2 --duration 20ms --repeat 1";
    let mut command = sweep(directory.path(), &format!("{TINY} {grid}"));
    command.env("FOREBAY_LEAK", "send:3");
    let report = start(&mut command).end().json_of(1);
    assert_eq!(report["rows_with_residual"], 2, "{report}");
    for row in csv(directory.path()) {
        assert_eq!(row["books"], "DO NOT CLOSE");
        assert!(number(&row, "residual_items") > 0.0, "{row:?}");
    }
}

#[test]
fn other_programs_are_measured_or_named() {
    let directory = tempfile::tempdir().unwrap();
    let grid = "--backend tcp --buffer-bytes 4Ki --buffer-count 8 --duration 20ms --repeat 1 --rtt";
    let report = start(&mut sweep(directory.path(), grid)).end().json_of(0);
    let rows = csv(directory.path());
    let measured = |program: &str| rows.iter().any(|row| row["program"] == program);
    for program in ["iperf3", "libzmq", "memcpy"] {
        let skipped = report["skipped"].as_array().unwrap();
        let named = skipped.iter().any(|skipped| {
            skipped["what"] == program && !skipped["reason"].as_str().unwrap().is_empty()
        });
        assert!(measured(program) != named, "{program}: {report}");
    }
    let ours = rows
        .iter()
        .find(|row| row["program"] == "forebay" && row["pattern"] == "stream")
        .unwrap();
    assert!(number(ours, "ratio_memcpy") > 0.0, "{ours:?}");
}

/// The processes that hold the namespaces of a sweep, once both are there; none where they cannot be made.
fn holders(sweep: &mut rig::Run) -> Vec<u32> {
    wait_for("both namespaces", || {
        let children = children_of(sweep.pid());
        let held: Vec<_> = children.into_iter().filter(|pid| holds(*pid)).collect();
        (held.len() == 2 || sweep.is_over()).then_some(held)
    })
}

/// Whether a process only sleeps, in another network namespace than this one.
fn holds(pid: u32) -> bool {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    let network = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/net")).ok();
    comm.is_ok_and(|comm| comm.trim() == "sleep")
        && network(&pid.to_string()).is_some_and(|theirs| Some(theirs) != network("self"))
}

#[test]
fn namespaces_of_its_own_are_removed_or_the_privilege_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let grid = "--netns --backend tcp --buffer-count 2 --duration 200ms --repeat 1";
    let mut run = start(&mut sweep(directory.path(), &format!("{TINY} {grid}")));
    let holders = holders(&mut run);
    let ended = run.end();
    if ended.code() == Some(2) {
        assert!(ended.stderr.contains("CAP_SYS_ADMIN"), "{}", ended.stderr);
        return;
    }
    ended.json_of(0);
    assert_eq!(holders.len(), 2, "no namespaces were seen");
    let rows = csv(directory.path());
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["network"] == "veth"), "{rows:?}");
    // A namespace without a name goes with the process that holds it.
    for pid in holders {
        assert!(!holds(pid), "process {pid} still holds a namespace");
    }
}
