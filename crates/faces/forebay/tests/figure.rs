//! Figures and benches: what is measured is kept when the user loses patience, and nothing goes on behind their back.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at what must not be"
)]

mod rig;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rig::children_of;

const PATIENCE: Duration = Duration::from_secs(15);

fn figure(arguments: &[&str], out: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg("figure")
        .args(arguments)
        .arg("--out")
        .arg(out)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ctrl-C, by the shell's own `kill`: a small system has no program of that name.
fn interrupt(pid: u32) {
    let kill = Command::new("sh")
        .args(["-c", &format!("kill -INT {pid}")])
        .status();
    assert!(kill.unwrap().success());
}

#[test]
fn an_interrupted_bench_keeps_what_is_measured_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["bench", "memory", "huge", "--quick", "--format", "json"])
        .arg("--out")
        .arg(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The parts go in their own order: huge, then memory.
    let mut says = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first part takes as long as the host lets it: its end is told, or the output ends.
    let second = says.find(|line| line.as_ref().unwrap().starts_with("memory:"));
    assert!(second.is_some(), "the second part was never told");
    let stages = until("its stages", || {
        let stages = children_of(child.id());
        (stages.len() >= 3).then_some(stages)
    });
    interrupt(child.id());
    let status = until("the end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    let report: serde_json::Value = serde_json::from_reader(child.stdout.take().unwrap()).unwrap();
    assert_eq!(report["interrupted"], true);
    let lines = report["lines"].as_array().unwrap();
    assert!(!lines.is_empty());
    assert!(
        lines
            .iter()
            .all(|line| line["what"].as_str().unwrap().starts_with("100 kB")),
        "{lines:?}"
    );
    for pid in stages {
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "process {pid} goes on"
        );
    }
    let left: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].ends_with(".json"), "{left:?}");
}

#[test]
fn an_interrupt_keeps_the_rows_so_far_and_leaves_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = figure(&["H7", "--quick", "--format", "json"], directory.path());
    let rows = directory.path().join("H7.csv");
    until("the first row", || {
        let text = fs::read_to_string(&rows).unwrap_or_default();
        (text.lines().count() >= 2).then_some(())
    });
    let stages = until("the stages of the next run", || {
        let stages = children_of(child.id());
        (stages.len() >= 3).then_some(stages)
    });
    interrupt(child.id());
    let status = until("the end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    let report: serde_json::Value = serde_json::from_reader(child.stdout.take().unwrap()).unwrap();
    assert_eq!(report["interrupted"], true);
    assert_eq!(
        fs::read_to_string(&rows).unwrap().lines().count(),
        2,
        "the heading and one row"
    );
    for file in ["H7.svg", "H7.png", "H7.json", "H7.parquet"] {
        assert!(directory.path().join(file).exists(), "{file}");
    }
    for pid in stages {
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "process {pid} goes on"
        );
    }
    let left: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 5, "{left:?}");
}

/// Messaging over TCP is always there; over libfabric it is measured or left out with the reason.
#[test]
fn figures_of_messaging_have_rows_and_name_what_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["figure", "F2", "F4", "--quick", "--format", "json", "--out"])
        .arg(directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{text}");
    let reports: Vec<serde_json::Value> = serde_json::from_slice(&out.stdout).unwrap();
    for (report, backend, points) in [(&reports[0], "fabric+tcp", 6), (&reports[1], "tcp", 12)] {
        let id = report["id"].as_str().unwrap();
        let csv = fs::read_to_string(directory.path().join(format!("{id}.csv"))).unwrap();
        let skipped = report["skipped"].as_array().unwrap();
        if let [skipped] = skipped.as_slice() {
            assert_eq!(
                (skipped["what"].as_str(), backend),
                (Some("fabric+tcp"), "fabric+tcp")
            );
            assert!(!skipped["reason"].as_str().unwrap().is_empty());
            assert_eq!(csv, "");
        } else {
            assert_eq!(csv.lines().count(), 1 + points, "{csv}");
            assert!(directory.path().join(format!("{id}.parquet")).exists());
        }
        assert_eq!(report["rows_with_residual"], 0);
        for file in ["svg", "png", "json"] {
            assert!(
                directory.path().join(format!("{id}.{file}")).exists(),
                "{id}.{file}"
            );
        }
    }
}

/// Every backend is measured on one connection and on several, or named with the reason why not.
#[test]
fn memory_is_told_for_every_backend_that_can_be_used() {
    let directory = tempfile::tempdir().unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["figure", "F10", "--quick", "--format", "json", "--out"])
        .arg(directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{text}");
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["rows_with_residual"], 0);
    let csv = fs::read_to_string(directory.path().join("F10.csv")).unwrap();
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    let at = |name: &str| heading.iter().position(|cell| *cell == name).unwrap();
    let rows: Vec<Vec<&str>> = lines.collect();
    let number = |row: &[&str], name: &str| row[at(name)].parse::<f64>().unwrap();
    let skipped = report["skipped"].as_array().unwrap();
    for backend in ["tcp", "shm", "fabric+tcp"] {
        let of_backend: Vec<_> = rows
            .iter()
            .filter(|row| row[at("backend")] == backend)
            .collect();
        if let Some(skipped) = skipped.iter().find(|skipped| skipped["what"] == backend) {
            assert!(backend.starts_with("fabric+"), "{skipped}");
            assert!(!skipped["reason"].as_str().unwrap().is_empty());
            assert!(of_backend.is_empty(), "{backend}");
            continue;
        }
        // 1, 100 and 10,000 tags on one connection, and 100 on 100.
        assert_eq!(of_backend.len(), 4, "{backend}: {text}");
        for row in &of_backend {
            for side in ["publisher", "subscriber"] {
                let resident = number(row, &format!("{side}_connected_resident_bytes"));
                assert!(resident > 1e6, "{backend}: {resident}");
                let registered = number(row, &format!("{side}_connected_registered_bytes"));
                // Buffers of a connection, in both directions.
                let least = 2.0 * 4.0 * 65_536.0 * number(row, "connections");
                let is_fabric = backend.starts_with("fabric+");
                assert!(
                    if is_fabric {
                        registered >= least
                    } else {
                        registered == 0.0
                    },
                    "{backend}, {side}: {registered}"
                );
            }
        }
    }
    for file in ["svg", "png", "json", "parquet"] {
        assert!(
            directory.path().join(format!("F10.{file}")).exists(),
            "{file}"
        );
    }
}

#[test]
fn an_unknown_figure_is_refused_with_the_known_ones() {
    let out = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["figure", "H99"])
        .output()
        .unwrap();
    let text = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(text.contains("H99") && text.contains("H16"), "{text}");
}

#[test]
fn figures_of_the_model_say_that_they_are_no_measurement() {
    let directory = tempfile::tempdir().unwrap();
    let run = figure(
        &["C1", "C2", "C3", "--quick", "--format", "json"],
        directory.path(),
    );
    let ended = run.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    let reports: Vec<serde_json::Value> = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(reports.len(), 3);
    for report in &reports {
        assert_eq!(report["is_model"], true);
        assert_eq!(report["rows_with_residual"], 0);
        let lines = report["comparison"].as_array().unwrap();
        assert_eq!(lines.len(), 14);
        for line in lines {
            let line = line.as_str().unwrap();
            assert!(
                line.contains("published") && line.contains("residual"),
                "{line}"
            );
        }
        // Both editions, of whole packets.
        let said = |line: &&serde_json::Value| line.as_str().unwrap().contains("July 2025");
        assert_eq!(lines.iter().filter(said).count(), 7);
        let id = report["id"].as_str().unwrap();
        let svg = fs::read_to_string(directory.path().join(format!("{id}.svg"))).unwrap();
        assert!(svg.contains("A model and no measurement"), "{id}");
        assert!(!svg.contains("measured"), "{id}");
        let csv = fs::read_to_string(directory.path().join(format!("{id}.csv"))).unwrap();
        assert_eq!(csv.lines().count(), 15);
        let mut rows = csv.lines().skip(1);
        assert!(rows.all(|row| row.contains("a model and no measurement")));
    }
}

#[test]
fn what_parts_of_the_probe_take_is_measured_with_books_that_close() {
    let directory = tempfile::tempdir().unwrap();
    let run = figure(&["C5", "--quick", "--format", "json"], directory.path());
    let ended = run.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(
        (&report["is_model"], &report["rows_with_residual"]),
        (&false.into(), &0.into())
    );
    let said = report["comparison"].as_array().unwrap();
    let said: Vec<_> = said.iter().map(|line| line.as_str().unwrap()).collect();
    for part in [
        "decode ",
        "table ",
        "plugin tls ",
        "plugin dhcp ",
        "export ipfix ",
    ] {
        assert!(said[1].contains(part), "{part}: {}", said[1]);
    }
    // By the settings the table has 160 bytes for each of 131,072 flows, all of which are resident from the begin; pstats has 232.
    let mib = |part: &str| {
        let behind = said[3].split_once(part).unwrap().1;
        let number = behind.split(',').next().unwrap();
        number.trim().parse::<f64>().unwrap()
    };
    assert!((15.0..60.0).contains(&mib(" table ")), "{}", said[3]);
    assert!((15.0..60.0).contains(&mib("plugin pstats ")), "{}", said[3]);
    // The capture is gone.
    let left = fs::read_dir(directory.path()).unwrap();
    assert!(
        left.into_iter()
            .all(|entry| entry.unwrap().file_type().unwrap().is_file())
    );
}

#[test]
fn what_the_probe_loses_is_measured_by_all_parties_or_left_out_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let run = figure(&["C4", "--quick", "--format", "json"], directory.path());
    let ended = run.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let svg = fs::read_to_string(directory.path().join("C4.svg")).unwrap();
    assert!(svg.contains("5.17"), "{svg}");
    if let Some(skipped) = report["skipped"].as_array().unwrap().first() {
        assert_eq!(skipped["what"], "the offload on a virtual wire");
        forebay_testing::skip!("C4 cannot be measured here: {}", skipped["reason"]);
        return;
    }
    assert_eq!(report["rows_with_residual"], 0, "{report}");
    let csv = fs::read_to_string(directory.path().join("C4.csv")).unwrap();
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let at = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let rows: Vec<_> = lines.collect();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let number = |name: &str| row[at(name)].parse::<u64>().unwrap();
        assert_eq!(number("packets_sent"), 100_000);
        let found = number("packets_recorded") + number("packets_lost");
        assert_eq!(found + number("packets_wire_dropped"), 100_000, "{row:?}");
        let is_lent = row[at("offload")] == "xdp";
        assert_eq!(number("packets_offloaded") > 25_000, is_lent, "{row:?}");
    }
    // Ledgers of the runs are gone.
    let left = fs::read_dir(directory.path()).unwrap();
    assert!(
        left.into_iter()
            .all(|entry| entry.unwrap().file_type().unwrap().is_file())
    );
}

#[test]
fn the_multiplexer_is_measured_with_books_that_close_or_left_out_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let run = figure(&["M4", "--quick", "--format", "json"], directory.path());
    let ended = run.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    if let Some(skipped) = report["skipped"].as_array().unwrap().first() {
        assert_eq!(
            skipped["what"],
            "the multiplexer between network namespaces"
        );
        forebay_testing::skip!("M4 cannot be measured here: {}", skipped["reason"]);
        return;
    }
    assert_eq!(report["rows_with_residual"], 0, "{report}");
    let said = report["comparison"][0].as_str().unwrap();
    assert!(said.contains("published 479 Mbit/s, here "), "{said}");
    let csv = fs::read_to_string(directory.path().join("M4.csv")).unwrap();
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let at = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let rows: Vec<_> = lines.collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        for client in ["A", "B"] {
            let achieved = row[at(&format!("achieved_{client}_bps"))];
            assert!(achieved.parse::<f64>().unwrap() > 0.0, "{row:?}");
        }
    }
}

#[test]
fn the_list_names_every_figure() {
    let out = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["figure", "--list", "--format", "json"])
        .output()
        .unwrap();
    let list: Vec<serde_json::Value> = serde_json::from_slice(&out.stdout).unwrap();
    let ids: Vec<_> = list
        .iter()
        .map(|entry| entry["id"].as_str().unwrap())
        .collect();
    let all = [
        "C1", "C2", "C3", "C4", "C5", "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10",
        "H1", "H2", "H3", "H4", "H5", "H6", "H7", "H8", "H10", "H13", "H14", "H16", "M1", "M2",
        "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M10", "M11", "M12", "M13", "M14", "M15", "M16",
        "M17", "M18", "M19", "M20", "T1", "T2", "T3", "T4", "T5", "T6",
    ];
    assert_eq!(ids, all);
}
