//! Errors of earlier datagrams, reported instead of swallowed.

use std::os::fd::AsFd;

use rustix::net::{AddressFamily, sockopt};

use super::set_int;
use crate::SysError;

/// Switches the reporting of errors (`IP_RECVERR`, `IPV6_RECVERR`). With it on,
///
/// - a datagram that the sending host's own queue (`qdisc`) drops fails its send with `ENOBUFS`, which is otherwise counted as
///   sent (`net/ipv4/udp.c`, `udp_send_skb`);
/// - ICMP messages also reach sockets without a peer, and lie in the error queue, from which they must be read
///   ([`Stamped::poll_sent`](crate::stamped::Stamped::poll_sent)): unread ones take room in the receive buffer.
///
/// # Errors
/// When it is not an IP socket.
pub fn report_errors(fd: impl AsFd, on: bool) -> Result<(), SysError> {
    let family = sockopt::socket_domain(&fd)
        .map_err(|errno| SysError::new("getsockopt(SO_DOMAIN)", "socket", errno))?;
    let (level, name) = match family {
        AddressFamily::INET6 => (libc::SOL_IPV6, libc::IPV6_RECVERR),
        _ => (libc::SOL_IP, libc::IP_RECVERR),
    };
    set_int(fd.as_fd(), level, name, i32::from(on))
        .map_err(|why| SysError::new("setsockopt(IP_RECVERR)", i32::from(on).to_string(), why))
}
