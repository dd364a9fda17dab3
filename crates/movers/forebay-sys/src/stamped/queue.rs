//! The error queue of a socket: transmit stamps, and what is not one.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use super::{Room, receive_message};
use crate::sockaddr;
use crate::udp_batch::ancillary::{self, Message, half};

/// One stamp (64 bytes) and one error with the address of the host that reports it (64 bytes over IPv6), and as much again.
const CONTROL_BYTES: usize = 256;

/// One entry of the error queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    /// A datagram of `send_stamped` has left.
    Sent(SentStamp),
    /// Something else, such as an ICMP message. The kernel queues these only where
    /// [`report_errors`](crate::socket::report_errors) is on.
    Error(QueuedError),
}

/// When a datagram left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentStamp {
    /// What `send_stamped` returned.
    pub id: u32,
    /// When the driver took it, wall clock, ns.
    pub realtime_ns: u64,
}

/// An error that an earlier datagram met (`struct sock_extended_err`, `linux/errqueue.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedError {
    /// The kernel's error number, such as `ECONNREFUSED`.
    pub errno: i32,
    /// What found it: 1 this host, 2 ICMP, 3 ICMPv6, others in `linux/errqueue.h`.
    pub origin: u8,
    /// With `EMSGSIZE` the MTU in bytes, else as the origin defines it.
    pub info: u32,
    /// Where the datagram was to go.
    pub to: Option<SocketAddr>,
    /// The router or host that says so.
    pub reported_by: Option<SocketAddr>,
}

/// Takes one entry; stamps of a kind that nobody here asks for are skipped.
pub(super) fn take(fd: BorrowedFd<'_>) -> io::Result<Option<Queued>> {
    loop {
        let mut control = Room([0; CONTROL_BYTES]);
        let received = receive_message(fd, &mut [], &mut control.0, libc::MSG_ERRQUEUE)?;
        let Some(received) = received else {
            return Ok(None);
        };
        if let Some(entry) = read(&control.0[..received.control_len], received.name) {
            return Ok(Some(entry));
        }
    }
}

/// Reads the control messages of an entry.
fn read(control: &[u8], to: Option<SocketAddr>) -> Option<Queued> {
    let (mut stamp_ns, mut extended) = (None, None);
    for Message { level, kind, data } in ancillary::messages(control) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                stamp_ns = ancillary::software_stamp_ns(data);
            }
            (libc::SOL_IP, libc::IP_RECVERR)
            | (libc::SOL_IPV6, libc::IPV6_RECVERR)
            | (libc::SOL_PACKET, PACKET_TX_TIMESTAMP) => {
                extended = Extended::parse(data);
            }
            _ => {}
        }
    }
    let extended = extended?;
    if extended.error.origin != libc::SO_EE_ORIGIN_TIMESTAMPING {
        return Some(Queued::Error(QueuedError {
            to,
            ..extended.error
        }));
    }
    (extended.error.info == SCM_TSTAMP_SND).then_some(Queued::Sent(SentStamp {
        id: extended.data,
        realtime_ns: stamp_ns?,
    }))
}

/// From `linux/errqueue.h`: the driver has taken the datagram.
const SCM_TSTAMP_SND: u32 = 0;
/// From `linux/if_packet.h`: the entry is of a packet socket.
const PACKET_TX_TIMESTAMP: i32 = 16;

/// `struct sock_extended_err`, and the address behind it.
struct Extended {
    error: QueuedError,
    data: u32,
}

impl Extended {
    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            error: QueuedError {
                errno: half(bytes, 0)?.cast_signed(),
                origin: *bytes.get(4)?,
                info: half(bytes, 8)?,
                to: None,
                reported_by: bytes.get(16..).and_then(sockaddr::parse),
            },
            data: half(bytes, 12)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A stamp of the driver for datagram 7, and the same with one field changed.
    fn entry(change: impl Fn(&mut [u8])) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 32];
        bytes[0..8].copy_from_slice(&64_u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
        bytes[12..16].copy_from_slice(&libc::SCM_TIMESTAMPING.to_ne_bytes());
        bytes[16..24].copy_from_slice(&3_u64.to_ne_bytes());
        let error = &mut bytes[64..];
        error[0..8].copy_from_slice(&32_u64.to_ne_bytes());
        error[8..12].copy_from_slice(&libc::SOL_IP.to_ne_bytes());
        error[12..16].copy_from_slice(&libc::IP_RECVERR.to_ne_bytes());
        error[16..20].copy_from_slice(&libc::ENOMSG.to_ne_bytes());
        error[20] = libc::SO_EE_ORIGIN_TIMESTAMPING;
        error[28..32].copy_from_slice(&7_u32.to_ne_bytes());
        change(&mut bytes);
        bytes
    }

    #[test]
    fn only_a_stamp_of_the_driver_is_a_stamp() {
        let sent = SentStamp {
            id: 7,
            realtime_ns: 3_000_000_000,
        };
        assert_eq!(read(&entry(|_| ()), None), Some(Queued::Sent(sent)));
        let of_a_packet_socket = entry(|bytes| {
            bytes[72..76].copy_from_slice(&libc::SOL_PACKET.to_ne_bytes());
            bytes[76..80].copy_from_slice(&16_i32.to_ne_bytes());
        });
        assert_eq!(read(&of_a_packet_socket, None), Some(Queued::Sent(sent)));
        let queueing_discipline = entry(|bytes| bytes[64 + 24] = 1);
        assert_eq!(read(&queueing_discipline, None), None);
        let without_time = entry(|bytes| bytes[16..24].fill(0));
        assert_eq!(read(&without_time, None), None);
        let zero_copy = entry(|bytes| bytes[64 + 20] = 5);
        assert!(matches!(
            read(&zero_copy, None),
            Some(Queued::Error(QueuedError { origin: 5, .. }))
        ));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..CONTROL_BYTES)) {
            let _ = read(&bytes, None);
        }
    }
}
