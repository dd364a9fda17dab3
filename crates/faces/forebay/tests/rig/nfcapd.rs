//! The collector of another project (Debian's package nfdump), which takes IPFIX over UDP.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Run, signal, start, wait_for};

/// Bytes of its socket, as far as the host allows: where other tests have the CPUs it is not woken for a while.
const SOCKET_BYTES: &str = "4000000";

/// One at work.
pub(crate) struct Nfcapd {
    run: Run,
    flows: PathBuf,
    pub(crate) port: String,
}

/// What it has received.
pub(crate) struct Received(pub(crate) String);

impl Nfcapd {
    /// Starts it, and waits until it listens; none where it is not installed, which is said as what a test leaves out.
    pub(crate) fn start(folder: &Path) -> Option<Self> {
        let is_there = Command::new("nfcapd")
            .arg("-V")
            .stdout(Stdio::null())
            .status();
        if !is_there.is_ok_and(|status| status.success()) {
            forebay_testing::skip!("nfcapd is not installed (package nfdump)");
            return None;
        }
        fs::create_dir(folder).unwrap();
        // The port is free until the collector has it.
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port().to_string();
        drop(free);
        let mut command = Command::new("nfcapd");
        command.arg("-w").arg(folder);
        let run = start(command.args([
            "-b",
            "127.0.0.1",
            "-B",
            SOCKET_BYTES,
            "-t",
            "3600",
            "-p",
            &port,
        ]));
        wait_for("the collector", || unread(&port));
        Some(Self {
            run,
            flows: folder.to_owned(),
            port,
        })
    }

    /// Ends it when it has read all that is in its socket.
    pub(crate) fn end(self) -> Received {
        // What it has not read when it is told to end, it never reads.
        wait_for("an empty socket", || {
            (unread(&self.port) == Some(0)).then_some(())
        });
        signal("TERM", self.run.pid());
        let ended = self.run.end();
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        let mut command = Command::new("nfdump");
        Received(
            start(command.arg("-R").arg(&self.flows).arg("-I"))
                .end()
                .stdout,
        )
    }
}

impl Received {
    /// The number behind this word.
    pub(crate) fn number(&self, key: &str) -> u64 {
        let line = self.0.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key} in {}", self.0))
            .trim()
            .parse()
            .unwrap()
    }
}

/// Bytes that wait in the socket bound to this UDP port; none without one.
fn unread(port: &str) -> Option<u64> {
    let sockets = fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    let port = format!(":{:04X}", port.parse::<u16>().unwrap());
    let mut lines = sockets
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.find(|line| line[1].ends_with(&port))?;
    let (_, waiting) = line[4].split_once(':').unwrap();
    Some(u64::from_str_radix(waiting, 16).unwrap())
}
