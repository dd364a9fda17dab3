//! Two network namespaces and the wire between them, made and removed by the measurement itself.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result};

use super::ground::Side;
use crate::namespace::Namespace;

/// Two namespaces with one virtual Ethernet device in each; removed when dropped.
pub(super) struct Namespaces {
    listener: Namespace,
    sender: Namespace,
}

impl Namespaces {
    /// The listener's address.
    pub(super) const LISTENER: Ipv4Addr = Ipv4Addr::new(10, 213, 77, 1);
    const SENDER: Ipv4Addr = Ipv4Addr::new(10, 213, 77, 2);

    pub(super) fn make() -> Result<Self> {
        let made = Self {
            listener: Namespace::make()?,
            sender: Namespace::make()?,
        };
        made.connect()
            .context("joining two network namespaces (that needs `ip`, Debian package iproute2)")?;
        Ok(made)
    }

    fn connect(&self) -> Result<()> {
        let there = self.sender.holder();
        self.listener.run(&format!(
            "ip link add wire type veth peer name wire netns {there}"
        ))?;
        for (side, address) in [
            (&self.listener, Self::LISTENER),
            (&self.sender, Self::SENDER),
        ] {
            side.run(&format!("ip address add {address}/30 dev wire"))?;
            side.run("ip link set wire up")?;
            side.run("ip link set lo up")?;
        }
        Ok(())
    }

    /// `program` in one of them.
    pub(super) fn command(&self, program: &Command, side: Side) -> Command {
        let namespace = match side {
            Side::Listener => &self.listener,
            Side::Sender => &self.sender,
        };
        let mut command = namespace.command(program.get_program());
        command.args(program.get_args());
        command
    }
}
