//! What is lost below the sockets is found by its name in a run's record and in `forebay audit`, in network namespaces of the tests' own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one that is skipped says why"
)]

mod rig;

use std::path::Path;
use std::process::Command;

use rig::{Ended, forebay, start};
use serde_json::Value;

/// A script's own way to say that this host cannot do what it needs.
const SKIP: i32 = 77;

/// Runs `script` in a network namespace that is gone with it; none where that is not allowed.
fn in_namespace(script: &str, out: &Path) -> Option<Ended> {
    let mut command = Command::new("unshare");
    let lines = format!("ip link set lo up || exit {SKIP}\n{script}");
    command.args(["--net", "bash", "-c", &lines]);
    command
        .env("FOREBAY", forebay().get_program())
        .env("OUT", out);
    if !rig::may_have_network() {
        return None;
    }
    let ended = start(&mut command).end();
    if ended.code() == Some(SKIP) {
        forebay_testing::skip!("this kernel has no queue tbf (sch_tbf) for the loopback interface");
        return None;
    }
    Some(ended)
}

fn record(out: &Path) -> Value {
    let text = std::fs::read(out.join("run.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// The number behind `word` in `text`.
fn number_behind(text: &str, word: &str) -> u64 {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    words.find(|found| *found == word).unwrap();
    let number = words.find(|found| !found.is_empty()).unwrap();
    number.parse().unwrap()
}

#[test]
fn packets_that_a_queue_drops_are_named_in_the_record_and_the_audit() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let script = format!(
        "tc qdisc add dev lo root tbf rate 1mbit burst 8kb limit 8kb || exit {SKIP}\n\
         \"$FOREBAY\" demo --sources 3 --rate 2000 --water-mark 4000 --duration 500ms --format json --out \"$OUT\" >&2; echo \"code $?\"\n\
         tc -s qdisc show dev lo; \"$FOREBAY\" audit \"$OUT\"; \"$FOREBAY\" doctor"
    );
    let Some(ended) = in_namespace(&script, &out) else {
        return;
    };
    let says = &ended.stdout;
    assert_eq!(number_behind(says, "code"), 1, "{says}\n{}", ended.stderr);
    let dropped = number_behind(says, "dropped");
    assert!(dropped > 0, "{says}");
    let name = "qdisc.lo.root.tbf.drops";
    let record = record(&out);
    assert_eq!(record["host_counters"]["lost"][name], dropped, "{says}");
    let scope = record["host_counters"]["scope"].as_str().unwrap();
    assert!(says.contains(scope), "{says}");
    // Once in the audit, once in the doctor, which says what to do.
    assert!(says.contains(&format!("{dropped}  {name}")), "{says}");
    assert!(says.contains(&format!("{name}: {dropped}\n")), "{says}");
    assert!(says.contains("tc qdisc change"), "{says}");
    // What merely went through is in the record alone.
    let packets = &record["host_counters"]["counters"]["interface.lo.rx_packets"];
    assert!(packets.as_u64().unwrap() > 0 && !says.contains("rx_packets"));
}

#[test]
fn messaging_and_time_division_have_them_too() {
    let folder = tempfile::tempdir().unwrap();
    // Three datagrams to a port where nobody listens, while the receivers are there.
    let script = "\
        lost() { for _ in 1 2 3; do echo x > /dev/udp/127.0.0.1/9; done; }\n\
        there() { until [ -e \"$OUT/$1/ledger\" ]; do sleep 0.02; done; }\n\
        \"$FOREBAY\" net recv tcp://127.0.0.1:7100 --once --output null --out \"$OUT/net\" & there net; lost\n\
        seq 10 | \"$FOREBAY\" net send tcp://127.0.0.1:7100; wait\n\
        \"$FOREBAY\" tdm receive --bind 127.0.0.1:7200 --senders 1 --link-rate 200M --output \"$OUT/tdm\" & there tdm; lost\n\
        \"$FOREBAY\" tdm send 127.0.0.1:7200 --id north --bytes 100000 --no-realtime; wait\n\
        \"$FOREBAY\" audit \"$OUT/net\"; \"$FOREBAY\" audit \"$OUT/tdm\"; grep -A1 ^Udp: /proc/net/snmp";
    let Some(ended) = in_namespace(script, folder.path()) else {
        return;
    };
    for part in ["net", "tdm"] {
        let record = record(&folder.path().join(part));
        let lost = &record["host_counters"]["lost"];
        assert_eq!(lost["Udp.NoPorts"], 3, "{part}: {lost}\n{}", ended.stderr);
    }
    let told = ended.stdout.matches("3  Udp.NoPorts").count();
    assert_eq!(told, 2, "{}", ended.stdout);
    // Of the whole life of the namespace, by the kernel's own text.
    let udp: Vec<_> = ended
        .stdout
        .lines()
        .filter(|line| line.starts_with("Udp: "))
        .collect();
    assert_eq!(udp[1].split_whitespace().nth(2), Some("6"), "{udp:?}");
}

#[test]
fn the_doctor_explains_a_counter_by_its_name() {
    let explain = |name: &str| start(forebay().args(["doctor", "--counter", name])).end();
    let said = explain("softnet.cpu0.dropped");
    assert_eq!(said.code(), Some(0), "{}", said.stderr);
    assert!(
        said.stdout.contains("netdev_max_backlog=10000"),
        "{}",
        said.stdout
    );
    let unknown = explain("interface.eth0.rx_packets");
    assert_eq!(unknown.code(), Some(2), "{}", unknown.stderr);
    assert!(
        unknown.stderr.contains("softnet.*.dropped"),
        "{}",
        unknown.stderr
    );
}
