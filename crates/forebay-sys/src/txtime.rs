//! Launch times of datagrams (`SO_TXTIME`), and whether anybody keeps them.
//!
//! A datagram may carry the time at which it shall leave. The socket takes the option on every kernel since 4.19
//! (`net/core/sock.c`), but only the queues `etf` and `fq` of the sending interface look at it (`net/sched/sch_etf.c`,
//! `sch_fq.c`); others send at once and say nothing. So success of the call proves nothing: [`self_test`] sends a datagram
//! to this host and looks when it arrives.
//!
//! What it can tell is limited: datagrams to an address of this host go over loopback, and it is loopback's queue that
//! is tested. *Ignored* there says nothing good of any card; *honoured* there has to be asked again of the way itself, by
//! transmit stamps ([`Stamped`](crate::stamped::Stamped)), which are taken when the queue lets a datagram go.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::SysError;
use crate::clock::{monotonic_ns, tai_minus_monotonic_ns};
use crate::socket::{UdpOptions, bind_udp, connect_udp};
use crate::wait::{Woken, sleep_until_or};

/// In which clock launch times are given. `fq` knows the monotonic clock only, `etf` the one it was set up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchClock {
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_TAI`, what `etf` needs for a card with launch times of its own.
    Tai,
}

impl LaunchClock {
    fn id(self) -> libc::clockid_t {
        match self {
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::Tai => libc::CLOCK_TAI,
        }
    }
}

/// What became of a datagram with a launch time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxTime {
    /// It arrived at its time, at most [`TOLERANCE_NS`] before or after.
    Honoured {
        /// How much after its launch time it was seen, ns; negative if before. It bounds the arrival from above.
        error_ns: i64,
    },
    /// It arrived before its time: nobody looked at it.
    Ignored {
        /// How much before, ns, at least.
        early_ns: u64,
    },
    /// The kernel does not take launch times: its error number.
    Refused(i32),
    /// It was not seen until [`PATIENCE`] after its time: a queue dropped it (`etf` does when its clock is another one).
    Lost,
    /// It could not be seen when it arrived, in [`TRIES`] tries: this thread was not running around the launch time.
    Unclear,
}

impl TxTime {
    /// Tells whether launch times may be relied on.
    #[must_use]
    pub fn is_honoured(self) -> bool {
        matches!(self, Self::Honoured { .. })
    }
}

/// How far from its launch time a datagram may arrive and count as honoured: 500 µs.
pub const TOLERANCE_NS: u64 = 500_000;
/// How often it is tried until the answer is clear.
pub const TRIES: usize = 5;
/// How long after its launch time a datagram is waited for.
pub const PATIENCE: Duration = Duration::from_millis(50);
/// How far ahead the launch time lies: 5 ms, ten times the tolerance.
const AHEAD_NS: u64 = 5_000_000;
/// From when on the socket is looked at without sleeping, before the launch time.
const SPIN_NS: u64 = 1_000_000;

/// Sends a datagram with a launch time 5 ms ahead to a socket of this host at `local`, and looks when it arrives.
///
/// An early arrival is never called honoured: that needs the socket to have been found empty no earlier than
/// [`TOLERANCE_NS`] before the launch time, and the datagram to have been seen no later than that after it. It takes 5 ms, or
/// [`TRIES`] times 55 ms at worst, of which 1.5 ms each by spinning.
///
/// # Errors
/// When there is no socket to be had at `local`, or the datagram cannot be sent there.
pub fn self_test(local: IpAddr, clock: LaunchClock) -> Result<TxTime, SysError> {
    let mut verdict = TxTime::Unclear;
    for _ in 0..TRIES {
        verdict = try_once(local, clock)?;
        if verdict != TxTime::Unclear {
            break;
        }
    }
    Ok(verdict)
}

/// Lets datagrams of `fd` carry launch times in `clock`. Success does not mean that they are kept: see [`self_test`].
///
/// # Errors
/// When the kernel does not know `SO_TXTIME`, or the process may not use that clock (`CAP_NET_ADMIN`).
pub fn enable(fd: impl AsFd, clock: LaunchClock) -> Result<(), SysError> {
    let value = libc::sock_txtime {
        clockid: clock.id(),
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
    let why = io::Error::last_os_error();
    let error = SysError::new("setsockopt(SO_TXTIME)", format!("{clock:?}"), why);
    Err(match error.kind() {
        io::ErrorKind::PermissionDenied => error.with_remedy("this clock needs CAP_NET_ADMIN"),
        _ => error.with_remedy("the kernel needs to be 4.19 or later"),
    })
}

/// Sends one datagram over a connected socket at `launch_ns` of the clock that [`enable`] named, without waiting for it.
///
/// # Errors
/// The socket's own error.
pub fn send_at(socket: BorrowedFd<'_>, bytes: &[u8], launch_ns: u64) -> io::Result<()> {
    let mut control = Control([0; LAUNCH_BYTES]);
    emit_launch(launch_ns, &mut control.0);
    let mut iovec = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: an all-zero msghdr is valid: null pointers with zero lengths.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = LAUNCH_BYTES as _;
    // SAFETY: the header points to an iovec and a control message that live through the call, with their true lengths;
    // the kernel only reads through it.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
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

/// Control messages start at a multiple of 8.
#[repr(C, align(8))]
struct Control([u8; LAUNCH_BYTES]);

fn try_once(local: IpAddr, clock: LaunchClock) -> Result<TxTime, SysError> {
    let receiver = bind_udp(SocketAddr::new(local, 0), &UdpOptions::default())?;
    let sender = connect_udp(receiver.address, &UdpOptions::default())?;
    if let Err(error) = enable(&sender, clock) {
        return Ok(TxTime::Refused(
            error.source.raw_os_error().unwrap_or_default(),
        ));
    }
    let launch_ns = monotonic_ns() + AHEAD_NS;
    let offset_ns = match clock {
        LaunchClock::Monotonic => 0,
        LaunchClock::Tai => tai_minus_monotonic_ns().offset_ns,
    };
    send_at(
        sender.as_fd(),
        b"launch",
        launch_ns.saturating_add_signed(offset_ns),
    )
    .map_err(|why| SysError::new("sendmsg(SCM_TXTIME)", receiver.address.to_string(), why))?;
    Ok(watch(receiver.fd.as_fd(), launch_ns)?.verdict(launch_ns))
}

/// When a datagram was not yet there, and when it was, monotonic ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Evidence {
    /// It came after this.
    absent_ns: u64,
    /// It had come before this; none if it was not seen at all.
    seen_ns: Option<u64>,
}

impl Evidence {
    fn verdict(self, launch_ns: u64) -> TxTime {
        let Some(seen_ns) = self.seen_ns else {
            return TxTime::Lost;
        };
        let error_ns = seen_ns.wrapping_sub(launch_ns).cast_signed();
        let tolerance = TOLERANCE_NS.cast_signed();
        if error_ns < -tolerance {
            return TxTime::Ignored {
                early_ns: error_ns.unsigned_abs(),
            };
        }
        let was_held = self.absent_ns.saturating_add(TOLERANCE_NS) >= launch_ns;
        if was_held && error_ns <= tolerance {
            TxTime::Honoured { error_ns }
        } else {
            TxTime::Unclear
        }
    }
}

/// Looks at the socket until something is there; sleeps until shortly before the launch time and after it.
fn watch(receiver: BorrowedFd<'_>, launch_ns: u64) -> Result<Evidence, SysError> {
    let end_ns = launch_ns + PATIENCE.as_nanos() as u64;
    let spin = launch_ns - SPIN_NS..launch_ns + TOLERANCE_NS;
    // At the start nothing was sent, so nothing was there.
    let mut absent_ns = 0;
    loop {
        let now_ns = monotonic_ns();
        let until_ns = match now_ns {
            _ if now_ns < spin.start => spin.start,
            _ if now_ns < spin.end => now_ns,
            _ => end_ns,
        };
        let woken = sleep_until_or([receiver], until_ns, 0)?;
        if let Woken::Ready { .. } = woken {
            return Ok(Evidence {
                absent_ns,
                seen_ns: Some(monotonic_ns()),
            });
        }
        // The look was after the reading before it.
        absent_ns = now_ns;
        if now_ns >= end_ns {
            return Ok(Evidence {
                absent_ns,
                seen_ns: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAUNCH: u64 = 1_000_000_000;

    fn verdict(absent_ns: u64, seen_ns: u64) -> TxTime {
        let seen_ns = Some(seen_ns);
        Evidence { absent_ns, seen_ns }.verdict(LAUNCH)
    }

    #[test]
    fn only_what_was_held_and_came_in_time_is_honoured() {
        let near = LAUNCH - TOLERANCE_NS;
        assert_eq!(
            verdict(LAUNCH - 10, LAUNCH + 90),
            TxTime::Honoured { error_ns: 90 }
        );
        assert_eq!(verdict(near, LAUNCH - 3), TxTime::Honoured { error_ns: -3 });
        assert_eq!(
            verdict(0, near - 1),
            TxTime::Ignored {
                early_ns: TOLERANCE_NS + 1
            }
        );
        // Seen at the right time, but it may have lain there since long before.
        assert_eq!(verdict(near - 1, LAUNCH), TxTime::Unclear);
        // Held, but nobody looked when it came.
        assert_eq!(verdict(near, LAUNCH + TOLERANCE_NS + 1), TxTime::Unclear);
        let lost = Evidence {
            absent_ns: 2 * LAUNCH,
            seen_ns: None,
        };
        assert_eq!(lost.verdict(LAUNCH), TxTime::Lost);
    }

    #[test]
    fn an_early_arrival_is_seen_as_one_and_a_silence_as_one() {
        let receiver = bind_udp("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let launch_ns = monotonic_ns() + AHEAD_NS;
        assert_eq!(
            watch(receiver.fd.as_fd(), launch_ns)
                .unwrap()
                .verdict(launch_ns),
            TxTime::Lost
        );
        // Without a launch time it is there at once.
        let sender = connect_udp(receiver.address, &UdpOptions::default()).unwrap();
        rustix::net::send(&sender, b"now", rustix::net::SendFlags::empty()).unwrap();
        let launch_ns = monotonic_ns() + 1000 * AHEAD_NS;
        let found = watch(receiver.fd.as_fd(), launch_ns)
            .unwrap()
            .verdict(launch_ns);
        assert!(matches!(found, TxTime::Ignored { early_ns } if early_ns > AHEAD_NS));
    }

    #[test]
    fn an_arrival_at_the_launch_time_is_seen_as_one() {
        let receiver = bind_udp("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let sender = connect_udp(receiver.address, &UdpOptions::default()).unwrap();
        // Another thread stands for the queue; on a busy machine it may be late, which is never called honoured.
        let found = (0..100).any(|_| {
            let launch_ns = monotonic_ns() + AHEAD_NS;
            let found = std::thread::scope(|scope| {
                scope.spawn(|| {
                    crate::wait::sleep_until(launch_ns, 200_000);
                    rustix::net::send(&sender, b"then", rustix::net::SendFlags::empty()).unwrap();
                });
                watch(receiver.fd.as_fd(), launch_ns).unwrap()
            });
            rustix::net::recv(
                &receiver.fd,
                &mut [0_u8; 8],
                rustix::net::RecvFlags::empty(),
            )
            .unwrap();
            assert!(found.seen_ns.is_some_and(|seen_ns| seen_ns >= launch_ns));
            found.verdict(launch_ns).is_honoured()
        });
        assert!(found, "not one of 100 was seen in time");
    }

    #[test]
    fn the_self_test_tells_whether_this_kernel_keeps_launch_times() {
        for local in ["127.0.0.1", "::1"] {
            for clock in [LaunchClock::Monotonic, LaunchClock::Tai] {
                let verdict = self_test(local.parse().unwrap(), clock);
                let Ok(verdict) = verdict else {
                    println!("skipped {local}: {verdict:?}");
                    continue;
                };
                println!("{local} {clock:?}: {verdict:?}");
                match verdict {
                    TxTime::Honoured { error_ns } => {
                        assert!(error_ns.unsigned_abs() <= TOLERANCE_NS, "{error_ns}");
                    }
                    TxTime::Ignored { early_ns } => {
                        assert!((TOLERANCE_NS..=AHEAD_NS).contains(&early_ns), "{early_ns}");
                    }
                    // Loopback has a queue that keeps launch times only where somebody gave it one.
                    other => panic!("{local} {clock:?}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn a_socket_that_takes_no_launch_time_is_refused_with_its_reason() {
        let event = crate::eventfd::EventFd::create().unwrap();
        let error = enable(&event, LaunchClock::Monotonic).unwrap_err();
        assert!(error.to_string().contains("SO_TXTIME"), "{error}");
    }
}
