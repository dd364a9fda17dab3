//! Frames: Ethernet, IP, what it carries, and payload, with their checksums (RFC 791, 8200, 9293, 768, 792, 4443; RFC 1071 for the sums).

use std::net::IpAddr;

use forebay_emu::rng::hash;
use forebay_wire::packet::checksum::{checksum, fold, sum};
use forebay_wire::packet::icmp::ICMP_HEADER_BYTES;
use forebay_wire::packet::link::{ETHERNET_HEADER_BYTES, EtherType};
use forebay_wire::packet::tcp::TCP_HEADER_BYTES;
use forebay_wire::packet::udp::UDP_HEADER_BYTES;
use forebay_wire::packet::{ICMP, ICMPV6, TCP, UDP};

use crate::config::IP_BYTES_MAX;
use crate::truth::FlowKey;

/// Most bytes of a frame, without its check sequence.
pub const FRAME_BYTES_MAX: usize = ETHERNET_HEADER_BYTES + IP_BYTES_MAX as usize;
/// Bytes that a frame is filled up to with zeroes (IEEE 802.3: 64 with the check sequence).
const FRAME_BYTES_MIN: usize = 60;
const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
const OTHER_HEADER_BYTES: usize = 4;
const HEADERS_BYTES_MAX: usize = ETHERNET_HEADER_BYTES + IPV6_HEADER_BYTES + TCP_HEADER_BYTES;

const DONT_FRAGMENT: u16 = 0x4000;
const HOP_LIMIT: u8 = 64;
/// Of TCP: neither end ever makes the other one wait.
const WINDOW: u16 = 65_535;
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Bytes of the headers behind Ethernet's. Of other protocols none is written; four bytes stand for it, as many as GRE's.
pub(crate) const fn header_bytes(is_ipv6: bool, protocol: u8) -> usize {
    let ip = match is_ipv6 {
        true => IPV6_HEADER_BYTES,
        false => IPV4_HEADER_BYTES,
    };
    ip + match protocol {
        TCP => TCP_HEADER_BYTES,
        UDP => UDP_HEADER_BYTES,
        ICMP | ICMPV6 => ICMP_HEADER_BYTES,
        _ => OTHER_HEADER_BYTES,
    }
}

/// The payloads: each is the begin of the same random bytes, whose sums are known.
#[derive(Debug)]
pub(crate) struct Payloads {
    bytes: Box<[u8]>,
    sums: Box<[u16]>,
}

impl Payloads {
    pub(crate) fn new(seed: u64) -> Self {
        let words = (0..u64::from(IP_BYTES_MAX / 8 + 1)).map(|at| hash(seed, at).to_be_bytes());
        let bytes: Box<[u8]> = words.flatten().collect();
        let mut sums = vec![0_u16];
        for (at, byte) in bytes.iter().enumerate() {
            let shift = if at % 2 == 0 { 8 } else { 0 };
            let sum = u64::from(sums[at]) + (u64::from(*byte) << shift);
            sums.push(fold(sum));
        }
        let sums = sums.into();
        Self { bytes, sums }
    }
}

/// What changes from packet to packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) is_forward: bool,
    /// Bytes of IP.
    pub(crate) bytes: u32,
    /// So many more it would have, were there no limit.
    pub(crate) cut_bytes: u32,
    /// Its number in the flow, from 0.
    pub(crate) number: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) tcp_flags: u8,
}

/// Writes the frame, or as much of it as there is room; says its bytes, and those that were written.
#[inline]
pub(crate) fn write(
    key: &FlowKey,
    packet: &Packet,
    payloads: &Payloads,
    out: &mut [u8],
) -> (usize, usize) {
    let mut head = Head::new();
    let (from, to) = match packet.is_forward {
        true => (MACS[0], MACS[1]),
        false => (MACS[1], MACS[0]),
    };
    head.put(&to);
    head.put(&from);
    let sides = match packet.is_forward {
        true => (key.source, key.destination),
        false => (key.destination, key.source),
    };
    let addresses = match sides {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            head.ipv4(source.octets(), destination.octets(), key.protocol, packet)
        }
        (source, destination) => {
            head.ipv6(sixteen(source), sixteen(destination), key.protocol, packet)
        }
    };
    let carried = ETHERNET_HEADER_BYTES + packet.bytes as usize - head.at;
    // Of the pseudo header: addresses, protocol and length.
    let pseudo = addresses + u64::from(key.protocol) + carried as u64;
    let ports = match packet.is_forward {
        true => (key.source_port, key.destination_port),
        false => (key.destination_port, key.source_port),
    };
    match key.protocol {
        TCP => head.tcp(ports, packet, pseudo, carried, payloads),
        UDP => head.udp(ports, pseudo, carried, payloads),
        ICMP => head.echo([8, 0], packet, 0, carried, payloads),
        ICMPV6 => head.echo([128, 129], packet, pseudo, carried, payloads),
        _ => {}
    }
    let whole = ETHERNET_HEADER_BYTES + packet.bytes as usize;
    let wire = whole.max(FRAME_BYTES_MIN);
    let captured = wire.min(out.len());
    let headers = head.at.min(captured);
    out[..headers].copy_from_slice(&head.bytes[..headers]);
    let data = whole.min(captured).max(headers);
    out[headers..data].copy_from_slice(&payloads.bytes[..data - headers]);
    out[data..captured].fill(0);
    (wire, captured)
}

/// An address as of IPv6. Both of a flow are of one version.
const fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The headers of one frame.
struct Head {
    bytes: [u8; HEADERS_BYTES_MAX],
    at: usize,
}

impl Head {
    const fn new() -> Self {
        Self {
            bytes: [0; HEADERS_BYTES_MAX],
            at: 0,
        }
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    #[inline]
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    /// Gives the sum of the addresses.
    #[inline]
    fn ipv4(
        &mut self,
        source: [u8; 4],
        destination: [u8; 4],
        protocol: u8,
        packet: &Packet,
    ) -> u64 {
        self.put_u16(EtherType::IPV4.0);
        let start = self.at;
        self.put(&[0x45, 0]);
        self.put_u16(packet.bytes as u16);
        self.put_u16(packet.number);
        self.put_u16(DONT_FRAGMENT);
        self.put(&[HOP_LIMIT, protocol, 0, 0]);
        self.put(&source);
        self.put(&destination);
        self.close(start, 10, 0);
        sum(&source) + sum(&destination)
    }

    #[inline]
    fn ipv6(
        &mut self,
        source: [u8; 16],
        destination: [u8; 16],
        protocol: u8,
        packet: &Packet,
    ) -> u64 {
        self.put_u16(EtherType::IPV6.0);
        self.put(&[0x60, 0, 0, 0]);
        self.put_u16((packet.bytes as usize - IPV6_HEADER_BYTES) as u16);
        self.put(&[protocol, HOP_LIMIT]);
        self.put(&source);
        self.put(&destination);
        sum(&source) + sum(&destination)
    }

    #[inline]
    fn tcp(
        &mut self,
        ports: (u16, u16),
        packet: &Packet,
        pseudo: u64,
        carried: usize,
        payloads: &Payloads,
    ) {
        let start = self.at;
        self.put_u16(ports.0);
        self.put_u16(ports.1);
        self.put(&packet.sequence.to_be_bytes());
        self.put(&packet.acknowledgement.to_be_bytes());
        self.put(&[(TCP_HEADER_BYTES as u8 / 4) << 4, packet.tcp_flags]);
        self.put_u16(WINDOW);
        self.put(&[0; 4]);
        let payload = payloads.sums[carried - TCP_HEADER_BYTES];
        self.close(start, 16, pseudo + u64::from(payload));
    }

    #[inline]
    fn udp(&mut self, ports: (u16, u16), pseudo: u64, carried: usize, payloads: &Payloads) {
        let start = self.at;
        self.put_u16(ports.0);
        self.put_u16(ports.1);
        self.put_u16(carried as u16);
        self.put(&[0; 2]);
        let payload = payloads.sums[carried - UDP_HEADER_BYTES];
        self.close(start, 6, pseudo + u64::from(payload));
        // 0 would say that there is none.
        if self.bytes[start + 6..start + 8] == [0; 2] {
            self.bytes[start + 6..start + 8].fill(0xff);
        }
    }

    /// An echo, or the answer to one.
    #[inline]
    fn echo(
        &mut self,
        kinds: [u8; 2],
        packet: &Packet,
        pseudo: u64,
        carried: usize,
        payloads: &Payloads,
    ) {
        let start = self.at;
        self.put(&[kinds[usize::from(!packet.is_forward)], 0, 0, 0]);
        // One identifier for a flow; the sequence number is that of the packet.
        self.put_u16(packet.sequence as u16);
        self.put_u16(packet.number);
        let payload = payloads.sums[carried - ICMP_HEADER_BYTES];
        self.close(start, 2, pseudo + u64::from(payload));
    }

    /// Writes the checksum of what begins at `start`, `within` bytes behind it.
    #[inline]
    fn close(&mut self, start: usize, within: usize, more: u64) {
        let check = checksum(sum(&self.bytes[start..self.at]) + more);
        self.bytes[start + within..start + within + 2].copy_from_slice(&check.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of all ports one makes the sum 0, which would say that there is no checksum.
    #[test]
    fn a_checksum_of_udp_is_never_0() {
        let payloads = Payloads::new(1);
        let mut key = FlowKey {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            protocol: UDP,
            source_port: 0,
            destination_port: 53,
        };
        let packet = Packet {
            is_forward: true,
            bytes: 31,
            cut_bytes: 0,
            number: 0,
            sequence: 0,
            acknowledgement: 0,
            tcp_flags: 0,
        };
        let (mut frame, mut inverted) = ([0; 60], 0);
        for port in 0..=u16::MAX {
            key.source_port = port;
            assert_eq!(write(&key, &packet, &payloads, &mut frame), (60, 60));
            assert_ne!(frame[40..42], [0, 0], "port {port}");
            inverted += u32::from(frame[40..42] == [0xff; 2]);
        }
        assert!((1..=2).contains(&inverted), "{inverted}");
    }
}
