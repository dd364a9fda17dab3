//! Two network namespaces and the wire between them, made and removed by the measurement itself.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::ground::Side;

/// Two namespaces with one virtual Ethernet device in each; removed when dropped.
pub(super) struct Namespaces {
    listener: String,
    sender: String,
}

impl Namespaces {
    /// The listener's address.
    pub(super) const LISTENER: Ipv4Addr = Ipv4Addr::new(10, 213, 77, 1);
    const SENDER: Ipv4Addr = Ipv4Addr::new(10, 213, 77, 2);

    pub(super) fn make() -> Result<Self> {
        let pid = std::process::id();
        let made = Self {
            listener: format!("forebay-listener-{pid}"),
            sender: format!("forebay-sender-{pid}"),
        };
        for name in [&made.listener, &made.sender] {
            ip(&["netns", "add", name])
                .context("network namespaces cannot be made: that needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN) and `ip` (Debian package iproute2)")?;
        }
        made.connect().context("joining two network namespaces")?;
        Ok(made)
    }

    fn connect(&self) -> Result<()> {
        let (here, there) = (&self.listener, &self.sender);
        ip(&[
            "-n", here, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns",
            there,
        ])?;
        for (name, address) in [(here, Self::LISTENER), (there, Self::SENDER)] {
            let address = format!("{address}/30");
            ip(&["-n", name, "address", "add", &address, "dev", "wire"])?;
            ip(&["-n", name, "link", "set", "wire", "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }

    /// `program` in one of them.
    pub(super) fn command(&self, program: &Command, side: Side) -> Command {
        let name = match side {
            Side::Listener => &self.listener,
            Side::Sender => &self.sender,
        };
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", name])
            .arg(program.get_program())
            .args(program.get_args());
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.listener, &self.sender] {
            // It may not have been made; its device goes with it.
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let out = Command::new("ip")
        .args(arguments)
        .output()
        .context("running `ip`")?;
    if !out.status.success() {
        bail!(
            "ip {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(())
}
