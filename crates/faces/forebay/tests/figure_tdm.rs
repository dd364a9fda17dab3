//! Figures of time-division UDP: rows and pictures where a switch port can be made, and the reason where it cannot.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may stop at what must not be, and says why it skips"
)]

mod rig;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use rig::forebay;

type Line = BTreeMap<String, String>;

fn figures(ids: &[&str], out: &Path, path: Option<&Path>) -> Vec<serde_json::Value> {
    let mut command = forebay();
    command
        .arg("figure")
        .args(ids)
        .args(["--quick", "--format", "json", "--out"])
        .arg(out);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let done = command.output().unwrap();
    let text = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{text}");
    let said: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let reports = match said {
        serde_json::Value::Array(reports) => reports,
        one => vec![one],
    };
    for (report, id) in reports.iter().zip(ids) {
        assert_eq!(report["id"], *id);
        assert_eq!(report["rows_with_residual"], 0);
        for file in ["svg", "png", "json"] {
            assert!(out.join(format!("{id}.{file}")).exists(), "{id}.{file}");
        }
    }
    reports
}

/// Rows of a figure without cells that have commas in them.
fn rows(out: &Path, id: &str) -> Vec<Line> {
    assert!(out.join(format!("{id}.parquet")).exists());
    let text = fs::read_to_string(out.join(format!("{id}.csv"))).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let heading: Vec<String> = lines.next().unwrap().collect();
    lines
        .map(|cells| heading.iter().cloned().zip(cells).collect())
        .collect()
}

fn number(row: &Line, name: &str) -> f64 {
    row[name].parse().unwrap()
}

/// What a switch's port is made of, by the programs of the system alone; it is gone with its namespace.
const PORT: &str = "setpriv --version && nsenter --version && ip link add bridge type bridge \
    && ip link add port type veth peer name wire && ip link set port master bridge \
    && tc qdisc add dev port root tbf rate 1gbit burst 16384 limit 131072";

/// Whether there can be no port here. Where there can be one, the product may not say that there is none.
fn skipped(report: &serde_json::Value) -> bool {
    let made = Command::new("unshare")
        .args(["--net", "sh", "-c", PORT])
        .output();
    let why = match made {
        Ok(made) if made.status.success() => None,
        Ok(made) => Some(String::from_utf8_lossy(&made.stderr).into_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    };
    let skipped = report["skipped"].as_array().unwrap();
    match &why {
        Some(why) => forebay_testing::skip!("no namespaces with tbf here, which needs root: {why}"),
        None => assert!(skipped.is_empty(), "a port can be made here: {report}"),
    }
    why.is_some()
}

#[test]
fn overlaps_and_losses_are_told_over_dead_time_with_the_computed_guard() {
    let out = tempfile::tempdir().unwrap();
    let report = figures(&["T2"], out.path(), None).remove(0);
    if skipped(&report) {
        return;
    }
    let rows = rows(out.path(), "T2");
    let of = |scheme: &str, dead_time_us: f64| -> &Line {
        let found = rows.iter().find(|row| {
            row["scheme"] == scheme
                && row["computed"] == "0"
                && number(row, "guard_us") == dead_time_us
        });
        found.unwrap()
    };
    for row in &rows {
        let lost: f64 = row
            .iter()
            .filter(|(name, _)| name.starts_with("lost_") && *name != "lost_percent")
            .map(|(_, packets)| packets.parse::<f64>().unwrap())
            .sum();
        assert_eq!(
            number(row, "sent"),
            number(row, "received") + lost,
            "{row:?}"
        );
        assert!(number(row, "received") > 0.0);
    }
    // Slots that are not paced lose at the port, and without a schedule all windows overlap.
    assert!(number(of("slots", 0.0), "port_drops") > 0.0);
    assert!(number(of("incast", 0.0), "overlaps") > 0.0);
    assert!(
        number(of("slots-paced", 0.0), "lost") < number(of("incast", 0.0), "lost"),
        "{rows:?}"
    );
    // As many windows with any dead time.
    assert!(number(of("slots-paced", 1000.0), "sent") > 0.0);
    let computed: Vec<_> = rows.iter().filter(|row| row["computed"] == "1").collect();
    assert_eq!(computed.len(), 1);
    assert!(number(computed[0], "guard_us") > 0.0);
    let svg = fs::read_to_string(out.path().join("T2.svg")).unwrap();
    assert!(svg.contains("computed guard"));
}

#[test]
fn the_smallest_dead_time_is_searched_for_beside_the_computed_guard() {
    let out = tempfile::tempdir().unwrap();
    let report = figures(&["T5"], out.path(), None).remove(0);
    if skipped(&report) {
        return;
    }
    let rows = rows(out.path(), "T5");
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert!(number(row, "computed_us") > 0.0);
    // Each step is kept as dead time, drops, overlaps and short windows; the smallest clean one is what was found.
    let steps: Vec<(f64, String)> = row["tried_us_port_drops_overlaps_short"]
        .split(' ')
        .map(|step| {
            let (us, rest) = step.split_once(':').unwrap();
            (us.parse().unwrap(), rest.to_owned())
        })
        .collect();
    let clean = steps
        .iter()
        // Of so few windows as a quick search has, one may be short.
        .filter(|(_, rest)| rest == "0/0/0" || rest == "0/0/1")
        .map(|(us, _)| *us)
        .fold(f64::NAN, f64::min);
    let smallest: f64 = row["smallest_us"].parse().unwrap_or(f64::NAN);
    assert!(
        smallest == clean || smallest.is_nan() && clean.is_nan(),
        "{row:?}"
    );
    assert!(number(row, "sessions") as usize > steps.len(), "{row:?}");
}

#[test]
fn the_gain_of_a_faster_path_is_told_with_its_cpu_time() {
    let out = tempfile::tempdir().unwrap();
    let report = figures(&["T6"], out.path(), None).remove(0);
    assert_eq!(
        report["skipped"],
        serde_json::json!([]),
        "loopback is enough"
    );
    let rows = rows(out.path(), "T6");
    let paths: Vec<_> = rows.iter().map(|row| row["path"].as_str()).collect();
    assert_eq!(paths, ["plain", "GSO + GRO"]);
    for row in &rows {
        for name in [
            "received",
            "rate_bps",
            "sender_cpu_ms_per_gb",
            "receiver_cpu_ms_per_gb",
        ] {
            assert!(number(row, name) > 0.0, "{name}: {row:?}");
        }
    }
    let last = report["comparison"].as_array().unwrap().last().unwrap();
    assert!(
        last.as_str()
            .unwrap()
            .starts_with("published: 12 to 41 Gb/s"),
        "{last}"
    );
}

#[test]
fn travel_time_of_each_window_and_a_panel_of_all_are_two_figures_of_the_same_sessions() {
    let out = tempfile::tempdir().unwrap();
    let reports = figures(&["T1", "T4"], out.path(), None);
    if skipped(&reports[0]) {
        return;
    }
    let windows = rows(out.path(), "T1");
    assert_eq!(windows, rows(out.path(), "T4"));
    let mut ends: BTreeMap<&str, f64> = BTreeMap::new();
    for row in &windows {
        assert_eq!(
            number(row, "sent"),
            number(row, "received") + number(row, "lost"),
            "{row:?}"
        );
        if number(row, "received") == 0.0 {
            continue;
        }
        let [least, mean, most] =
            ["min", "mean", "max"].map(|name| number(row, &format!("travel_us_{name}")));
        assert!(least <= mean && mean <= most, "{row:?}");
        assert!((number(row, "jitter_us") - (most - least)).abs() < 1e-6);
        // A window begins after the same sender's last one has ended.
        let end = ends.insert(&row["sender"], number(row, "last_sent_us"));
        assert!(
            end.unwrap_or(-1.0) < number(row, "first_sent_us"),
            "{row:?}"
        );
    }
    // 300 ms in turns of 7.5 ms, of which no more is lost than this host makes late.
    assert_eq!(ends.len(), 3);
    assert!(windows.len() > 60, "{}", windows.len());
    let travel = fs::read_to_string(out.path().join("T1.svg")).unwrap();
    for told in [
        "sender 2",
        "Jitter",
        "SARAO with PTP",
        "from kernel to kernel",
    ] {
        assert!(travel.contains(told), "{told}");
    }
    let panel = fs::read_to_string(out.path().join("T4.svg")).unwrap();
    for told in [
        "Packets that came",
        "Packets that are missing",
        "Windows by the packets in their overlaps",
        "Travel time",
        "Rate while a window is sent",
        "first packet to its last",
    ] {
        assert!(panel.contains(told), "{told}");
    }
    let page = fs::read_to_string(out.path().join("index.html")).unwrap();
    assert!(page.contains("T1.svg") && page.contains("T4.svg"));
}

#[test]
fn every_packet_of_the_first_30_ms_is_a_row_and_two_dots() {
    let out = tempfile::tempdir().unwrap();
    let report = figures(&["T3"], out.path(), None).remove(0);
    if skipped(&report) {
        return;
    }
    let packets = rows(out.path(), "T3");
    assert!(packets.len() > 500, "{}", packets.len());
    let mut seen = std::collections::BTreeSet::new();
    for row in &packets {
        assert!(seen.insert((row["sender"].clone(), row["packet"].clone())));
        assert!((0.0..30_000.0).contains(&number(row, "sent_us")), "{row:?}");
        let travel = number(row, "came_us") - number(row, "sent_us");
        assert!((travel - number(row, "travel_us")).abs() < 1e-2, "{row:?}");
    }
    // A dot is a line of no length: of each packet one above and one below; some come after the picture's end.
    let svg = fs::read_to_string(out.path().join("T3.svg")).unwrap();
    let dots = svg.matches("h0").count() - 3;
    let late = packets
        .iter()
        .filter(|row| number(row, "came_us") > 30_000.0)
        .count();
    assert_eq!(dots, 2 * packets.len() - late);
    assert!(svg.contains(">sent<") && svg.contains(">came<"));
}

/// Also where the programs that make a port are not there.
#[test]
fn where_no_port_can_be_made_the_figure_says_why() {
    let out = tempfile::tempdir().unwrap();
    let empty = tempfile::tempdir().unwrap();
    let ids = ["T1", "T2", "T3", "T4", "T5"];
    let reports = figures(&ids, out.path(), Some(empty.path()));
    assert_eq!(reports.len(), ids.len());
    for report in &reports {
        let skipped = report["skipped"].as_array().unwrap();
        assert_eq!(skipped.len(), 1, "{report}");
        assert_eq!(skipped[0]["what"], "a switch port");
        let reason = skipped[0]["reason"].as_str().unwrap();
        assert!(reason.contains("setpriv"), "{reason}");
        assert_eq!(report["parquet"], serde_json::Value::Null);
    }
}
