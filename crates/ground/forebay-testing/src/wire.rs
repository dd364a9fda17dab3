//! A virtual wire in a network namespace that ends with its test.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::process::Command;

/// Says to a test that it runs in a namespace of its own.
const INSIDE: &str = "FOREBAY_TEST_IN_NAMESPACE";

/// Whether a network namespace may be made here; if not, that is said as what a test leaves out.
#[must_use]
pub fn may_have_network() -> bool {
    let made = Command::new("unshare").args(["--net", "true"]).status();
    let is_allowed = made.is_ok_and(|status| status.success());
    if !is_allowed {
        crate::skip!("no network namespace may be made (needs root and unshare)");
    }
    is_allowed
}

/// Whether TUN and TAP interfaces may be made here; if not, that is said as what a test leaves out.
#[must_use]
pub fn may_have_tun() -> bool {
    let is_there = std::fs::exists("/dev/net/tun").unwrap_or(false);
    if !is_there {
        crate::skip!("there is no /dev/net/tun");
    }
    is_there
}

/// Whether this process is in a namespace of its own. If not, the test named runs in one, as a process of its own.
///
/// # Panics
/// The test fails there.
#[must_use]
pub fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !may_have_network() {
        return false;
    }
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command
        .arg("--net")
        .arg(own)
        .args(["--exact", test, "--nocapture"]);
    let ended = command.env(INSIDE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let complains = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}\n{complains}");
    assert!(said.contains("1 passed"), "{said}");
    false
}

/// Runs a line of the shell.
///
/// # Panics
/// It fails.
pub fn sh(line: &str) {
    let ended = Command::new("sh").args(["-c", line]).output().unwrap();
    let complains = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{line}: {complains}");
}

/// Makes the wire, set up: what is sent at `near` comes in at `far`, and nothing else does, as IPv6 is off.
///
/// # Panics
/// It cannot be made.
pub fn lay() {
    sh("ip link add near type veth peer name far");
    for end in ["near", "far"] {
        sh(&format!(
            "f=/proc/sys/net/ipv6/conf/{end}/disable_ipv6; [ ! -e $f ] || echo 1 > $f; ip link set {end} up"
        ));
    }
}

/// Lays the wire so that what is sent to 10.0.0.2 comes in at `far`, which has no address, and waits until it carries.
///
/// # Panics
/// It cannot be made, or does not carry within 20 s.
pub fn lead() {
    lay();
    sh("ip link set lo up; ip address add 10.0.0.1/24 dev near");
    sh("ip neighbour add 10.0.0.2 lladdr 02:00:00:00:00:02 dev near");
    carries();
}

/// Whether this process is in a namespace of its own, with a wire that carries. If not, the test named runs in one, as [`is_inside`] has it.
///
/// # Panics
/// The test fails there, or there is no such wire.
#[must_use]
pub fn is_on_wire(test: &str) -> bool {
    let is_inside = is_inside(test);
    if is_inside {
        lay();
        carries();
    }
    is_inside
}

/// Whether this process is in a namespace of its own, with a wire that [leads](lead) to `far`. If not, the test named runs in one, as [`is_inside`] has it.
///
/// # Panics
/// The test fails there, or there is no such wire.
#[must_use]
pub fn is_at_wire(test: &str) -> bool {
    let is_inside = is_inside(test);
    if is_inside {
        lead();
    }
    is_inside
}

/// Waits until both ends carry: the kernel says so some time after they were set up, and drops what is sent before.
///
/// # Panics
/// They do not within 20 s.
pub fn carries() {
    for end in ["near", "far"] {
        sh(&format!(
            "for _ in $(seq 2000); do ip -brief link show {end} | grep -q ' UP ' && exit 0; sleep 0.01; done; exit 1"
        ));
    }
}
