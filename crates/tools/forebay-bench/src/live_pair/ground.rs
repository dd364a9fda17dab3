//! The wire: two ends of a virtual Ethernet cable in a network namespace without a name.

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::namespace::Namespace;

/// The end that packets are sent on.
pub(crate) const NEAR: &str = "near";
/// The end that the probe reads.
pub(crate) const FAR: &str = "far";
/// Programs that are needed, with the Debian package of each.
const NEEDED: [(&str, &str); 4] = [
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
];
/// The kernel says some time after they were set up that both ends carry.
const CARRY_MOST: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// A wire that goes with its owner.
pub(crate) struct Ground(Namespace);

/// What the kernel has counted at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wire {
    /// Packets that the near end sent.
    pub(crate) sent: u64,
    /// Packets that came in at the far one.
    pub(crate) arrived: u64,
    /// Packets that one of both dropped.
    pub(crate) dropped: u64,
}

impl Ground {
    /// Makes it.
    pub(crate) fn make(mtu_bytes: u32) -> Result<Self> {
        check_programs()?;
        let ground = Self(Namespace::make()?);
        ground.lay(mtu_bytes).context("laying a virtual wire")?;
        Ok(ground)
    }

    fn lay(&self, mtu_bytes: u32) -> Result<()> {
        let host = &self.0;
        // What IPv6 says of itself on a wire would be traffic that nobody counts.
        host.without_ipv6()?;
        host.run("ip link set lo up")?;
        host.run(&format!(
            "ip link add {NEAR} mtu {mtu_bytes} type veth peer name {FAR} mtu {mtu_bytes}"
        ))?;
        for end in [NEAR, FAR] {
            host.run(&format!("ip link set {end} up"))?;
        }
        let begun = Instant::now();
        loop {
            let told = host.run("ip -brief link show type veth")?;
            if told.lines().filter(|line| line.contains(" UP ")).count() == 2 {
                return Ok(());
            }
            ensure!(begun.elapsed() < CARRY_MOST, "it does not carry: {told}");
            std::thread::sleep(LOOK);
        }
    }

    /// A program on it.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.0.command(program)
    }

    /// The process that holds its network namespace.
    pub(crate) fn holder(&self) -> u32 {
        self.0.holder()
    }

    /// What was counted until now.
    pub(crate) fn wire(&self) -> Result<Wire> {
        let path = format!("/proc/{}/net/dev", self.0.holder());
        let table = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        parse(&table).with_context(|| format!("{path} does not tell of {NEAR} and {FAR}: {table}"))
    }
}

/// Names the first program that is not there.
fn check_programs() -> Result<()> {
    for (name, package) in NEEDED {
        let mut command = Command::new(name);
        let quiet = command.arg("-V").stdin(Stdio::null());
        let tried = quiet.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if let Err(error) = tried {
            bail!("`{name}` cannot be run ({error}): install Debian's package {package}");
        }
    }
    Ok(())
}

/// Reads the kernel's table of interfaces (`proc_net_dev(5)`).
fn parse(table: &str) -> Option<Wire> {
    let of = |end: &str| -> Option<Vec<u64>> {
        let line = table.lines().find_map(|line| {
            let (name, rest) = line.split_once(':')?;
            (name.trim() == end).then_some(rest)
        })?;
        line.split_whitespace()
            .map(|word| word.parse().ok())
            .collect()
    };
    let (near, far) = (of(NEAR)?, of(FAR)?);
    // Eight numbers of what came in: bytes, packets, errors, dropped, …; then the same of what went out.
    Some(Wire {
        sent: *near.get(9)?,
        arrived: *far.get(1)?,
        dropped: near.get(11)? + far.get(3)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_read_from_the_table() {
        let table = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n\
                    \x20   lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n\
                    \x20  far: 1000 95 0 3 0 0 0 0 0 0 0 0 0 0 0 0\n near: 0 0 0 0 0 0 0 0 1000 98 0 2 0 0 0 0\n";
        let expected = Wire {
            sent: 98,
            arrived: 95,
            dropped: 5,
        };
        assert_eq!(parse(table), Some(expected));
        assert_eq!(parse("near: 1 2 3\n far: 1\n"), None);
        assert_eq!(parse(""), None);
    }
}
