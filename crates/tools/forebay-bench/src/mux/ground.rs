//! Hosts and the wire between them: the generator's, that of the card, and, for a wire with a rate, a switch.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::namespace::{Namespace, check_programs};

/// The card that clients share.
pub(super) const CARD: &str = "card";
/// The generator's end of the wire.
pub(super) const WIRE: &str = "wire";
/// Ports of the switch: to the generator, and to the card.
const PORTS: [&str; 2] = ["tofar", "tocard"];
/// The generator's address, and those of the wire's ends.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 1);
const FAR_MAC: &str = "02:ff:00:00:00:01";
const CARD_MAC: &str = "02:ff:00:00:00:02";
/// Bits that name the network.
pub(super) const PREFIX: u8 = 16;
/// Bytes that a port of the switch holds, and lets pass at once: its timer may be late by that.
const PORT_BUFFER_BYTES: u64 = 512 << 10;
const PORT_BURST_BYTES: u64 = 64 << 10;
/// The kernel says some time after they were set up that all ends carry.
const CARRY_MOST: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// The address of a client.
pub(super) fn client_address(at: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 213, 1, 1 + at as u8)
}

/// The Ethernet address of a client.
pub(super) fn client_mac(at: usize) -> String {
    format!("02:00:00:00:01:{:02x}", 1 + at)
}

/// The address of a socket of the kernel in a client's place.
pub(super) fn socket_address(at: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 213, 2, 1 + at as u8)
}

/// Rates of the switch between both hosts, in bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wire {
    /// From the generator to the card.
    pub(super) there_bps: u64,
    /// From the card to the generator.
    pub(super) back_bps: u64,
}

impl Wire {
    /// The same both ways.
    pub(super) const fn even(bps: u64) -> Self {
        Self {
            there_bps: bps,
            back_bps: bps,
        }
    }

    /// How long the full port on the way back takes to empty while so many bits come to it in a second; none: it does not.
    pub(super) fn back_empties_in(self, came_bps: f64) -> Option<Duration> {
        let left_bps = self.back_bps as f64 - came_bps;
        let empties_s = PORT_BUFFER_BYTES as f64 * 8.0 / left_bps;
        Duration::try_from_secs_f64(empties_s).ok()
    }
}

/// Hosts that go with their owner.
pub(super) struct Ground {
    far: Namespace,
    near: Namespace,
    switch: Option<Namespace>,
    clients: usize,
}

/// What kernels have counted on the way, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Dropped between the generator and the card: at the wire's ends, and at the switch.
    pub(super) there: u64,
    /// The same on the way back.
    pub(super) back: u64,
    /// Datagrams that the generator's host did not give to a socket: no room, or damaged.
    pub(super) far_errors: u64,
    /// Datagrams that came to the generator's host for a socket that is closed.
    pub(super) far_no_port: u64,
    /// The same two of the host of the card.
    pub(super) near_errors: u64,
    pub(super) near_no_port: u64,
}

impl Counted {
    pub(super) const fn since(self, before: Self) -> Self {
        Self {
            there: self.there - before.there,
            back: self.back - before.back,
            far_errors: self.far_errors - before.far_errors,
            far_no_port: self.far_no_port - before.far_no_port,
            near_errors: self.near_errors - before.near_errors,
            near_no_port: self.near_no_port - before.near_no_port,
        }
    }
}

impl Ground {
    /// Makes them for so many clients, joined by a cable or by a switch with these rates. Both sides know each other's Ethernet addresses from the start, so that nothing
    /// but what is measured is on the wire.
    pub(super) fn make(clients: usize, wire: Option<Wire>) -> Result<Self> {
        let further: &[_] = match wire {
            Some(_) => &[("tc", "iproute2")],
            None => &[],
        };
        check_programs(further)?;
        let ground = Self {
            far: Namespace::make()?,
            near: Namespace::make()?,
            switch: wire.map(|_| Namespace::make()).transpose()?,
            clients,
        };
        ground.lay(wire).context("laying a virtual wire")?;
        Ok(ground)
    }

    fn lay(&self, wire: Option<Wire>) -> Result<()> {
        for host in [&self.far, &self.near].into_iter().chain(&self.switch) {
            host.without_ipv6()?;
            host.without_unreachables()?;
            host.run("ip link set lo up")?;
        }
        let near = self.near.holder();
        match (&self.switch, wire) {
            (Some(switch), Some(wire)) => self.join_by(switch, wire)?,
            _ => {
                let cable = format!(
                    "ip link add {WIRE} address {FAR_MAC} type veth peer name {CARD} address {CARD_MAC} netns {near}"
                );
                self.far.run(&cable)?;
            }
        }
        self.far
            .run(&format!("ip address add {FAR}/{PREFIX} dev {WIRE}"))?;
        self.far.run(&format!("ip link set {WIRE} up"))?;
        self.near.run(&format!("ip link set {CARD} up"))?;
        for at in 0..self.clients {
            let known = |address: Ipv4Addr, mac: &str| {
                let line =
                    format!("ip neighbour replace {address} lladdr {mac} dev {WIRE} nud permanent");
                self.far.run(&line)
            };
            known(client_address(at), &client_mac(at))?;
            known(socket_address(at), CARD_MAC)?;
        }
        self.carry()
    }

    /// A switch between both, with a rate at each of its ports.
    fn join_by(&self, switch: &Namespace, wire: Wire) -> Result<()> {
        switch.run("ip link add name bridge type bridge forward_delay 0 mcast_snooping 0")?;
        switch.run("ip link set bridge up")?;
        let ends = [
            (PORTS[0], wire.back_bps, WIRE, FAR_MAC, self.far.holder()),
            (PORTS[1], wire.there_bps, CARD, CARD_MAC, self.near.holder()),
        ];
        for (port, bps, end, mac, holder) in ends {
            switch.run(&format!(
                "ip link add {port} type veth peer name {end} address {mac} netns {holder}"
            ))?;
            switch.run(&format!("ip link set {port} master bridge"))?;
            switch.run(&format!("ip link set {port} up"))?;
            switch.run(&format!(
                "tc qdisc add dev {port} root tbf rate {bps}bit burst {PORT_BURST_BYTES} limit {PORT_BUFFER_BYTES}"
            ))?;
        }
        Ok(())
    }

    /// Waits until both ends carry.
    fn carry(&self) -> Result<()> {
        let begun = Instant::now();
        for host in [&self.far, &self.near] {
            loop {
                let told = host.run("ip -brief link show type veth")?;
                if told.contains(" UP ") {
                    break;
                }
                ensure!(begun.elapsed() < CARRY_MOST, "it does not carry: {told}");
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// A program at the generator.
    pub(super) fn at_generator(&self, program: &Path, cpu: Option<usize>) -> Command {
        placed(cpu, program, |program| self.far.command(program))
    }

    /// A program on the host of the card.
    pub(super) fn at_card(&self, program: &Path, cpu: Option<usize>) -> Command {
        placed(cpu, program, |program| self.near.command(program))
    }

    /// The same, of a user without rights.
    pub(super) fn at_card_of(&self, user: u32, program: &Path, cpu: Option<usize>) -> Command {
        placed(cpu, program, |program| self.near.command_of(user, program))
    }

    /// The process that holds the generator's network namespace.
    pub(super) fn generator_holder(&self) -> u32 {
        self.far.holder()
    }

    /// Gives the card's host addresses of its own, for sockets, or takes them away.
    pub(super) fn has_sockets(&self, has: bool) -> Result<()> {
        if !has {
            return self
                .near
                .run(&format!("ip address flush dev {CARD}"))
                .map(drop);
        }
        for at in 0..self.clients {
            let address = socket_address(at);
            self.near
                .run(&format!("ip address add {address}/{PREFIX} dev {CARD}"))?;
        }
        self.near
            .run(&format!(
                "ip neighbour replace {FAR} lladdr {FAR_MAC} dev {CARD} nud permanent"
            ))
            .map(drop)
    }

    /// Packets that the switch has dropped so far on their way to the generator; 0 without one.
    pub(super) fn dropped_back(&self) -> Result<u64> {
        let switch = self.switch.as_ref();
        switch.map_or(Ok(0), |switch| switch.queue_drops(PORTS[0]))
    }

    /// What was counted until now.
    pub(super) fn counted(&self) -> Result<Counted> {
        let [wire] = self.far.interfaces([WIRE])?;
        let [card] = self.near.interfaces([CARD])?;
        let [far_errors, far_no_port] = udp(&self.far)?;
        let [near_errors, near_no_port] = udp(&self.near)?;
        let mut counted = Counted {
            there: wire.send_dropped,
            back: card.send_dropped,
            far_errors,
            far_no_port,
            near_errors,
            near_no_port,
        };
        if let Some(switch) = &self.switch {
            let [to_far, to_card] = switch.interfaces(PORTS)?;
            let [far_port, card_port] = PORTS;
            counted.back += to_far.send_dropped + switch.queue_drops(far_port)?;
            counted.there += to_card.send_dropped + switch.queue_drops(card_port)?;
        }
        Ok(counted)
    }
}

fn placed(cpu: Option<usize>, program: &Path, command: impl Fn(&Path) -> Command) -> Command {
    let Some(cpu) = cpu else {
        return command(program);
    };
    let mut placed = command(Path::new("taskset"));
    placed.args(["--cpu-list", &cpu.to_string()]).arg(program);
    placed
}

/// Datagrams that a host gave to no socket: errors (no room, damaged), and those without a socket (`/proc/net/snmp`).
fn udp(host: &Namespace) -> Result<[u64; 2]> {
    let path = format!("/proc/{}/net/snmp", host.holder());
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    parse_udp(&text).with_context(|| format!("{path} does not tell of UDP: {text}"))
}

fn parse_udp(text: &str) -> Option<[u64; 2]> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let of = |wanted: &str| {
        let at = names.split_whitespace().position(|name| name == wanted)?;
        numbers.split_whitespace().nth(at)?.parse().ok()
    };
    Some([of("InErrors")?, of("NoPorts")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_udp_are_found_by_their_names() {
        let text = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams\nUdp: 7 3 5 9\nUdpLite: InDatagrams\n";
        assert_eq!(parse_udp(text), Some([5, 3]));
        assert_eq!(parse_udp("Udp: InErrors\n"), None);
        assert_eq!(parse_udp("Udp: InErrors\nUdp: 1\n"), None);
    }

    #[test]
    fn clients_have_addresses_of_their_own() {
        assert_eq!(client_address(63), Ipv4Addr::new(10, 213, 1, 64));
        assert_eq!(client_mac(63), "02:00:00:00:01:40");
    }
}
