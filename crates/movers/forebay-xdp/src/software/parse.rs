//! Which flow a frame is of, by the rules of the kernel's program.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use forebay_wire::packet::gtpu::GTPU_PORT;
use forebay_wire::packet::link::{ETHERNET_HEADER_BYTES, EtherType, ethernet};
use forebay_wire::packet::vxlan::VXLAN_PORT;
use forebay_wire::packet::{IPV6_FRAGMENT, TCP, UDP};

use crate::abi::Key;
use crate::connections::{Config, Term};

const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// More fragments, and the place of one.
const FRAGMENT: u16 = 0x3fff;
/// Extension headers for hops, routers and the receiver.
const EXTENSIONS: [u8; 3] = [0, 43, 60];

/// What the table needs to know of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) key: Key,
    pub(super) turned: bool,
    pub(super) octets: u32,
    pub(super) tcp_flags: u8,
    /// Bytes to the end of the header of TCP or UDP.
    pub(super) headers: usize,
}

/// Why a frame goes up, and its octets.
pub(super) type Up = (Term, u32);

/// What an IP header says.
struct Ip {
    addresses: [IpAddr; 2],
    protocol: u8,
    octets: usize,
    header_bytes: usize,
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Reads an Ethernet frame, of which so many bytes were cut off at its end.
pub(super) fn parse(frame: &[u8], cut: usize, config: &Config) -> Result<Packet, Up> {
    let behind = (frame.len() + cut).saturating_sub(ETHERNET_HEADER_BYTES) as u32;
    let link = ethernet(frame).map_err(|_| (Term::Truncated, behind))?;
    let there = link.payload.len() + cut;
    let ip = match link.ethertype {
        EtherType::IPV4 => ipv4(link.payload, there),
        EtherType::IPV6 => ipv6(link.payload, there),
        _ => Err(Term::NotIp),
    };
    let ip = ip.map_err(|term| (term, there as u32))?;
    let octets = ip.octets as u32;
    let wrong = |term| (term, octets);
    let said = ip.octets - ip.header_bytes;
    let header = &link.payload[ip.header_bytes..];
    let (ports, tcp_flags, bytes) = transport(header, said, ip.protocol).map_err(wrong)?;
    let may_be_tunnel = |port| [VXLAN_PORT, GTPU_PORT].contains(port);
    if config.look_into_tunnels && ip.protocol == UDP && ports.iter().any(may_be_tunnel) {
        return Err(wrong(Term::Tunnel));
    }
    let vlan = if config.vlan_in_key {
        link.vlan.unwrap_or_default()
    } else {
        0
    };
    let [source, destination] = [0, 1].map(|end| (ip.addresses[end], ports[end]));
    let (key, turned) = Key::of(source, destination, vlan, ip.protocol);
    Ok(Packet {
        key,
        turned,
        octets,
        tcp_flags,
        headers: frame.len() - link.payload.len() + ip.header_bytes + bytes,
    })
}

/// `there` are the bytes of the packet that were on the wire.
fn ipv4(bytes: &[u8], there: usize) -> Result<Ip, Term> {
    let header = bytes.first_chunk::<IPV4_BYTES>().ok_or(Term::Truncated)?;
    let words = header[0] & 15;
    let octets = usize::from(half(header, 2));
    if header[0] >> 4 != 4 || words < 5 {
        return Err(Term::Malformed);
    }
    if words > 5 {
        return Err(Term::Options);
    }
    if half(header, 6) & FRAGMENT != 0 {
        return Err(Term::Fragment);
    }
    let &[.., s0, s1, s2, s3, d0, d1, d2, d3] = header;
    match octets {
        ..IPV4_BYTES => Err(Term::Malformed),
        octets if octets > there => Err(Term::Truncated),
        octets => Ok(Ip {
            addresses: [[s0, s1, s2, s3], [d0, d1, d2, d3]].map(|four| Ipv4Addr::from(four).into()),
            protocol: header[9],
            octets,
            header_bytes: IPV4_BYTES,
        }),
    }
}

fn ipv6(bytes: &[u8], there: usize) -> Result<Ip, Term> {
    let header = bytes.first_chunk::<IPV6_BYTES>().ok_or(Term::Truncated)?;
    let (said, protocol) = (usize::from(half(header, 4)), header[6]);
    if header[0] >> 4 != 6 {
        return Err(Term::Malformed);
    }
    if protocol == IPV6_FRAGMENT {
        return Err(Term::Fragment);
    }
    if EXTENSIONS.contains(&protocol) {
        return Err(Term::Extensions);
    }
    let address = |at: usize| {
        let mut sixteen = [0; 16];
        sixteen.copy_from_slice(&header[at..at + 16]);
        IpAddr::from(Ipv6Addr::from(sixteen))
    };
    match said + IPV6_BYTES {
        IPV6_BYTES => Err(Term::Malformed),
        octets if octets > there => Err(Term::Truncated),
        octets => Ok(Ip {
            addresses: [address(8), address(24)],
            protocol,
            octets,
            header_bytes: IPV6_BYTES,
        }),
    }
}

/// Ports, flags and length of the header of TCP or UDP.
fn transport(bytes: &[u8], said: usize, protocol: u8) -> Result<([u16; 2], u8, usize), Term> {
    let least = match protocol {
        TCP => TCP_BYTES,
        UDP => UDP_BYTES,
        _ => return Err(Term::Protocol),
    };
    if said < least {
        return Err(Term::Malformed);
    }
    let header = bytes.get(..least).ok_or(Term::Truncated)?;
    let ports = [half(header, 0), half(header, 2)];
    if protocol == UDP {
        return Ok((ports, 0, UDP_BYTES));
    }
    let length = usize::from(header[12] >> 4) * 4;
    if length < TCP_BYTES || length > said {
        return Err(Term::Malformed);
    }
    Ok((ports, header[13], length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10.0.0.1:50000 to a port of 10.0.0.2, with so many bytes behind the header of TCP or UDP.
    fn frame(protocol: u8, port: u16, payload_bytes: usize) -> Vec<u8> {
        let header_bytes = if protocol == TCP { 20 } else { 8 };
        let octets = (20 + header_bytes + payload_bytes) as u16;
        let [high, low] = octets.to_be_bytes();
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0, high, low, 0, 7, 0x40, 0, 64, protocol, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0xc3, 0x50]);
        frame.extend(port.to_be_bytes());
        frame.resize(14 + usize::from(octets), 0);
        if protocol == TCP {
            frame[46] = 0x50;
        }
        frame
    }

    /// Octets and headers of what is read.
    fn read(frame: &[u8], cut: usize, config: &Config) -> Result<(u32, usize), Up> {
        parse(frame, cut, config).map(|packet| (packet.octets, packet.headers))
    }

    #[test]
    fn a_frame_that_was_cut_is_as_long_as_it_was() {
        let config = Config::default();
        for (protocol, headers) in [(TCP, 54), (UDP, 42)] {
            let whole = frame(protocol, 443, 10);
            let octets = (whole.len() - 14) as u32;
            for kept in 0..=whole.len() {
                let cut = whole.len() - kept;
                let expected = match kept {
                    kept if kept < headers => Err((Term::Truncated, octets)),
                    _ => Ok((octets, headers)),
                };
                assert_eq!(read(&whole[..kept], cut, &config), expected, "{kept}");
                // On the wire it was padded, or ended before its packet does.
                let padded = match expected {
                    Err((term, _)) if kept < 34 => Err((term, octets + 6)),
                    other => other,
                };
                assert_eq!(read(&whole[..kept], cut + 6, &config), padded, "{kept}");
                if cut > 0 {
                    let short = Err((Term::Truncated, octets - 1));
                    assert_eq!(read(&whole[..kept], cut - 1, &config), short, "{kept}");
                }
            }
        }
    }

    #[test]
    fn a_packet_may_end_behind_its_headers_and_not_within_them() {
        let config = Config::default();
        for (protocol, headers) in [(TCP, 54), (UDP, 42)] {
            let mut bare = frame(protocol, 443, 0);
            let octets = bare.len() as u32 - 14;
            assert_eq!(read(&bare, 0, &config), Ok((octets, headers)));
            bare[17] -= 1;
            let within = Err((Term::Malformed, octets - 1));
            assert_eq!(read(&bare, 0, &config), within);
        }
    }

    #[test]
    fn a_tunnel_is_of_udp_by_its_port_and_where_it_is_looked_into() {
        let is_tunnel = |protocol, port, look_into_tunnels| {
            let config = Config {
                look_into_tunnels,
                ..Config::default()
            };
            let frame = frame(protocol, port, 20);
            matches!(parse(&frame, 0, &config), Err((Term::Tunnel, _)))
        };
        for port in [VXLAN_PORT, GTPU_PORT] {
            assert!(is_tunnel(UDP, port, true));
            assert!(!is_tunnel(UDP, port, false) && !is_tunnel(TCP, port, true));
        }
        assert!(!is_tunnel(UDP, 53, true));
    }
}
