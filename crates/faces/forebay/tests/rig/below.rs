//! A probe with the program of the kernel at `far`, and flows from the other end of the wire.

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;

use serde_json::Value;

use super::{Ended, Run, account_items, audit_json, forebay, start, wait_for};

/// Octets of the headers of a datagram.
const HEADERS: u64 = 28;

/// Packets and octets by the sender's port.
pub(crate) type Sums = BTreeMap<u64, [u64; 2]>;

/// A probe with the program of the kernel at `far`, by default with an idle time-out of 5 s; none where there is no program.
pub(crate) fn with_program(out: &Path, leak: &str, args: &[&str]) -> Option<Run> {
    let mut command = forebay();
    command.args([
        "probe",
        "--interface",
        "far",
        "--queues",
        "2",
        "--format",
        "json",
    ]);
    command.args(["--offload", "xdp", "--offload-after", "5"]);
    if !args.contains(&"--idle-timeout") {
        command.args(["--idle-timeout", "5s"]);
    }
    command.args(args);
    command.arg("--export").arg(out.with_extension("jsonl"));
    if !leak.is_empty() {
        command.env("FOREBAY_LEAK", leak);
    }
    let mut run = start(command.arg("--out").arg(out));
    let begun = wait_for("the ledger or an end", || {
        if out.join("ledger").exists() {
            return Some(true);
        }
        run.is_over().then_some(false)
    });
    if begun {
        return Some(run);
    }
    let Ended { stderr, .. } = run.end();
    assert!(stderr.contains("Install clang"), "{stderr}");
    forebay_testing::skip!("this build has no program for the kernel: {stderr}");
    None
}

/// Twenty, each a flow.
pub(crate) fn sockets() -> Vec<UdpSocket> {
    (0..20)
        .map(|_| UdpSocket::bind("10.0.0.1:0").unwrap())
        .collect()
}

/// Sends 50 packets on each socket, and adds them.
pub(crate) fn send_some(sockets: &[UdpSocket], sent: &mut Sums) {
    for round in 0..50 {
        for socket in sockets {
            let payload = vec![7; 1 + round * 37 % 1_400];
            socket.send_to(&payload, "10.0.0.2:5000").unwrap();
            let port = socket.local_addr().unwrap().port();
            let sum = sent.entry(port.into()).or_default();
            *sum = [sum[0] + 1, sum[1] + HEADERS + payload.len() as u64];
        }
    }
}

/// Sends on sockets until so many packets were counted below.
pub(crate) fn send_on_until_counted(
    sockets: &[UdpSocket],
    sent: &mut Sums,
    out: &Path,
    packets: u64,
) {
    wait_for("packets that are counted below", || {
        send_some(sockets, sent);
        let told = audit_json(out);
        let counted = account_items(&told, ("offload", "packets"), "incoming");
        (counted >= packets).then_some(())
    });
}

/// The same on sockets that are closed then; what was sent.
pub(crate) fn send_until_counted(out: &Path, packets: u64) -> Sums {
    let mut sent = Sums::new();
    send_on_until_counted(&sockets(), &mut sent, out, packets);
    sent
}

/// Packets and octets in the records of a run, by the source's port.
pub(crate) fn found(out: &Path) -> Sums {
    let mut found = Sums::new();
    for line in fs::read_to_string(out.with_extension("jsonl"))
        .unwrap()
        .lines()
    {
        let line: Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| line[key].as_u64().unwrap();
        let sum = found.entry(number("src_port")).or_default();
        *sum = [sum[0] + number("packets"), sum[1] + number("octets")];
        assert!(
            line["start_ns"].as_u64() < line["end_ns"].as_u64(),
            "{line}"
        );
    }
    found
}

/// What the kernel says of the programs at the far end of the wire.
pub(crate) fn programs_at_far() -> String {
    let shown = std::process::Command::new("ip")
        .args(["-d", "link", "show", "far"])
        .output();
    String::from_utf8(shown.unwrap().stdout).unwrap()
}
