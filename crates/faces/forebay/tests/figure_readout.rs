//! Figures of link readout: what a link carries comes out of the measurement, and where this host was the limit is said.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at what must not be"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Makes the figures `ids` into `out`, and gives their reports.
fn figures(ids: &[&str], out: &Path, path: Option<&str>) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("figure").args(ids);
    command
        .args(["--quick", "--format", "json", "--out"])
        .arg(out);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    match serde_json::from_slice(&done.stdout).unwrap() {
        Value::Array(reports) => reports,
        one => vec![one],
    }
}

/// Rows of a figure, by column.
fn rows(out: &Path, id: &str) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(out.join(format!("{id}.csv"))).unwrap();
    let mut lines = text.lines();
    let heading: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        let cells = line.split(',').map(str::to_owned);
        heading
            .iter()
            .map(|name| (*name).to_owned())
            .zip(cells)
            .collect()
    };
    lines.map(row).collect()
}

fn number(row: &BTreeMap<String, String>, name: &str) -> f64 {
    row[name]
        .parse()
        .unwrap_or_else(|_| panic!("{name} of {row:?}"))
}

fn are_there(out: &Path, id: &str, endings: &[&str]) {
    for ending in endings {
        let file = out.join(format!("{id}.{ending}"));
        assert!(fs::metadata(&file).unwrap().len() > 0, "{}", file.display());
    }
}

/// 240 million words a second, a chunk of 1 KiB being 259 of them.
const WORDS_HZ: f64 = 240e6;

#[test]
fn the_rate_falls_where_the_budget_of_a_link_ends_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    let reports = figures(&["F6", "F7"], out, None);
    for (report, id) in reports.iter().zip(["F6", "F7"]) {
        assert_eq!(report["id"], id);
        assert_eq!(report["rows_with_residual"], 0);
        assert_eq!(report["comparison"].as_array().unwrap().len(), 6);
        are_there(out, id, &["csv", "parquet", "svg", "png", "json"]);
    }
    let rows = rows(out, "F6");
    assert_eq!(rows.len(), 6);
    for (row, said) in rows
        .iter()
        .zip(reports[0]["comparison"].as_array().unwrap())
    {
        let is = |name: &str| number(row, name);
        for name in [
            "chunks_truncated",
            "payload_mismatches",
            "residual_items",
            "residual_bytes",
        ] {
            assert_eq!(is(name), 0.0, "{name} of {row:?}");
        }
        assert_eq!(row["drops"], "");
        assert_eq!(is("chunks_received"), is("triggers") * is("links"));
        assert_eq!(is("mean_chunk_bytes"), is("chunk_bytes"));
        // A queue of 256 chunks in front of each link is filled beside what it carries.
        let words = (is("chunk_bytes") / 4.0).ceil() + 3.0;
        let budget_hz = WORDS_HZ / words + 300.0 / is("card_seconds");
        let most_hz = budget_hz.min(1e6) * 1.01;
        assert!(is("trigger_hz") <= most_hz, "{row:?}");
        let limited = is("host_limited") == 1.0;
        assert!(
            limited || is("trigger_hz") >= WORDS_HZ.min(1e6 * words) / words * 0.98,
            "{row:?}"
        );
        assert!(is("dilation") == 1.0 || is("links") == 12.0);
        let said = said.as_str().unwrap();
        assert_eq!(said.ends_with("THIS HOST WAS THE LIMIT"), limited, "{said}");
        assert!(is("looks") >= 1.0 && is("dma_capacity_blocks") > 0.0);
        assert!(
            (0.0..=100.0).contains(&is("dma_free_percent_min")),
            "{row:?}"
        );
        assert!(is("cpu_tohost_percent_of_card_time") > 0.0);
    }
}

/// Why `perf` cannot look at a process of this user, if so: it is asked, not the product.
fn no_perf() -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let looked = std::process::Command::new("perf")
        .args(["record", "--event", "cpu-clock", "--output"])
        .arg(directory.path().join("data"))
        .args(["--", "true"])
        .output();
    match looked {
        Err(_) => Some("perf is not installed (Debian package linux-perf)".to_owned()),
        Ok(looked) if looked.status.success() => None,
        Ok(looked) => {
            let said = String::from_utf8_lossy(&looked.stderr);
            Some(format!("perf may not look here: {}", said.trim()))
        }
    }
}

#[test]
fn the_flame_graph_names_the_hottest_functions_or_says_why_it_cannot() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    let report = &figures(&["F8"], out, None)[0];
    are_there(out, "F8", &["svg", "png", "json"]);
    let left: Vec<_> = fs::read_dir(out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let skipped = report["skipped"].as_array().unwrap();
    if let Some(why) = no_perf() {
        assert_eq!(skipped[0]["what"], "perf", "{report}");
        return forebay_testing::skip!("{why}");
    }
    assert!(skipped.is_empty(), "perf works here: {report}");
    let rows = rows(out, "F8");
    let all: f64 = rows.iter().map(|row| number(row, "samples")).sum();
    assert!(all > 0.0);
    assert!(rows.iter().any(|row| row["stack"].starts_with("fb-dma;")));
    let said: Vec<&str> = report["comparison"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    assert!(
        said[0].contains(&format!("here of {all} samples: ")),
        "{said:?}"
    );
    assert!(said[1].starts_with("hottest functions"), "{said:?}");
    assert!(
        fs::read_to_string(out.join("F8.svg"))
            .unwrap()
            .contains("fb-dma")
    );
}

#[test]
fn a_machine_without_perf_gets_no_flame_graph_and_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let report = &figures(&["F8"], directory.path(), Some("/nonexistent"))[0];
    let [skipped] = report["skipped"].as_array().unwrap().as_slice() else {
        panic!("{report}")
    };
    assert_eq!(skipped["what"], "perf");
    assert!(skipped["reason"].as_str().unwrap().contains("linux-perf"));
    are_there(directory.path(), "F8", &["svg", "png", "json"]);
}
