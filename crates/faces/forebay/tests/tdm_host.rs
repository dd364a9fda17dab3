//! What time-division UDP has of its host, and what it says of it: clocks, priority, metrics.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one that is skipped says why"
)]

mod rig;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rig::{Run, audit, forebay, scrape, signal, start, wait_for};
use serde_json::Value;

fn receive(address: &str, more: &[&str]) -> Run {
    let mut command = forebay();
    command.args(["tdm", "receive", "--format", "json", "--senders", "1"]);
    command.args([
        "--bind",
        address,
        "--silence",
        "1500ms",
        "--link-rate",
        "200M",
    ]);
    start(command.args(more))
}

fn send(address: &str, more: &[&str]) -> Command {
    let mut command = forebay();
    command.args(["tdm", "send", address, "--format", "json", "--id", "north"]);
    command.args(["--wait", "20s"]).args(more);
    command
}

fn address() -> String {
    format!("127.0.0.1:{}", rig::free_ports(1))
}

#[test]
fn the_summary_says_what_the_clock_rests_on_and_why() {
    let address = address();
    let receiver = receive(&address, &[]);
    let sent = start(&mut send(&address, &["--bytes", "300000", "--no-realtime"]));
    let (sent, received) = (sent.end().json_of(0), receiver.end());
    received.json_of(0);
    let clock = &sent["clock"];
    let why = clock["base_why"].as_str().unwrap();
    match (
        clock["base"].as_str().unwrap(),
        clock["disciplined"].as_bool().unwrap(),
    ) {
        ("exchanges and disciplined wall clocks", true) => assert!(why.starts_with("both hosts'")),
        ("exchanges", true) => assert!(why.starts_with("both"), "one host has one clock: {why}"),
        ("exchanges", false) => {
            assert!(why.contains("adjtimex") && why.contains("chronyd"), "{why}")
        }
        other => panic!("{other:?}: {why}"),
    }
    let hardware = clock["hardware"].as_str().unwrap();
    assert!(
        hardware.starts_with("lo has no hardware clock"),
        "{hardware}"
    );
    assert!(
        received.stderr.contains("clock "),
        "the plan's reasons: {}",
        received.stderr
    );
}

#[test]
fn launch_times_that_no_queue_keeps_are_not_used_and_the_summary_says_so() {
    let address = address();
    let receiver = receive(&address, &[]);
    let sent = start(&mut send(&address, &["--bytes", "300000"]))
        .end()
        .json_of(0);
    receiver.end().json_of(0);
    let launches = &sent["launches"];
    assert_eq!(launches["kept"], false, "loopback has no queue: {launches}");
    let why = launches["why_not"].as_str().unwrap();
    for part in ["before its launch time", "tc qdisc replace", "fq"] {
        assert!(why.contains(part), "{part}: {why}");
    }
}

/// Whether a process keeps the host's CPUs awake.
fn keeps_awake(pid: u32) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut links = open.into_iter().flatten().flatten();
    links.any(|link| fs::read_link(link.path()).is_ok_and(|to| to.ends_with("cpu_dma_latency")))
}

#[test]
fn cpus_are_kept_awake_during_sessions_alone_and_not_where_they_may_sleep() {
    if fs::OpenOptions::new()
        .write(true)
        .open("/dev/cpu_dma_latency")
        .is_err()
    {
        forebay_testing::skip!(
            "/dev/cpu_dma_latency cannot be opened; that needs root, and no container"
        );
        return;
    }
    let address = address();
    // 20 MB take 0.8 s: long enough to look.
    let bytes = ["--bytes", "20000000", "--repeat"];
    let sender = start(&mut send(&address, &bytes));
    let receiver = receive(&address, &[]);
    wait_for("both of a session", || {
        (keeps_awake(sender.pid()) && keeps_awake(receiver.pid())).then_some(())
    });
    receiver.end().json_of(0);
    wait_for("a sender that waits", || {
        (!keeps_awake(sender.pid())).then_some(())
    });

    let receiver = receive(&address, &["--cpus-may-sleep"]);
    wait_for("the next session", || {
        keeps_awake(sender.pid()).then_some(())
    });
    assert!(!keeps_awake(receiver.pid()));
    receiver.end().json_of(0);
    assert!(signal("INT", sender.pid()));
    let told: Value = sender.end().json();
    assert_eq!(told["cpus_may_sleep"], Value::Null);
}

/// The binary where everybody may run it.
fn for_everybody(directory: &Path) -> PathBuf {
    let copy = directory.join("forebay");
    fs::copy(forebay().get_program(), &copy).unwrap();
    for path in [directory, &copy] {
        let mut rights = fs::metadata(path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
        fs::set_permissions(path, rights).unwrap();
    }
    copy
}

#[test]
fn a_real_time_priority_that_is_refused_is_told_with_its_remedy_and_the_run_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let address = address();
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "prlimit",
        "--rtprio=0",
    ]);
    let tried = Command::new("setpriv")
        .args(["--reuid=65534", "true"])
        .status();
    if !tried.is_ok_and(|status| status.success()) {
        forebay_testing::skip!(
            "setpriv of util-linux, and the right to become another user, are needed"
        );
        return;
    }
    let receiver = receive(&address, &[]);
    command.arg(for_everybody(directory.path()));
    command.args(send(&address, &["--bytes", "300000"]).get_args());
    let sent = start(&mut command).end();
    let received = receiver.end().json_of(0);
    let told = sent.json_of(0);
    assert_eq!(told["end"], "ended", "{told}");
    assert_eq!(received["by_sender"][0]["real_time"], false);
    for part in [
        "windows may begin late",
        "SCHED_FIFO",
        "priority 40",
        "CAP_SYS_NICE",
    ] {
        assert!(sent.stderr.contains(part), "{part}: {}", sent.stderr);
    }
}

/// Names of metrics in the expressions of the dashboard, with the place that each asks for.
fn shown() -> BTreeSet<(String, Option<String>)> {
    let path = forebay_testing::root().join("deploy/grafana/forebay-tdm.json");
    let text = fs::read_to_string(path).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut names = BTreeSet::new();
    for target in targets {
        let expression = target["expr"].as_str().unwrap();
        for (at, _) in expression.match_indices("forebay_") {
            let (name, rest) = expression[at..].split_once('{').unwrap();
            let labels = rest.split('}').next().unwrap();
            let place = labels
                .split("place=")
                .nth(1)
                .map(|place| place.split('"').nth(1).unwrap());
            names.insert((name.to_owned(), place.map(str::to_owned)));
        }
    }
    names
}

#[test]
fn every_panel_of_the_dashboard_has_what_it_shows() {
    let directory = tempfile::tempdir().unwrap();
    let (address, channel) = (address(), format!("shm://tdm-host-{}", std::process::id()));
    let ports = rig::free_ports(2);
    let doors = [ports, ports + 1].map(|port| format!("127.0.0.1:{port}"));
    let out = directory.path().join("sender");
    let receiver = receive(&address, &["--metrics", &doors[0]]);
    let more = [
        "--no-realtime",
        "--metrics",
        &doors[1],
        "--out",
        out.to_str().unwrap(),
    ];
    let sender = start(send(&address, &more).args(["--input", &channel, "--heaps"]));
    let mut giver = forebay();
    giver.args([
        "net", "send", &channel, "--input", "generate", "--rate", "500",
    ]);
    let giver = start(&mut giver);
    let pages = wait_for("packets on both pages", || {
        let is_open = |door: &String| std::net::TcpStream::connect(door).is_ok();
        let pages = doors
            .iter()
            .all(is_open)
            .then(|| doors.each_ref().map(|door| scrape(door)))?;
        let is_counted = |page: &String| {
            page.lines().any(|line| {
                line.starts_with("forebay_items_total")
                    && ["place=\"windows\"", "place=\"send\""]
                        .iter()
                        .any(|place| line.contains(place))
                    && line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() > 0.0
            })
        };
        pages.iter().all(is_counted).then_some(pages)
    });
    let names = shown();
    assert!(names.len() >= 12, "{names:?}");
    for (name, place) in &names {
        let place = place.as_ref().map(|place| format!("place=\"{place}\""));
        let has = |line: &str| {
            let rest = line.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.starts_with('{'))
                && place.as_ref().is_none_or(|place| line.contains(place))
        };
        assert!(
            pages.iter().any(|page| page.lines().any(has)),
            "{name} {place:?} is on neither page"
        );
    }
    assert!(rig::signal("INT", giver.pid()));
    giver.end();
    let sent = sender.end().json_of(0);
    rig::stream::assert_nothing_left(&sent);
    receiver.end().json_of(0);
    assert_eq!(audit(&out).code(), Some(0));
}

#[test]
fn what_a_sender_leaks_is_its_residual() {
    for (hop, unit) in [("send", "packets"), ("heaps", "messages")] {
        let directory = tempfile::tempdir().unwrap();
        let (address, out) = (address(), directory.path().join("sender"));
        let channel = format!("shm://tdm-leak-{hop}-{}", std::process::id());
        let receiver = receive(&address, &[]);
        let mut sender = send(&address, &["--no-realtime", "--out"]);
        sender.arg(&out).args(["--input", &channel, "--heaps"]);
        let sender = start(sender.env("FOREBAY_LEAK", format!("{hop}:3")));
        let (lines, text) = (directory.path().join("lines"), "a line\n".repeat(500));
        fs::write(&lines, text).unwrap();
        let mut giver = forebay();
        giver.args(["net", "send", &channel, "--format", "json", "--input"]);
        start(giver.arg(&lines)).end().json_of(0);
        let sent = sender.end().json_of(1);
        assert_eq!(
            (&sent["residual_items"], &sent["left_items"]),
            (&3.into(), &0.into()),
            "{sent}"
        );
        receiver.end().json_of(0);
        rig::offenders::assert_leaked(&out, hop, unit, 3);
    }
}
