//! Sockets of datagrams on which the kernel stamps what comes and, on demand, what goes (`SO_TIMESTAMPING`): of UDP, and packet sockets, whose datagrams are frames.
//!
//! ```text
//! send_stamped ──> id     driver takes it ──> error queue ──> poll_sent: id, wall clock ns
//! ```
//!
//! Receive stamps are on for all datagrams; transmit stamps only for the datagrams of [`Stamped::send_stamped`], so that bulk
//! data sent on the same descriptor does not flood the error queue. All stamps are software stamps: the wall clock when the
//! driver hands a datagram over (`include/linux/skbuff.h`, `skb_tx_timestamp`) or the kernel takes one from the driver
//! (`net/core/dev.c`). What to know of them:
//!
//! - Receive stamping is one switch for the whole kernel, and the first socket that asks turns it by a deferred job
//!   (`net/core/dev.c`, `net_enable_timestamp`). Datagrams that come before have no stamp; on a socket with `SO_TIMESTAMPNS` they
//!   get the time at which they are *read* (`net/socket.c`, `__sock_recv_timestamp`). [`await_receive_stamps`] waits for it.
//! - A transmit stamp needs room in the *receive* buffer (`net/core/skbuff.c`, `sock_queue_err_skb`): when data fill it, the stamp
//!   is dropped without a word. Use another socket for the data, or do without.
//! - A merged buffer (`UDP_GRO`) has one stamp, that of its first datagram.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::SysError;
use crate::clock::monotonic_ns;
use crate::sockaddr::{self, SOCKADDR_BYTES};
use crate::socket::{UdpOptions, bind_udp, connect_udp, set_int, set_stamps};
use crate::txtime::{LAUNCH_BYTES, emit_launch};
use crate::udp_batch::ancillary;
use crate::wait::sleep_until;

mod queue;

pub use queue::{Queued, QueuedError, SentStamp};

/// From `asm-generic/socket.h`, Linux 6.13: the sender names the id that the stamp shall carry.
const SCM_TS_OPT_ID: i32 = 81;
const MESSAGE_BYTES: usize = 24;
/// Between two looks whether the kernel stamps.
const LOOK_AGAIN_NS: u64 = 50_000;

/// A socket that stamps.
#[derive(Debug)]
pub struct Stamped {
    fd: OwnedFd,
    next_id: u32,
    ids: Ids,
}

/// How a stamp's id comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ids {
    /// The kernel repeats ours.
    Given,
    /// The kernel (before 6.13) counts the datagrams that ask for a stamp, and no others; its 0 is our `base`.
    Counted { base: u32 },
}

/// One received datagram, without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StampedDatagram {
    /// Its length in bytes, even when not all of it was stored.
    pub len: usize,
    /// It was longer than its buffer; the rest is gone.
    pub truncated: bool,
    /// When the kernel took it, wall clock, ns.
    pub stamp_ns: Option<u64>,
    /// Its sender.
    pub from: Option<SocketAddr>,
}

impl Stamped {
    /// Switches stamps on at a socket of datagrams. Those of `SO_TIMESTAMPNS` go off: a datagram carries one stamp.
    ///
    /// # Errors
    /// When the kernel does not know `SO_TIMESTAMPING`.
    pub fn new(fd: OwnedFd) -> Result<Self, SysError> {
        set_stamps(&fd, false)?;
        set_timestamping(fd.as_fd(), true)?;
        Ok(Self {
            fd,
            next_id: 0,
            ids: Ids::Given,
        })
    }

    /// Sends one datagram without waiting, to `to` or (`None`) to the socket's peer, and asks when it leaves; tells the id that its
    /// stamp will carry: 0, 1, 2 … in the order of these calls. Datagrams sent otherwise do not count, nor do sends that failed.
    ///
    /// # Errors
    /// The socket's own: `WouldBlock` when the send buffer is full, `ConnectionRefused` when an earlier datagram met no
    /// listener. The datagram was then not sent and no stamp will come.
    pub fn send_stamped(&mut self, bytes: &[u8], to: Option<SocketAddr>) -> io::Result<u32> {
        self.send_stamped_at(bytes, to, None)
    }

    /// The same, and it leaves at `launch_ns` of monotonic time, which [`txtime::enable`](crate::txtime::enable) has allowed, where a queue on the way keeps such times:
    /// the stamp shows whether one did.
    ///
    /// # Errors
    /// As there.
    pub fn send_stamped_at(
        &mut self,
        bytes: &[u8],
        to: Option<SocketAddr>,
        launch_ns: Option<u64>,
    ) -> io::Result<u32> {
        let id = self.next_id;
        let given = (self.ids == Ids::Given).then_some(id);
        match send_message(self.fd.as_fd(), bytes, to, given, launch_ns) {
            Ok(()) => {
                self.next_id = id.wrapping_add(1);
                Ok(id)
            }
            Err(error) if given.is_some() && error.raw_os_error() == Some(libc::EINVAL) => {
                // Not a fault of the datagram but an older kernel, or the next call fails likewise.
                self.ids = Ids::Counted { base: id };
                self.send_stamped_at(bytes, to, launch_ns)
            }
            Err(error) => {
                self.count_anew()?;
                Err(error)
            }
        }
    }

    /// Takes one entry of the error queue without waiting; `None` when it is empty. An entry makes the socket ready with
    /// `POLLERR`. On loopback and veth the stamp is there when `send_stamped` returns; with a real card it takes
    /// microseconds, and may never come when the receive buffer is full.
    ///
    /// # Errors
    /// The kernel's refusal to read the queue.
    pub fn poll_sent(&self) -> io::Result<Option<Queued>> {
        loop {
            let Some(entry) = queue::take(self.fd.as_fd())? else {
                return Ok(None);
            };
            match (entry, self.ids) {
                (Queued::Sent(stamp), Ids::Counted { base }) => {
                    let id = base.wrapping_add(stamp.id);
                    if id.wrapping_sub(self.next_id).cast_signed() < 0 {
                        return Ok(Some(Queued::Sent(SentStamp { id, ..stamp })));
                    }
                    // From before the count began anew: whose it is cannot be known.
                }
                _ => return Ok(Some(entry)),
            }
        }
    }

    /// Receives one datagram without waiting into `buffer`; `None` when there is none.
    ///
    /// # Errors
    /// The socket's own, such as `ConnectionRefused`.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<StampedDatagram>> {
        let mut control = Room([0; ancillary::CONTROL_BYTES]);
        let received = receive_message(self.fd.as_fd(), buffer, &mut control.0, 0)?;
        Ok(received.map(|received| StampedDatagram {
            len: received.len,
            truncated: received.flags & libc::MSG_TRUNC != 0,
            stamp_ns: ancillary::parse(&control.0[..received.control_len]).stamp_ns,
            from: received.name,
        }))
    }

    /// Gives the descriptor back; stamps stay on.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// After a failed send a kernel that counts may have counted it (before 6.9, `net/ipv4/ip_output.c`): its count starts at 0
    /// again when the option goes off and on.
    fn count_anew(&mut self) -> io::Result<()> {
        if let Ids::Counted { base } = &mut self.ids {
            *base = self.next_id;
            for on in [false, true] {
                set_timestamping(self.fd.as_fd(), on).map_err(|error| error.source)?;
            }
        }
        Ok(())
    }
}

/// Waits until the kernel stamps what it receives, at most for `timeout`; tells whether it does. Call it while a socket has
/// stamps on. It sends datagrams from one socket to another over loopback.
///
/// # Errors
/// When there is no IPv4 loopback, as in a network namespace whose `lo` is down.
pub fn await_receive_stamps(timeout: Duration) -> Result<bool, SysError> {
    let loopback = (Ipv4Addr::LOCALHOST, 0).into();
    let down =
        |error: SysError| error.with_remedy("bring the loopback interface up: `ip link set lo up`");
    let bound = bind_udp(loopback, &UdpOptions::default()).map_err(down)?;
    let (address, receiver) = (bound.address, Stamped::new(bound.fd)?);
    let failed = |call, why| down(SysError::new(call, address.to_string(), why));
    let sender = connect_udp(address, &UdpOptions::default()).map_err(down)?;
    let end_ns = monotonic_ns().saturating_add(timeout.as_nanos() as u64);
    loop {
        rustix::net::send(&sender, b"stamp", rustix::net::SendFlags::empty())
            .map_err(|errno| failed("send", errno.into()))?;
        let received = receiver.receive(&mut [0; 8]);
        let came = received.map_err(|why| failed("recvmsg", why))?;
        if came.is_some_and(|came| came.stamp_ns.is_some()) {
            return Ok(true);
        }
        if monotonic_ns() >= end_ns {
            return Ok(false);
        }
        // A thread at real-time priority must leave the CPU to the deferred job.
        sleep_until(monotonic_ns() + LOOK_AGAIN_NS, 0);
    }
}

impl AsFd for Stamped {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn set_timestamping(fd: BorrowedFd<'_>, ids: bool) -> Result<(), SysError> {
    // Receive stamps for all; transmit stamps only where a datagram asks; no copy of the datagram with them.
    let mut flags = libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_TSONLY
        | libc::SOF_TIMESTAMPING_OPT_CMSG;
    if ids {
        flags |= libc::SOF_TIMESTAMPING_OPT_ID;
    }
    set_int(
        fd,
        libc::SOL_SOCKET,
        libc::SO_TIMESTAMPING,
        flags.cast_signed(),
    )
    .map_err(|why| {
        SysError::new("setsockopt(SO_TIMESTAMPING)", format!("flags {flags}"), why)
            .with_remedy("the kernel needs network stamps (Linux 4.6 or later)")
    })
}

/// Control messages start at a multiple of 8.
#[repr(C, align(8))]
struct Room<const BYTES: usize>([u8; BYTES]);

fn send_message(
    fd: BorrowedFd<'_>,
    bytes: &[u8],
    to: Option<SocketAddr>,
    id: Option<u32>,
    launch_ns: Option<u64>,
) -> io::Result<()> {
    let mut control = Room([0; 2 * MESSAGE_BYTES + LAUNCH_BYTES]);
    let (ask, others) = control.0.split_at_mut(MESSAGE_BYTES);
    emit_word(
        libc::SO_TIMESTAMPING,
        libc::SOF_TIMESTAMPING_TX_SOFTWARE,
        ask,
    );
    let mut control_bytes = MESSAGE_BYTES;
    if let Some(id) = id {
        emit_word(SCM_TS_OPT_ID, id, others);
        control_bytes += MESSAGE_BYTES;
    }
    if let Some(launch_ns) = launch_ns {
        emit_launch(launch_ns, &mut control.0[control_bytes..]);
        control_bytes += LAUNCH_BYTES;
    }
    let mut name = [0; SOCKADDR_BYTES];
    let mut iovec = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut header = empty_header();
    if let Some(to) = to {
        header.msg_namelen = sockaddr::emit(to, &mut name) as libc::socklen_t;
        header.msg_name = name.as_mut_ptr().cast();
    }
    header.msg_iov = &raw mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control_bytes as _;
    loop {
        // SAFETY: the header points to a name, an iovec and control messages that live through the call, with their true
        // lengths; the kernel only reads through it.
        let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
        match io::Error::last_os_error() {
            _ if sent >= 0 => return Ok(()),
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error => return Err(error),
        }
    }
}

/// Writes a control message of the socket level with one u32: header of 16 bytes, then the word.
fn emit_word(kind: i32, word: u32, out: &mut [u8]) {
    out[0..8].copy_from_slice(&20_u64.to_ne_bytes());
    out[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    out[12..16].copy_from_slice(&kind.to_ne_bytes());
    out[16..20].copy_from_slice(&word.to_ne_bytes());
}

/// What `recvmsg` told.
struct ReceivedMessage {
    len: usize,
    flags: i32,
    control_len: usize,
    name: Option<SocketAddr>,
}

fn receive_message(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    control: &mut [u8],
    flags: i32,
) -> io::Result<Option<ReceivedMessage>> {
    let mut name = [0_u8; SOCKADDR_BYTES];
    let mut iovec = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut header = empty_header();
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = SOCKADDR_BYTES as libc::socklen_t;
    header.msg_iov = &raw mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = control.len();
    // MSG_TRUNC as a flag asks for the length on the wire, also of what does not fit.
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    loop {
        // SAFETY: the header points to a name, an iovec and room for control messages that live through the call and are
        // exclusively borrowed, with their true lengths.
        let len = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, flags) };
        if let Ok(len) = usize::try_from(len) {
            let used = (header.msg_namelen as usize).min(SOCKADDR_BYTES);
            return Ok(Some(ReceivedMessage {
                len,
                flags: header.msg_flags,
                control_len: header.msg_controllen,
                name: sockaddr::parse(&name[..used]),
            }));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            error => return Err(error),
        }
    }
}

fn empty_header() -> libc::msghdr {
    // SAFETY: an all-zero msghdr is valid: null pointers with zero lengths.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

#[cfg(test)]
mod tests;
