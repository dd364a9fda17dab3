//! The test bench of time-division UDP: it makes hosts and a switch port, compares schemes, and leaves nothing behind.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and says why it skips"
)]

mod rig;

use rig::{children_of, forebay, may_have_network, number, signal, start, wait_for};

#[test]
fn paced_slots_carry_what_incast_loses_and_every_account_closes() {
    if !may_have_network() {
        return;
    }
    let mut command = forebay();
    command.args([
        "tdm",
        "bench",
        "--senders",
        "3",
        "--port-rate",
        "100M",
        "--port-buffer",
        "64K",
        "--window",
        "10ms",
    ]);
    command.args(["--duration", "300ms", "--repeat", "1", "--format", "json"]);
    let report = start(&mut command).end().json_of(0);
    let schemes = report["schemes"].as_array().unwrap();
    let names: Vec<_> = schemes
        .iter()
        .map(|scheme| scheme["scheme"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["incast", "slots", "slots-paced"]);
    for scheme in schemes {
        for key in [
            "window_ns",
            "guard_ns",
            "port_utilisation",
            "goodput_bps",
            "window_lateness_ns_p99",
            "clock_error_ns_p99",
            "overlaps",
        ] {
            assert!(scheme[key].is_number(), "{key} in {scheme}");
        }
        let lost: u64 = scheme["lost"]
            .as_object()
            .unwrap()
            .values()
            .map(|lost| lost.as_u64().unwrap())
            .sum();
        assert_eq!(
            number(scheme, "sent"),
            number(scheme, "received") + lost,
            "{scheme}"
        );
        assert_eq!(number(scheme, "residual_items"), 0);
        assert_eq!(number(scheme, "senders"), 3);
    }
    let lost = |at: usize| number(&schemes[at], "sent") - number(&schemes[at], "received");
    // 64 KB hold 5 ms of the port, and three windows of 10 ms come at once: most of that has no room, whatever else the machine does.
    assert!(lost(0) * 3 > number(&schemes[0], "sent"), "{}", schemes[0]);
    assert!(
        number(&schemes[0], "port_drops") >= lost(0) * 9 / 10,
        "the port's own count: {}",
        schemes[0]
    );
    assert!(lost(2) < lost(0) / 4, "{report}");
}

#[test]
fn bursts_are_given_ahead_where_a_queue_keeps_their_launch_times_and_nowhere_else() {
    if !may_have_network() {
        return;
    }
    let bench = |queue: &[&str]| {
        let mut command = forebay();
        command.args(["tdm", "bench", "--senders", "2", "--port-rate", "50M"]);
        command.args(["--window", "20ms", "--schemes", "slots-paced"]);
        command.args(["--duration", "300ms", "--repeat", "1", "--format", "json"]);
        start(command.args(queue)).end()
    };
    let without = bench(&[]).json_of(0);
    assert_eq!(number(&without["schemes"][0], "launches_kept"), 0);

    let with = bench(&["--sender-queue", "fq"]);
    if with.code() == Some(2) && with.stderr.contains("which this kernel may not have") {
        forebay_testing::skip!(
            "this kernel has no queue fq (sch_fq); ./x test-rdma boots one that has it"
        );
        return;
    }
    let with = with.json_of(0);
    let scheme = &with["schemes"][0];
    assert_eq!(number(scheme, "launches_kept"), 2, "{with}");
    assert_eq!(number(scheme, "residual_items"), 0);
    assert!(number(scheme, "received") > 0);
}

#[test]
fn nothing_is_left_of_a_bench_that_is_killed() {
    if !may_have_network() {
        return;
    }
    let bench = start(forebay().args([
        "tdm",
        "bench",
        "--senders",
        "3",
        "--duration",
        "30s",
        "--repeat",
        "1",
    ]));
    // Holders of five namespaces, and a session's processes.
    let family = wait_for("the hosts and a session", || {
        let children = children_of(bench.pid());
        (children.len() >= 8).then_some(children)
    });
    assert!(signal("KILL", bench.pid()));
    drop(bench.end());
    wait_for("the end of all of them", || {
        let alive = family.iter().any(|pid| rig::is_alive(*pid));
        (!alive).then_some(())
    });
}
