//! UDP sockets: creation, buffers, options, and the kernel's own books of each.

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::SysError;

mod errors;
mod mtu;

pub use errors::report_errors;
pub use mtu::{
    IPV4_HEADER_BYTES, IPV6_HEADER_BYTES, UDP_HEADER_BYTES, path_mtu, payload_max_bytes,
    set_dont_fragment,
};

/// The kernel doubles a buffer's size in an `int`.
const BUFFER_MAX_BYTES: usize = (i32::MAX / 2) as usize;

/// How a UDP socket is made.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct UdpOptions {
    /// Let another socket bind the same address (default: no; two receivers on a port share its datagrams).
    pub reuse_address: bool,
    /// Payload bytes that the receive buffer shall hold, 4 KiB to 1 GiB, counted by the kernel with overhead per
    /// datagram; `None` leaves the system's default.
    pub receive_buffer_bytes: Option<usize>,
    /// As above, for sending.
    pub send_buffer_bytes: Option<usize>,
    /// Ask the kernel to stamp each datagram (wall clock, ns).
    pub stamps: bool,
    /// Let the kernel merge datagrams. Off by default: with it, one drop of the counter may be many datagrams.
    pub gro: bool,
}

/// A socket buffer that came out smaller than asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// What was asked for, in bytes.
    pub asked_bytes: usize,
    /// What the kernel granted, in the same measure.
    pub granted_bytes: usize,
    /// The setting that limits it.
    pub sysctl: &'static str,
    /// What to do about it.
    pub remedy: String,
}

impl std::fmt::Display for Shortfall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            asked_bytes,
            granted_bytes,
            sysctl,
            remedy,
        } = self;
        write!(
            f,
            "socket buffer of {granted_bytes} bytes instead of {asked_bytes}, limited by {sysctl}: {remedy}"
        )
    }
}

/// A bound UDP socket and what it got.
#[derive(Debug)]
pub struct BoundUdp {
    /// The socket, non-blocking, closed on exec.
    pub fd: OwnedFd,
    /// Where it listens; the port is real even when 0 was asked for.
    pub address: SocketAddr,
    /// Receive buffer granted, in the measure of [`UdpOptions::receive_buffer_bytes`].
    pub receive_buffer_bytes: usize,
    /// Set when the receive buffer is smaller than asked for.
    pub shortfall: Option<Shortfall>,
}

/// Makes a UDP socket bound to `address`.
///
/// # Errors
/// When the address is in use, not this host's or needs a privilege; the error names it and what to do.
pub fn bind_udp(address: SocketAddr, options: &UdpOptions) -> Result<BoundUdp, SysError> {
    let fd = open_udp(address, options)?;
    rustix::net::bind(&fd, &address).map_err(|errno| bind_error(address, errno))?;
    let shortfall = options
        .receive_buffer_bytes
        .map_or(Ok(None), |bytes| raise_receive_buffer(&fd, bytes))?;
    Ok(BoundUdp {
        address: local_address(&fd)?,
        receive_buffer_bytes: receive_buffer(&fd)?,
        shortfall,
        fd,
    })
}

/// Makes a UDP socket that sends to `peer` only, from any local port.
///
/// # Errors
/// When there is no route to the peer.
pub fn connect_udp(peer: SocketAddr, options: &UdpOptions) -> Result<OwnedFd, SysError> {
    let fd = open_udp(peer, options)?;
    rustix::net::connect(&fd, &peer)
        .map_err(|errno| SysError::new("connect", peer.to_string(), errno))?;
    Ok(fd)
}

/// Where a socket is bound.
///
/// # Errors
/// When it is not an IP socket.
pub fn local_address(fd: impl AsFd) -> Result<SocketAddr, SysError> {
    rustix::net::getsockname(fd)
        .and_then(SocketAddr::try_from)
        .map_err(|errno| SysError::new("getsockname", "UDP socket", errno))
}

/// Switches the merging of received datagrams (`UDP_GRO`).
///
/// # Errors
/// When the kernel does not know it.
pub fn set_gro(fd: impl AsFd, on: bool) -> Result<(), SysError> {
    set_int(fd.as_fd(), libc::SOL_UDP, libc::UDP_GRO, i32::from(on))
        .map_err(|errno| SysError::new("setsockopt(UDP_GRO)", i32::from(on).to_string(), errno))
}

/// Switches the kernel's receive stamps (`SO_TIMESTAMPNS`).
///
/// # Errors
/// When the kernel does not know it.
pub fn set_stamps(fd: impl AsFd, on: bool) -> Result<(), SysError> {
    set_int(
        fd.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_TIMESTAMPNS,
        i32::from(on),
    )
    .map_err(|errno| {
        SysError::new(
            "setsockopt(SO_TIMESTAMPNS)",
            i32::from(on).to_string(),
            errno,
        )
    })
}

/// A number of the socket that no other socket of this boot has; it survives the death of a holder.
///
/// # Errors
/// When `fd` is not a socket.
pub fn cookie(fd: impl AsFd) -> Result<u64, SysError> {
    sockopt::socket_cookie(fd)
        .map_err(|errno| SysError::new("getsockopt(SO_COOKIE)", "socket", errno))
}

/// The kernel's book of one socket (`SO_MEMINFO`). Memory counts whole kernel buffers, not payload.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct MemInfo {
    /// Receive memory in use, bytes.
    pub rmem_alloc_bytes: u32,
    /// Its limit, bytes (twice what was asked for).
    pub rcvbuf_bytes: u32,
    /// Send memory in use, bytes.
    pub wmem_alloc_bytes: u32,
    /// Its limit, bytes.
    pub sndbuf_bytes: u32,
    /// Datagrams dropped at this socket since it was made; wraps. With GRO on, merged buffers instead.
    pub drops: u32,
}

/// Reads the kernel's book of a socket.
///
/// # Errors
/// When `fd` is not a socket.
pub fn mem_info(fd: impl AsFd) -> Result<MemInfo, SysError> {
    // linux/sock_diag.h: RMEM_ALLOC, RCVBUF, WMEM_ALLOC, SNDBUF, FWD_ALLOC, WMEM_QUEUED, OPTMEM, BACKLOG, DROPS.
    const WORDS: usize = 9;
    let mut words = MaybeUninit::<[u32; WORDS]>::zeroed();
    let mut bytes = size_of::<[u32; WORDS]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` into `words`, which is that large.
    let answer = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if answer != 0 || (bytes as usize) < size_of::<[u32; WORDS]>() {
        let why = if answer == 0 {
            Errno::NOTSUP.into()
        } else {
            std::io::Error::last_os_error()
        };
        return Err(SysError::new("getsockopt(SO_MEMINFO)", "socket", why));
    }
    // SAFETY: zeroed before, and any bits are a valid u32.
    let [
        rmem_alloc_bytes,
        rcvbuf_bytes,
        wmem_alloc_bytes,
        sndbuf_bytes,
        ..,
        drops,
    ] = unsafe { words.assume_init() };
    Ok(MemInfo {
        rmem_alloc_bytes,
        rcvbuf_bytes,
        wmem_alloc_bytes,
        sndbuf_bytes,
        drops,
    })
}

/// Turns a socket's wrapping 32-bit drop counter into a 64-bit total.
///
/// The epoch is the socket's [`cookie`]: the same socket after a restart of the process goes on where it was, another
/// socket starts from 0. Read it at least once per 2³² drops.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct DropCounter {
    /// Which socket `last` belongs to; 0 for none.
    pub epoch: u64,
    /// The counter as last read.
    pub last: u32,
    /// All drops so far.
    pub total: u64,
}

impl DropCounter {
    /// Starts at the socket's present value: what was dropped before is somebody else's.
    #[must_use]
    pub fn starting_at(epoch: u64, raw: u32) -> Self {
        Self {
            epoch,
            last: raw,
            total: 0,
        }
    }

    /// Takes a reading; tells how many drops are new.
    pub fn observe(&mut self, epoch: u64, raw: u32) -> u64 {
        let since = if epoch == self.epoch { self.last } else { 0 };
        let new = u64::from(raw.wrapping_sub(since));
        *self = Self {
            epoch,
            last: raw,
            total: self.total + new,
        };
        new
    }
}

/// Raises the receive buffer, by privilege beyond the system's limit where that is allowed; tells what is missing.
///
/// # Errors
/// When the size cannot be set at all.
pub fn raise_receive_buffer(fd: impl AsFd, bytes: usize) -> Result<Option<Shortfall>, SysError> {
    let fd = fd.as_fd();
    let settable = bytes.min(BUFFER_MAX_BYTES);
    if sockopt::set_socket_recv_buffer_size_force(fd, settable).is_err() {
        sockopt::set_socket_recv_buffer_size(fd, settable)
            .map_err(|errno| SysError::new("setsockopt(SO_RCVBUF)", bytes.to_string(), errno))?;
    }
    Ok(shortfall(bytes, receive_buffer(fd)?, "net.core.rmem_max"))
}

/// Raises the send buffer likewise.
///
/// # Errors
/// When the size cannot be set at all.
pub fn raise_send_buffer(fd: impl AsFd, bytes: usize) -> Result<Option<Shortfall>, SysError> {
    let fd = fd.as_fd();
    let settable = bytes.min(BUFFER_MAX_BYTES);
    if sockopt::set_socket_send_buffer_size_force(fd, settable).is_err() {
        sockopt::set_socket_send_buffer_size(fd, settable)
            .map_err(|errno| SysError::new("setsockopt(SO_SNDBUF)", bytes.to_string(), errno))?;
    }
    let doubled = sockopt::socket_send_buffer_size(fd)
        .map_err(|errno| SysError::new("getsockopt(SO_SNDBUF)", "socket", errno))?;
    Ok(shortfall(bytes, doubled / 2, "net.core.wmem_max"))
}

fn shortfall(asked_bytes: usize, granted_bytes: usize, sysctl: &'static str) -> Option<Shortfall> {
    (granted_bytes < asked_bytes).then(|| Shortfall {
        asked_bytes,
        granted_bytes,
        sysctl,
        remedy: format!("sysctl -w {sysctl}={asked_bytes}"),
    })
}

/// The receive buffer in the measure it is asked for: the kernel reports twice that.
fn receive_buffer(fd: impl AsFd) -> Result<usize, SysError> {
    sockopt::socket_recv_buffer_size(fd)
        .map(|doubled| doubled / 2)
        .map_err(|errno| SysError::new("getsockopt(SO_RCVBUF)", "socket", errno))
}

fn open_udp(address: SocketAddr, options: &UdpOptions) -> Result<OwnedFd, SysError> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)
        .map_err(|errno| SysError::new("socket", format!("UDP for {address}"), errno))?;
    if options.reuse_address {
        sockopt::set_socket_reuseaddr(&fd, true).map_err(|errno| {
            SysError::new("setsockopt(SO_REUSEADDR)", address.to_string(), errno)
        })?;
    }
    if options.stamps {
        set_stamps(&fd, true)?;
    }
    if options.gro {
        set_gro(&fd, true)?;
    }
    if let Some(bytes) = options.send_buffer_bytes {
        raise_send_buffer(&fd, bytes)?;
    }
    Ok(fd)
}

fn bind_error(address: SocketAddr, errno: Errno) -> SysError {
    let error = SysError::new("bind", address.to_string(), errno);
    match errno {
        Errno::ADDRINUSE => error.with_remedy(format!(
            "another program listens on port {}: `ss -ulpn sport = :{}` names it; end it or choose another port",
            address.port(),
            address.port()
        )),
        Errno::ADDRNOTAVAIL => error.with_remedy(format!("{} is not an address of this host", address.ip())),
        Errno::ACCESS => error.with_remedy("ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one"),
        _ => error,
    }
}

pub(crate) fn set_int(
    fd: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: i32,
) -> Result<(), std::io::Error> {
    // SAFETY: the kernel reads 4 bytes from `value`, which lives through the call.
    let answer = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback(options: &UdpOptions) -> BoundUdp {
        bind_udp("127.0.0.1:0".parse().unwrap(), options).unwrap()
    }

    #[test]
    fn a_used_port_is_named_with_a_remedy() {
        let first = loopback(&UdpOptions::default());
        let error = bind_udp(first.address, &UdpOptions::default()).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(&first.address.to_string()) && text.contains("ss -ulpn"),
            "{text}"
        );
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_foreign_address_is_named() {
        let text = bind_udp("192.0.2.1:5000".parse().unwrap(), &UdpOptions::default())
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("192.0.2.1 is not an address of this host"),
            "{text}"
        );
    }

    #[test]
    fn the_receive_buffer_is_what_was_asked_or_a_shortfall_says_so() {
        for bytes in [65_536, 1 << 31] {
            let options = UdpOptions {
                receive_buffer_bytes: Some(bytes),
                ..UdpOptions::default()
            };
            let bound = loopback(&options);
            assert_eq!(
                bound.shortfall.is_none(),
                bound.receive_buffer_bytes >= bytes
            );
            assert_eq!(
                mem_info(&bound.fd).unwrap().rcvbuf_bytes as usize / 2,
                bound.receive_buffer_bytes
            );
        }
        // No kernel grants 2 GiB.
        let asked = UdpOptions {
            receive_buffer_bytes: Some(1 << 31),
            ..UdpOptions::default()
        };
        let text = loopback(&asked).shortfall.unwrap().to_string();
        assert!(
            text.contains("sysctl -w net.core.rmem_max=2147483648"),
            "{text}"
        );
    }

    #[test]
    fn cookies_tell_sockets_apart() {
        let (one, two) = (
            loopback(&UdpOptions::default()),
            loopback(&UdpOptions::default()),
        );
        assert_ne!(cookie(&one.fd).unwrap(), cookie(&two.fd).unwrap());
        assert_eq!(
            cookie(&one.fd).unwrap(),
            cookie(one.fd.try_clone().unwrap()).unwrap()
        );
    }

    #[test]
    fn a_drop_counter_survives_wrap_and_a_new_socket() {
        let mut counter = DropCounter::starting_at(1, u32::MAX - 2);
        assert_eq!(counter.observe(1, 4), 7);
        assert_eq!(counter.observe(1, 4), 0);
        assert_eq!(counter.observe(2, 5), 5);
        assert_eq!(counter.total, 12);
    }
}
