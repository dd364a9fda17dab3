//! Counters of network interfaces and of their queues, asked of the kernel by route netlink (RFC 3549; `rtnetlink(7)`).
//!
//! The counters of a link are those of `/sys/class/net/NAME/statistics`. Asked here they are of this process's network namespace, whichever
//! one `/sys` was mounted in, and all interfaces take one question.

mod parse;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::SysError;
pub use parse::{LINK_COUNTERS, Link, NetlinkError, Qdisc, parse_links, parse_qdiscs};

const RTM_GETLINK: u16 = 18;
const RTM_GETQDISC: u16 = 38;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
const HEADER_BYTES: usize = 16;
/// The kernel's answers are pieces of at most 32 KiB.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces of one answer.
const PIECES_MAX: usize = 4096;
/// Longest wait for a piece.
const WAIT: Duration = Duration::from_secs(1);

/// All network interfaces of this network namespace with their counters.
///
/// # Errors
/// The kernel has no route netlink for this process, or its answer cannot be understood.
pub fn links() -> Result<Vec<Link>, SysError> {
    // `struct ifinfomsg`: any family, any interface.
    let pieces = ask(RTM_GETLINK, &[0; 16])?;
    understood("RTM_GETLINK", &pieces, parse_links)
}

/// All queueing disciplines of this network namespace with their counters.
///
/// # Errors
/// The kernel has no route netlink for this process, or its answer cannot be understood.
pub fn qdiscs() -> Result<Vec<Qdisc>, SysError> {
    // `struct tcmsg`: any family, any interface.
    let pieces = ask(RTM_GETQDISC, &[0; 20])?;
    understood("RTM_GETQDISC", &pieces, parse_qdiscs)
}

fn understood<T>(
    call: &'static str,
    pieces: &[Vec<u8>],
    parse: fn(&[u8]) -> Result<Vec<T>, NetlinkError>,
) -> Result<Vec<T>, SysError> {
    let mut all = Vec::new();
    for piece in pieces {
        let found = parse(piece).map_err(|error| {
            SysError::new(
                call,
                "netlink",
                io::Error::new(io::ErrorKind::InvalidData, error),
            )
        })?;
        all.extend(found);
    }
    Ok(all)
}

/// Asks for a list and gives its pieces as they came.
fn ask(kind: u16, body: &[u8]) -> Result<Vec<Vec<u8>>, SysError> {
    let failed = |call| move |errno: Errno| SysError::new(call, "netlink", errno);
    let socket = open().map_err(failed("socket"))?;
    let mut question = Vec::with_capacity(HEADER_BYTES + body.len());
    question.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    question.extend(kind.to_ne_bytes());
    question.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    // Sequence number and port: one question on this socket, and the kernel knows whose it is.
    question.extend([0; 8]);
    question.extend(body);
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &question, SendFlags::empty(), &kernel)
        .map_err(failed("sendto"))?;
    let mut pieces = Vec::new();
    let mut buffer = vec![0; PIECE_BYTES];
    while pieces.len() < PIECES_MAX {
        let (got, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())
            .map_err(failed("recv"))?;
        let piece = buffer.get(..got).unwrap_or_default().to_vec();
        let last = got == 0 || parse::is_last(&piece);
        pieces.push(piece);
        if last {
            return Ok(pieces);
        }
    }
    let endless = io::Error::new(io::ErrorKind::InvalidData, "an answer without an end");
    Err(SysError::new("recv", "netlink", endless))
}

fn open() -> Result<OwnedFd, Errno> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // `NETLINK_ROUTE` is 0.
        None,
    )?;
    set_socket_timeout(&socket, Timeout::Recv, Some(WAIT))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same counters by another way.
    #[test]
    fn links_have_the_counters_of_sysfs() {
        let links = links().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").unwrap();
        let mut names: Vec<_> = lo.counters.keys().copied().collect();
        let files = std::fs::read_dir("/sys/class/net/lo/statistics").unwrap();
        let files = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<String> = files.collect();
        files.sort();
        names.sort_unstable();
        // Of those that only newer kernels have, sysfs has none.
        names.retain(|name| *name != "rx_otherhost_dropped");
        assert_eq!(names, files);
        let read = std::fs::read_to_string("/sys/class/net/lo/statistics/rx_packets").unwrap();
        assert!(lo.counters["rx_packets"] <= read.trim().parse().unwrap());
    }

    #[test]
    fn queues_are_of_interfaces_that_are_there() {
        let links = links().unwrap();
        for qdisc in qdiscs().unwrap() {
            assert!(
                links.iter().any(|link| link.index == qdisc.interface),
                "{qdisc:?}"
            );
        }
    }
}
