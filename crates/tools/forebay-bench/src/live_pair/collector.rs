//! nfcapd (Debian's package nfdump), which takes the probe's records over UDP on loopback.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use tempfile::TempDir;

use super::ground::Ground;
use crate::child::Child;

/// Bytes of its socket, as far as the host allows.
const SOCKET_BYTES: &str = "64000000";
/// Where it listens: nobody else is in its namespace.
const PORT: u16 = 4739;
/// Longest time until it listens, or has read what is in its socket.
const MOST: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// What it has, as nfdump adds it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// Records.
    pub flows: u64,
    /// Packets in them.
    pub packets: u64,
    /// Octets in them.
    pub octets: u64,
    /// How often it found that messages are missing.
    pub sequence_failures: u64,
    /// Datagrams for which the kernel had no room in its socket.
    pub datagrams_lost: u64,
}

/// Whether it is installed.
pub(super) fn is_there() -> bool {
    ["nfcapd", "nfdump"].into_iter().all(|name| {
        let mut command = Command::new(name);
        let quiet = command
            .arg("-V")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    })
}

/// One at work.
pub(super) struct Collector {
    child: Child,
    flows: TempDir,
}

impl Collector {
    /// Starts it, and waits until it listens.
    pub(super) fn start(ground: &Ground, out: &Path) -> Result<Self> {
        let flows = TempDir::new_in(out).context("making a place for nfcapd's files")?;
        let mut command = ground.command("nfcapd");
        command.arg("-w").arg(flows.path());
        command.args(["-b", "127.0.0.1", "-B", SOCKET_BYTES, "-t", "3600"]);
        command.args(["-p", &PORT.to_string()]);
        let mut child = Child::start(&mut command, "nfcapd")?;
        let begun = Instant::now();
        while socket(child.pid()).is_none() {
            if child.is_over()? {
                bail!("nfcapd does not begin: {}", child.end()?.stderr.trim());
            }
            ensure!(begun.elapsed() < MOST, "nfcapd does not listen");
            std::thread::sleep(LOOK);
        }
        Ok(Self { child, flows })
    }

    /// Where the probe exports to.
    pub(super) fn address() -> String {
        format!("ipfix+udp://127.0.0.1:{PORT}")
    }

    /// Ends it when it has read all that is in its socket.
    pub(super) fn end(self) -> Result<Collected> {
        let begun = Instant::now();
        let datagrams_lost = loop {
            match socket(self.child.pid()) {
                Some((0, lost)) => break lost,
                Some(_) if begun.elapsed() < MOST => std::thread::sleep(LOOK),
                _ => bail!("nfcapd does not read its socket"),
            }
        };
        self.child.terminate();
        let ended = self.child.end()?;
        ensure!(ended.status.success(), "nfcapd: {}", ended.stderr.trim());
        let told = Command::new("nfdump")
            .arg("-R")
            .arg(self.flows.path())
            .arg("-I")
            .output();
        let told = told.context("starting nfdump")?;
        let collected = parse(&String::from_utf8_lossy(&told.stdout))?;
        Ok(Collected {
            datagrams_lost,
            ..collected
        })
    }
}

fn parse(text: &str) -> Result<Collected> {
    let number = |key: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let number = line.and_then(|rest| rest.trim().parse().ok());
        number.with_context(|| format!("nfdump does not tell its {key} {text}"))
    };
    Ok(Collected {
        flows: number("Flows:")?,
        packets: number("Packets:")?,
        octets: number("Bytes:")?,
        sequence_failures: number("Sequence failures:")?,
        datagrams_lost: 0,
    })
}

/// Of the socket at [`PORT`] in the namespace of a process: bytes that wait in it, and datagrams that were lost before it.
fn socket(pid: u32) -> Option<(u64, u64)> {
    of_port(&fs::read_to_string(format!("/proc/{pid}/net/udp")).ok()?)
}

/// The same, from the kernel's table of UDP sockets (`proc_net_udp(5)`).
fn of_port(table: &str) -> Option<(u64, u64)> {
    let end = format!(":{PORT:04X}");
    let mut lines = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.find(|line| line.get(1).is_some_and(|local| local.ends_with(&end)))?;
    let (_, waiting) = line.get(4)?.split_once(':')?;
    let waiting = u64::from_str_radix(waiting, 16).ok()?;
    Some((waiting, line.last()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nfdump_adds_up_is_read() {
        let text = "Ident: none\nFlows: 12\nFlows_tcp: 9\nPackets: 345\nPackets_tcp: 1\nBytes: 6789\nSequence failures: 2\n";
        let collected = parse(text).unwrap();
        let expected = Collected {
            flows: 12,
            packets: 345,
            octets: 6789,
            sequence_failures: 2,
            datagrams_lost: 0,
        };
        assert_eq!(collected, expected);
        assert!(parse("Flows: 12\n").is_err());
    }

    #[test]
    fn the_socket_is_found_by_its_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n \
                     7: 0100007F:0035 00000000:0000 07 00000000:00000001 00:00000000 00000000     0        0 11 2 0000000000000000 9\n \
                     8: 0100007F:1283 00000000:0000 07 00000000:000000FF 00:00000000 00000000     0        0 12 2 0000000000000000 3\n";
        assert_eq!(of_port(table), Some((255, 3)));
        assert_eq!(of_port("  sl\n"), None);
        assert_eq!(of_port("  sl\n 1: 0100007F:1283\n"), None);
    }
}
