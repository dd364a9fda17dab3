//! The test bench of the multiplexer: hosts, the daemon, clients of a user without rights, load, and plain sockets beside them; the account of the whole way closes, and nothing is left behind.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and says why it skips"
)]

mod rig;

use rig::{children_of, forebay, may_have_network, number, signal, start, wait_for};
use serde_json::Value;

fn bench(args: &[&str]) -> Value {
    let mut command = forebay();
    command
        .args(["mux", "bench", "--format", "json"])
        .args(args);
    start(&mut command).end().json_of(0)
}

fn assert_keys(of: &Value, keys: &[&str]) {
    for key in keys {
        assert!(!of[*key].is_null(), "{key} in {of}");
    }
}

/// What each hop of a client's way counted, and what was lost between.
fn assert_whole(client: &Value) {
    let counts = &client["counts"];
    let hops = |keys: [&str; 2]| keys.map(|key| number(counts, key));
    let [gave, received] = hops(["daemon_gave", "client_received"]);
    assert!(gave >= received, "{client}");
    let [sent, asked] = hops(["client_sent", "daemon_asked"]);
    assert_eq!(sent, asked, "{client}");
    assert!(number(counts, "generator_sent") > 0, "{client}");
}

#[test]
fn an_echo_is_answered_beside_sockets_and_the_whole_way_is_accounted_for() {
    if !may_have_network() {
        return;
    }
    let record = bench(&[
        "--workload",
        "echo",
        "--clients",
        "2",
        "--policy",
        "round-robin",
        "--load-bps",
        "2M",
        "--duration",
        "500ms",
    ]);
    assert_keys(
        &record,
        &[
            "record_version",
            "cpu_fraction",
            "cpu_fraction_soaker",
            "packets_per_cpu_second",
            "signals_per_packet",
            "baseline",
        ],
    );
    assert_eq!(number(&record, "residual_items"), 0, "{record}");
    let clients = record["clients"].as_array().unwrap();
    let names: Vec<_> = clients
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["A", "B"]);
    for client in clients {
        assert_keys(
            client,
            &["requested_bps", "achieved_bps", "sojourn_ns_max", "drops"],
        );
        assert_keys(&client["rtt_ns"], &["p50", "p99", "p999"]);
        assert_eq!(client["requested_bps"], 2e6);
        assert!(client["achieved_bps"].as_f64().unwrap() > 0.0, "{client}");
        assert_whole(client);
    }
    let sockets = &record["baseline"];
    assert_keys(sockets, &["what", "cpu_fraction", "rtt_ns", "clients"]);
    assert_eq!(number(sockets, "residual_items"), 0, "{sockets}");
    assert!(sockets["achieved_bps"].as_f64().unwrap() > 0.0, "{sockets}");
}

#[test]
fn clients_without_a_stack_have_rates_and_limits_of_whole_frames() {
    if !may_have_network() {
        return;
    }
    let record = bench(&[
        "--raw",
        "--clients",
        "2",
        "--policy",
        "token-bucket",
        "--load-bps",
        "4M",
        "--client-limit",
        "B=1M",
        "--size",
        "1000",
        "--duration",
        "2s",
    ]);
    assert_eq!(record["is_raw"], true);
    assert_eq!(number(&record, "residual_items"), 0, "{record}");
    let clients = record["clients"].as_array().unwrap();
    clients.iter().for_each(assert_whole);
    // Frames of 1,000 bytes: 500 in a second are asked of each. What B may send is whole frames, and once what its bucket has at the begin (`burst_bytes`).
    let mut sent = clients
        .iter()
        .map(|it| number(&it["counts"], "generator_sent"));
    assert!(sent.all(|sent| (990..=1_001).contains(&sent)), "{record}");
    let back = number(&clients[1]["counts"], "daemon_sent") as f64;
    let right = 65_536.0 / 1e3 + 1e6 / 8e3 * record["sending_s"].as_f64().unwrap();
    assert!((back - right).abs() < 7.0, "{right}: {record}");
    let of_a = clients[0]["achieved_bps"].as_f64().unwrap();
    assert!((3.9e6..=4.1e6).contains(&of_a), "{record}");
    let sockets = &record["baseline"];
    assert_eq!(number(sockets, "residual_items"), 0, "{record}");
    let theirs = sockets["achieved_bps"].as_f64().unwrap();
    assert!((7.8e6..=8.2e6).contains(&theirs), "{record}");
}

#[test]
fn what_waits_in_a_slow_wire_is_waited_for_and_is_no_more_than_it_takes() {
    if !may_have_network() {
        return;
    }
    // A port of the switch holds 512 KiB, which takes 2 s of this wire: four times as long as load is made.
    let mut args = vec!["--clients", "1", "--wire-rate", "2M", "--load-bps", "20M"];
    args.extend(["--duration", "500ms"]);
    let record = bench(&args);
    assert_eq!(number(&record, "residual_items"), 0, "{record}");
    assert_whole(&record["clients"][0]);
    let theirs = &record["baseline"];
    for of in [&record, theirs] {
        let achieved = of["achieved_bps"].as_f64().unwrap();
        // The bucket of the port has 64 KiB at the begin.
        assert!((1.6e6..=2.3e6).contains(&achieved), "{of}");
    }
    let rtt_ns = &record["clients"][0]["rtt_ns"]["p99"];
    assert!(rtt_ns.as_f64().unwrap() > 1e9, "{rtt_ns}");
}

#[test]
fn what_a_limit_and_a_link_leave_of_clients_that_work_hard_is_lost_by_name() {
    if !may_have_network() {
        return;
    }
    let mut args = vec!["--workload", "heavy", "--clients", "2", "--duration", "1s"];
    // A has more of the link than it asks for; B may send a twentieth of what it asks for.
    args.extend(["--policy", "priority", "--link-rate", "8M"]);
    args.extend(["--load-bps", "4M", "--client-limit", "B=200k"]);
    args.extend(["--sojourn-max", "B=20000", "--no-baseline"]);
    let record = bench(&args);
    assert_eq!(number(&record, "residual_items"), 0, "{record}");
    let clients = record["clients"].as_array().unwrap();
    clients.iter().for_each(assert_whole);
    let [a, b] = [0, 1].map(|at| &clients[at]);
    let late = number(&b["drops"], "mux_transmit.sojourn");
    assert!(late > 0, "{b}");
    assert!(a["drops"]["mux_transmit.sojourn"].is_null(), "{a}");
    let counts = &b["counts"];
    let [asked, sent] = ["daemon_asked", "daemon_sent"].map(|key| number(counts, key));
    assert!(asked - sent >= late, "{b}");
    assert!(sent < asked / 2, "{b}");
}

#[test]
fn clients_that_send_by_themselves_are_counted_on_a_wire_with_a_rate() {
    if !may_have_network() {
        return;
    }
    let record = bench(&[
        "--workload",
        "tx-initiated",
        "--clients",
        "1",
        "--policy",
        "window",
        "--client-limit",
        "A=4M",
        "--load-bps",
        "2M",
        "--duration",
        "1s",
        "--wire-rate",
        "100M",
        "--no-baseline",
    ]);
    assert_eq!(number(&record, "residual_items"), 0, "{record}");
    assert!(record["baseline"].is_null());
    let client = &record["clients"][0];
    assert_eq!(client["limit_bps"], 4_000_000);
    // As many as the rate comes to in a second.
    let asked = 2_000_000 / 8 / 1472;
    assert_eq!(number(&client["counts"], "client_datagrams_sent"), asked);
    assert_whole(client);
}

#[test]
fn ctrl_c_closes_the_books_and_leaves_nothing() {
    if !may_have_network() {
        return;
    }
    let mut command = forebay();
    command.args([
        "mux",
        "bench",
        "--format",
        "json",
        "--load-bps",
        "1M",
        "--duration",
        "10m",
    ]);
    let bench = start(&mut command);
    // Holders of two namespaces, a daemon, two clients and a generator.
    let family = wait_for("a session", || {
        let children = children_of(bench.pid());
        (children.len() >= 6).then_some(children)
    });
    assert!(signal("INT", bench.pid()));
    let record = bench.end().json_of(0);
    assert_eq!(record["interrupted"], true);
    assert_eq!(number(&record, "residual_items"), 0, "{record}");
    assert!(!family.iter().any(|pid| rig::is_alive(*pid)));
}

#[test]
fn nothing_is_left_of_a_bench_that_is_killed() {
    if !may_have_network() {
        return;
    }
    let mut command = forebay();
    command.args(["mux", "bench", "--load-bps", "1M", "--duration", "10m"]);
    let bench = start(&mut command);
    let family = wait_for("a session", || {
        let children = children_of(bench.pid());
        (children.len() >= 6).then_some(children)
    });
    assert!(signal("KILL", bench.pid()));
    drop(bench.end());
    wait_for("the end of all of them", || {
        let alive = family.iter().any(|pid| rig::is_alive(*pid));
        (!alive).then_some(())
    });
}

#[test]
fn what_cannot_be_is_told() {
    for (args, said) in [
        (&["--client-limit", "C=100M"][..], "no client C"),
        (&["--wire-rate", "100k"], "1M at least"),
        (
            &["--clients", "2", "--receive-buffers", "31"],
            "the clients are guaranteed 32 of them",
        ),
        (
            &["--guarantee", "B=600"],
            "its queue has 512 frames; give 512 or less, or --rx-queue B=600",
        ),
        (&["--policy", "fair"], "signalled"),
        (&["--rx-queue", "0"], "1 to 65536"),
        (&["--duration", "1ms"], "100ms"),
    ] {
        let mut command = forebay();
        let ended = start(command.args(["mux", "bench"]).args(args)).end();
        assert_eq!(ended.code(), Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{args:?}: {}", ended.stderr);
    }
}
