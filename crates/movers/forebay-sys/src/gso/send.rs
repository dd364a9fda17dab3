//! Sending bursts.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::socket::{path_mtu, payload_max_bytes};
use crate::txtime::{LAUNCH_BYTES, emit_launch};
use crate::udp_batch::{SendStop, Sent, emit_segment};

/// The most segments that go into one system call; `UDP_MAX_SEGMENTS` of kernels before 6.9 (`include/linux/udp.h`).
pub const SEGMENTS_MAX: usize = 64;

/// The longest burst, in bytes: all its payloads together obey the limit of one datagram over IPv4.
const BURST_MAX_BYTES: usize = 65_507;
const SLICES: usize = 2;
/// A message with the length of segments, and one with the time of leaving.
const SEGMENT_BYTES: usize = 24;
const CONTROL_BYTES: usize = SEGMENT_BYTES + LAUNCH_BYTES;

/// How many segments of so many bytes go into one system call; at least 1.
#[must_use]
pub fn burst_segments_max(segment_bytes: usize) -> usize {
    (BURST_MAX_BYTES / segment_bytes.max(1)).clamp(1, SEGMENTS_MAX)
}

/// One datagram of a burst, gathered from two places.
#[derive(Debug, Default, Clone, Copy)]
pub struct Segment<'a> {
    /// Its first bytes, such as a header.
    pub head: &'a [u8],
    /// The bytes after them.
    pub payload: &'a [u8],
}

impl Segment<'_> {
    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// Tells whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How bursts leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GsoMode {
    /// No burst of two or more segments was sent yet.
    Untried,
    /// One buffer per call, cut by the kernel or the card.
    Segmented,
    /// One buffer per datagram, as the kernel refused to cut.
    Single {
        /// Its error number: `EIO` or `EINVAL` (such as a card without checksums), `ENOPROTOOPT` (before Linux 4.18); 0 when
        /// the caller chose so.
        errno: i32,
    },
}

/// Sends bursts over a connected UDP socket, without allocation.
///
/// The first burst is the probe: if the kernel refuses to cut it, it is sent again as single datagrams, and so are all
/// later ones; [`mode`](Self::mode) tells. A full queue of the sending host (`qdisc`) drops without an error, unless
/// [`report_errors`](crate::socket::report_errors) is on: then it is [`SendStop::NoBuffers`].
pub struct GsoSend {
    headers: Box<[libc::mmsghdr]>,
    iovecs: Box<[libc::iovec]>,
    control: Box<Control>,
    mode: GsoMode,
}

/// Control messages start at a multiple of 8.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

// SAFETY: the raw pointers inside lead into boxes that move along, or to segments that are borrowed only while `send`
// runs; nothing dereferences them between calls.
unsafe impl Send for GsoSend {}

impl std::fmt::Debug for GsoSend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GsoSend")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl Default for GsoSend {
    fn default() -> Self {
        Self::with_mode(GsoMode::Untried)
    }
}

impl GsoSend {
    /// A sender that cuts bursts where it can.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A sender that sends single datagrams, for comparison and for cards that cut wrongly.
    #[must_use]
    pub fn single() -> Self {
        Self::with_mode(GsoMode::Single { errno: 0 })
    }

    fn with_mode(mode: GsoMode) -> Self {
        let nothing = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        // SAFETY: an all-zero mmsghdr is valid: null pointers with zero lengths.
        let header = || unsafe { std::mem::zeroed() };
        Self {
            headers: (0..SEGMENTS_MAX).map(|_| header()).collect(),
            iovecs: vec![nothing; SEGMENTS_MAX * SLICES].into_boxed_slice(),
            control: Box::new(Control([0; CONTROL_BYTES])),
            mode,
        }
    }

    /// How bursts leave.
    #[must_use]
    pub fn mode(&self) -> GsoMode {
        self.mode
    }

    /// Sends the segments in order, without waiting, in as few calls as their length allows (see [`burst_segments_max`]).
    ///
    /// All have the length of the first; the last may be shorter, none is empty. `count` of the answer says how many leading
    /// segments the kernel took; if that is not all, `stopped` says why, and none of the others was sent. A segmented burst
    /// is taken whole or not at all, so an error that concerns one datagram stops its burst.
    /// Segments of unequal length are refused (`InvalidInput`) before any is sent.
    pub fn send(&mut self, socket: BorrowedFd<'_>, segments: &[Segment<'_>]) -> Sent {
        self.send_at(socket, segments, None)
    }

    /// The same, and all of them leave at `launch_ns` of monotonic time, which [`txtime::enable`](crate::txtime::enable) has allowed, where a queue on the way keeps
    /// such times; without one, at once.
    pub fn send_at(
        &mut self,
        socket: BorrowedFd<'_>,
        segments: &[Segment<'_>],
        launch_ns: Option<u64>,
    ) -> Sent {
        let mut count = 0;
        let mut stopped = misfit(segments).map(SendStop::Failed);
        let chunk = burst_segments_max(segments.first().map_or(0, Segment::len));
        while stopped.is_none() && count < segments.len() {
            let burst = &segments[count..segments.len().min(count + chunk)];
            match self.send_burst(socket, burst, launch_ns) {
                Ok(sent) => count += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => stopped = Some(SendStop::of(error)),
            }
        }
        Sent { count, stopped }
    }

    /// At most [`SEGMENTS_MAX`] segments; tells how many were taken, at least 1.
    fn send_burst(
        &mut self,
        socket: BorrowedFd<'_>,
        burst: &[Segment<'_>],
        launch_ns: Option<u64>,
    ) -> io::Result<usize> {
        self.point(burst);
        let launch_bytes = launch_ns.map_or(0, |launch_ns| {
            emit_launch(launch_ns, &mut self.control.0[SEGMENT_BYTES..]);
            LAUNCH_BYTES
        });
        if burst.len() == 1 || matches!(self.mode, GsoMode::Single { .. }) {
            return self.send_single(socket, burst, launch_bytes);
        }
        if self.mode == GsoMode::Untried
            && let Err(errno) = knows_segments(socket)
        {
            self.mode = GsoMode::Single { errno };
            return self.send_single(socket, burst, launch_bytes);
        }
        let segment_bytes = burst[0].len();
        match self.send_segmented(socket, burst.len(), segment_bytes, launch_bytes) {
            Ok(sent_bytes) => {
                self.mode = GsoMode::Segmented;
                taken_whole(burst, sent_bytes)
            }
            Err(error) if is_refusal(&error) => {
                if is_too_long(socket, segment_bytes) {
                    return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
                }
                // If single datagrams fail too, it was no refusal to cut.
                let sent = self.send_single(socket, burst, launch_bytes)?;
                let errno = error.raw_os_error().unwrap_or_default();
                self.mode = GsoMode::Single { errno };
                Ok(sent)
            }
            Err(error) => Err(error),
        }
    }

    fn point(&mut self, burst: &[Segment<'_>]) {
        for (iovecs, segment) in self.iovecs.chunks_exact_mut(SLICES).zip(burst) {
            for (iovec, slice) in iovecs.iter_mut().zip([segment.head, segment.payload]) {
                iovec.iov_base = slice.as_ptr().cast_mut().cast();
                iovec.iov_len = slice.len();
            }
        }
    }

    /// Tells how many bytes were taken.
    fn send_segmented(
        &mut self,
        socket: BorrowedFd<'_>,
        count: usize,
        segment_bytes: usize,
        launch_bytes: usize,
    ) -> io::Result<usize> {
        // Two or more segments fit into a burst, so one is shorter than 2^15.
        if let Some(message) = self.control.0.first_chunk_mut() {
            emit_segment(segment_bytes as u16, message);
        }
        let header = &mut self.headers[0].msg_hdr;
        header.msg_iov = self.iovecs.as_mut_ptr();
        header.msg_iovlen = (count * SLICES) as _;
        header.msg_control = self.control.0.as_mut_ptr().cast();
        header.msg_controllen = (SEGMENT_BYTES + launch_bytes) as _;
        // SAFETY: the header points to this structure's control messages and to `count` pairs of its iovecs, which lead to
        // segments borrowed for this call; the kernel only reads through them.
        let sent =
            unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const *header, libc::MSG_DONTWAIT) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Tells how many leading segments were taken whole, at least 1.
    fn send_single(
        &mut self,
        socket: BorrowedFd<'_>,
        burst: &[Segment<'_>],
        launch_bytes: usize,
    ) -> io::Result<usize> {
        let count = burst.len();
        let launch = &mut self.control.0[SEGMENT_BYTES..][..launch_bytes];
        let control = match launch_bytes {
            0 => std::ptr::null_mut(),
            _ => launch.as_mut_ptr(),
        };
        let iovecs = self.iovecs.chunks_exact_mut(SLICES);
        for (header, iovecs) in self.headers[..count].iter_mut().zip(iovecs) {
            header.msg_hdr.msg_iov = iovecs.as_mut_ptr();
            header.msg_hdr.msg_iovlen = SLICES as _;
            header.msg_hdr.msg_control = control.cast();
            header.msg_hdr.msg_controllen = launch_bytes as _;
        }
        // SAFETY: `count` headers were just pointed at pairs of this structure's iovecs, which lead to segments borrowed for
        // this call, and at its control message, if any, which it does not change before the call is over; the kernel reads through them and writes the lengths sent into the headers.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
        let lengths = self.headers[..sent].iter().map(|header| header.msg_len);
        sent_whole(burst, lengths)
    }
}

/// How many leading segments went out whole by the lengths that the kernel says, at least 1. One that was cut and all behind it are not counted; the one was
/// cut by no kernel that is known, as a datagram goes as a whole.
fn sent_whole(
    burst: &[Segment<'_>],
    lengths: impl Iterator<Item = libc::c_uint>,
) -> io::Result<usize> {
    let pairs = burst.iter().zip(lengths);
    let whole = pairs.take_while(|(segment, length)| segment.len() == *length as usize);
    match whole.count() {
        0 => Err(io::Error::new(
            io::ErrorKind::WriteZero,
            "the kernel took a part of a datagram",
        )),
        count => Ok(count),
    }
}

/// How many leading segments lie whole in the first `sent_bytes` of a burst, at least 1: the others go out in further calls.
fn taken_whole(burst: &[Segment<'_>], sent_bytes: usize) -> io::Result<usize> {
    let mut end = 0;
    let whole = burst.iter().take_while(|segment| {
        end += segment.len();
        end <= sent_bytes
    });
    match whole.count() {
        0 => Err(io::Error::new(
            io::ErrorKind::WriteZero,
            format!("the kernel took {sent_bytes} bytes of a burst, less than its first segment"),
        )),
        count => Ok(count),
    }
}

/// Why these segments are no burst.
fn misfit(segments: &[Segment<'_>]) -> Option<io::Error> {
    let (last, others) = segments.split_last()?;
    let first = segments[0].len();
    let wrong = others.iter().position(|segment| segment.len() != first);
    let wrong = wrong.or((last.len() > first).then_some(others.len()));
    let text = match wrong {
        Some(index) => format!(
            "segment {index} of a burst has {} bytes, the first has {first}: only the last may be shorter",
            segments[index].len()
        ),
        None if last.is_empty() => "a segment of a burst is empty: give it a byte".to_owned(),
        None => return None,
    };
    Some(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// A kernel that does not know the option would send the whole burst as one datagram.
fn knows_segments(socket: BorrowedFd<'_>) -> Result<(), i32> {
    let (mut value, mut bytes) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `bytes` into `value`, which is that large.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw mut value).cast(),
            &raw mut bytes,
        )
    };
    if answer == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::ENOPROTOOPT))
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

/// Some kernels say `EINVAL`, not `EMSGSIZE`, to segments that the path's MTU does not let pass.
fn is_too_long(socket: BorrowedFd<'_>, segment_bytes: usize) -> bool {
    let Ok(mtu) = path_mtu(socket) else {
        return false;
    };
    let peer = rustix::net::getpeername(socket).ok().flatten();
    let peer = peer.and_then(|peer| std::net::SocketAddr::try_from(peer).ok());
    peer.is_some_and(|peer| segment_bytes > payload_max_bytes(mtu, peer.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{UdpOptions, bind_udp, connect_udp};
    use std::os::fd::AsFd;

    #[test]
    fn bursts_stay_below_the_longest_datagram() {
        assert_eq!(burst_segments_max(1472), 44);
        assert_eq!(burst_segments_max(8972), 7);
        assert_eq!(burst_segments_max(1), SEGMENTS_MAX);
        assert_eq!(burst_segments_max(0), SEGMENTS_MAX);
        assert_eq!(burst_segments_max(65_507), 1);
        assert_eq!(burst_segments_max(1 << 20), 1);
    }

    #[test]
    fn a_refusal_of_segments_longer_than_the_path_is_not_one_to_cut() {
        let receiver = bind_udp("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let sender = connect_udp(receiver.address, &UdpOptions::default()).unwrap();
        let mtu = path_mtu(&sender).unwrap();
        let longest = payload_max_bytes(mtu, receiver.address.ip());
        assert!(is_too_long(sender.as_fd(), longest + 1));
        assert!(!is_too_long(sender.as_fd(), longest));
        assert!(
            !is_too_long(receiver.fd.as_fd(), longest + 1),
            "no path is known"
        );
    }

    #[test]
    fn what_the_kernel_did_not_take_of_a_burst_is_not_counted_as_sent() {
        let segment = |head, payload| Segment { head, payload };
        let burst = [
            segment(b"1234", b"567890"),
            segment(b"1234", b"567890"),
            segment(b"12", b""),
        ];
        for (sent_bytes, count) in [(10, 1), (19, 1), (20, 2), (21, 2), (22, 3)] {
            assert_eq!(taken_whole(&burst, sent_bytes).unwrap(), count);
        }
        for sent_bytes in [0, 9] {
            let error = taken_whole(&burst, sent_bytes).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WriteZero);
        }
        for (lengths, count) in [
            (&[10, 10, 2][..], 3),
            (&[10, 10], 2),
            (&[10, 9, 2], 1),
            (&[10, 10, 1], 2),
        ] {
            assert_eq!(sent_whole(&burst, lengths.iter().copied()).unwrap(), count);
        }
        for lengths in [&[9, 10, 2][..], &[]] {
            let error = sent_whole(&burst, lengths.iter().copied()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WriteZero);
        }
    }

    #[test]
    fn segments_of_two_are_shorter_than_their_field() {
        assert!(BURST_MAX_BYTES / 2 <= usize::from(u16::MAX));
    }
}
