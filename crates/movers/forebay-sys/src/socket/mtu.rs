//! How long a datagram may be on its way without being cut into IP fragments.

use std::net::IpAddr;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::AddressFamily;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};

use crate::SysError;

/// Bytes of the UDP header.
pub const UDP_HEADER_BYTES: usize = 8;
/// Bytes of an IPv4 header without options.
pub const IPV4_HEADER_BYTES: usize = 20;
/// Bytes of an IPv6 header without extensions.
pub const IPV6_HEADER_BYTES: usize = 40;
/// The longest payload that a length field of 16 bits lets pass: IPv4 counts its own header, IPv6 does not.
const PAYLOAD_MAX_V4_BYTES: usize = 65_535 - IPV4_HEADER_BYTES - UDP_HEADER_BYTES;
const PAYLOAD_MAX_V6_BYTES: usize = 65_535 - UDP_HEADER_BYTES;

/// The MTU that the kernel knows now of the way to the peer of a connected socket, in bytes with the IP header
/// (`IP_MTU`, `IPV6_MTU`; `net/ipv4/ip_sockglue.c`). At first it is that of the interface; it falls when a router says so.
///
/// # Errors
/// `ENOTCONN` when the socket has no peer.
pub fn path_mtu(fd: impl AsFd) -> Result<usize, SysError> {
    let mtu = match family(&fd)? {
        AddressFamily::INET6 => sockopt::ipv6_mtu(fd),
        _ => sockopt::ip_mtu(fd),
    };
    mtu.map(|bytes| bytes as usize).map_err(|errno| {
        let error = SysError::new("getsockopt(IP_MTU)", "UDP socket", errno);
        match errno {
            Errno::NOTCONN => error.with_remedy("connect the socket to its peer first"),
            _ => error,
        }
    })
}

/// Forbids IP fragments: the kernel marks each datagram as not to be cut, and refuses one that is longer than the path's
/// MTU with `EMSGSIZE` (`IP_PMTUDISC_DO`, `IPV6_PMTUDISC_DO`).
///
/// # Errors
/// When it is not an IP socket.
pub fn set_dont_fragment(fd: impl AsFd) -> Result<(), SysError> {
    let answer = match family(&fd)? {
        AddressFamily::INET6 => sockopt::set_ipv6_mtu_discover(fd, Ipv6PathMtuDiscovery::DO),
        _ => sockopt::set_ip_mtu_discover(fd, Ipv4PathMtuDiscovery::DO),
    };
    answer.map_err(|errno| SysError::new("setsockopt(IP_MTU_DISCOVER)", "do", errno))
}

/// The longest UDP payload, in bytes, that passes an MTU of `mtu_bytes` towards `peer` in one piece: less the IP header
/// (20 bytes, or 40 for IPv6) and the UDP header (8 bytes), and never above 65,507 (65,527 for IPv6).
#[must_use]
pub fn payload_max_bytes(mtu_bytes: usize, peer: IpAddr) -> usize {
    // An IPv4 address in IPv6 form travels in IPv4 packets.
    let (header, longest) = match peer.to_canonical() {
        IpAddr::V4(_) => (IPV4_HEADER_BYTES, PAYLOAD_MAX_V4_BYTES),
        IpAddr::V6(_) => (IPV6_HEADER_BYTES, PAYLOAD_MAX_V6_BYTES),
    };
    mtu_bytes
        .saturating_sub(header + UDP_HEADER_BYTES)
        .min(longest)
}

fn family(fd: &impl AsFd) -> Result<AddressFamily, SysError> {
    sockopt::socket_domain(fd)
        .map_err(|errno| SysError::new("getsockopt(SO_DOMAIN)", "socket", errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{UdpOptions, bind_udp, connect_udp};
    use std::net::SocketAddr;

    #[test]
    fn payloads_of_known_links() {
        let (v4, v6) = ("10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap());
        let mapped = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(payload_max_bytes(1500, v4), 1472);
        assert_eq!(payload_max_bytes(1500, mapped), 1472);
        assert_eq!(payload_max_bytes(1500, v6), 1452);
        assert_eq!(payload_max_bytes(9000, v4), 8972);
        assert_eq!(payload_max_bytes(65_536, v4), 65_507);
        assert_eq!(payload_max_bytes(65_575, v6), 65_527);
        assert_eq!(payload_max_bytes(20, v6), 0);
    }

    #[test]
    fn the_longest_whole_datagram_passes_and_one_byte_more_does_not() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let address: SocketAddr = address.parse().unwrap();
            let Ok(bound) = bind_udp(address, &UdpOptions::default()) else {
                forebay_testing::skip!("{address}: no such address here");
                continue;
            };
            assert!(
                path_mtu(&bound.fd).is_err(),
                "a socket without a peer has no path"
            );
            let sender = connect_udp(bound.address, &UdpOptions::default()).unwrap();
            set_dont_fragment(&sender).unwrap();
            let mtu_bytes = path_mtu(&sender).unwrap();
            let longest = payload_max_bytes(mtu_bytes, address.ip());
            let bytes = vec![0; longest + 1];
            let flags = rustix::net::SendFlags::empty();
            assert_eq!(
                rustix::net::send(&sender, &bytes, flags),
                Err(Errno::MSGSIZE),
                "MTU {mtu_bytes}"
            );
            // An IPv6 interface may promise more than the send buffer holds.
            if longest <= 65_507 {
                assert_eq!(
                    rustix::net::send(&sender, &bytes[1..], flags),
                    Ok(longest),
                    "MTU {mtu_bytes}"
                );
            }
        }
    }
}
