//! Debian's Prometheus reads the chain of link readout as `deploy/` says, and every panel of the dashboard has something to show.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and one that is skipped says why"
)]

mod rig;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forebay_wire::felix::{Elink, Fid};
use rig::{Run, forebay, free_ports, number, signal, start, wait_for};
use serde_json::Value;

/// Ports in `deploy/prometheus.yml`: evb, card, to-host, subscriber, to-flx.
const PORTS: [u16; 5] = [9400, 9401, 9402, 9403, 9404];
/// What Grafana makes of it with a scrape each second is 4 s and more; a loaded host may miss some.
const RATE_INTERVAL: &str = "20s";

fn deploy(name: &str) -> PathBuf {
    forebay_testing::root().join("deploy").join(name)
}

/// Prometheus itself; killed when it is dropped.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of the answer to a GET.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    // HTTP/1.0: the answer comes in one piece and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some(body.to_owned())
}

impl Prometheus {
    /// With the file of `deploy/`, in which the ports alone are others.
    fn start(directory: &Path, first: u16, port: u16) -> Self {
        let mut text = fs::read_to_string(deploy("prometheus.yml")).unwrap();
        for (old, new) in PORTS.into_iter().zip(first..) {
            let targets = [old, new].map(|port| format!("[\"127.0.0.1:{port}\"]"));
            assert!(text.contains(&targets[0]), "{old} in deploy/prometheus.yml");
            text = text.replace(&targets[0], &targets[1]);
        }
        let file = directory.join("prometheus.yml");
        fs::write(&file, text).unwrap();
        let log = fs::File::create(directory.join("prometheus.log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, port }
    }

    /// All samples of an expression; none while there is no answer.
    fn query(&self, expression: &str) -> Option<Vec<f64>> {
        let encoded: String = expression
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
                _ => format!("%{byte:02X}"),
            })
            .collect();
        let body = get(self.port, &format!("/api/v1/query?query={encoded}"))?;
        let answer: Value = serde_json::from_str(&body).ok()?;
        assert_ne!(answer["status"], "error", "{expression}: {answer}");
        let samples = answer["data"]["result"].as_array()?.iter();
        samples
            .map(|sample| sample["value"][1].as_str()?.parse().ok())
            .collect()
    }

    /// The one value of an expression, once there is one.
    fn one(&self, expression: &str) -> f64 {
        wait_for(expression, || match self.query(expression)?[..] {
            [value] => Some(value),
            _ => None,
        })
    }
}

/// Whether a program of Debian's package is there; says so when not.
fn is_there(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_err() {
        forebay_testing::skip!("there is no `{program}`; install Debian's package prometheus");
    }
    found.is_ok()
}

/// Every expression of the dashboard, with the title of its panel.
fn expressions() -> Vec<(String, String)> {
    let text = fs::read_to_string(deploy("grafana/forebay-readout.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            all.push((
                title.to_owned(),
                expression.replace("$__rate_interval", RATE_INTERVAL),
            ));
        }
    }
    all
}

/// The sum of a family at one of the doors.
fn sum_at(port: u16, name: &str, with: &str) -> f64 {
    let page = get(port, "/metrics").unwrap();
    let samples = page.lines().filter(|line| {
        let end = line.strip_prefix(name);
        end.is_some_and(|end| end.starts_with(['{', ' '])) && line.contains(with)
    });
    samples
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}

/// Messages for E-link 0 of the card of the chain: to-flx with its metrics at that port, and the sender.
fn to_the_front_ends(directory: &Path, metrics: u16) -> [Run; 2] {
    let address = format!("shm://prometheus-{}", std::process::id());
    let text = format!(
        "[toflx]\naddress = {address:?}\ndirectory = {:?}\nmetrics = \"127.0.0.1:{metrics}\"\ncard_wait_s = 30\n[[devices]]\nsocket = {:?}\n",
        directory.join("toflx"),
        directory.join("chain/card0.sock"),
    );
    let file = directory.join("toflx.toml");
    fs::write(&file, text).unwrap();
    let tag = Fid::to_host(0, 0, Elink::of_link(0).unwrap()).from_host();
    let mut sender = forebay();
    sender.args(["net", "send", &address, "--input", "generate"]);
    sender.args(["--rate", "100", "--count", "1000000", "--tag"]);
    let toflx = start(forebay().arg("toflx").arg(file).args(["--format", "json"]));
    [toflx, start(sender.arg(tag.0.to_string()))]
}

#[test]
fn every_panel_of_the_dashboard_has_data_and_the_values_are_those_of_the_chain() {
    if !is_there("prometheus") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let first = free_ports(6);
    let (card, tohost, port) = (first + 1, first + 2, first + 5);
    let mut command = forebay();
    command
        .args(["demo", "tohost", "--format", "json", "--trigger-hz", "5000"])
        .args(["--duration", "10m", "--metrics"])
        .arg(format!("127.0.0.1:{card}"))
        .arg("--out")
        .arg(directory.path().join("chain"));
    let run = start(&mut command);
    let [toflx, _sender] = to_the_front_ends(directory.path(), first + 4);
    let prometheus = Prometheus::start(directory.path(), first, port);
    for job in ["card", "tohost", "swrod", "toflx"] {
        wait_for(job, || {
            let up = prometheus.query(&format!("up{{job=\"{job}\"}}"))?;
            (up == [1.0]).then_some(())
        });
    }
    let panels = expressions();
    assert!(panels.len() >= 30, "{}", panels.len());
    for (title, expression) in panels {
        let what = format!("{title}: {expression}");
        let values = wait_for(&what, || {
            let values = prometheus.query(&expression)?;
            // No number: nothing was divided by nothing yet.
            let has_data = !values.is_empty() && values.iter().all(|value| !value.is_nan());
            has_data.then_some(values)
        });
        assert!(
            values.iter().all(|value| *value >= 0.0),
            "{what}: {values:?}"
        );
    }

    // 12 links, each an E-link, and 4 DMA buffers of 64 MiB in blocks of 4 KiB.
    let one = |expression: &str| prometheus.one(expression);
    assert_eq!(one("count(forebay_elink_chunks_total)"), 12.0);
    assert_eq!(one("sum(forebay_dma_capacity_blocks)"), 4.0 * 16_384.0);
    assert_eq!(
        one("count(count by (publisher) (forebay_held_items{job=\"tohost\",place=\"send\"}))"),
        4.0
    );
    let size = "sum(forebay_bytes_total{job=\"tohost\",place=\"publish\",unit=\"chunks\",direction=\"in\"}) / sum(forebay_items_total{job=\"tohost\",place=\"publish\",unit=\"chunks\",direction=\"in\"})";
    assert_eq!(one(size), 16.0);
    assert_eq!(one("sum(forebay_bad_payload_total)"), 0.0);
    assert_eq!(one("count(forebay_elink_messages_total)"), 1.0);

    // Prometheus has what the doors said before, and the end is at least that.
    let triggers = sum_at(card, "forebay_triggers_total", "");
    let chunks = sum_at(tohost, "forebay_elink_chunks_total", "");
    let latencies = "forebay_trigger_latency_seconds_count";
    let measured = sum_at(first + 3, latencies, "");
    assert!(triggers > 0.0 && chunks > 0.0 && measured > 0.0);
    let at_least = |expression: &str, least: f64| {
        wait_for(expression, || {
            let [value] = prometheus.query(expression)?[..] else {
                return None;
            };
            (value >= least).then_some(value)
        })
    };
    let triggers = at_least("sum(forebay_triggers_total)", triggers);
    let chunks = at_least("sum(forebay_elink_chunks_total)", chunks);
    let received = at_least("sum(forebay_chunks_total{job=\"swrod\"})", 1.0);
    let measured = at_least(latencies, measured);

    assert!(signal("INT", run.pid()));
    let summary = run.end().json_of(0);
    assert_eq!(number(&summary, "residual_items"), 0);
    let messages = toflx.end().json_of(0);
    assert_eq!(number(&messages, "residual_items"), 0, "{messages}");
    assert!(number(&messages, "written") > 0, "{messages}");
    assert!(number(&summary, "triggers") as f64 >= triggers);
    assert!(number(&summary, "chunks_published") as f64 >= chunks);
    assert!(number(&summary, "chunks_received") as f64 >= received);
    let latency = &summary["latency_ns"];
    assert!(number(latency, "count") as f64 >= measured, "{latency}");
    // One of 256 triggers, on each link; all that were given came.
    let expected = number(&summary, "triggers").div_ceil(256) * 12;
    assert_eq!(
        number(latency, "count") + number(latency, "unknown"),
        expected
    );
    assert_eq!(number(latency, "unknown"), 0);
    let percentiles = ["min", "p50", "p90", "p99", "p999"].map(|key| number(latency, key));
    assert!(percentiles[0] > 0 && percentiles.is_sorted(), "{latency}");
}

#[test]
fn the_file_for_prometheus_is_what_its_own_checker_accepts() {
    if !is_there("promtool") {
        return;
    }
    let checked = Command::new("promtool")
        .args(["check", "config"])
        .arg(deploy("prometheus.yml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said}");
}
