//! One flow: when its next packet is due, of which side it is, and what is in it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use forebay_emu::rng::{hash, mix};
use forebay_wire::packet::TCP;
use forebay_wire::packet::tcp::{ACK, FIN, PSH, RST, SYN};

use crate::config::{Config, Timing};
use crate::frame::{Packet, header_bytes};
use crate::instants::gap_ns;
use crate::profile::Row;
use crate::sizes::{Cut, scale};
use crate::trains::Train;
use crate::truth::{Direction, FlowKey, FlowTruth, SideTruth};

const NS_PER_MS: u64 = 1_000_000;

#[derive(Debug)]
struct Side {
    left: Cut,
    /// Of the next byte, where it is of TCP; the identifier of an echo.
    sequence: u32,
    sent: SideTruth,
}

/// A flow that has packets left.
#[derive(Debug)]
pub(crate) struct Flow {
    row: u64,
    key: FlowKey,
    header_bytes: u32,
    ip_bytes_max: u32,
    /// Of all its random numbers.
    random_key: u64,
    drawn: u64,
    due_ns: u64,
    end_ns: u64,
    number: u16,
    is_adjusted: bool,
    train: Option<Train>,
    forward: Side,
    reverse: Side,
}

impl Flow {
    /// The flow of a row.
    pub(crate) fn new(row: &Row, number: u64, config: &Config) -> Self {
        let random_key = hash(config.seed, number);
        let least = header_bytes(row.is_ipv6, row.protocol) as u32;
        let cut = |packets, bytes| Cut::new(packets, bytes, least, config.sizes);
        let (forward, forward_adjusted) = cut(row.packets, row.bytes);
        let (reverse, reverse_adjusted) = cut(row.packets_reverse, row.bytes_reverse);
        let (source, destination) = addresses(row, number, config.seed);
        let sequences = hash(random_key, 0);
        let is_tcp = row.protocol == TCP;
        let side = |left, sequence| Side {
            left,
            sequence,
            sent: SideTruth::default(),
        };
        let first = sequences as u32;
        // Both directions of an echo have one identifier.
        let second = if is_tcp {
            (sequences >> 32) as u32
        } else {
            first
        };
        Self {
            row: number,
            key: FlowKey {
                source,
                destination,
                protocol: row.protocol,
                source_port: row.source_port,
                destination_port: row.destination_port,
            },
            header_bytes: least,
            ip_bytes_max: config.ip_bytes_max.max(least),
            random_key,
            drawn: 0,
            due_ns: row.start_ms * NS_PER_MS,
            end_ns: row.end_ms * NS_PER_MS,
            number: 0,
            is_adjusted: forward_adjusted || reverse_adjusted,
            train: match &config.timing {
                Timing::Uniform => None,
                Timing::Trains(trains) => Some(Train::new(trains, random_key)),
            },
            forward: side(forward, first),
            reverse: side(reverse, second),
        }
    }

    pub(crate) const fn is_adjusted(&self) -> bool {
        self.is_adjusted
    }

    pub(crate) const fn key(&self) -> &FlowKey {
        &self.key
    }

    /// When the next packet is sent.
    pub(crate) const fn due_ns(&self) -> u64 {
        self.due_ns
    }

    pub(crate) const fn row(&self) -> u64 {
        self.row
    }

    /// Packets that are left.
    #[inline]
    pub(crate) const fn left(&self) -> u64 {
        self.forward.left.packets + self.reverse.left.packets
    }

    pub(crate) const fn truth(&self) -> FlowTruth {
        FlowTruth {
            row: self.row,
            key: self.key,
            forward: self.forward.sent,
            reverse: self.reverse.sent,
            is_adjusted: self.is_adjusted,
        }
    }

    /// The packet that is due; there is one.
    #[inline]
    pub(crate) fn next_packet(&mut self) -> (Direction, Packet) {
        let direction = self.direction();
        let random = self.random();
        let (side, other) = match direction {
            Direction::Forward => (&mut self.forward, &self.reverse),
            Direction::Reverse => (&mut self.reverse, &self.forward),
        };
        let is_tcp = self.key.protocol == TCP;
        let is_first = side.sent.packets == 0;
        let is_last = side.left.packets == 1;
        let drawn = match is_tcp && is_first && !is_last {
            true => side.left.smallest(),
            false => side.left.draw(random),
        };
        let bytes = drawn.min(self.ip_bytes_max);
        let payload = bytes - self.header_bytes;
        let tcp_flags = match is_tcp {
            true => tcp_flags(is_first, is_last, other.sent.packets > 0, payload > 0),
            false => 0,
        };
        let packet = Packet {
            is_forward: direction == Direction::Forward,
            bytes,
            cut_bytes: drawn - bytes,
            number: self.number,
            sequence: side.sequence,
            acknowledgement: if tcp_flags & ACK == 0 {
                0
            } else {
                other.sequence
            },
            tcp_flags,
        };
        if is_tcp {
            let takes = u32::from(tcp_flags & SYN != 0) + u32::from(tcp_flags & FIN != 0);
            side.sequence = side.sequence.wrapping_add(payload).wrapping_add(takes);
        }
        self.number = self.number.wrapping_add(1);
        (direction, packet)
    }

    /// Counts a packet that was written, and says when the next one is due.
    #[inline]
    pub(crate) fn sent(&mut self, direction: Direction, packet: &Packet) {
        let side = match direction {
            Direction::Forward => &mut self.forward,
            Direction::Reverse => &mut self.reverse,
        };
        side.sent.count(self.due_ns, packet.bytes, packet.tcp_flags);
        self.due_ns = match self.left() {
            0 | 1 => self.end_ns,
            left => self.due_ns + self.gap_ns(left - 1),
        };
    }

    /// The time to the next packet, ns, behind which so many are left in front of the last one; not beyond that.
    #[inline]
    fn gap_ns(&mut self, left: u64) -> u64 {
        let (duration_ns, random) = (self.end_ns - self.due_ns, self.random());
        let Some(train) = &mut self.train else {
            return gap_ns(duration_ns, left, random);
        };
        if let Some(gap_ns) = train.gap_ns(random) {
            // Slower trains than the flow has time for are as fast as that needs.
            return gap_ns.min(duration_ns / (left + 1));
        }
        let trains = train.trains_of(left);
        gap_ns(duration_ns, trains, self.random())
    }

    /// Forward first, then an answer, and then in proportion to what is left.
    #[inline]
    fn direction(&mut self) -> Direction {
        let (forward, reverse) = (self.forward.left.packets, self.reverse.left.packets);
        let (forward_sent, reverse_sent) = (self.forward.sent.packets, self.reverse.sent.packets);
        let is_forward = match (forward, reverse) {
            (_, 0) => true,
            (0, _) => false,
            _ if forward_sent == 0 => true,
            _ if reverse_sent == 0 => false,
            _ => scale(self.random(), forward + reverse) < forward,
        };
        match is_forward {
            true => Direction::Forward,
            false => Direction::Reverse,
        }
    }

    #[inline]
    fn random(&mut self) -> u64 {
        self.drawn += 1;
        hash(self.random_key, self.drawn)
    }
}

const fn tcp_flags(is_first: bool, is_last: bool, is_answer: bool, has_payload: bool) -> u8 {
    let pushes = if has_payload { PSH } else { 0 };
    match (is_first, is_last) {
        (true, false) if is_answer => SYN | ACK,
        (true, false) => SYN,
        (false, false) => ACK | pushes,
        (false, true) => FIN | ACK | pushes,
        // The only one of its side: somebody tries, is refused, or is seen half way.
        (true, true) if has_payload => ACK | PSH,
        (true, true) if is_answer => RST | ACK,
        (true, true) => SYN,
    }
}

/// Those of the row, or made up from its number: no two of 2²⁴ rows have the same source.
fn addresses(row: &Row, number: u64, seed: u64) -> (IpAddr, IpAddr) {
    if let Some(addresses) = row.addresses {
        return addresses;
    }
    let source = scatter(number as u32, seed as u32);
    let destination = mix(hash(seed, number)) as u32;
    if row.is_ipv6 {
        let host = |net: u16, host: u32| {
            let (high, low) = ((host >> 16) as u16, host as u16);
            Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, high, low).into()
        };
        return (host(1, source), host(2, destination));
    }
    // 10.0.0.0/8 and 172.16.0.0/12.
    let source = Ipv4Addr::from_bits(10 << 24 | source);
    let destination = Ipv4Addr::from_bits(172 << 24 | 16 << 16 | destination & 0xf_ffff);
    (source.into(), destination.into())
}

/// A permutation of 24 bits: what is added and multiplied with an odd number has its place back, and so has what is shifted onto itself.
const fn scatter(number: u32, seed: u32) -> u32 {
    const BITS: u32 = 0xff_ffff;
    let mixed = number.wrapping_add(seed).wrapping_mul(0x9e_3779) & BITS;
    let mixed = (mixed ^ mixed >> 12).wrapping_mul(0x85_ebcb) & BITS;
    mixed ^ mixed >> 13
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_rows_have_the_same_source() {
        let mut seen = vec![false; 1 << 24];
        for number in 0..1 << 24 {
            let source = scatter(number, 7) as usize;
            assert!(!seen[source], "{number}");
            seen[source] = true;
        }
    }

    #[test]
    fn flags_of_the_only_packet_of_a_side() {
        assert_eq!(tcp_flags(true, true, false, false), SYN);
        assert_eq!(tcp_flags(true, true, true, false), RST | ACK);
        assert_eq!(tcp_flags(true, true, true, true), PSH | ACK);
    }
}
