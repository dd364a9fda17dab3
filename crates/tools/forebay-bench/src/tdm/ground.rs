//! Hosts and the switch between them: each is a network namespace of its own.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result};

use super::Options;
use crate::namespace::Namespace;

/// The receiver's address; senders follow in the next /24.
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 1);
/// The switch's port to the receiver.
const PORT: &str = "port";

/// All hosts and the switch.
pub(super) struct Ground {
    switch: Namespace,
    receiver: Namespace,
    senders: Vec<Namespace>,
}

impl Ground {
    pub(super) fn make(options: &Options) -> Result<Self> {
        let ground = Self {
            switch: Namespace::make()?,
            receiver: Namespace::make()?,
            senders: (0..options.senders)
                .map(|_| Namespace::make())
                .collect::<Result<_>>()?,
        };
        ground
            .connect(options)
            .context("joining network namespaces by a bridge")?;
        Ok(ground)
    }

    fn connect(&self, options: &Options) -> Result<()> {
        let switch = &self.switch;
        switch.run("ip link add name bridge type bridge forward_delay 0 mcast_snooping 0")?;
        switch.run("ip link set bridge up")?;
        let hosts =
            std::iter::once((&self.receiver, RECEIVER)).chain(self.senders.iter().zip(senders()));
        for (number, (host, address)) in hosts.enumerate() {
            let port = if number == 0 {
                PORT.to_owned()
            } else {
                format!("from{number}")
            };
            host.without_ipv6()?;
            switch.run(&format!(
                "ip link add {port} type veth peer name wire netns {}",
                host.holder()
            ))?;
            switch.run(&format!("ip link set {port} master bridge"))?;
            switch.run(&format!("ip link set {port} up"))?;
            host.run(&format!("ip address add {address}/16 dev wire"))?;
            host.run("ip link set wire up")?;
            host.run("ip link set lo up")?;
        }
        if let Some(queue) = &options.sender_queue {
            for host in &self.senders {
                host.run(&format!("tc qdisc replace dev wire root {queue}"))
                    .with_context(|| {
                        format!("the queue {queue} of a sender, which this kernel may not have")
                    })?;
            }
        }
        switch.run(&format!(
            "tc qdisc add dev {PORT} root tbf rate {}bit burst {} limit {}",
            options.port_rate_bps, options.port_burst_bytes, options.port_buffer_bytes
        ))?;
        Ok(())
    }

    /// A program at the receiver.
    pub(super) fn at_receiver(&self, program: &std::path::Path) -> Command {
        self.receiver.command(program)
    }

    /// A program at each sender.
    pub(super) fn at_senders(&self, program: &std::path::Path) -> Vec<Command> {
        self.senders
            .iter()
            .map(|host| host.command(program))
            .collect()
    }

    /// The receiver's address.
    pub(super) const fn address(&self) -> Ipv4Addr {
        RECEIVER
    }

    /// Packets that the port's queue has dropped so far, by the kernel.
    pub(super) fn port_drops(&self) -> Result<u64> {
        self.switch.queue_drops(PORT)
    }
}

/// Addresses of senders, one after the other.
fn senders() -> impl Iterator<Item = Ipv4Addr> {
    (0..u32::from(u16::MAX))
        .map(|number| Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 213, 1, 1)) + number))
}
