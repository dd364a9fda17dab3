//! Launch times of datagrams (`SO_TXTIME`).
//!
//! A datagram may carry the time at which it shall leave. The socket takes the option on every kernel since 4.19
//! (`net/core/sock.c`), but only the queues `etf` and `fq` of the sending interface look at it (`net/sched/sch_etf.c`,
//! `sch_fq.c`); others send at once and say nothing. So success of the call proves nothing: whether launch times are kept is
//! to be asked of the way itself, by transmit stamps ([`Stamped`](crate::stamped::Stamped)), which are taken when the
//! queue lets a datagram go.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::SysError;

/// Lets datagrams of `fd` carry launch times in monotonic time, the only one that `fq` knows. Success does not mean that they are kept.
///
/// # Errors
/// When the kernel does not know `SO_TXTIME`.
pub fn enable(fd: impl AsFd) -> Result<(), SysError> {
    let value = libc::sock_txtime {
        clockid: libc::CLOCK_MONOTONIC,
        flags: 0,
    };
    // SAFETY: the kernel reads a `sock_txtime`, which lives through the call.
    let answer = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TXTIME,
            (&raw const value).cast(),
            size_of::<libc::sock_txtime>() as libc::socklen_t,
        )
    };
    if answer == 0 {
        return Ok(());
    }
    let error = SysError::new(
        "setsockopt(SO_TXTIME)",
        "monotonic",
        io::Error::last_os_error(),
    );
    Err(error.with_remedy("the kernel needs to be 4.19 or later"))
}

/// Length of the control message with a launch time, bytes: header of 16, then the time.
pub(crate) const LAUNCH_BYTES: usize = 24;

/// Writes the control message that makes a datagram leave at `launch_ns`.
pub(crate) fn emit_launch(launch_ns: u64, out: &mut [u8]) {
    out[0..8].copy_from_slice(&(LAUNCH_BYTES as u64).to_ne_bytes());
    out[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    out[12..16].copy_from_slice(&libc::SCM_TXTIME.to_ne_bytes());
    out[16..24].copy_from_slice(&launch_ns.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_takes_no_launch_time_is_refused_with_its_reason() {
        let event = crate::eventfd::EventFd::create().unwrap();
        let error = enable(&event).unwrap_err();
        assert!(error.to_string().contains("SO_TXTIME"), "{error}");
    }

    #[test]
    fn a_datagram_socket_takes_launch_times() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        enable(&socket).unwrap();
    }
}
