//! The wire: two ends of a virtual Ethernet cable in a network namespace without a name.

use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::namespace::{Namespace, check_programs};

/// The end that packets are sent on.
pub(crate) const NEAR: &str = "near";
/// The end that the probe reads.
pub(crate) const FAR: &str = "far";
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
        check_programs(&[])?;
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
        let [near, far] = self.0.interfaces([NEAR, FAR])?;
        Ok(Wire {
            sent: near.sent,
            arrived: far.received,
            dropped: near.send_dropped + far.receive_dropped,
        })
    }
}
