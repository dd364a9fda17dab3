//! Ethernet frames of TCP and UDP, and what keeps a table of connections that is handed frames.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod below;
pub(crate) mod cable;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use forebay_xdp::{Config, Connections, Key, Programs, Software, Verdict, XdpError};

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// What a frame is made of.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) ports: [u16; 2],
    pub(crate) protocol: u8,
    pub(crate) tcp_flags: u8,
    pub(crate) tags: Vec<u16>,
    pub(crate) payload_bytes: usize,
}

impl Made {
    /// From 10.0.0.1:50000 to 10.0.0.2:443 over TCP, with ACK and 10 bytes.
    pub(crate) fn new() -> Self {
        Self {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            ports: [50_000, 443],
            protocol: TCP,
            tcp_flags: ACK,
            tags: Vec::new(),
            payload_bytes: 10,
        }
    }

    pub(crate) fn flags(self, tcp_flags: u8) -> Self {
        Self { tcp_flags, ..self }
    }

    pub(crate) fn turned(self) -> Self {
        let [from, to] = self.ports;
        Self {
            source: self.destination,
            destination: self.source,
            ports: [to, from],
            ..self
        }
    }

    pub(crate) fn key(&self) -> Key {
        self.key_in(0)
    }

    pub(crate) fn key_in(&self, vlan: u16) -> Key {
        let [from, to] = self.ports;
        Key::of(
            (self.source, from),
            (self.destination, to),
            vlan,
            self.protocol,
        )
        .0
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self
            .ports
            .iter()
            .flat_map(|port| port.to_be_bytes())
            .collect();
        if self.protocol == TCP {
            bytes.extend([
                0,
                0,
                0,
                1,
                0,
                0,
                0,
                2,
                0x50,
                self.tcp_flags,
                1,
                0,
                0,
                0,
                0,
                0,
            ]);
        } else {
            bytes.extend(((8 + self.payload_bytes) as u16).to_be_bytes());
            bytes.extend([0, 0]);
        }
        bytes.resize(bytes.len() + self.payload_bytes, 0xaa);
        bytes
    }

    /// The IP packet.
    pub(crate) fn packet(&self) -> (u16, Vec<u8>) {
        let carried = self.transport();
        match (self.source, self.destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let total = (20 + carried.len()) as u16;
                let mut bytes = vec![0x45, 0];
                bytes.extend(total.to_be_bytes());
                bytes.extend([0, 1, 0x40, 0, 64, self.protocol, 0, 0]);
                bytes.extend(from.octets());
                bytes.extend(to.octets());
                bytes.extend(carried);
                (0x0800, bytes)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut bytes = vec![0x60, 0, 0, 0];
                bytes.extend((carried.len() as u16).to_be_bytes());
                bytes.extend([self.protocol, 64]);
                bytes.extend(from.octets());
                bytes.extend(to.octets());
                bytes.extend(carried);
                (0x86dd, bytes)
            }
            _ => panic!("two versions of IP"),
        }
    }

    pub(crate) fn octets(&self) -> u64 {
        self.packet().1.len() as u64
    }

    pub(crate) fn frame(&self) -> Vec<u8> {
        let (ethertype, packet) = self.packet();
        self.framed(ethertype, &packet)
    }

    /// Any bytes in a frame with its tags.
    pub(crate) fn framed(&self, ethertype: u16, packet: &[u8]) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for tag in &self.tags {
            bytes.extend(0x8100_u16.to_be_bytes());
            bytes.extend(tag.to_be_bytes());
        }
        bytes.extend(ethertype.to_be_bytes());
        bytes.extend(packet);
        bytes
    }
}

/// A table that is handed frames with their times, so that all kinds of tables can be told the same.
pub(crate) trait Table: Connections {
    fn frame(&mut self, frame: &[u8], now_ns: u64) -> (Verdict, usize);
    fn clock(&mut self, now_ns: u64);
}

impl Table for Software {
    fn frame(&mut self, frame: &[u8], now_ns: u64) -> (Verdict, usize) {
        self.handle_frame(frame, now_ns)
    }

    fn clock(&mut self, now_ns: u64) {
        self.set_clock(now_ns);
    }
}

impl Table for Programs {
    fn frame(&mut self, frame: &[u8], now_ns: u64) -> (Verdict, usize) {
        self.hold_clock(now_ns).unwrap();
        let (verdict, bytes, _) = self.run(frame, 1).unwrap();
        (verdict, bytes)
    }

    fn clock(&mut self, now_ns: u64) {
        self.hold_clock(now_ns).unwrap();
    }
}

/// The program for interfaces in the kernel; none where it cannot be, which is said.
pub(crate) fn in_kernel(config: &Config) -> Option<Programs> {
    or_skipped(Programs::load(config))
}

/// The same for packet sockets, to which all of a frame goes.
pub(crate) fn filter_in_kernel(config: &Config) -> Option<Programs> {
    or_skipped(Programs::load_filter(config, u32::MAX))
}

fn or_skipped(loaded: Result<Programs, XdpError>) -> Option<Programs> {
    match loaded {
        Ok(programs) => Some(programs),
        Err(error @ (XdpError::NotBuilt { .. } | XdpError::NotAllowed { .. })) => {
            forebay_testing::skip!("{error}");
            None
        }
        Err(XdpError::System { call, source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            forebay_testing::skip!(
                "the kernel takes no programs from this user ({call}: {source}; needs root)"
            );
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// For what the kernel does soon: without it, a test fails.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < SOON, "{what} did not happen");
        std::thread::yield_now();
    }
}
